//! Retention of closed logs: looked at without an open, opened only when something has expired.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod store_support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use narad_core::{
    disk::Disk,
    format::Batch,
    plugin::{RetentionDecision, RetentionPolicy, RetentionView},
    store::{Store, StoreOptions, TopicSpec},
    testkit::{CallKind, Failure, Fault},
};
use store_support::{Bench, TakeSettled, at, p, position, topic};

const HOUR: Duration = Duration::from_secs(3600);
const PARTITION: &str = "/data/topics/orders/p00000";

/// Keeps what was written within an hour.
#[derive(Debug, Default)]
struct OneHour {
    panics: AtomicBool,
    asked: AtomicUsize,
}

impl RetentionPolicy for OneHour {
    fn name(&self) -> &str {
        "one-hour"
    }
    fn roll_age(&self) -> Option<Duration> {
        Some(HOUR)
    }
    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        self.asked.fetch_add(1, Ordering::Relaxed);
        assert!(!self.panics.load(Ordering::Relaxed), "a plugin's mistake");
        let oldest_kept = view.now_ms - HOUR.as_millis() as i64;
        let expired = view.segments.iter().take_while(|segment| segment.last_write_ms < oldest_kept).count();
        RetentionDecision::expire(expired, "age")
    }
}

/// A topic with one committed record in its first partition, whose logs are closed for being idle.
fn closed(bench: &Bench) -> (Store, TopicSpec, Arc<OneHour>) {
    let policy = Arc::new(OneHour::default());
    let (store, mut spec) = (bench.open(), topic("orders", 1));
    spec.retention = policy.clone();
    let log = store.log(&spec, p(0)).unwrap();
    log.commit(Batch::of(b"key", b"payload")).unwrap();
    minutes(bench, &store, 31);
    assert!(log.is_closed());
    assert_eq!(store.counts().evicted, 1);
    (store, spec, policy)
}

fn minutes(bench: &Bench, store: &Store, minutes: usize) {
    for _ in 0..minutes {
        bench.clock.advance(Duration::from_secs(60));
        store.tick();
    }
}

fn opens(bench: &Bench) -> usize {
    bench.disk.calls().iter().filter(|call| call.kind == CallKind::Open).count()
}

#[test]
fn rt_07_a_closed_log_is_opened_once_when_something_in_it_has_expired() {
    let bench = Bench::new(1);
    let (store, spec, _) = closed(&bench);
    let before = opens(&bench);
    minutes(&bench, &store, 28);
    assert_eq!(opens(&bench), before, "nothing has expired, so nothing is opened");
    minutes(&bench, &store, 12);
    assert_eq!(store.counts().cold_swept, 1);
    assert_eq!(bench.names(PARTITION), ["00000000000000000001.log", "hwm"]);
    let held = bench.disk.open_files();
    let after = opens(&bench);
    minutes(&bench, &store, 120);
    assert_eq!((bench.disk.open_files(), opens(&bench)), (held, after), "it is closed again, and left alone");

    let log = store.log(&spec, p(0)).unwrap();
    assert_eq!((log.oldest_offset(), log.high_watermark()), (at(1), at(1)), "offsets never restart");
}

#[test]
fn rt_07_a_walk_goes_by_what_the_log_knew_and_not_by_a_file_time() {
    let bench = Bench::new(1);
    let (store, ..) = closed(&bench);
    // A tool that copies files about sets their times to those of the copy.
    bench.disk.set_modified(format!("{PARTITION}/00000000000000000000.log"), 4_000_000_000_000);
    minutes(&bench, &store, 40);
    assert_eq!(store.counts().cold_swept, 1);
}

#[test]
fn rt_07_a_partition_that_was_never_opened_in_this_process_is_walked_too() {
    let bench = Bench::new(1);
    let (store, spec, _) = closed(&bench);
    store.close().unwrap();
    let store = bench.open();
    // As when descriptors run out at the start: the topic is known, and its log is not open.
    let fault =
        bench.disk.inject(Fault::fail(CallKind::Open, Failure::TooManyFiles).named("*.log").onwards());
    assert_eq!(store.open_all(std::slice::from_ref(&spec), Some(1)).len(), 1);
    bench.disk.remove_fault(fault);
    minutes(&bench, &store, 40);
    assert_eq!(store.counts().cold_swept, 1);
}

#[test]
fn rt_07_a_walk_never_makes_a_directory_that_has_gone() {
    let bench = Bench::new(1);
    let (store, spec, _) = closed(&bench);
    store.delete_topic("orders", spec.incarnation).unwrap();
    minutes(&bench, &store, 60);
    assert_eq!(bench.names("/data/topics"), Vec::<String>::new());

    // Somebody else has removed it.
    let bench = Bench::new(1);
    let (store, ..) = closed(&bench);
    let dir = std::path::Path::new("/data/topics/orders");
    bench.disk.rename(dir, std::path::Path::new("/elsewhere")).unwrap();
    minutes(&bench, &store, 60);
    assert_eq!(bench.names("/data/topics"), Vec::<String>::new());
}

