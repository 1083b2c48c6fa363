//! Each sync and truncate of a log in turn is acknowledged and not done: something is then gone after a power loss, or
//! there that was cut.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/needed.rs"]
mod needed;
#[path = "common/write_path.rs"]
mod write_path;

use std::time::Duration;

use narad_core::{
    log::Log,
    testkit::{CallKind, Failure, Fault, SimDisk, Survival},
};
use needed::{Machine, dir_sync, file_sync, truncate};
use write_path::{Bench, offset, payloads, record, records, segment_path, segments_of};

impl Machine for Bench {
    fn new(seed: u64) -> Self {
        Self::new(seed)
    }
    fn disk(&self) -> &SimDisk {
        &self.disk
    }
}

/// Long enough for a drain, and not for a sync.
const DRAIN: Duration = Duration::from_millis(100);

// ---- what is there before

/// A log of small segments or of large ones, open and without a record.
fn empty(segment_bytes: u64) -> impl Fn(&Bench) -> Log {
    move |bench| bench.open_with(segments_of(segment_bytes))
}

/// An open log with one committed record.
fn one_record(bench: &Bench) -> Log {
    let log = bench.open();
    log.commit(record("a")).unwrap();
    log
}

/// The same, poisoned by the fsync of its next commit.
fn poisoned(bench: &Bench) -> Log {
    let log = one_record(bench);
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    log.commit(record("refused")).unwrap_err();
    log
}

/// A log that was closed with a visible record and a hidden one.
fn closed(bench: &Bench) {
    let log = one_record(bench);
    log.append(&record("hidden")).unwrap();
    log.close().unwrap();
}

/// Two committed records in the first segment, and a newest file named for the second one that holds `bytes`.
fn passed_over(bench: &Bench, bytes: Vec<u8>) {
    bench.open().commit(records(["a", "b"])).unwrap();
    bench.disk.crash_process();
    bench.disk.plant(segment_path(1), bytes);
}

// ---- what is done

fn commit(payload: &'static str) -> impl Fn(&Bench, &Log) {
    move |_, log| {
        log.commit(record(payload)).unwrap();
    }
}

fn close(_: &Bench, log: &Log) {
    log.close().unwrap();
}

// ---- what is found after the power loss

