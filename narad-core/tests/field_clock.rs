//! Field faults of time: a wall clock that steps moves no interval, and dates that lie delete only a prefix.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod common;
#[path = "common/disk.rs"]
mod disk;
mod store_support;

use std::{sync::Arc, time::Duration};

use common::offset;
use disk::{Rig, frame_of, none, read_all, segment};
use narad_core::{
    clock::Clock,
    format::Batch,
    store::{Store, StoreOptions},
    testkit::{CallKind, Failure, Fault, seed},
};
use narad_retention::Age;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use store_support::{Bench, DATA, p, position, topic};

const HOUR: Duration = Duration::from_secs(3600);
/// Where a wall clock may jump to: 1970, 2100, the ends of what can be told.
const STEPS: [i64; 5] = [0, 1000, 4_102_444_800_000, i64::MAX, i64::MIN];

/// Time passes by the monotonic clock, while the wall clock is somewhere else at each look.
fn pass(bench: &Bench, by: Duration, look: usize) {
    bench.clock.advance_monotonic(by);
    bench.clock.set_unix_ms(STEPS[look % STEPS.len()]);
}

#[test]
fn a_wall_clock_that_steps_neither_hastens_nor_delays_what_was_appended() {
    for step in STEPS {
        let bench = Bench::new(1);
        let runtime = bench.runtime();
        let store = Store::open(&runtime, DATA.as_ref(), StoreOptions::default()).unwrap();
        let log = store.log(&topic("orders", 1), p(0)).unwrap();
        log.append(&Batch::of(b"", b"a")).unwrap();
        bench.clock.set_unix_ms(step);
        bench.disk.take_calls();
        runtime.run_due();
        assert_eq!(bench.disk.count_on(CallKind::Write, "*.log"), 0, "{step}: too early");
        bench.clock.advance_monotonic(Duration::from_millis(100));
        runtime.run_due();
        assert_eq!(bench.disk.count_on(CallKind::Write, "*.log"), 1, "{step}: too late");
        bench.clock.set_unix_ms(-step.saturating_add(1));
        runtime.run_due();
        assert_eq!(bench.disk.count_on(CallKind::SyncData, "*.log"), 0, "{step}: the sync is too early");
        bench.clock.advance_monotonic(Duration::from_secs(1));
        runtime.run_due();
        assert_eq!(bench.disk.count_on(CallKind::SyncData, "*.log"), 1, "{step}: the sync is too late");
    }
}

#[test]
fn a_wall_clock_that_steps_neither_hastens_nor_delays_what_the_store_does() {
    let bench = Bench::new(1);
    let store = bench.open();
    let spec = topic("orders", 1);
    let (idle, poisoned) = (store.log(&spec, p(0)).unwrap(), store.log(&spec, p(1)).unwrap());
    poisoned.commit(Batch::of(b"", b"a")).unwrap();
    bench.disk.inject(Fault::fail(CallKind::SyncData, Failure::Io).named("*.log"));
    assert!(poisoned.commit(Batch::of(b"", b"refused")).is_err());
    store.record_position(&spec, p(2), position(1, &[]));

    for step in STEPS {
        bench.clock.set_unix_ms(step);
        store.tick();
    }
    assert!(!idle.is_closed(), "closed before its time");
    let ahead = "/data/topics/orders/p00002/consumer.ahead";
    let dirty = "/data/topics/orders/p00002/consumer.offset";
    for look in 0..11 {
        pass(&bench, Duration::from_millis(100), look);
        store.tick();
    }
    assert!(bench.disk.contents(ahead).is_some(), "the position is not written");
    assert!(bench.disk.contents(dirty).is_none(), "levelled before its time");
    for look in 0..20 {
        pass(&bench, Duration::from_millis(100), look);
        store.tick();
    }
    assert!(!poisoned.is_poisoned(), "not healed");
    for look in 0..31 {
        pass(&bench, Duration::from_secs(1), look);
        store.tick();
    }
    assert!(bench.disk.contents(dirty).is_some(), "not levelled");
    for look in 0..31 {
        assert!(!idle.is_closed(), "closed after {look} minutes");
        pass(&bench, Duration::from_secs(58), look);
        store.tick();
    }
    for look in 0..3 {
        pass(&bench, Duration::from_secs(60), look);
        store.tick();
    }
    assert!(idle.is_closed(), "not closed when its time had come");
}

/// A segment of one frame, whose record says that it was committed then.
fn dated(base: u64, committed_ms: i64) -> Vec<u8> {
    let mut batch = Batch::of(b"k", format!("record {base}").as_bytes());
    batch.stamp(committed_ms);
    frame_of(&*none(), base, 1, batch.as_bytes())
}

#[test]
fn whatever_dates_files_and_records_bear_only_a_prefix_goes_and_nothing_young_behind_it() {
    let first = seed();
    for round in 0..400 {
        let seed = first.wrapping_add(round);
        let mut rng = StdRng::seed_from_u64(seed);
        let rig = Rig::seeded(seed);
        let now = rig.clock.unix_ms();
        let dates =
            [i64::MIN, -1, 0, 1, now - 7_200_000, now - 1000, now, now + 1, 4_102_444_800_000, i64::MAX];
        let count = rng.random_range(1..8);
        let mut young_from = None;
        for base in 0..count {
            let (record, file) =
                (dates[rng.random_range(0..dates.len())], dates[rng.random_range(0..dates.len())]);
            rig.disk.plant(segment(base), dated(base, record));
            rig.disk.set_modified(segment(base), file);
            // Written within the hour, by its own word: nothing that follows it may go either.
            if base > 0 && (now - 1000..=now + 1).contains(&record) && young_from.is_none() {
                young_from = Some(base - 1);
            }
        }
        let mut options = common::options();
        options.retention = Arc::new(Age::new(HOUR));
        let log = rig.open_with(options);
        let end = log.high_watermark().get();
        assert_eq!(end, count, "seed {seed}");
        for _ in 0..3 {
            log.sweep(None).unwrap();
            let oldest = log.oldest_offset().get();
            // Its successor's first record says when a segment was last written.
            assert!(young_from.is_none_or(|young| oldest <= young), "seed {seed}: {oldest} > {young_from:?}");
            let (records, lost) = read_all(&log);
            assert_eq!(lost, [0; 0], "seed {seed}");
            assert!(records.keys().copied().eq(oldest..end), "seed {seed}: a hole in {records:?}");
            let left: Vec<_> =
                (0..count).filter(|&base| rig.disk.contents(segment(base)).is_some()).collect();
            assert!(left.iter().copied().eq(oldest..count), "seed {seed}: {left:?}");
        }
        // No date blocks anything for years: when the hours have passed by this clock, everything may go.
        for _ in 0..4 {
            rig.clock.advance(HOUR);
            log.sweep(None).unwrap();
        }
        assert_eq!(log.oldest_offset(), offset(count), "seed {seed}: something is held for ever");
        assert_eq!(log.commit(Batch::of(b"k", b"next")).unwrap().start, offset(count), "seed {seed}");
    }
}
