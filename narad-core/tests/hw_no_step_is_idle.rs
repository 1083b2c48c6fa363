//! Steps beside the syncs that nothing but a rare fault shows to be needed: what a log forgets, keeps and asks again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/write_path.rs"]
mod write_path;

use std::{path::Path, sync::Arc, time::Duration};

use narad_core::{
    Error,
    disk::{Disk, OpenMode, OsDisk},
    log::Log,
    testkit::{CallKind, Failure, Fault, Survival},
};
use narad_retention::Age;
use write_path::{Bench, offset, payloads, record, segment_path, segments_of};

const DRAIN: Duration = Duration::from_millis(100);

/// The lengths that `hwm` was set to since the calls were last taken.
fn lengths_of_hwm(bench: &Bench) -> Vec<u64> {
    let calls = bench.disk.take_calls();
    calls
        .iter()
        .filter(|call| call.kind == CallKind::SetLen && call.is_on("hwm"))
        .map(|call| call.bytes)
        .collect()
}

fn poison(bench: &Bench, log: &Log) {
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    log.commit(record("refused")).unwrap_err();
    assert!(log.is_poisoned());
}

/// A log that was closed with a boundary, and is open again.
fn reopened(bench: &Bench) -> Log {
    let log = bench.open();
    log.commit(record("a")).unwrap();
    log.close().unwrap();
    bench.open()
}

#[test]
fn hw_03_an_emptying_that_could_not_be_synced_changes_the_file_again() {
    let bench = Bench::new(1);
    let log = reopened(&bench);
    bench.fail(CallKind::SyncData, Failure::Io, "hwm");
    log.commit(record("refused")).unwrap_err();
    assert_eq!(lengths_of_hwm(&bench).last(), Some(&0));
    log.commit(record("b")).unwrap();
    assert_eq!(lengths_of_hwm(&bench), [1, 0], "a sync of a file that looks clean proves nothing");
}

#[test]
fn hw_03_an_empty_file_that_a_dead_process_left_is_changed_again() {
    let bench = Bench::new(1);
    let log = reopened(&bench);
    bench.disk.inject(Fault::skip(CallKind::SyncData).named("hwm"));
    log.commit(record("b")).unwrap();
    bench.disk.crash_process();
    bench.disk.take_calls();
    bench.open().commit(record("c")).unwrap();
    assert_eq!(lengths_of_hwm(&bench), [1, 0]);
}

#[test]
fn hw_03_a_reopen_in_place_knows_that_the_file_was_emptied() {
    let bench = Bench::new(1);
    let log = reopened(&bench);
    log.commit(record("b")).unwrap();
    poison(&bench, &log);
    log.reopen().unwrap();
    bench.disk.take_calls();
    log.commit(record("c")).unwrap();
    assert_eq!(bench.disk.count_on(CallKind::SyncData, "hwm"), 0, "a commit costs one fsync");
}

#[test]
fn po_03_a_reopen_cuts_at_the_watermark_although_damage_follows_it() {
    let bench = Bench::new(1);
    let log = bench.open();
    log.commit(record("a")).unwrap();
    let committed = bench.segment(0).unwrap();
    log.append(&record("drained, and damaged by the failed fsync")).unwrap();
    bench.pass(DRAIN);
    let damaged = bench.segment(0).unwrap().len() - 5;
    // What was refused cannot be taken back at once.
    bench.disk.inject(Fault::fail(CallKind::SetLen, Failure::Io).named("*.log"));
    poison(&bench, &log);
    bench.disk.alter(segment_path(0), |bytes| bytes[damaged] ^= 0xFF);
    log.reopen().unwrap();
    assert_eq!(log.next_offset(), offset(1));
    assert!(bench.segment(0).unwrap() == committed, "nothing but what was committed is left");
    assert_eq!(log.commit(record("b")).unwrap(), offset(1)..offset(2));
    assert_eq!(payloads(&bench.after_power_loss(Survival::Nothing).1), ["a", "b"]);
}

#[test]
fn po_03_a_reopen_that_finds_committed_records_missing_makes_none_up() {
    let bench = Bench::new(1);
    let log = bench.open();
    log.commit(record("a")).unwrap();
    poison(&bench, &log);
    bench.disk.alter(segment_path(0), |bytes| bytes.truncate(10));
    log.reopen().unwrap();
    assert_eq!(bench.segment(0).unwrap(), b"", "the file is not filled up with zeros");
    assert_eq!(log.commit(record("b")).unwrap(), offset(1)..offset(2), "offsets never step back");
}

