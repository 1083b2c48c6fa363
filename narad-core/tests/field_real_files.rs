//! Field faults of files, on a real file system: modes, links, FIFOs, foreign entries.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]
#![allow(clippy::disallowed_methods, reason = "these are about real files")]

mod store_support;

use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::mpsc,
    time::Duration,
};

use narad_core::{
    Error,
    disk::{Disk, OpenMode, OsDisk},
    format::{Batch, Offset},
    log::Log,
    plugin::Incarnation,
    runtime::Runtime,
    store::{Store, StoreOptions},
};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use store_support::{p, position, topic};

fn open(dir: &Path) -> Result<Store, Error> {
    Store::open(&Runtime::default(), dir, StoreOptions::default())
}

/// Nothing here takes long: what hangs fails.
fn bounded<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, answer) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    answer.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|error| panic!("{what}: {error}"))
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

fn commit(log: &Log, payload: &str) -> Offset {
    log.commit(Batch::of(b"key", payload.as_bytes())).unwrap().start
}

fn payloads(log: &Log) -> Vec<String> {
    let batch = log.read_batch(log.oldest_offset(), 1000, 1 << 20).unwrap();
    batch.records.iter().map(|record| String::from_utf8_lossy(&record.payload).into_owned()).collect()
}

/// Gives the topic a record and a position, and closes everything.
fn used(dir: &Path, name: &str) {
    let store = open(dir).unwrap();
    commit(&store.log(&topic(name, 1), p(0)).unwrap(), "kept");
    store.record_position(&topic(name, 1), p(0), position(0, &[]));
    store.close().unwrap();
}

/// Everything below `dir`, links not followed: kind and permissions, and the content of files.
fn walk(dir: &Path) -> BTreeMap<PathBuf, (bool, u32, Vec<u8>)> {
    let (mut found, mut open) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            if metadata.is_dir() {
                open.push(path.clone());
            }
            found.insert(path, (metadata.is_dir(), metadata.permissions().mode() & 0o7777, content));
        }
    }
    found
}

#[test]
fn what_is_made_is_the_owners_alone_under_any_umask_and_what_was_there_keeps_its_mode() {
    // The loosest there is. Every file of this binary is made under it; none needs another.
    rustix::process::umask(Mode::empty());
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("a/b/data");
    let store = open(&data).unwrap();
    let mut spec = topic("orders", 1);
    // Every commit fills a segment.
    spec.segment_bytes = 1;
    let log = store.log(&spec, p(0)).unwrap();
    for payload in ["one", "two", "three"] {
        commit(&log, payload);
    }
    store.record_position(&spec, p(0), position(0, &[2]));
    store.close().unwrap();
    let found = walk(dir.path());
    for (path, (is_dir, mode, _)) in &found {
        assert_eq!(*mode, if *is_dir { 0o700 } else { 0o600 }, "{}: {mode:o}", path.display());
    }
    let names =
        ["LOCK", "incarnation", "hwm", "consumer.offset", "consumer.ahead", "00000000000000000003.log"];
    for name in names {
        assert!(found.keys().any(|path| path.ends_with(name)), "{name} was not looked at");
    }

    let shared = data.join("topics/orders/p00000/00000000000000000003.log");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o750)).unwrap();
    let store = open(&data).unwrap();
    commit(&store.log(&spec, p(0)).unwrap(), "four");
    store.close().unwrap();
    for (path, mode) in [(&shared, 0o640), (&data, 0o750)] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o7777, mode, "{}", path.display());
    }
}

