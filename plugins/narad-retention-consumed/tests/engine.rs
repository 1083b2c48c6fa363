//! What a store deletes by this policy, on a disk in memory: only what everybody is done with.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a test")]

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use narad_core::{
    format::{Batch, Offset},
    log::Log,
    plugin::{Incarnation, PartitionId},
    runtime::Runtime,
    store::{ConsumerPosition, Followed, Followers, Store, StoreOptions, TopicSpec},
    testkit::{ManualClock, SimDisk, Verbatim},
};
use narad_retention_consumed::Consumed;

const PARTITION: PartitionId = PartitionId(0);

/// One child, which is where the test says.
#[derive(Debug)]
struct Child(Mutex<Followed>);

impl Followers for Child {
    fn followed(&self, _: &str, _: Incarnation, _: PartitionId) -> Followed {
        *self.0.lock().unwrap()
    }
}

struct Bench {
    disk: SimDisk,
    clock: ManualClock,
    spec: TopicSpec,
}

impl Bench {
    /// A topic whose segments hold one record each.
    fn new(keep: Duration) -> Self {
        let clock = ManualClock::new();
        let mut spec = TopicSpec::new("orders", Incarnation::new(1), 1, Arc::new(Verbatim));
        (spec.segment_bytes, spec.retention) = (1, Arc::new(Consumed::new(keep)));
        Self { disk: SimDisk::with_clock(1, Arc::new(clock.clone())), clock, spec }
    }

    fn open(&self) -> (Store, Log) {
        let runtime = Runtime::driven_by_hand(Arc::new(self.disk.clone()), Arc::new(self.clock.clone()));
        let store = Store::open(&runtime, Path::new("/data"), StoreOptions::default()).unwrap();
        let log = store.log(&self.spec, PARTITION).unwrap();
        (store, log)
    }

    fn settle(&self, store: &Store, up_to: u64) {
        let frontier = Offset::new(up_to);
        store.record_position(&self.spec, PARTITION, ConsumerPosition { frontier, acked: Vec::new() });
    }

    /// Lets `minutes` pass, a sweep in each; answers the oldest offset that is left.
    fn oldest_after(&self, store: &Store, log: &Log, minutes: usize) -> u64 {
        for _ in 0..minutes {
            self.clock.advance(Duration::from_secs(60));
            store.tick();
        }
        log.oldest_offset().get()
    }
}

fn commit(log: &Log, records: usize) {
    for _ in 0..records {
        log.commit(Batch::of(b"key", b"payload")).unwrap();
    }
}

#[test]
fn what_is_settled_goes_and_nothing_else_does() {
    let bench = Bench::new(Duration::ZERO);
    let (store, log) = bench.open();
    commit(&log, 6);
    assert_eq!(bench.oldest_after(&store, &log, 1), 0, "nobody has consumed anything");
    bench.settle(&store, 2);
    assert_eq!(bench.oldest_after(&store, &log, 1), 3);
    bench.settle(&store, 5);
    assert_eq!(bench.oldest_after(&store, &log, 1), 6);
    commit(&log, 1);
    assert_eq!(bench.oldest_after(&store, &log, 1), 6, "the newest record waits for its consumer");
    assert_eq!(store.counts().lost_to_retention, 0);
}

#[test]
fn a_child_that_is_behind_keeps_what_it_has_not_got() {
    let bench = Bench::new(Duration::ZERO);
    let (store, log) = bench.open();
    let child = Arc::new(Child(Mutex::new(Followed::Unknown)));
    store.set_followers(child.clone());
    commit(&log, 6);
    bench.settle(&store, 5);
    assert_eq!(bench.oldest_after(&store, &log, 1), 0, "where the child is is not known");
    *child.0.lock().unwrap() = Followed::Below(Offset::new(4).unwrap());
    assert_eq!(bench.oldest_after(&store, &log, 1), 4);
    *child.0.lock().unwrap() = Followed::ByNobody;
    assert_eq!(bench.oldest_after(&store, &log, 1), 6);
}

#[test]
fn what_is_settled_stays_for_the_time_to_keep_it() {
    let bench = Bench::new(Duration::from_secs(600));
    let (store, log) = bench.open();
    commit(&log, 3);
    bench.settle(&store, 2);
    assert_eq!(bench.oldest_after(&store, &log, 9), 0);
    commit(&log, 1);
    assert_eq!(bench.oldest_after(&store, &log, 1), 3);
    bench.settle(&store, 3);
    assert_eq!(bench.oldest_after(&store, &log, 8), 3);
    assert_eq!(bench.oldest_after(&store, &log, 2), 4);
}

#[test]
fn after_a_start_nothing_goes_before_the_consumers_are_known() {
    let bench = Bench::new(Duration::ZERO);
    let (store, log) = bench.open();
    commit(&log, 4);
    bench.settle(&store, 1);
    store.close().unwrap();
    let (store, log) = bench.open();
    assert_eq!(bench.oldest_after(&store, &log, 3), 0);
    store.consumer_position(&bench.spec, PARTITION).unwrap();
    assert_eq!(bench.oldest_after(&store, &log, 1), 2);
}

#[test]
fn a_partition_that_nobody_uses_any_more_is_emptied_as_well() {
    let bench = Bench::new(Duration::ZERO);
    let (store, log) = bench.open();
    commit(&log, 4);
    bench.settle(&store, 1);
    store.close().unwrap();
    let (store, log) = bench.open();
    bench.oldest_after(&store, &log, 45);
    assert!(log.is_closed(), "for being idle");
    assert_eq!(store.log(&bench.spec, PARTITION).unwrap().oldest_offset().get(), 2);
}
