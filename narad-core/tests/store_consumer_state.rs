//! Consumer state: what a crash can take, and what it never can.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod store_support;

use std::{collections::BTreeSet, time::Duration};

use narad_core::{
    format::{AHEAD_SLOT_LEN, AheadRecord},
    store::{ConsumerPosition, Store},
    testkit::{CallKind, Failure, Fault, seed},
};
use store_support::{Bench, at, p, position, topic};

const OFFSET: &str = "/data/topics/orders/p00000/consumer.offset";
const AHEAD: &str = "/data/topics/orders/p00000/consumer.ahead";

fn record(store: &Store, position: ConsumerPosition) {
    store.record_position(&topic("orders", 1), p(0), position);
}

fn recovered(bench: &Bench) -> ConsumerPosition {
    let store = bench.open();
    let position = store.consumer_position(&topic("orders", 1), p(0)).unwrap();
    drop(store);
    bench.disk.crash_process();
    position
}

/// Everything that a position says is settled, up to a bound no test exceeds.
fn settled(position: &ConsumerPosition) -> BTreeSet<u64> {
    let below = position.frontier.map_or(0, |frontier| frontier.get() + 1);
    (0..below).chain(position.acked.iter().map(|offset| offset.get())).collect()
}

#[test]
fn cs_01_a_position_is_in_the_page_cache_after_a_tick_and_synced_after_an_interval() {
    let bench = Bench::new(1);
    let store = bench.open();
    record(&store, position(4, &[6, 9]));
    bench.ticks(&store, 1);
    bench.disk.crash_process();
    assert_eq!(recovered(&bench), position(4, &[6, 9]), "a process crash takes less than a tick");

    let bench = Bench::new(seed());
    let store = bench.open();
    record(&store, position(4, &[6, 9]));
    bench.ticks(&store, 11);
    bench.disk.power_loss();
    assert_eq!(recovered(&bench), position(4, &[6, 9]), "a power loss takes less than an interval");
}

#[test]
fn cs_01_syncs_are_one_an_interval_and_spread_over_the_ticks() {
    let bench = Bench::new(1);
    let store = bench.open();
    let spec = topic("orders", 1);
    // Opening the files takes a sync each; it is what comes after that counts.
    for partition in 0..3 {
        store.record_position(&spec, p(partition), position(0, &[]));
    }
    bench.ticks(&store, 20);
    let mut most = 0;
    bench.disk.take_calls();
    for tick in 0..100u64 {
        for partition in 0..3 {
            store.record_position(&spec, p(partition), position(tick + 1, &[]));
        }
        bench.ticks(&store, 1);
        let calls = bench.disk.take_calls();
        let on_ahead =
            |kind| calls.iter().filter(|call| call.kind == kind && call.is_on("consumer.ahead")).count();
        assert_eq!(on_ahead(CallKind::Write), 3, "each partition, each tick");
        assert_eq!(on_ahead(CallKind::Open) + on_ahead(CallKind::Create), 0, "the descriptor is held");
        most = most.max(on_ahead(CallKind::SyncData));
        if tick % 10 == 9 {
            assert!(most <= 1, "{most} syncs fell on one tick");
        }
    }
    bench.ticks(&store, 400);
    bench.disk.take_calls();
    bench.ticks(&store, 50);
    let calls = bench.disk.take_calls();
    assert!(calls.is_empty(), "nothing moved, nothing is done: {calls:?}");
}

#[test]
fn cs_02_the_anchor_survives_whatever_a_power_loss_does_to_the_window() {
    // Records of several sectors that differ in each of them, so that a torn one shows.
    let large = |frontier: u64| {
        let mut offset = frontier + 1;
        let step = |i: u64| 1 + (frontier * 31 + i * 7) % 100;
        let acked: Vec<u64> = (0..1500).map(|i| (offset += step(i), offset).1).collect();
        position(frontier, &acked)
    };
    let seed = seed();
    for run in 0..40u64 {
        let bench = Bench::new(seed.wrapping_add(run));
        let mut store = bench.open();
        for (anchor, restart) in [(10, false), (20, true), (30, false)] {
            record(&store, large(anchor));
            bench.ticks(&store, 11);
            if restart {
                // What the next process finds newest, only the page cache has.
                record(&store, large(anchor + 1));
                bench.ticks(&store, 1);
                drop(store);
                bench.disk.crash_process();
                store = bench.open();
            }
            for window in 2..=3 {
                record(&store, large(anchor + window));
                bench.ticks(&store, 1);
                let crashed = Bench { disk: bench.disk.fork(), clock: bench.clock.clone() };
                crashed.disk.power_loss();
                let found = recovered(&crashed);
                let possible = (anchor..=anchor + window).map(large);
                assert!(possible.into_iter().any(|position| position == found), "{:?}", found.frontier);
            }
        }
    }
}

