//! What the simulated disk promises, since every crash test of the engine stands on it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test"
)]

use std::{collections::BTreeSet, io, path::Path, sync::Arc, thread, time::Duration};

use narad_core::{
    disk::{Disk, DiskExt, File, FileExt, OpenMode, OsDisk},
    testkit::{CallKind, Failure, Fault, Garbled, Gate, ManualClock, SimDisk, Survival, conformance},
};
use proptest::prelude::*;

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
fn an_unsynced_name_may_or_may_not_survive() {
    let disk = SimDisk::new(2);
    let file = create(&disk, "new");
    file.write_all_at(b"x", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(outcomes(&disk, "new"), [None, Some(b"x".to_vec())].into());
}

#[test]
fn a_rename_without_sync_dir_may_or_may_not_survive_and_never_half() {
    let disk = SimDisk::new(3);
    durable(&disk, "a", b"new");
    durable(&disk, "b", b"old");
    disk.rename(path("a"), path("b")).unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..100 {
        let fork = disk.fork();
        fork.power_loss();
        seen.insert((fork.contents("a"), fork.contents("b")));
    }
    let (new, old) = (Some(b"new".to_vec()), Some(b"old".to_vec()));
    assert_eq!(seen, [(new.clone(), old), (None, new)].into());
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(outcomes(&disk, "b"), [Some(b"new".to_vec())].into());
}

#[test]
fn an_unlink_without_sync_dir_may_come_back_whole() {
    let disk = SimDisk::new(4);
    durable(&disk, "f", b"kept");
    disk.remove_file(path("f")).unwrap();
    assert_eq!(disk.contents("f"), None);
    assert_eq!(outcomes(&disk, "f"), [None, Some(b"kept".to_vec())].into());
}

#[test]
fn what_lies_in_a_directory_whose_own_name_is_lost_goes_with_it() {
    let disk = SimDisk::new(5);
    disk.create_dir(path("d")).unwrap();
    create(&disk, "d/f");
    disk.sync_dir(path("d")).unwrap();
    disk.power_loss_keeping(Survival::Nothing);
    assert!(disk.paths().is_empty());
    assert_eq!(disk.metadata(path("d")).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn one_write_call_is_torn_by_the_sector() {
    let disk = SimDisk::new(6);
    let file = durable(&disk, "f", &[0; 4 * SECTOR]);
    file.write_all_at(&[1; 4 * SECTOR], 0).unwrap();
    let left: BTreeSet<Vec<u8>> = outcomes(&disk, "f").into_iter().flatten().collect();
    assert_eq!(left.len(), 16, "each of 4 sectors by itself");
    for bytes in left {
        assert!(bytes.chunks(SECTOR).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
    }
}

#[test]
fn a_length_may_survive_without_its_bytes_and_then_reads_as_zeros() {
    let disk = SimDisk::new(7);
    let file = durable(&disk, "f", b"");
    file.write_all_at(&[1; SECTOR], 0).unwrap();
    let left = outcomes(&disk, "f");
    assert_eq!(left, [Some(vec![0; SECTOR]), Some(vec![1; SECTOR]), Some(vec![])].into());
}

#[test]
fn a_sector_may_hold_what_it_held_between_two_writes() {
    let disk = SimDisk::new(8);
    let file = durable(&disk, "f", b"a");
    file.write_all_at(b"b", 0).unwrap();
    file.write_all_at(b"c", 0).unwrap();
    let expected = [b"a", b"b", b"c"].map(|byte| Some(byte.to_vec()));
    assert_eq!(outcomes(&disk, "f"), expected.into());
}

#[test]
fn a_truncate_is_durable_only_once_synced() {
    let disk = SimDisk::new(9);
    let file = durable(&disk, "f", &[7; 2 * SECTOR]);
    file.set_len(0).unwrap();
    assert_eq!(outcomes(&disk, "f"), [Some(vec![]), Some(vec![7; 2 * SECTOR])].into());
    file.sync_data().unwrap();
    assert_eq!(outcomes(&disk, "f"), [Some(vec![])].into());
}

#[test]
fn after_a_failed_sync_a_later_one_brings_nothing_back() {
    let disk = SimDisk::new(10);
    let file = durable(&disk, "f", &[0; 8 * SECTOR]);
    file.write_all_at(&[1; 8 * SECTOR], 0).unwrap();
    disk.inject(Fault::fail(CallKind::SyncData, Failure::Io));
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(EIO));
    file.sync_data().unwrap();
    assert_eq!(disk.contents("f").unwrap(), [1; 8 * SECTOR], "the page cache still shows it");
    let left = outcomes(&disk, "f");
    assert_eq!(left.len(), 1, "what the second sync covered is settled");
    assert_ne!(left, [Some(vec![1; 8 * SECTOR])].into(), "some sector was forgotten (seed 10)");

    // A sector that is written again, however little of it, is written whole.
    for sector in 0..8 {
        file.write_all_at(&[1], (sector * SECTOR) as u64 + 9).unwrap();
    }
    file.sync_data().unwrap();
    assert_eq!(outcomes(&disk, "f"), [Some(vec![1; 8 * SECTOR])].into());
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
fn lying_syncs_keep_nothing() {
    let disk = SimDisk::new(12);
    disk.lie_about_syncs(true);
    durable(&disk, "f", b"x");
    disk.power_loss_keeping(Survival::Nothing);
    assert_eq!(disk.contents("f"), None);
}

#[test]
fn a_skipped_sync_is_acknowledged_and_not_done() {
    let disk = SimDisk::new(13);
    let file = durable(&disk, "f", b"a");
    disk.inject(Fault::skip(CallKind::SyncData).named("f"));
    file.write_all_at(b"b", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(outcomes(&disk, "f").len(), 2);
    file.sync_data().unwrap();
    assert_eq!(outcomes(&disk, "f").len(), 1);
}

#[test]
fn a_full_disk_takes_what_fits_then_refuses_growth_alone() {
    let disk = SimDisk::new(14);
    let file = create(&disk, "f");
    disk.set_capacity(Some(10));
    assert_eq!(file.write_at(&[1; 16], 0).unwrap(), 10);
    assert_eq!(file.write_at(&[1], 10).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.set_len(11).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.write_at(&[2; 10], 0).unwrap(), 10);
    assert_eq!(disk.available_bytes(path("/")).unwrap(), 0);
    disk.remove_file(path("f")).unwrap();
    assert_eq!(disk.available_bytes(path("/")).unwrap(), 0, "an open handle keeps the blocks");
    drop(file);
    assert_eq!(disk.available_bytes(path("/")).unwrap(), 10);
}

#[test]
fn reads_and_writes_are_shortened_flipped_and_lost_on_demand() {
    let disk = SimDisk::new(15);
    let file = durable(&disk, "f", b"abcdef");
    disk.inject(Fault::shorten(CallKind::Read, 2));
    let mut buf = [0; 6];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 2);
    disk.inject(Fault::shorten(CallKind::Write, 1));
    assert_eq!(file.write_at(b"xy", 0).unwrap(), 1);
    disk.inject(Fault::flip_bit(CallKind::Write));
    file.write_all_at(b"abcdef", 0).unwrap();
    let differing = disk.contents("f").unwrap().iter().zip(b"abcdef").filter(|(a, b)| a != b).count();
    assert_eq!(differing, 1);
    disk.inject(Fault::skip(CallKind::Write));
    assert_eq!(file.write_at(b"gone", 0).unwrap(), 4);
    assert!(!disk.contents("f").unwrap().starts_with(b"gone"));
}

#[test]
fn every_failure_is_the_operating_systems_own() {
    let disk = SimDisk::new(16);
    for (failure, errno) in [
        (Failure::Io, 5),
        (Failure::NoSpace, 28),
        (Failure::TooManyFiles, 24),
        (Failure::AccessDenied, 13),
        (Failure::ReadOnly, 30),
        (Failure::QuotaExceeded, 122),
        (Failure::Interrupted, 4),
    ] {
        disk.inject(Fault::fail(CallKind::List, failure));
        assert_eq!(disk.list(path("/")).unwrap_err().raw_os_error(), Some(errno), "{failure:?}");
    }
    disk.inject(Fault::fail(CallKind::List, Failure::NoSpace));
    assert_eq!(disk.list(path("/")).unwrap_err().kind(), io::ErrorKind::StorageFull);
}

#[test]
fn power_can_be_cut_between_any_two_calls() {
    let disk = SimDisk::new(17);
    disk.inject(Fault::fail_all(Failure::Io).at(2).onwards());
    disk.create_dir(path("a")).unwrap();
    disk.create_dir(path("b")).unwrap_err();
    disk.sync_dir(path("/")).unwrap_err();
    disk.clear_faults();
    disk.power_loss_keeping(Survival::Everything);
    assert!(disk.metadata(path("a")).is_ok());
    assert!(disk.metadata(path("b")).is_err());
}

#[test]
fn a_held_call_waits_for_the_gate_and_others_go_on() {
    let disk = SimDisk::new(18);
    durable(&disk, "f", b"x");
    let gate = Gate::new();
    disk.inject(Fault::hold(CallKind::SyncDir, &gate));
    thread::scope(|scope| {
        let held = scope.spawn(|| disk.sync_dir(path("/")));
        gate.wait_for(1);
        assert!(!held.is_finished());
        assert!(disk.metadata(path("f")).is_ok());
        gate.open();
        held.join().unwrap().unwrap();
    });
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

#[derive(Debug, Clone)]
enum Step {
    Write { at: usize, len: usize, byte: u8 },
    SetLen(usize),
    Sync,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (0..4_000usize, 1..2_000usize, 1..=255u8);
    let step = prop_oneof![
        4 => write.prop_map(|(at, len, byte)| Step::Write { at, len, byte }),
        1 => (0..5_000usize).prop_map(Step::SetLen),
        2 => Just(Step::Sync),
    ];
    prop::collection::vec(step, 1..25)
}

proptest! {
    /// Bytes that were synced and not written or cut since always survive, each other byte is one that the file
    /// held there since the last sync (or a zero), and so is the length, but for a torn write's sector ends.
    #[test]
    fn synced_bytes_survive_and_nothing_is_made_up(steps in steps(), seed: u64) {
        let disk = SimDisk::new(seed);
        let file = durable(&disk, "f", b"");
        let mut seen = vec![vec![]];
        for step in &steps {
            match *step {
                Step::Write { at, len, byte } => file.write_all_at(&vec![byte; len], at as u64).unwrap(),
                Step::SetLen(len) => file.set_len(len as u64).unwrap(),
                Step::Sync => {
                    file.sync_data().unwrap();
                    seen.clear();
                }
            }
            seen.push(disk.contents("f").unwrap());
        }
        for _ in 0..8 {
            let fork = disk.fork();
            fork.power_loss();
            let left = fork.contents("f").unwrap();
            let longest = seen.iter().map(Vec::len).max().unwrap();
            let torn = left.len() % SECTOR == 0 && left.len() < longest;
            prop_assert!(torn || seen.iter().any(|state| state.len() == left.len()), "length {}", left.len());
            for (i, byte) in left.iter().enumerate() {
                let held: BTreeSet<u8> = seen.iter().filter_map(|state| state.get(i).copied()).collect();
                let always_there = seen.iter().all(|state| state.len() > i);
                prop_assert!(held.contains(byte) || (!always_there && *byte == 0), "byte {i}: {byte}");
            }
        }
        let (everything, nothing) = (disk.fork(), disk.fork());
        everything.power_loss_keeping(Survival::Everything);
        nothing.power_loss_keeping(Survival::Nothing);
        prop_assert_eq!(everything.contents("f"), disk.contents("f"));
        prop_assert_eq!(nothing.contents("f").unwrap(), seen[0].clone());
    }

    /// A fault hits the n-th matching call, once or from there on, and no other.
    #[test]
    fn a_fault_fires_exactly_at_the_nth_matching_call(nth in 1..20u64, onwards: bool, others in 0..3usize) {
        let disk = SimDisk::new(0);
        let (hit, spared) = (create(&disk, "x.log"), create(&disk, "hwm"));
        let fault = Fault::fail(CallKind::Write, Failure::NoSpace).at(nth).named("*.log");
        let id = disk.inject(if onwards { fault.onwards() } else { fault });
        let mut expected = 0;
        for call in 1..=25 {
            for _ in 0..others {
                spared.write_at(b"x", 0).unwrap();
                hit.sync_data().unwrap();
            }
            let due = if onwards { call >= nth } else { call == nth };
            prop_assert_eq!(hit.write_at(b"x", 0).is_err(), due);
            expected += u64::from(due);
            prop_assert_eq!(disk.fired(id), expected);
        }
    }

    /// Whatever names are changed and whichever survive, each stands for a file that had it, or for nothing, and
    /// no file has two.
    #[test]
    fn names_survive_as_they_were_at_some_time(
        moves in prop::collection::vec((0..3usize, 0..3usize), 1..12),
        seed: u64,
    ) {
        const NAMES: [&str; 3] = ["a", "b", "c"];
        let disk = SimDisk::new(seed);
        for name in NAMES {
            durable(&disk, name, name.as_bytes());
        }
        let mut held: Vec<BTreeSet<_>> = NAMES.map(|name| [disk.contents(name)].into()).into();
        for (from, to) in moves {
            if from == to {
                let _ = disk.remove_file(path(NAMES[from]));
            } else {
                let _ = disk.rename(path(NAMES[from]), path(NAMES[to]));
            }
            for (held, name) in held.iter_mut().zip(NAMES) {
                held.insert(disk.contents(name));
            }
        }
        disk.power_loss();
        let mut files = BTreeSet::new();
        for (held, name) in held.iter().zip(NAMES) {
            let left = disk.contents(name);
            prop_assert!(held.contains(&left));
            prop_assert!(left.is_none() || files.insert(left), "one file, one name");
        }
    }
}