#[test]
fn opening_a_fifo_a_directory_or_a_link_fails_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (pipe, link, target) = (dir.path().join("pipe"), dir.path().join("link"), dir.path().join("target"));
    fifo(&pipe);
    fs::write(&target, "precious").unwrap();
    symlink(&target, &link).unwrap();
    let directory = dir.path().to_owned();
    bounded("an open", move || {
        for path in [&pipe, &link, &directory] {
            for mode in [OpenMode::Read, OpenMode::ReadWrite, OpenMode::CreateNew] {
                assert!(OsDisk.open(path, mode).is_err(), "{mode:?} of {}", path.display());
            }
            assert!(OsDisk.lock(path).is_err(), "lock of {}", path.display());
        }
        assert_eq!(OsDisk.open(&directory, OpenMode::Read).unwrap_err().kind(), ErrorKind::IsADirectory);
    });
    assert_eq!(fs::read(&target).unwrap(), b"precious");
}

#[test]
fn a_fifo_in_place_of_any_file_hangs_nothing_and_hides_no_record() {
    let partition = "topics/orders/p00000";
    for name in
        ["00000000000000000000.log", "00000000000000000007.log", "hwm", "consumer.offset", "consumer.ahead"]
    {
        let dir = tempfile::tempdir().unwrap();
        used(dir.path(), "orders");
        let path = dir.path().join(partition).join(name);
        let _ = fs::remove_file(&path);
        fifo(&path);
        let data = dir.path().to_owned();
        let found = bounded(name, move || {
            let store = open(&data).unwrap();
            let spec = topic("orders", 1);
            let log = store.log(&spec, p(0)).unwrap();
            commit(&log, "new");
            store.consumer_position(&spec, p(0)).unwrap();
            store.record_position(&spec, p(0), position(0, &[]));
            store.tick();
            let found = payloads(&log);
            // A position that cannot be written may fail the close; it must end.
            let _ = store.close();
            found
        });
        let expected: &[&str] =
            if name.starts_with("00000000000000000000") { &["new"] } else { &["kept", "new"] };
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_fifo_in_place_of_the_marker_or_the_lock_is_refused_and_named() {
    let dir = tempfile::tempdir().unwrap();
    used(dir.path(), "orders");
    used(dir.path(), "others");
    let marker = dir.path().join("topics/orders/incarnation");
    fs::remove_file(&marker).unwrap();
    fifo(&marker);
    let data = dir.path().to_owned();
    bounded("the marker", move || {
        let store = open(&data).unwrap();
        match store.log(&topic("orders", 1), p(0)) {
            Err(Error::Unusable { path, .. }) => assert_eq!(path, marker),
            other => panic!("{other:?}"),
        }
        assert_eq!(payloads(&store.log(&topic("others", 1), p(0)).unwrap()), ["kept"], "others are served");
        store.close().unwrap();
    });
    let lock = dir.path().join("LOCK");
    fs::remove_file(&lock).unwrap();
    fifo(&lock);
    let data = dir.path().to_owned();
    let refused = bounded("the lock", move || open(&data).unwrap_err());
    assert!(refused.to_string().contains("LOCK"), "{refused}");
}

#[test]
fn a_linked_data_directory_works_and_is_deleted_from_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    used(&real, "orders");
    symlink(&real, &link).unwrap();
    let store = open(&link).unwrap();
    assert_eq!(payloads(&store.log(&topic("orders", 1), p(0)).unwrap()), ["kept"]);
    store.delete_topic("orders", Incarnation::new(1)).unwrap();
    store.close().unwrap();
    assert_eq!(fs::read_dir(real.join("topics")).unwrap().count(), 0);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn a_link_in_place_of_the_stores_own_directories_is_refused_at_start() {
    for name in ["topics", "meta", "ingress", "ingress/produce"] {
        let dir = tempfile::tempdir().unwrap();
        let (data, outside) = (dir.path().join("data"), dir.path().join("outside"));
        fs::create_dir_all(data.join("ingress")).unwrap();
        fs::create_dir(&outside).unwrap();
        let link = data.join(name);
        let _ = fs::remove_dir(&link);
        symlink(&outside, &link).unwrap();
        match open(&data) {
            Err(Error::Unusable { path, .. }) => assert_eq!(path, link),
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(walk(&outside).len(), 0, "{name}");
        fs::remove_file(&link).unwrap();
        open(&data).unwrap().close().unwrap();
    }
}

#[test]
fn a_linked_topic_or_partition_is_refused_and_no_delete_follows_a_link_out() {
    let dir = tempfile::tempdir().unwrap();
    let (data, outside) = (dir.path().join("data"), dir.path().join("outside"));
    used(&outside, "orders");
    used(&data, "mine");
    let (theirs, topics) = (outside.join("topics/orders"), data.join("topics"));
    symlink(&theirs, topics.join("orders")).unwrap();
    symlink(theirs.join("p00000"), topics.join("mine/p00001")).unwrap();
    symlink(&theirs, topics.join("mine/p00000/elsewhere")).unwrap();
    symlink(&theirs, topics.join("old.deleted-00000000000000ff")).unwrap();
    let before = walk(&outside);

    let store = open(&data).unwrap();
    for (name, partition) in [("orders", 0), ("mine", 1)] {
        let refused = store.log(&topic(name, 1), p(partition));
        assert!(matches!(refused, Err(Error::Unusable { .. })), "{name}: {refused:?}");
        assert!(store.stats(&topic(name, 1), p(partition)).is_err(), "{name}");
        assert!(store.consumer_position(&topic(name, 1), p(partition)).is_err(), "{name}");
    }
    assert_eq!(payloads(&store.log(&topic("mine", 1), p(0)).unwrap()), ["kept"], "the rest of it serves");
    assert!(store.delete_topic("orders", Incarnation::new(1)).is_err(), "a link is nobody's to delete");
    store.delete_topic("mine", Incarnation::new(1)).unwrap();
    assert!(!topics.join("mine").exists());
    store.close().unwrap();
    assert!(walk(&outside) == before, "something outside was touched");
}

#[test]
fn a_linked_file_of_a_partition_leads_no_write_out() {
    for name in [
        "00000000000000000000.log",
        "hwm",
        "consumer.offset",
        "consumer.ahead",
        "../incarnation",
        "../../../LOCK",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (data, outside) = (dir.path().join("data"), dir.path().join("outside"));
        used(&data, "orders");
        let path = data.join("topics/orders/p00000").join(name);
        fs::rename(&path, &outside).unwrap();
        symlink(&outside, &path).unwrap();
        let before = fs::read(&outside).unwrap();
        let spec = topic("orders", 1);
        if let Ok(store) = open(&data) {
            if let Ok(log) = store.log(&spec, p(0)) {
                let _ = log.commit(Batch::of(b"key", b"new"));
            }
            store.record_position(&spec, p(0), position(0, &[1]));
            store.tick();
            let _ = store.close();
        }
        assert_eq!(fs::read(&outside).unwrap(), before, "{name}");
    }
}

#[test]
fn a_lost_and_found_on_every_level_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    used(dir.path(), "orders");
    let levels =
        ["", "meta", "ingress", "ingress/produce", "topics", "topics/orders", "topics/orders/p00000"];
    for level in levels {
        for name in ["lost+found", ".snapshot"] {
            let foreign = dir.path().join(level).join(name);
            fs::create_dir(&foreign).unwrap();
            fs::write(foreign.join("#12345"), "found").unwrap();
        }
        fs::write(dir.path().join(level).join(".DS_Store"), "found").unwrap();
    }
    let store = open(dir.path()).unwrap();
    let log = store.log(&topic("orders", 1), p(0)).unwrap();
    commit(&log, "new");
    assert_eq!(payloads(&log), ["kept", "new"]);
    store.close().unwrap();
    for level in levels {
        for name in ["lost+found/#12345", ".snapshot/#12345", ".DS_Store"] {
            assert_eq!(fs::read(dir.path().join(level).join(name)).unwrap(), b"found", "{level}/{name}");
        }
    }
}