#[test]
fn cs_02_a_failed_sync_leaves_the_anchor_and_the_window_is_written_again() {
    let bench = Bench::new(seed());
    let store = bench.open();
    record(&store, position(10, &[]));
    bench.ticks(&store, 11);
    let fault =
        bench.disk.inject(Fault::fail(CallKind::SyncData, Failure::Io).named("consumer.ahead").onwards());
    for frontier in 11..60 {
        record(&store, position(frontier, &[]));
        bench.ticks(&store, 3);
    }
    assert!(bench.disk.fired(fault) > 1);
    let crashed = Bench { disk: bench.disk.fork(), clock: bench.clock.clone() };
    crashed.disk.clear_faults();
    crashed.disk.power_loss();
    let found = recovered(&crashed).frontier.unwrap();
    assert!((at(10)..=at(59)).contains(&found), "{found}");

    bench.disk.remove_fault(fault);
    bench.ticks(&store, 700);
    bench.disk.power_loss();
    assert_eq!(recovered(&bench), position(59, &[]), "it heals by itself");
}

/// The position of a partition of which exactly these offsets are settled.
fn position_of(settled: &BTreeSet<u64>) -> ConsumerPosition {
    let below = (0..).find(|offset| !settled.contains(offset)).unwrap();
    let acked: Vec<u64> = settled.range(below..).copied().collect();
    position(below.checked_sub(1), &acked)
}

#[test]
fn cs_03_no_crash_recovers_more_than_was_acked_or_less_than_was_synced() {
    let seed = seed();
    for call in (1..).step_by(2) {
        let bench = Bench::new(seed.wrapping_add(call));
        let store = bench.open();
        let cut = bench.disk.inject(Fault::fail_all(Failure::Io).at(call).onwards());
        let (mut safe, mut acked) = (BTreeSet::new(), BTreeSet::new());
        // Acks out of order in bursts, time to settle in between, and long enough that consumer.offset is levelled.
        for round in 0..12u64 {
            for offset in [3, 0, 8, 1, 2, 7] {
                acked.insert(round * 10 + offset);
                record(&store, position_of(&acked));
                bench.ticks(&store, 1);
            }
            for offset in [4, 5, 6, 9] {
                acked.insert(round * 10 + offset);
            }
            record(&store, position_of(&acked));
            bench.ticks(&store, 28);
            if bench.disk.fired(cut) == 0 {
                safe.clone_from(&acked);
            }
        }
        let uncut = bench.disk.fired(cut) == 0;
        drop(store);
        bench.disk.power_loss();
        bench.disk.clear_faults();
        let found = settled(&recovered(&bench));
        assert!(found.is_subset(&acked), "call {call}: {found:?} was never acked");
        assert!(found.is_superset(&safe), "call {call}: {found:?} lost what was synced, {safe:?}");
        if uncut {
            assert_eq!(found, acked);
            assert!(call > 100, "only {call} calls");
            break;
        }
    }
}

#[test]
fn cs_03_consumer_offset_is_levelled_every_half_minute_and_exactly_at_close() {
    let bench = Bench::new(seed());
    let store = bench.open();
    bench.disk.take_calls();
    for tick in 0..650 {
        record(&store, position(tick, &[]));
        bench.ticks(&store, 1);
    }
    assert_eq!(bench.disk.count_on(CallKind::Write, "consumer.offset"), 2, "65 seconds");
    record(&store, position(1000, &[1002]));
    store.close().unwrap();
    drop(store);
    bench.disk.power_loss();
    assert_eq!(bench.disk.contents(OFFSET).unwrap(), 1000i64.to_be_bytes());
    assert_eq!(recovered(&bench), position(1000, &[1002]));
}

