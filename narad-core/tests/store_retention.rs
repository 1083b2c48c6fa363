//! Retention through a store: one reaper for all open logs, which nothing stops.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod store_support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use narad_core::{
    format::Batch,
    log::Log,
    plugin::{Incarnation, PartitionId, RetentionDecision, RetentionPolicy, RetentionView},
    store::{Followed, Followers, StoreOptions},
};
use store_support::{Bench, TakeAll, TakeSettled, at, p, position, topic};

#[derive(Debug)]
struct Panics;

impl RetentionPolicy for Panics {
    fn name(&self) -> &str {
        "panics"
    }
    fn roll_age(&self) -> Option<Duration> {
        None
    }
    fn decide(&self, _: &RetentionView<'_>) -> RetentionDecision {
        panic!("a plugin's mistake")
    }
}

/// Keeps everything for now, and says that time will change that.
#[derive(Debug)]
struct Ages;

impl RetentionPolicy for Ages {
    fn name(&self) -> &str {
        "ages"
    }
    fn roll_age(&self) -> Option<Duration> {
        Some(Duration::from_secs(7 * 86_400))
    }
    fn decide(&self, _: &RetentionView<'_>) -> RetentionDecision {
        RetentionDecision::KEEP
    }
}

fn commit(log: &Log) {
    log.commit(Batch::of(b"key", b"payload")).unwrap();
}

fn minute(bench: &Bench, store: &narad_core::store::Store) {
    bench.clock.advance(Duration::from_secs(61));
    store.tick();
}

#[test]
fn rt_02_a_sweep_that_panics_costs_no_other_log_its_turn() {
    let bench = Bench::new(1);
    let store = bench.open();
    let mut logs = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let mut spec = topic(name, 1);
        spec.retention = if name == "b" { Arc::new(Panics) } else { Arc::new(TakeAll) };
        logs.push(store.log(&spec, p(0)).unwrap());
    }
    for _ in 0..2 {
        logs.iter().for_each(commit);
        minute(&bench, &store);
        let left: Vec<_> =
            logs.iter().map(|log| log.high_watermark().since(log.oldest_offset()) == 0).collect();
        assert_eq!(left, [true, false, true, true]);
    }
}

#[test]
fn rt_06_a_change_of_retention_reaches_open_logs_in_place() {
    let bench = Bench::new(1);
    let (store, spec) = (bench.open(), topic("orders", 1));
    let log = store.log(&spec, p(0)).unwrap();
    commit(&log);
    minute(&bench, &store);
    assert_eq!(log.oldest_offset(), at(0));
    store.set_retention("orders", Arc::new(TakeAll));
    store.set_retention("nobody", Arc::new(TakeAll));
    minute(&bench, &store);
    assert_eq!(log.oldest_offset(), at(1));
    assert!(!log.is_closed());
}

#[test]
fn rt_02_a_policy_is_told_how_far_the_consumers_are() {
    let bench = Bench::new(1);
    let (store, mut spec) = (bench.open(), topic("orders", 1));
    spec.retention = Arc::new(TakeSettled);
    let log = store.log(&spec, p(0)).unwrap();
    commit(&log);
    minute(&bench, &store);
    assert_eq!(log.oldest_offset(), at(0));
    store.record_position(&spec, p(0), position(0, &[]));
    minute(&bench, &store);
    assert_eq!(log.oldest_offset(), at(1));
}

/// Says what it is told to say.
#[derive(Debug)]
struct Says(Mutex<Followed>);

impl Followers for Says {
    fn followed(&self, topic: &str, incarnation: Incarnation, partition: PartitionId) -> Followed {
        assert_eq!((topic, incarnation, partition), ("orders", Incarnation::new(1), p(0)));
        *self.0.lock().unwrap()
    }
}

#[test]
fn rt_02_what_a_follower_has_not_got_does_not_count_as_settled() {
    let bench = Bench::new(1);
    let (store, mut spec) = (bench.open(), topic("orders", 1));
    let followers = Arc::new(Says(Mutex::new(Followed::Unknown)));
    store.set_followers(followers.clone());
    (spec.retention, spec.segment_bytes) = (Arc::new(TakeSettled), 1);
    let log = store.log(&spec, p(0)).unwrap();
    (0..6).for_each(|_| commit(&log));
    let oldest_when = |followed| {
        *followers.0.lock().unwrap() = followed;
        minute(&bench, &store);
        log.oldest_offset()
    };
    assert_eq!(oldest_when(Followed::ByNobody), at(0), "no consumer has settled anything");
    store.record_position(&spec, p(0), position(3, &[]));
    assert_eq!(oldest_when(Followed::Unknown), at(0), "not known is not settled");
    assert_eq!(oldest_when(Followed::Below(at(0))), at(0));
    assert_eq!(oldest_when(Followed::Below(at(2))), at(2), "the follower is behind the consumers");
    assert_eq!(oldest_when(Followed::Below(at(6))), at(4), "and now the consumers behind the follower");
    store.record_position(&spec, p(0), position(4, &[]));
    assert_eq!(oldest_when(Followed::ByNobody), at(5));
}

#[test]
fn rt_09_without_a_cold_walk_idle_eviction_spares_a_log_whose_records_will_age() {
    let bench = Bench::new(1);
    let mut options = StoreOptions::default();
    options.cold_walk = None;
    let (store, mut spec) = (bench.open_with(options), topic("orders", 1));
    spec.retention = Arc::new(Ages);
    let (full, empty) = (store.log(&spec, p(0)).unwrap(), store.log(&spec, p(1)).unwrap());
    commit(&full);
    for _ in 0..40 {
        minute(&bench, &store);
    }
    assert!(!full.is_closed());
    assert!(empty.is_closed());
}

#[test]
fn cs_06_what_retention_took_before_it_was_settled_is_counted_once() {
    let bench = Bench::new(1);
    let (store, mut spec) = (bench.open(), topic("orders", 1));
    spec.segment_bytes = 1;
    let log = store.log(&spec, p(0)).unwrap();
    (0..6).for_each(|_| commit(&log));
    store.record_position(&spec, p(0), position(1, &[3, 5]));
    store.close().unwrap();

    // Retention runs before anybody asks where the consumers are.
    let store = bench.open();
    spec.retention = Arc::new(TakeAll);
    store.log(&spec, p(0)).unwrap().sweep(None).unwrap();
    let found = store.recover_position(&spec, p(0)).unwrap();
    assert_eq!((found.lost, found.clamped), (2, false), "2 and 4: the others were settled");
    assert_eq!(found.position, position(5, &[]));
    let again = store.recover_position(&spec, p(0)).unwrap();
    assert_eq!((again.lost, again.position), (0, position(5, &[])));
    assert_eq!(store.counts().lost_to_retention, 2);
    store.close().unwrap();
    let store = bench.open();
    store.log(&spec, p(0)).unwrap();
    assert_eq!(store.recover_position(&spec, p(0)).unwrap().lost, 0);
}
