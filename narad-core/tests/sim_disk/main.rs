//! What the simulated disk promises, since every crash test of the engine stands on it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test"
)]

mod faults;
mod properties;
mod survival;

use std::{collections::BTreeSet, io, path::Path, sync::Arc, time::Duration};

use narad_core::{
    disk::{Disk, DiskExt, File, FileExt, OpenMode, OsDisk},
    testkit::{CallKind, Failure, Fault, Garbled, ManualClock, SimDisk, Survival, conformance},
};

const SECTOR: usize = 512;
const EIO: i32 = 5;

fn path(text: &str) -> &Path {
    Path::new(text)
}

fn create(disk: &SimDisk, at: &str) -> Box<dyn File> {
    disk.open(path(at), OpenMode::CreateNew).unwrap()
}

/// A file whose name and bytes are durable.
fn durable(disk: &SimDisk, at: &str, bytes: &[u8]) -> Box<dyn File> {
    let file = create(disk, at);
    file.write_all_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(path("/")).unwrap();
    file
}

/// What a power loss leaves of `at`, over many seeds.
fn outcomes(disk: &SimDisk, at: &str) -> BTreeSet<Option<Vec<u8>>> {
    let crash = |_| {
        let fork = disk.fork();
        fork.power_loss();
        fork.contents(at)
    };
    (0..200).map(crash).collect()
}

#[test]
fn disk_contract_holds_for_the_simulated_disk() {
    conformance::disk(|| (Arc::new(SimDisk::new(1)), "/".into()));
}

#[test]
fn disk_contract_holds_for_the_operating_systems_disk() {
    let dir = tempfile::tempdir().unwrap();
    let mut runs = 0;
    conformance::disk(|| {
        runs += 1;
        let root = dir.path().join(runs.to_string());
        std::fs::create_dir(&root).unwrap();
        (Arc::new(OsDisk), root)
    });
}

#[test]
fn disk_contract_holds_for_a_garbled_disk() {
    conformance::disk(|| (Arc::new(Garbled::new(SimDisk::new(1))), "/".into()));
}

#[test]
fn a_garbled_disk_stores_no_byte_as_it_is_and_moves_one_at_a_time() {
    let below = SimDisk::new(1);
    let disk = Garbled::new(below.clone());
    let file = disk.open(path("f"), OpenMode::CreateNew).unwrap();
    assert_eq!(file.write_at(b"abc", 0).unwrap(), 1);
    file.write_all_at(b"abc", 0).unwrap();
    let stored = below.contents("f").unwrap();
    assert!(stored.iter().zip(b"abc").all(|(stored, byte)| stored != byte));
    assert_eq!(Garbled::<SimDisk>::clear(&stored), b"abc");
    assert_eq!(disk.read_small(path("f"), 10).unwrap(), b"abc");
}

#[test]
fn a_process_that_was_killed_touches_the_disk_no_more() {
    let disk = SimDisk::new(29);
    let process = disk.process();
    process.create_dir(path("before")).unwrap();
    disk.crash_process();
    disk.take_calls();
    assert_eq!(process.create_dir(path("after")).unwrap_err().raw_os_error(), Some(EIO));
    assert_eq!(process.open(path("f"), OpenMode::CreateNew).unwrap_err().raw_os_error(), Some(EIO));
    assert!(disk.calls().is_empty(), "what is dead calls nobody");
    assert_eq!(disk.list(path("/")).unwrap().len(), 1);
    disk.process().create_dir(path("after")).unwrap();
}

#[test]
fn a_fork_keeps_the_bounds_and_the_lies() {
    let disk = SimDisk::new(30);
    disk.set_capacity(Some(5));
    disk.lie_about_syncs(true);
    let fork = disk.fork();
    let file = durable(&fork, "f", b"abcde");
    assert_eq!(file.write_at(b"f", 5).unwrap_err().kind(), io::ErrorKind::StorageFull);
    fork.power_loss_keeping(Survival::Nothing);
    assert_eq!(fork.contents("f"), None);
}

