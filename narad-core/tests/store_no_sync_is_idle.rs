//! Each sync and truncate of the store in turn is acknowledged and not done: a topic, its marker or a position is then
//! gone after a power loss.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/needed.rs"]
mod needed;
mod store_support;

use narad_core::{
    format::{AHEAD_SLOT_LEN, AheadRecord},
    store::ConsumerPosition,
    testkit::{CallKind, Failure, Fault, SimDisk, Survival},
};
use needed::{Machine, dir_sync, file_sync, truncate};
use store_support::{Bench, at, p, position, topic};

const TOPIC: &str = "/data/topics/orders";
const AHEAD: &str = "/data/topics/orders/p00000/consumer.ahead";
const OFFSET: &str = "/data/topics/orders/p00000/consumer.offset";

impl Machine for Bench {
    fn new(seed: u64) -> Self {
        Self::new(seed)
    }
    fn disk(&self) -> &SimDisk {
        &self.disk
    }
}

/// A process opens the store, records a position, and dies when that is due to be durable.
fn record(bench: &Bench, position: ConsumerPosition) {
    let store = bench.open();
    store.record_position(&topic("orders", 1), p(0), position);
    bench.ticks(&store, 11);
    drop(store);
    bench.disk.crash_process();
}

fn use_topic(bench: &Bench, (): &()) {
    record(bench, position(41, &[43]));
}

fn position_is_kept(bench: &Bench, (): &()) -> bool {
    recovered(bench, Survival::Random) == position(41, &[43])
}

fn recovered(bench: &Bench, survival: Survival) -> ConsumerPosition {
    let fork = Bench { disk: bench.disk.fork(), clock: bench.clock.clone() };
    fork.disk.power_loss_keeping(survival);
    fork.open().consumer_position(&topic("orders", 1), p(0)).unwrap()
}

/// What a process did that died each time before it could sync a directory of that name.
fn used_without_sync_of(name: &'static str) -> impl Fn(&Bench) {
    move |bench| {
        let skip = bench.disk.inject(Fault::skip(CallKind::SyncDir).named(name).onwards());
        record(bench, position(7, &[]));
        bench.disk.remove_fault(skip);
    }
}

#[test]
fn in_01_the_sync_of_the_names_in_a_topic_that_was_there_is_needed() {
    dir_sync("orders").is_needed(used_without_sync_of("orders"), use_topic, position_is_kept);
}

#[test]
fn in_01_the_sync_of_the_name_of_a_topic_that_was_there_is_needed() {
    dir_sync("topics").is_needed(used_without_sync_of("topics"), use_topic, position_is_kept);
}

#[test]
fn st_05_the_sync_of_the_names_in_a_data_directory_that_was_there_is_needed() {
    dir_sync("data").is_needed(used_without_sync_of("data"), use_topic, position_is_kept);
}

#[test]
fn in_01_the_sync_of_the_name_of_a_marker_is_needed() {
    let unmarked = |bench: &Bench| bench.disk.plant(OFFSET, 7i64.to_be_bytes());
    dir_sync("orders").is_needed(unmarked, use_topic, is_marked);
}

#[test]
fn in_01_the_sync_of_a_marker_that_was_there_is_needed() {
    let unsynced = |bench: &Bench| {
        let skip = bench.disk.inject(Fault::skip(CallKind::SyncData).named("incarnation").onwards());
        record(bench, position(7, &[]));
        bench.disk.remove_fault(skip);
    };
    file_sync("incarnation").is_needed(unsynced, use_topic, is_marked);
}

#[test]
fn in_01_a_marker_whose_writing_fails_at_any_call_is_durable_before_a_record_is() {
    for kind in [CallKind::Write, CallKind::SetLen, CallKind::SyncData, CallKind::SyncDir] {
        let bench = Bench::new(1);
        let store = bench.open();
        bench.disk.inject(Fault::fail(kind, Failure::Io).named(if kind == CallKind::SyncDir {
            "orders"
        } else {
            "incarnation"
        }));
        assert!(store.log(&topic("orders", 1), p(0)).is_err(), "{kind:?}");
        store.log(&topic("orders", 1), p(0)).unwrap();
        let fork = bench.disk.fork();
        fork.power_loss_keeping(Survival::Nothing);
        let marker = fork.contents(format!("{TOPIC}/incarnation"));
        assert_eq!(marker.as_deref(), Some(&b"0000000000000001"[..]), "{kind:?}");
    }
}

#[test]
fn in_01_the_truncate_of_a_longer_marker_is_needed() {
    let scrambled = |bench: &Bench| bench.disk.plant(format!("{TOPIC}/incarnation"), [b'?'; 32]);
    truncate("incarnation").is_needed(scrambled, use_topic, is_marked);
}

fn is_marked(bench: &Bench, (): &()) -> bool {
    let fork = bench.disk.fork();
    fork.power_loss();
    fork.contents(format!("{TOPIC}/incarnation")).as_deref() == Some(b"0000000000000001")
}

