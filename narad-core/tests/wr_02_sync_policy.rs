//! The sync policy's answers are honoured, and no record is stranded.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/write_path.rs"]
mod write_path;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use narad_core::{
    format::Batch,
    log::Log,
    plugin::{SyncDecision, SyncPolicy, Synced, Unsynced},
    testkit::{CallKind, Failure, Fault, Gate, Survival},
};
use parking_lot::Mutex;
use write_path::{Bench, offset, options, record, records};

const DRAIN: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Says {
    decision: Option<SyncDecision>,
    asked: Mutex<Vec<Unsynced>>,
    told: Mutex<Vec<Synced>>,
    calls: AtomicUsize,
}

impl SyncPolicy for Says {
    fn name(&self) -> &str {
        "says"
    }

    fn decide(&self, unsynced: &Unsynced) -> SyncDecision {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.asked.lock().push(*unsynced);
        self.decision.expect("a policy that panics on purpose")
    }

    fn synced(&self, synced: &Synced) {
        self.told.lock().push(*synced);
        self.decision.expect("a policy that panics on purpose");
    }
}

fn log_with(decision: Option<SyncDecision>) -> (Bench, Log, Arc<Says>) {
    let policy = Arc::new(Says {
        decision,
        asked: Mutex::default(),
        told: Mutex::default(),
        calls: AtomicUsize::new(0),
    });
    let bench = Bench::new(1);
    let mut options = options();
    options.sync = Arc::clone(&policy) as Arc<dyn SyncPolicy>;
    let log = bench.open_with(options);
    (bench, log, policy)
}

fn syncs(bench: &Bench) -> usize {
    bench.disk.count_on(CallKind::SyncData, "*.log")
}

#[test]
fn wr_02_by_default_a_sync_follows_a_second_after_the_write() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.append(&record("a")).unwrap();
    bench.pass(DRAIN);
    bench.pass(SECOND - Duration::from_millis(1));
    assert_eq!(syncs(&bench), 0);
    bench.pass(Duration::from_millis(1));
    assert_eq!(syncs(&bench), 1);
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(after.next_offset(), offset(1));
}

#[test]
fn wr_02_by_default_eight_mebibytes_are_synced_at_once() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    for written in 1..=8 {
        log.append(&Batch::of(b"", &vec![0; 1 << 20])).unwrap();
        assert_eq!(syncs(&bench), usize::from(written == 8), "after {written} MiB");
    }
}

#[test]
fn wr_02_now_syncs_with_the_write() {
    let (bench, log, policy) = log_with(Some(SyncDecision::Now));
    log.append(&records(["a", "b"])).unwrap();
    bench.pass(DRAIN);
    assert_eq!(syncs(&bench), 1);
    let asked = policy.asked.lock()[0];
    assert_eq!((asked.records, asked.bytes), (2, bench.segment(0).unwrap().len() as u64));
    assert_eq!(bench.runtime.pending_timers(), 0);
}

#[test]
fn wr_02_within_is_asked_again_when_the_time_has_passed() {
    let (bench, log, policy) = log_with(Some(SyncDecision::Within(SECOND)));
    log.append(&record("a")).unwrap();
    bench.pass(DRAIN);
    assert_eq!((policy.asked.lock().len(), bench.runtime.pending_timers()), (1, 1));
    bench.pass(SECOND);
    assert_eq!(policy.asked.lock().len(), 2);
    assert_eq!(policy.asked.lock()[1].age, SECOND);
}

#[test]
fn wr_02_not_yet_is_asked_again_at_the_next_write_and_never_strands_the_last_record() {
    let (bench, log, policy) = log_with(Some(SyncDecision::NotYet));
    for asked in 1..=3 {
        log.append(&record("a")).unwrap();
        bench.pass(DRAIN);
        assert_eq!(policy.asked.lock().len(), asked);
        assert_eq!(bench.runtime.pending_timers(), 0, "nothing is owed");
    }
    assert_eq!(policy.asked.lock()[2].records, 3);
    assert_eq!(syncs(&bench), 0);
    log.close().unwrap();
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(after.next_offset(), offset(3));
}

#[test]
fn wr_02_a_policy_that_panics_counts_as_now() {
    let (bench, log, policy) = log_with(None);
    log.append(&record("a")).unwrap();
    bench.pass(DRAIN);
    assert_eq!((syncs(&bench), policy.calls.load(Ordering::Relaxed)), (1, 1));
    log.commit(record("b")).unwrap();
}

#[test]
fn wr_02_a_commit_never_asks() {
    let (bench, log, policy) = log_with(Some(SyncDecision::NotYet));
    log.commit(record("a")).unwrap();
    log.append(&record("b")).unwrap();
    log.commit(record("c")).unwrap();
    bench.pass(SECOND);
    assert_eq!(policy.asked.lock().len(), 0);
    assert_eq!(syncs(&bench), 2);
}

/// Runs `work` while the next sync of a segment takes `took`.
fn slowly(bench: &Bench, took: Duration, work: impl FnOnce() + Send) {
    let gate = Gate::new();
    bench.disk.inject(Fault::hold(CallKind::SyncData, &gate).named("*.log"));
    std::thread::scope(|scope| {
        scope.spawn(work);
        gate.wait_for(1);
        bench.clock.advance(took);
        gate.open();
    });
}

#[test]
fn wr_02_a_policy_hears_what_each_sync_has_cost_those_of_commits_included() {
    let (bench, log, policy) = log_with(Some(SyncDecision::Now));
    slowly(&bench, Duration::from_millis(7), || assert!(log.commit(records(["a", "b"])).is_ok()));
    let synced = policy.told.lock()[0];
    assert_eq!((synced.took, synced.what.records), (Duration::from_millis(7), 2));
    assert_eq!(synced.what.bytes, bench.segment(0).unwrap().len() as u64);

    log.append(&record("c")).unwrap();
    bench.clock.advance(DRAIN);
    slowly(&bench, Duration::from_millis(9), || assert_eq!(bench.runtime.run_due(), 1));
    let synced = policy.told.lock()[1];
    assert_eq!((synced.took, synced.what.records), (Duration::from_millis(9), 1));
    assert_eq!(policy.told.lock().len(), syncs(&bench));
}

#[test]
fn wr_02_a_policy_that_panics_over_a_sync_costs_nobody_anything() {
    let (bench, log, policy) = log_with(None);
    log.commit(record("a")).unwrap();
    log.commit(record("b")).unwrap();
    assert_eq!((policy.told.lock().len(), log.high_watermark()), (2, offset(2)));
    drop(bench);
}

#[test]
fn wr_02_a_policy_hears_nothing_of_a_sync_that_failed() {
    let (bench, log, policy) = log_with(Some(SyncDecision::NotYet));
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    log.commit(record("a")).unwrap_err();
    assert_eq!(policy.told.lock().len(), 0);
}