#[test]
fn rt_07_a_panic_leaves_that_partition_alone_for_half_an_hour_and_no_other() {
    let bench = Bench::new(1);
    let (store, spec, policy) = closed(&bench);
    let mut other = topic("other", 2);
    let well = Arc::new(OneHour::default());
    other.retention = well.clone();
    store.log(&other, p(0)).unwrap().commit(Batch::of(b"", b"x")).unwrap();
    policy.panics.store(true, Ordering::Relaxed);
    minutes(&bench, &store, 5);
    let asked = policy.asked.load(Ordering::Relaxed);
    assert_eq!(store.counts().cold_panics, 1);
    minutes(&bench, &store, 25);
    assert_eq!(policy.asked.load(Ordering::Relaxed), asked, "it is left alone");
    assert_eq!(store.counts().cold_panics, 1);
    policy.panics.store(false, Ordering::Relaxed);
    minutes(&bench, &store, 12);
    assert_eq!(bench.names(PARTITION), ["00000000000000000001.log", "hwm"]);
    minutes(&bench, &store, 60);
    assert_eq!(bench.names("/data/topics/other/p00000"), ["00000000000000000001.log", "hwm"]);
    drop(spec);
}

#[test]
fn rt_07_an_open_that_fails_is_tried_again() {
    let bench = Bench::new(1);
    let (store, ..) = closed(&bench);
    let fault = bench.disk.inject(Fault::fail(CallKind::Open, Failure::Io).named("*.log").onwards());
    minutes(&bench, &store, 40);
    assert_eq!(store.counts().cold_swept, 0);
    bench.disk.remove_fault(fault);
    minutes(&bench, &store, 10);
    assert_eq!(store.counts().cold_swept, 1);
}

#[test]
fn rt_07_a_policy_hears_of_the_consumers_of_a_closed_log() {
    let bench = Bench::new(1);
    let (store, spec, _) = closed(&bench);
    store.set_retention("orders", Arc::new(TakeSettled));
    minutes(&bench, &store, 10);
    assert_eq!(store.counts().cold_swept, 0);
    store.record_position(&spec, p(0), position(0, &[]));
    minutes(&bench, &store, 10);
    assert_eq!(store.counts().cold_swept, 1);
}

#[test]
fn rt_07_no_walk_when_it_is_turned_off() {
    let bench = Bench::new(1);
    let mut options = StoreOptions::default();
    options.cold_walk = None;
    let (store, ..) = closed(&bench);
    store.close().unwrap();
    let store = bench.open_with(options);
    store.open_all(&[topic("orders", 1)], Some(1));
    minutes(&bench, &store, 120);
    assert_eq!(store.counts().cold_swept, 0);
    assert!(bench.disk.list(std::path::Path::new(PARTITION)).is_ok());
}

/// A partition of three segments that this process has not opened, with its first two records settled.
fn settled_and_closed(bench: &Bench) -> (Store, TopicSpec) {
    let (store, mut spec) = (bench.open(), topic("orders", 1));
    (spec.retention, spec.segment_bytes) = (Arc::new(TakeSettled), 1);
    let log = store.log(&spec, p(0)).unwrap();
    for _ in 0..3 {
        log.commit(Batch::of(b"key", b"payload")).unwrap();
    }
    store.record_position(&spec, p(0), position(1, &[]));
    store.close().unwrap();
    let store = bench.open();
    let fault =
        bench.disk.inject(Fault::fail(CallKind::Open, Failure::TooManyFiles).named("*.log").onwards());
    assert_eq!(store.open_all(std::slice::from_ref(&spec), Some(1)).len(), 1);
    bench.disk.remove_fault(fault);
    (store, spec)
}

#[test]
fn rt_07_what_is_settled_in_a_partition_that_was_never_opened_is_read_from_its_files() {
    let bench = Bench::new(1);
    let (store, spec) = settled_and_closed(&bench);
    minutes(&bench, &store, 6);
    assert_eq!(store.counts().cold_swept, 1);
    assert_eq!(store.log(&spec, p(0)).unwrap().oldest_offset(), at(2));
}

#[test]
fn rt_07_a_position_that_cannot_be_read_is_not_taken_for_settled() {
    let bench = Bench::new(1);
    let (store, spec) = settled_and_closed(&bench);
    let broken = bench.disk.inject(Fault::fail(CallKind::Open, Failure::Io).named("consumer.*").onwards());
    minutes(&bench, &store, 6);
    assert_eq!(store.counts().cold_swept, 0);
    bench.disk.remove_fault(broken);
    minutes(&bench, &store, 6);
    assert_eq!(store.log(&spec, p(0)).unwrap().oldest_offset(), at(2));
}

#[test]
fn rt_07_a_log_that_was_closed_before_anybody_asked_for_its_consumers_is_no_different() {
    let bench = Bench::new(1);
    let (store, spec) = settled_and_closed(&bench);
    store.log(&spec, p(0)).unwrap();
    minutes(&bench, &store, 29);
    assert_eq!(store.log(&spec, p(0)).unwrap().oldest_offset(), at(0), "nobody knows, so everything is kept");
    minutes(&bench, &store, 40);
    assert_eq!((store.counts().evicted > 0, store.counts().cold_swept), (true, 1));
    assert_eq!(store.log(&spec, p(0)).unwrap().oldest_offset(), at(2));
}
