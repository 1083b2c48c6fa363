//! A timer exists only while a pass is owed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/write_path.rs"]
mod write_path;

use std::{sync::Arc, time::Duration};

use narad_core::{
    format::Batch,
    log::Log,
    plugin::{SyncDecision, SyncPolicy, Unsynced},
    testkit::{CallKind, Failure, Fault},
};
use write_path::{Bench, options, record};

const DRAIN: Duration = Duration::from_millis(100);

#[derive(Debug)]
struct Hourly;

impl SyncPolicy for Hourly {
    fn name(&self) -> &str {
        "hourly"
    }

    fn decide(&self, unsynced: &Unsynced) -> SyncDecision {
        match Duration::from_secs(3600).checked_sub(unsynced.age) {
            Some(left) if !left.is_zero() => SyncDecision::Within(left),
            _ => SyncDecision::Now,
        }
    }
}

#[test]
fn wr_03_five_hundred_idle_logs_leave_no_timer() {
    let bench = Bench::new(1);
    let open = |name: usize| {
        let dir = format!("/data/p{name:05}");
        Log::open(&bench.runtime, std::path::Path::new(&dir), options()).unwrap()
    };
    let logs: Vec<Log> = (0..500).map(open).collect();
    assert_eq!(bench.runtime.pending_timers(), 0, "an open owes nothing");
    for log in &logs {
        log.append(&record("a")).unwrap();
        log.commit(record("b")).unwrap();
        log.append(&record("c")).unwrap();
    }
    assert_eq!(bench.runtime.pending_timers(), 500);
    let mut passes = 0;
    for _ in 0..20 {
        passes += bench.pass(DRAIN);
    }
    assert_eq!(bench.runtime.pending_timers(), 0);
    assert!(passes <= 1000, "{passes} passes: one to write, one to sync");
    assert_eq!(bench.pass(Duration::from_secs(86_400)), 0, "they stay idle");
}

#[test]
fn wr_03_a_commit_leaves_nothing_owed() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.commit(record("a")).unwrap();
    assert_eq!(bench.runtime.pending_timers(), 0, "an advance owes nothing");
    log.append(&record("b")).unwrap();
    assert_eq!(bench.runtime.pending_timers(), 1);
    log.commit(Batch::new()).unwrap();
    assert_eq!(bench.runtime.pending_timers(), 0, "the commit has paid");
    log.append(&record("c")).unwrap();
    bench.fail(CallKind::Write, Failure::Io, "*.log");
    log.commit(Batch::new()).unwrap_err();
    assert_eq!(bench.runtime.pending_timers(), 0, "and so has one that dropped everything");
}

#[test]
fn wr_03_a_log_has_one_timer_however_often_it_is_armed() {
    let bench = Bench::new(1);
    let mut options = options();
    options.sync = Arc::new(Hourly);
    let log = bench.open_with(options);
    for _ in 0..100 {
        log.append(&record("a")).unwrap();
        bench.pass(DRAIN);
        assert_eq!(bench.runtime.pending_timers(), 1);
    }
    bench.pass(Duration::from_secs(3600));
    assert_eq!(bench.runtime.pending_timers(), 0);
    assert_eq!(bench.disk.count_on(CallKind::SyncData, "*.log"), 1);
    log.append(&record("a")).unwrap();
    bench.pass(DRAIN);
    log.close().unwrap();
    assert_eq!(bench.runtime.pending_timers(), 0, "a closed log owes nothing");
}

#[test]
fn wr_03_a_failed_write_is_tried_until_it_succeeds_and_then_no_more() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    bench.disk.inject(Fault::fail(CallKind::Write, Failure::NoSpace).named("*.log").onwards());
    log.append(&record("a")).unwrap();
    for _ in 0..5 {
        assert_eq!(bench.pass(DRAIN), 1);
    }
    assert_eq!(bench.errors("flush"), 5);
    bench.disk.clear_faults();
    bench.pass(DRAIN);
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.runtime.pending_timers(), 0);
}

#[test]
fn wr_03_a_drain_whose_segment_cannot_be_made_is_tried_again() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    bench.disk.inject(Fault::fail(CallKind::Create, Failure::TooManyFiles).onwards());
    log.append(&record("a")).unwrap();
    bench.pass(DRAIN);
    log.append(&record("b")).unwrap();
    bench.pass(DRAIN);
    bench.disk.clear_faults();
    bench.pass(DRAIN);
    log.commit(Batch::new()).unwrap();
    assert_eq!(write_path::payloads(&log), ["a", "b"]);
}
