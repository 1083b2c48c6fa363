//! What each policy loses to a crash and what it does not, on a disk in memory that loses what was not synced.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a test")]

use std::{path::Path, sync::Arc, time::Duration};

use narad_core::{
    format::Batch,
    log::{Log, LogOptions},
    plugin::SyncPolicy,
    runtime::Runtime,
    testkit::{CallKind, Fault, Gate, ManualClock, SimDisk, Survival, Verbatim},
};
use narad_sync_policies::{Adaptive, AdaptiveLimits, EveryWrite, Never};

const DRAIN: Duration = Duration::from_millis(100);

struct Bench {
    disk: SimDisk,
    clock: ManualClock,
    runtime: Runtime,
}

impl Bench {
    fn on(disk: SimDisk) -> Self {
        let clock = ManualClock::new();
        let runtime = Runtime::driven_by_hand(Arc::new(disk.clone()), Arc::new(clock.clone()));
        Self { disk, clock, runtime }
    }

    fn open(policy: Arc<dyn SyncPolicy>) -> (Self, Log) {
        let bench = Self::on(SimDisk::new(1));
        let log = bench.log(policy);
        (bench, log)
    }

    fn log(&self, policy: Arc<dyn SyncPolicy>) -> Log {
        let mut options = LogOptions::new("metrics", Arc::new(Verbatim));
        options.sync = policy;
        Log::open(&self.runtime, Path::new("/data/p00000"), options).unwrap()
    }

    /// Time passes, and the log does what is due.
    fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.runtime.run_due();
    }

    fn syncs(&self) -> usize {
        self.disk.count_on(CallKind::SyncData, "*.log")
    }

    /// The records that are there when only the process has died.
    fn left_by_the_process(&self) -> u64 {
        Self::on(self.disk.fork()).log(Arc::new(Never)).next_offset().get()
    }

    /// The records that are there when the power was lost, and with it all that was not synced.
    fn left_by_the_power(&self) -> u64 {
        let disk = self.disk.fork();
        disk.power_loss_keeping(Survival::Nothing);
        Self::on(disk).log(Arc::new(Never)).next_offset().get()
    }
}

fn record() -> Batch {
    Batch::of(b"cpu", b"0.5")
}

#[test]
fn every_write_loses_nothing_that_was_drained() {
    let (bench, log) = Bench::open(Arc::new(EveryWrite));
    for written in 1..=5 {
        log.append(&record()).unwrap();
        assert_eq!((bench.left_by_the_process(), bench.left_by_the_power()), (written - 1, written - 1));
        bench.pass(DRAIN);
        assert_eq!((bench.left_by_the_process(), bench.left_by_the_power()), (written, written));
    }
}

#[test]
fn never_loses_nothing_to_the_death_of_the_process_and_everything_unsynced_to_the_power() {
    let (bench, log) = Bench::open(Arc::new(Never));
    log.commit(record()).unwrap();
    for _ in 0..50 {
        log.append(&record()).unwrap();
        bench.pass(Duration::from_secs(60));
    }
    assert_eq!((bench.syncs(), bench.runtime.pending_timers()), (1, 0), "the commit's");
    assert_eq!((bench.left_by_the_process(), bench.left_by_the_power()), (51, 1));
    log.commit(record()).unwrap();
    assert_eq!(bench.left_by_the_power(), 52, "a commit takes along what was appended before it");
    log.append(&record()).unwrap();
    log.close().unwrap();
    assert_eq!(bench.left_by_the_power(), 53);
}

#[test]
fn adaptive_waits_by_what_the_last_syncs_have_cost() {
    let mut limits = AdaptiveLimits::default();
    (limits.share, limits.max_wait) = (0.25, Duration::from_secs(10));
    let (bench, log) = Bench::open(Arc::new(Adaptive::new(limits).unwrap()));
    // A commit's sync takes 200 ms: for a quarter of the time, 600 ms are to pass between two.
    let gate = Gate::new();
    bench.disk.inject(Fault::hold(CallKind::SyncData, &gate).named("*.log"));
    std::thread::scope(|scope| {
        scope.spawn(|| log.commit(record()).unwrap());
        gate.wait_for(1);
        bench.clock.advance(Duration::from_millis(200));
        gate.open();
    });
    let before = bench.syncs();
    log.append(&record()).unwrap();
    bench.pass(DRAIN);
    assert_eq!(bench.left_by_the_process(), 2);
    bench.pass(Duration::from_millis(599));
    assert_eq!((bench.syncs() - before, bench.left_by_the_power()), (0, 1));
    bench.pass(Duration::from_millis(1));
    assert_eq!((bench.syncs() - before, bench.left_by_the_power()), (1, 2));
}
