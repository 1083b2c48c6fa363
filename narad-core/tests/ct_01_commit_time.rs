//! Commit times never decrease along a partition, whatever the wall clock does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/write_path.rs"]
mod write_path;

use std::time::Duration;

use narad_core::{clock::Clock, log::Log};
use write_path::{Bench, offset, options, record};

fn time_of(log: &Log, record: u64) -> i64 {
    log.read(offset(record)).unwrap().committed_at_ms
}

#[test]
fn ct_01_a_clock_that_steps_back_moves_no_commit_time_back() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    let start = bench.clock.unix_ms();
    log.commit(record("a")).unwrap();
    bench.clock.set_unix_ms(start - 86_400_000);
    log.commit(record("b")).unwrap();
    log.append(&record("c")).unwrap();
    bench.pass(Duration::from_millis(100));
    bench.clock.set_unix_ms(start + 5);
    log.commit(record("d")).unwrap();
    assert_eq!([0, 1, 2, 3].map(|record| time_of(&log, record)), [start, start, start, start + 5]);
}

#[test]
fn ct_01_a_failed_commit_takes_no_time_back() {
    use narad_core::testkit::{CallKind, Failure};
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    let start = bench.clock.unix_ms();
    bench.fail(CallKind::Write, Failure::NoSpace, "*.log");
    bench.clock.advance(Duration::from_secs(1));
    log.commit(record("refused")).unwrap_err();
    bench.clock.set_unix_ms(start);
    log.commit(record("a")).unwrap();
    assert_eq!(time_of(&log, 0), start + 1000);
}

#[test]
fn ct_01_the_floor_after_an_open_is_the_newest_record() {
    let bench = Bench::new(1);
    let start = bench.clock.unix_ms();
    bench.open_with(options()).commit(record("a")).unwrap();
    bench.disk.crash_process();
    bench.clock.set_unix_ms(start - 3_600_000);
    let log = bench.open_with(options());
    log.commit(record("b")).unwrap();
    assert_eq!(time_of(&log, 1), start, "an hour ahead of the clock is still believed");
}

#[test]
fn ct_01_a_newest_record_more_than_an_hour_ahead_does_not_count() {
    let bench = Bench::new(1);
    let start = bench.clock.unix_ms();
    bench.open_with(options()).commit(record("a")).unwrap();
    bench.disk.crash_process();
    bench.clock.set_unix_ms(start - 3_600_001);
    let log = bench.open_with(options());
    log.commit(record("b")).unwrap();
    assert_eq!(time_of(&log, 1), start - 3_600_001);
}

#[test]
fn ct_01_a_reopen_in_place_keeps_the_floor() {
    use narad_core::testkit::{CallKind, Failure};
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    let start = bench.clock.unix_ms();
    log.commit(record("a")).unwrap();
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    log.commit(record("refused")).unwrap_err();
    bench.clock.set_unix_ms(start - 7_200_000);
    log.reopen().unwrap();
    log.commit(record("b")).unwrap();
    assert_eq!(time_of(&log, 1), start);
}