#[test]
fn in_01_the_name_of_a_partition_whose_sync_failed_is_synced_before_it_is_used() {
    let bench = Bench::new(1);
    let store = bench.open();
    // The first sync of the topic's directory is for the marker.
    let fails = bench.disk.inject(Fault::fail(CallKind::SyncDir, Failure::Io).named("orders").at(2));
    store.record_position(&topic("orders", 1), p(0), position(41, &[43]));
    bench.ticks(&store, 40);
    assert_eq!(bench.disk.fired(fails), 1);
    assert_eq!(recovered(&bench, Survival::Nothing), position(41, &[43]));
}

#[test]
fn cs_06_the_truncate_of_a_longer_consumer_offset_is_needed() {
    let longer = |bench: &Bench| bench.disk.plant(OFFSET, [0xFF; 9]);
    let close = |bench: &Bench, (): &()| {
        let store = bench.open();
        store.record_position(&topic("orders", 1), p(0), position(41, &[]));
        store.close().unwrap();
    };
    let is_levelled = |bench: &Bench, (): &()| {
        let fork = bench.disk.fork();
        fork.power_loss();
        fork.contents(OFFSET).as_deref() == Some(&41i64.to_be_bytes())
    };
    truncate("consumer.offset").is_needed(longer, close, is_levelled);
}

#[test]
fn cs_02_the_file_has_two_whole_slots_from_the_first_write_on() {
    let bench = Bench::new(1);
    record(&bench, position(3, &[]));
    assert_eq!(bench.disk.contents(AHEAD).unwrap().len(), 2 * AHEAD_SLOT_LEN);
}

#[test]
fn cs_02_a_record_whose_sync_failed_is_no_anchor_for_the_next_process() {
    // Each record fills several sectors and differs in all of them, so that a torn one shows.
    let large = |frontier: u64| {
        let acked: Vec<u64> = (1..1200).map(|i| frontier + i * (60 + frontier)).collect();
        position(frontier, &acked)
    };
    for seed in 0..100 {
        let bench = Bench::new(seed);
        record(&bench, large(1));
        let store = bench.open();
        // The first sync is that of the open.
        let fails = Fault::fail(CallKind::SyncData, Failure::Io).named("consumer.ahead").at(2);
        let fails = bench.disk.inject(fails);
        store.record_position(&topic("orders", 1), p(0), large(2));
        while bench.disk.fired(fails) == 0 {
            bench.ticks(&store, 1);
        }
        drop(store);
        bench.disk.crash_process();
        let store = bench.open();
        store.record_position(&topic("orders", 1), p(0), large(3));
        bench.ticks(&store, 1);
        let frontier = recovered(&bench, Survival::Random).frontier;
        assert!(frontier >= Some(at(1)), "seed {seed}: {frontier:?}");
    }
}

#[test]
fn cs_02_the_first_sync_of_a_sequence_that_starts_over_is_needed() {
    // The second of the open's syncs; the first is for the record as it was found.
    file_sync("consumer.ahead").nth(2).is_needed(last_sequence, die_while_starting_over, |bench, ()| {
        recovered(bench, Survival::Random).frontier >= Some(at(7))
    });
}

#[test]
fn cs_02_a_sequence_starts_over_with_the_other_slot_empty() {
    for survival in [Survival::Nothing, Survival::Random] {
        let bench = Bench::new(1);
        last_sequence(&bench);
        use_topic(&bench, &());
        assert_eq!(recovered(&bench, survival), position(41, &[43]), "the largest sequence is gone");
    }
}

#[test]
fn cs_02_the_second_sync_of_a_sequence_that_starts_over_is_needed() {
    // The largest sequence is gone before another record counts.
    file_sync("consumer.ahead").nth(3).is_needed(
        last_sequence,
        die_before_the_sync_of_a_position,
        |bench, ()| {
            let fork = bench.disk.fork();
            fork.power_loss();
            let bytes = fork.contents(AHEAD).unwrap();
            AheadRecord::decode(&bytes[..AHEAD_SLOT_LEN]).is_none_or(|record| record.sequence < u64::MAX)
        },
    );
}

/// A file that nothing can follow: it has the largest sequence.
fn last_sequence(bench: &Bench) {
    use_topic_once(bench);
    let (slot, _) = AheadRecord { sequence: u64::MAX, frontier: Some(at(7)), acked: vec![] }.encode();
    bench.disk.alter(AHEAD, |bytes| {
        bytes.fill(0);
        bytes[..AHEAD_SLOT_LEN].copy_from_slice(&slot);
    });
}

fn use_topic_once(bench: &Bench) {
    record(bench, position(7, &[]));
}

/// Every sync of the file but the first two fails: what starts the sequence over is under way.
fn die_while_starting_over(bench: &Bench, (): &()) {
    die_at_sync(bench, 3);
}

fn die_before_the_sync_of_a_position(bench: &Bench, (): &()) {
    die_at_sync(bench, 4);
}

fn die_at_sync(bench: &Bench, nth: u64) {
    let store = bench.open();
    let dies = Fault::fail(CallKind::SyncData, Failure::Io).named("consumer.ahead").at(nth).onwards();
    let dies = bench.disk.inject(dies);
    store.record_position(&topic("orders", 1), p(0), position(41, &[43]));
    bench.ticks(&store, 1);
    drop(store);
    bench.disk.remove_fault(dies);
    bench.disk.crash_process();
}
