//! Field faults of processes, on a real file system: who holds a data directory, and who does not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]
#![allow(clippy::disallowed_methods, reason = "these are about real files")]

mod store_support;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard},
};

use narad_core::{
    Error,
    format::Batch,
    runtime::Runtime,
    store::{Store, StoreOptions},
};
use store_support::{p, topic};

/// One test at a time: between its fork and its exec a child holds the files of every test of this process.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn open(dir: &Path) -> Result<Store, Error> {
    Store::open(&Runtime::default(), dir, StoreOptions::default())
}

/// An open store whose topic holds a record.
fn used(dir: &Path) -> Store {
    let store = open(dir).unwrap();
    store.log(&topic("orders", 1), p(0)).unwrap().commit(Batch::of(b"key", b"kept")).unwrap();
    store
}

/// The content of every file below `dir`.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut open) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(next) = open.pop() {
        for path in fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                open.push(path);
            } else {
                let content = fs::read(&path).unwrap();
                found.insert(path, content);
            }
        }
    }
    found
}

/// Set for the process that this binary starts of itself: the data directory that it is to open.
const SECOND: &str = "NARAD_TEST_SECOND_PROCESS";

#[test]
fn a_second_process_is_refused_by_every_way_in_and_touches_nothing() {
    if let Some(dir) = std::env::var_os(SECOND) {
        match open(Path::new(&dir)) {
            Err(Error::Locked { holder, .. }) => println!("held by {holder}"),
            other => println!("not refused: {other:?}"),
        }
        return;
    }
    let _turn = alone();
    let dir = tempfile::tempdir().unwrap();
    let (data, link) = (dir.path().join("data"), dir.path().join("link"));
    let store = used(&data);
    symlink(&data, &link).unwrap();
    let before = contents(&data);
    let me = format!("held by process {}", std::process::id());
    for way in [data.as_os_str(), link.as_os_str(), "data".as_ref(), "./link/../data/".as_ref()] {
        let second = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "a_second_process_is_refused_by_every_way_in_and_touches_nothing",
                "--nocapture",
            ])
            .current_dir(dir.path())
            .env(SECOND, way)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&second.stdout).into_owned();
        assert!(said.contains(&me), "{way:?}: {said}");
    }
    assert!(contents(&data) == before, "the second process changed something");
    store.log(&topic("orders", 1), p(0)).unwrap().commit(Batch::of(b"key", b"still mine")).unwrap();
    store.close().unwrap();
}

#[test]
fn a_child_process_does_not_keep_the_lock_or_a_file() {
    let _turn = alone();
    let dir = tempfile::tempdir().unwrap();
    let store = used(dir.path());
    // It lives until its input ends.
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let held: Vec<_> = fs::read_dir(format!("/proc/{}/fd", child.id()))
        .into_iter()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .filter(|path| path.starts_with(dir.path()))
        .collect();
    assert!(held.is_empty(), "{held:?}");
    store.close().unwrap();
    let store = open(dir.path()).unwrap();
    assert!(child.try_wait().unwrap().is_none(), "the child is still there");
    store.close().unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
}