#[test]
fn a_fork_shares_nothing_but_the_state_it_began_with() {
    let disk = SimDisk::new(28);
    let file = durable(&disk, "f", b"a");
    disk.inject(Fault::fail(CallKind::List, Failure::Io).onwards());
    disk.lock(path("LOCK")).map(std::mem::forget).unwrap();
    let fork = disk.fork();
    assert!(fork.calls().is_empty());
    fork.list(path("/")).unwrap();
    fork.lock(path("LOCK")).unwrap();
    fork.alter("f", |bytes| bytes.push(b'b'));
    file.write_all_at(b"c", 0).unwrap();
    assert_eq!((disk.contents("f").unwrap(), fork.contents("f").unwrap()), (b"c".to_vec(), b"ab".to_vec()));
}

#[test]
fn a_process_crash_keeps_what_was_written_releases_locks_and_makes_handles_stale() {
    let disk = SimDisk::new(11);
    let file = create(&disk, "f");
    file.write_all_at(b"x", 0).unwrap();
    let lock = disk.lock(path("LOCK")).unwrap();
    assert_eq!(disk.lock(path("LOCK")).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert_eq!(disk.open_files(), 2);
    disk.crash_process();
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(EIO));
    assert_eq!(file.len().unwrap_err().raw_os_error(), Some(EIO));
    let held = disk.lock(path("LOCK")).unwrap();
    drop(lock);
    assert!(disk.lock(path("LOCK")).is_err(), "a stale lock releases nothing");
    drop(held);
    assert_eq!(disk.open_files(), 0);
    assert_eq!(disk.contents("f").unwrap(), b"x");
    assert!(outcomes(&disk, "f").contains(&None), "it is as unsynced as before");
}

#[test]
fn calls_are_logged_with_what_they_were_about() {
    let disk = SimDisk::new(19);
    let file = durable(&disk, "a.log", b"abc");
    file.set_len(1).unwrap();
    let kinds: Vec<_> = disk.calls().iter().map(|call| (call.kind, call.bytes)).collect();
    let expected = [
        (CallKind::Create, 0),
        (CallKind::Write, 3),
        (CallKind::SyncData, 0),
        (CallKind::SyncDir, 0),
        (CallKind::SetLen, 1),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(disk.count_on(CallKind::Write, "*.log"), 1);
    assert_eq!(disk.count_on(CallKind::SyncDir, "*.log"), 0);
    assert_eq!(disk.take_calls().len(), 5);
    assert_eq!(disk.count(CallKind::Write), 0);
}

#[test]
fn modification_times_come_from_the_clock() {
    let clock = ManualClock::at(1_000);
    let disk = SimDisk::with_clock(20, Arc::new(clock.clone()));
    let file = create(&disk, "f");
    let modified = || disk.metadata(path("f")).unwrap().modified_ms;
    assert_eq!(modified(), 1_000);
    clock.advance(Duration::from_millis(5));
    file.write_all_at(b"x", 0).unwrap();
    assert_eq!(modified(), 1_005);
    disk.set_modified("f", 7);
    assert_eq!(modified(), 7);
}

#[test]
fn planted_and_altered_files_are_durable() {
    let disk = SimDisk::new(21);
    disk.plant("/topics/t/0/hwm", [1; 8]);
    disk.plant_dir("/topics/t");
    disk.plant_other("/topics/fifo");
    disk.alter("/topics/t/0/hwm", |bytes| bytes[0] = 9);
    disk.power_loss_keeping(Survival::Nothing);
    assert_eq!(disk.contents("topics/t/0/hwm").unwrap(), [9, 1, 1, 1, 1, 1, 1, 1]);
    assert!(disk.open(path("/topics/fifo"), OpenMode::Read).is_err());
    assert_eq!(disk.paths(), [path("/topics/fifo"), path("/topics/t/0/hwm")]);
}

#[test]
fn the_same_seed_and_calls_give_the_same_crash() {
    let run = || {
        let disk = SimDisk::new(22);
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            create(&disk, name).write_all_at(&[1; 5_000], 0).unwrap();
        }
        disk.power_loss();
        disk.paths().into_iter().map(|path| (path.clone(), disk.contents(path))).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