#[test]
fn rt_04_what_a_sweep_took_stays_gone_across_a_reopen() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(10));
    for payload in ["a", "b", "c"] {
        log.commit(record(payload)).unwrap();
    }
    log.set_retention(Arc::new(Age::new(Duration::from_secs(1))));
    bench.pass(Duration::from_secs(10));
    bench.disk.inject(Fault::fail(CallKind::Remove, Failure::Io).onwards());
    log.sweep(None).unwrap();
    assert_eq!((log.oldest_offset(), bench.segment(0).is_some()), (offset(3), true));
    poison(&bench, &log);
    log.reopen().unwrap();
    assert_eq!(log.oldest_offset(), offset(3));
}

#[test]
fn rt_04_an_unlink_whose_sync_failed_is_made_durable_by_the_next_sweep() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(10));
    log.commit(record("a")).unwrap();
    log.set_retention(Arc::new(Age::new(Duration::from_secs(1))));
    bench.pass(Duration::from_secs(10));
    bench.fail(CallKind::SyncDir, Failure::Io, "p00000");
    log.sweep(None).unwrap();
    assert_eq!(bench.errors("retention_unlink"), 1);
    log.sweep(None).unwrap();
    let fork = bench.fork();
    fork.disk.power_loss_keeping(Survival::Nothing);
    assert_eq!(fork.segments(), [1], "the expired segment does not come back");
}

#[test]
fn sg_02_a_roll_that_cannot_make_its_file_durable_leaves_none() {
    let bench = Bench::new(1);
    let log = bench.open();
    bench.fail(CallKind::SyncDir, Failure::Io, "p00000");
    log.commit(record("refused")).unwrap_err();
    assert_eq!(bench.segments(), [0; 0]);
    log.commit(record("a")).unwrap();
    assert_eq!(payloads(&bench.after_power_loss(Survival::Nothing).1), ["a"]);
}

#[test]
fn sg_02_a_roll_never_takes_a_file_that_holds_something() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(10));
    bench.fail(CallKind::Create, Failure::Io, "00000000000000000001.log");
    log.commit(record("a")).unwrap();
    bench.disk.plant(segment_path(1), [7; 100]);
    assert!(matches!(log.commit(record("b")), Err(Error::Unusable { .. })));
    assert_eq!(bench.segment(1).unwrap(), [7; 100], "somebody's bytes");
}

#[test]
fn sg_02_a_roll_takes_a_file_that_is_too_short_for_a_frame() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(10));
    bench.fail(CallKind::Create, Failure::Io, "00000000000000000001.log");
    log.commit(record("a")).unwrap();
    bench.disk.plant(segment_path(1), [7; 5]);
    log.commit(record("b")).unwrap();
    assert_eq!(payloads(&bench.after_power_loss(Survival::Nothing).1), ["a", "b"]);
}

#[test]
fn cm_01_the_read_back_finds_a_flipped_bit_wherever_it_is() {
    // The bit is in the middle of the frame: in its header's fields and checksum for short ones, then in the payload.
    for len in 0..80 {
        let bench = Bench::new(1);
        let log = bench.open();
        log.commit(record("a")).unwrap();
        bench.disk.inject(Fault::flip_bit(CallKind::Write).named("*.log"));
        assert!(matches!(log.commit(record(&"x".repeat(len))), Err(Error::Corrupt { .. })), "{len} bytes");
        assert_eq!(payloads(&log), ["a"]);
    }
}

/// The files and directories of `/proc` have no fsync: asked for one, the kernel refuses.
#[test]
#[cfg(target_os = "linux")]
fn wr_02_the_syncs_of_the_real_disk_reach_the_kernel() {
    let invalid =
        |result: std::io::Result<()>| result.unwrap_err().kind() == std::io::ErrorKind::InvalidInput;
    let file = OsDisk.open(Path::new("/proc/self/comm"), OpenMode::ReadWrite).unwrap();
    assert!(invalid(file.sync_data()), "of a file");
    assert!(invalid(OsDisk.sync_dir(Path::new("/proc/self"))), "of a directory");
}