fn left<S, const N: usize>(expected: [&'static str; N]) -> impl Fn(&Bench, &S) -> bool {
    move |bench, _| found(&bench.after_power_loss(Survival::Random).1) == expected
}

/// The payloads that can be read. Where a call is missing, there may be gaps.
fn found(log: &Log) -> Vec<String> {
    let (mut found, mut next) = (Vec::new(), log.oldest_offset());
    while next < log.high_watermark() {
        let batch = log.read_batch(next, 100, 1 << 20).unwrap();
        found
            .extend(batch.records.iter().map(|record| String::from_utf8_lossy(&record.payload).into_owned()));
        next = batch.next;
    }
    found
}

#[test]
fn cm_01_the_sync_of_a_commit_is_needed() {
    file_sync("*.log").is_needed(one_record, commit("b"), left(["a", "b"]));
}

#[test]
fn cm_02_the_truncate_of_a_discard_is_needed() {
    truncate("*.log").is_needed(one_record, refused_at_the_read_back, left(["a"]));
}

#[test]
fn cm_02_the_sync_of_a_discards_cut_is_needed() {
    file_sync("*.log").nth(2).is_needed(one_record, refused_at_the_read_back, left(["a"]));
}

fn refused_at_the_read_back(bench: &Bench, log: &Log) {
    bench.fail(CallKind::Read, Failure::Io, "*.log");
    log.commit(record("refused")).unwrap_err();
}

#[test]
fn sg_01_the_sync_of_a_drain_that_fills_the_segment_is_needed() {
    let append = |bench: &Bench, log: &Log| {
        log.append(&record("a")).unwrap();
        bench.pass(DRAIN);
    };
    file_sync("*.log").is_needed(empty(10), append, left(["a"]));
}

#[test]
fn sg_02_the_sync_of_the_first_segments_name_is_needed() {
    dir_sync("p00000").is_needed(Bench::open, commit("a"), left(["a"]));
}

#[test]
fn sg_02_the_sync_of_the_next_segments_name_is_needed() {
    const FULL: &str =
        "a record that is as large as a segment may become, so that the next one goes elsewhere";
    let full = |bench: &Bench| {
        let log = bench.open_with(segments_of(FULL.len() as u64));
        // The first segment is there, and the roll that makes the second is left to the second commit.
        bench.fail(CallKind::Create, Failure::Io, "00000000000000000001.log");
        log.commit(record(FULL)).unwrap();
        log
    };
    dir_sync("p00000").is_needed(full, commit("b"), left([FULL, "b"]));
}

#[test]
fn sg_02_the_sync_of_a_recovered_segments_name_is_needed() {
    let unsynced_roll = |bench: &Bench| {
        let log = bench.open_with(segments_of(10));
        bench.disk.inject(Fault::skip(CallKind::SyncDir).named("p00000").at(2));
        log.commit(record("a")).unwrap();
        bench.disk.crash_process();
        bench.open()
    };
    dir_sync("p00000").is_needed(unsynced_roll, commit("b"), left(["a", "b"]));
}

#[test]
fn sg_02_the_sync_of_the_directorys_own_name_is_needed() {
    let unsynced_dir = |bench: &Bench| {
        // The process that made the directory died before it could sync the name.
        bench.disk.inject(Fault::skip(CallKind::SyncDir).named("data"));
        bench.open()
    };
    dir_sync("data").is_needed(unsynced_dir, commit("a"), left(["a"]));
}

#[test]
fn sg_02_the_sync_of_the_new_directorys_name_is_needed() {
    // Only the hidden tail's boundary is in it: no segment's creation looks after the name of the directory.
    let open_and_close = |bench: &Bench, (): &()| bench.open().close().unwrap();
    let is_there = |bench: &Bench, (): &()| {
        let fork = bench.fork();
        fork.disk.power_loss();
        fork.hwm_file().is_some()
    };
    dir_sync("data").is_needed(|_| (), open_and_close, is_there);
}

#[test]
fn hw_04_the_levels_above_the_directory_are_durable_too() {
    // The first of the root's syncs is for a name that was there before.
    let open_and_commit = |bench: &Bench, (): &()| {
        bench.open().commit(record("a")).unwrap();
    };
    dir_sync("*").nth(2).is_needed(|_| (), open_and_commit, left(["a"]));
}

#[test]
fn wr_02_the_sync_that_the_policy_asks_for_is_needed() {
    let append = |bench: &Bench, log: &Log| {
        log.append(&record("a")).unwrap();
        bench.pass(DRAIN);
        bench.pass(Duration::from_secs(1));
    };
    file_sync("*.log").is_needed(Bench::open, append, left(["a"]));
}

#[test]
fn wr_02_the_sync_of_records_at_close_is_needed() {
    let append_and_close = |_: &Bench, log: &Log| {
        log.append(&record("b")).unwrap();
        log.close().unwrap();
    };
    let is_there =
        |bench: &Bench, _: &Log| bench.after_power_loss(Survival::Random).1.next_offset() == offset(2);
    file_sync("*.log").is_needed(one_record, append_and_close, is_there);
}

#[test]
fn po_01_the_sync_of_a_poisoned_closes_cut_is_needed() {
    file_sync("*.log").is_needed(poisoned, close, left(["a"]));
}

#[test]
fn po_03_the_sync_of_a_reopens_cut_is_needed() {
    file_sync("*.log").is_needed(poisoned, |_, log| log.reopen().unwrap(), left(["a"]));
}

#[test]
fn hw_01_the_sync_of_the_boundary_at_close_is_needed() {
    file_sync("hwm").is_needed(|_| (), |bench, ()| closed(bench), left(["a"]));
}

#[test]
fn hw_01_the_sync_of_the_files_name_at_close_is_needed() {
    dir_sync("p00000").nth(2).is_needed(|_| (), |bench, ()| closed(bench), left(["a"]));
}

#[test]
fn hw_01_the_truncate_of_a_longer_file_at_close_is_needed() {
    let longer = |bench: &Bench| {
        closed(bench);
        bench.disk.alter(format!("{}/hwm", write_path::DIR), |bytes| bytes.push(0));
        let log = bench.open();
        log.append(&record("hidden too")).unwrap();
        log
    };
    // Nine bytes say nothing: what they hid is shown, and what is hidden now must stay so.
    truncate("hwm").is_needed(longer, close, left(["a", "hidden"]));
}

#[test]
fn hw_03_the_truncate_of_the_file_is_needed() {
    truncate("hwm").is_needed(reopened, commit("b"), left(["a", "hidden", "b"]));
}

#[test]
fn hw_03_the_sync_of_the_emptied_file_is_needed() {
    file_sync("hwm").is_needed(reopened, commit("b"), left(["a", "hidden", "b"]));
}

fn reopened(bench: &Bench) -> Log {
    closed(bench);
    bench.open()
}

#[test]
fn hw_04_the_sync_of_a_tail_without_a_statement_is_needed() {
    file_sync("*.log").is_needed(unsynced, open, left(["a", "b"]));
}

#[test]
fn hw_04_the_sync_of_a_sealed_tail_without_a_statement_is_needed() {
    let unsynced_and_sealed = |bench: &Bench| {
        unsynced(bench);
        bench.disk.plant(segment_path(1), b"");
    };
    file_sync("*.log").is_needed(unsynced_and_sealed, open, left(["a", "b"]));
}

/// Two records that a process wrote and did not sync before it died.
fn unsynced(bench: &Bench) {
    let log = bench.open();
    log.append(&records(["a", "b"])).unwrap();
    bench.pass(DRAIN);
    bench.disk.crash_process();
}

/// An open shows everything, so nothing of it may be taken back.
fn open(bench: &Bench, (): &()) {
    assert_eq!(payloads(&bench.open()), ["a", "b"]);
}

#[test]
fn rc_02_the_truncate_of_a_torn_tail_is_needed() {
    truncate("*.log").is_needed(torn, open_torn, is_cut);
}

#[test]
fn rc_02_the_sync_of_a_torn_tails_cut_is_needed() {
    file_sync("*.log").is_needed(torn, open_torn, is_cut);
}

/// The bytes of the whole frames of a segment that has more than those.
fn torn(bench: &Bench) -> usize {
    closed(bench);
    let whole = bench.segment(0).unwrap().len();
    bench.disk.alter(segment_path(0), |bytes| bytes.extend_from_slice(&[0; 100]));
    whole
}

fn open_torn(bench: &Bench, _: &usize) {
    assert_eq!(bench.open().next_offset(), offset(2));
}

fn is_cut(bench: &Bench, whole: &usize) -> bool {
    let fork = bench.fork();
    fork.disk.power_loss();
    fork.segment(0).unwrap().len() == *whole
}

#[test]
fn rc_06_the_truncate_of_a_passed_over_file_is_needed() {
    truncate("00000000000000000001.log").is_needed(torn_and_passed_over, go_on, left(["a", "b", "c"]));
}

#[test]
fn rc_06_the_sync_of_a_passed_over_files_truncate_is_needed() {
    file_sync("00000000000000000001.log").is_needed(torn_and_passed_over, go_on, left(["a", "b", "c"]));
}

fn torn_and_passed_over(bench: &Bench) {
    passed_over(bench, vec![0; 100]);
}

/// Puts a segment behind the file that was passed over: it is the last one no longer.
fn go_on(bench: &Bench, (): &()) {
    bench.open().commit(record("c")).unwrap();
}

#[test]
fn rc_06_the_sync_of_a_name_that_is_set_aside_is_needed() {
    let misplaced = |bench: &Bench| {
        bench.open().commit(record("a")).unwrap();
        let frame = bench.segment(0).unwrap();
        bench.open().commit(record("b")).unwrap();
        bench.disk.crash_process();
        bench.disk.plant(segment_path(1), frame);
    };
    // The power goes when the next segment has its name, and before that is known to be durable.
    let die_in_the_roll = |bench: &Bench, (): &()| {
        bench.disk.inject(Fault::fail(CallKind::SyncDir, Failure::Io).named("p00000").at(2));
        bench.open().commit(record("c")).unwrap_err();
    };
    dir_sync("p00000").is_needed(misplaced, die_in_the_roll, left(["a", "b"]));
}
