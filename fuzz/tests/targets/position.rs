//! What a store recovers of a partition's consumers from arbitrary state files: nothing settled that no file says, nothing
//! beyond the log, and a new position takes its place.

use std::{path::Path, time::Duration};

use bolero::{check, produce};
use narad_core::{
    format::{AheadSlots, Offset, decode_consumer_offset},
    plugin::{Incarnation, PartitionId},
    store::{ConsumerPosition, Store, StoreOptions, TopicSpec},
};
use narad_fuzz::{
    dir_harm::DirHarm,
    directory::{Directory, Start, contents},
    rig::Rig,
};

use crate::DIRECTORY_TIME;

const DATA: &str = "/data";
const PARTITION: &str = "/data/topics/orders/p00000";
const P: PartitionId = PartitionId(0);

#[test]
fn fuzz_position() {
    Start::all().for_each(|start| check_position(start, &[]));
    let harms = produce::<Vec<DirHarm>>().with().len(1usize..7);
    check!()
        .with_generator((produce::<Start>(), harms))
        .with_test_time(DIRECTORY_TIME)
        .for_each(|(start, harms)| check_position(*start, harms));
}

fn check_position(start: Start, harms: &[DirHarm]) {
    let mut directory = start.directory();
    harms.iter().for_each(|harm| harm.apply(&mut directory));
    check_directory(&directory);
}

pub fn check_directory(directory: &Directory) {
    let rig = Rig::new();
    directory.plant(&rig.disk, Path::new(PARTITION));
    let planted = contents(&rig.disk);

    let store = open(&rig);
    let stated = store.consumer_position(&spec(&rig), P).expect("a position");
    assert_eq!(stated, what_the_files_say(directory));
    let unchanged = planted.iter().all(|(path, bytes)| rig.disk.contents(path) == *bytes);
    assert!(unchanged, "a look at a position changes nothing");

    let Ok(log) = store.log(&spec(&rig), P) else {
        assert!(directory.has_segment_at_the_end_of_offsets());
        return;
    };
    let (oldest, end) = (log.oldest_offset(), log.high_watermark());
    let position = store.consumer_position(&spec(&rig), P).expect("a position");
    check_fit(&stated, &position, oldest, end);
    assert_eq!(store.consumer_position(&spec(&rig), P).expect("a position"), position, "asked twice");
    check_written(&rig, store, directory, further(&position, oldest, end));
}

/// The larger frontier, and what is settled above it, by the words of the format.
fn what_the_files_say(directory: &Directory) -> ConsumerPosition {
    let levelled = directory.file("consumer.offset").and_then(decode_consumer_offset).flatten();
    let slots = AheadSlots::decode(directory.file("consumer.ahead").unwrap_or_default());
    let newest = slots.newest().map(|(_, record)| record.clone()).unwrap_or_default();
    let frontier = levelled.max(newest.frontier);
    let acked = newest.acked.into_iter().filter(|offset| Some(*offset) > frontier).collect();
    ConsumerPosition { frontier, acked }
}

/// Nothing beyond the log is settled, everything in front of it is, and in between it is as the files say.
fn check_fit(stated: &ConsumerPosition, fitted: &ConsumerPosition, oldest: Offset, end: Offset) {
    assert!(fitted.acked.is_sorted_by(|a, b| a < b));
    assert!(fitted.acked.iter().all(|offset| Some(*offset) > fitted.frontier), "above the frontier");
    let is_settled = |position: &ConsumerPosition, at: Offset| {
        position.frontier.is_some_and(|frontier| at <= frontier) || position.acked.contains(&at)
    };
    let bounds =
        [stated, fitted].into_iter().flat_map(|position| position.frontier.iter().chain(&position.acked));
    let near = |at: &Offset| [at.get().wrapping_sub(1), at.get(), at.get() + 1];
    for at in bounds.chain([&oldest, &end]).flat_map(near).filter_map(Offset::new) {
        let expected = at < end && (at < oldest || is_settled(stated, at));
        assert_eq!(is_settled(fitted, at), expected, "{at} of {oldest}..{end}: {stated:?} became {fitted:?}");
    }
}

/// A position that consumers could come to next.
fn further(position: &ConsumerPosition, oldest: Offset, end: Offset) -> ConsumerPosition {
    let next = position.frontier.map_or(oldest, |frontier| frontier.saturating_add(1));
    let Some(frontier) = Some(next).filter(|next| *next < end) else { return position.clone() };
    let above = [2, 3, 700].map(|by| frontier.saturating_add(by));
    ConsumerPosition { frontier: Some(frontier), acked: above.into_iter().filter(|at| *at < end).collect() }
}

/// A position that was recorded comes back after a close, whatever the files held before.
fn check_written(rig: &Rig, store: Store, directory: &Directory, position: ConsumerPosition) {
    store.record_position(&spec(rig), P, position.clone());
    rig.clock.advance(Duration::from_millis(100));
    store.tick();
    let closed = store.close();
    let is_blocked = |name| directory.0.contains_key(name) && directory.file(name).is_none();
    if is_blocked("consumer.ahead") || is_blocked("consumer.offset") {
        assert!(closed.is_err(), "what could not be written is said");
        return;
    }
    closed.expect("a close");
    drop(store);
    let store = open(rig);
    assert_eq!(store.consumer_position(&spec(rig), P).expect("a position"), position, "after a close");
    store.log(&spec(rig), P).expect("a log");
    assert_eq!(store.consumer_position(&spec(rig), P).expect("a position"), position, "in the log's bounds");
    store.close().expect("a close");
}

fn open(rig: &Rig) -> Store {
    Store::open(&rig.runtime, Path::new(DATA), StoreOptions::default()).expect("a store")
}

fn spec(rig: &Rig) -> TopicSpec {
    let options = rig.watch.options();
    let mut spec = TopicSpec::new("orders", Incarnation::new(1), 1, options.codec);
    spec.readable = options.readable;
    spec.segment_bytes = 1 << 20;
    spec
}