#[test]
fn cs_03_the_larger_frontier_counts_and_what_was_acked_above_it() {
    let ahead = |frontier: u64, acked: &[u64]| {
        let position = position(frontier, acked);
        AheadRecord { sequence: 3, frontier: position.frontier, acked: position.acked }.encode().0
    };
    for (levelled, expected) in [(5, position(7, &[9, 12])), (10, position(10, &[12]))] {
        let bench = Bench::new(1);
        bench.disk.plant(OFFSET, i64::to_be_bytes(levelled));
        bench.disk.plant(AHEAD, ahead(7, &[9, 12]));
        assert_eq!(recovered(&bench), expected);
    }
}

#[test]
fn cs_06_zeros_odd_sizes_and_things_that_are_no_files_are_no_evidence() {
    let bad: [&[u8]; 6] =
        [&[0; 8], b"", &[0, 0, 0, 0, 0, 0, 9], &[0, 0, 0, 0, 0, 0, 0, 9, 9], &[0xFE; 8], &[0; 4096]];
    for bytes in bad {
        let bench = Bench::new(1);
        bench.disk.plant(OFFSET, bytes);
        bench.disk.plant(AHEAD, vec![0; 2 * AHEAD_SLOT_LEN]);
        assert_eq!(recovered(&bench), position(None, &[]), "{bytes:?}");
    }
    let bench = Bench::new(1);
    bench.disk.plant_dir(OFFSET);
    bench.disk.plant_other(AHEAD);
    assert_eq!(recovered(&bench), position(None, &[]));
}

#[test]
fn cs_06_a_frontier_of_zero_comes_back_and_its_zeros_are_not_taken_for_damage() {
    for closed in [true, false] {
        let bench = Bench::new(seed());
        // What was there before says no more than what comes after.
        bench.disk.plant(OFFSET, (-1i64).to_be_bytes());
        let store = bench.open();
        record(&store, position(0, &[]));
        bench.ticks(&store, 320);
        if closed {
            store.close().unwrap();
        }
        drop(store);
        bench.disk.power_loss();
        assert_eq!(bench.disk.contents(OFFSET).unwrap(), [0u8; 0], "levelled, closed: {closed}");
        let runtime = bench.runtime();
        let store = Store::open(&runtime, store_support::DATA.as_ref(), Default::default()).unwrap();
        let found = store.consumer_position(&topic("orders", 1), p(0)).unwrap();
        assert_eq!(found, position(0, &[]), "closed: {closed}");
        assert_eq!(runtime.metrics().error_count("storage", "state_file"), 0, "closed: {closed}");
    }
}

#[test]
fn cs_04_a_position_that_cannot_be_read_is_not_taken_for_nothing() {
    let bench = Bench::new(1);
    bench.disk.plant(OFFSET, 41i64.to_be_bytes());
    let store = bench.open();
    bench.disk.inject(Fault::fail(CallKind::Open, Failure::Io).named("consumer.offset"));
    let spec = topic("orders", 1);
    assert!(store.consumer_position(&spec, p(0)).is_err());
    assert_eq!(store.consumer_position(&spec, p(0)).unwrap(), position(41, &[]));
}

#[test]
fn a_position_that_moved_is_seen_before_it_is_written() {
    let bench = Bench::new(1);
    let store = bench.open();
    record(&store, position(5, &[8]));
    assert_eq!(store.consumer_position(&topic("orders", 1), p(0)).unwrap(), position(5, &[8]));
    bench.clock.advance(Duration::from_secs(3600));
    bench.ticks(&store, 3);
    assert_eq!(store.consumer_position(&topic("orders", 1), p(0)).unwrap(), position(5, &[8]));
}

#[test]
fn a_full_disk_costs_no_position_once_there_is_space_again() {
    let bench = Bench::new(1);
    let store = bench.open();
    record(&store, position(1, &[]));
    bench.ticks(&store, 11);
    let full = bench.disk.inject(Fault::fail(CallKind::Write, Failure::NoSpace).onwards());
    record(&store, position(2, &[]));
    bench.ticks(&store, 400);
    let tries = bench.disk.fired(full);
    assert!((2..=82).contains(&tries), "{tries} tries in 40 seconds");
    bench.disk.remove_fault(full);
    // However long it was full: no longer than a write and a sync take otherwise, and a wait of a second.
    bench.ticks(&store, 22);
    bench.disk.power_loss();
    assert_eq!(recovered(&bench), position(2, &[]));
}
