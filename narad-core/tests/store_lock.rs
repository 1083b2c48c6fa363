//! One process a data directory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod store_support;

use std::{os::unix::fs::symlink, path::Path};

use narad_core::{
    Error,
    runtime::Runtime,
    store::{Store, StoreOptions},
};
use store_support::{Bench, DATA};

#[test]
fn st_05_the_second_opener_is_told_who_holds_the_directory() {
    let bench = Bench::new(1);
    let store = bench.open();
    match bench.try_open() {
        Err(Error::Locked { path, holder }) => {
            assert_eq!(path, Path::new(DATA));
            assert_eq!(holder, format!("process {}", std::process::id()));
        }
        other => panic!("{other:?}"),
    }
    store.close().unwrap();
    bench.open().close().unwrap();
}

#[test]
fn st_05_a_lock_file_that_a_dead_process_left_is_harmless() {
    let bench = Bench::new(1);
    bench.disk.plant("/data/LOCK", *b"2147483646\n and more");
    let store = bench.open();
    let pid = format!("{}\n", std::process::id());
    assert_eq!(bench.disk.contents("/data/LOCK").unwrap(), pid.as_bytes());
    drop(store);
    bench.disk.crash_process();
    bench.open();
}

#[test]
fn st_05_a_full_disk_does_not_keep_the_store_from_opening() {
    let bench = Bench::new(1);
    bench.open().close().unwrap();
    bench.disk.alter("/data/LOCK", |bytes| bytes.clear());
    bench.disk.set_capacity(Some(bench.disk.used_bytes()));
    let store = bench.open();
    let Err(Error::Locked { holder, .. }) = bench.try_open() else { panic!("not locked") };
    assert_eq!(holder, "another process");
    store.close().unwrap();
}

#[test]
fn st_05_a_link_or_a_relative_path_is_no_way_around_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    let open = |path: &Path| Store::open(&Runtime::default(), path, StoreOptions::default());
    let store = open(&real).unwrap();
    symlink(&real, &link).unwrap();
    let around = dir.path().join("real/../real/./topics/..");
    for path in [&link, &around] {
        assert!(matches!(open(path), Err(Error::Locked { .. })), "{path:?}");
    }
    store.close().unwrap();
    open(&link).unwrap().close().unwrap();
}
