//! Logs of a store: opened lazily, looked at without opening, closed when idle, gone with their topic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod store_support;

use std::{
    future::Future,
    pin::pin,
    sync::mpsc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use narad_core::{
    Error,
    disk::Disk,
    format::{Batch, Offset},
    log::Log,
    plugin::Incarnation,
    testkit::{CallKind, Failure, Fault, Gate, seed},
};
use store_support::{Bench, at, p, position, topic};

fn commit(log: &Log, payload: &str) -> Offset {
    log.commit(Batch::of(b"key", payload.as_bytes())).unwrap().start
}

fn payloads(log: &Log) -> Vec<String> {
    let batch = log.read_batch(log.oldest_offset(), 1000, 1 << 20).unwrap();
    batch.records.iter().map(|record| String::from_utf8_lossy(&record.payload).into_owned()).collect()
}

#[test]
fn st_01_a_log_is_opened_once_and_is_there_after_a_restart() {
    let bench = Bench::new(seed());
    let (store, spec) = (bench.open(), topic("orders", 1));
    let log = store.log(&spec, p(0)).unwrap();
    commit(&log, "one");
    commit(&store.log(&spec, p(0)).unwrap(), "two");
    assert_eq!(log.high_watermark(), at(2));
    assert!(matches!(store.log(&spec, p(3)), Err(Error::InvalidArgument { name: "partition", .. })));
    store.close().unwrap();
    assert!(log.is_closed());
    assert!(matches!(store.log(&spec, p(0)), Err(Error::Closed)));
    assert_eq!(bench.disk.open_files(), 0, "nothing is held any more");
    assert_eq!(bench.disk.contents("/data/topics/orders/p00000/hwm").unwrap(), 2i64.to_be_bytes());

    let store = bench.open();
    assert!(bench.disk.open_files() == 1, "a start opens no log, only the lock");
    assert_eq!(payloads(&store.log(&spec, p(0)).unwrap()), ["one", "two"]);
}

#[test]
fn st_01_a_topic_that_is_slow_to_open_stalls_nobody_else() {
    let bench = Bench::new(1);
    let store = bench.open();
    commit(&store.log(&topic("slow", 1), p(0)).unwrap(), "x");
    store.close().unwrap();
    let store = bench.open();
    let gate = Gate::new();
    bench.disk.inject(Fault::hold(CallKind::List, &gate).named("p00000"));
    let (done, opened) = mpsc::channel();
    std::thread::scope(|scope| {
        for partition in [0, 1] {
            let (store, done) = (store.clone(), done.clone());
            scope.spawn(move || done.send(store.log(&topic("slow", 1), p(partition)).is_ok()).unwrap());
            gate.wait_for(1);
        }
        commit(&store.log(&topic("quick", 2), p(1)).unwrap(), "x");
        store.record_position(&topic("slow", 1), p(2), position(1, &[]));
        store.record_position(&topic("quick", 2), p(2), position(1, &[]));
        bench.ticks(&store, 2);
        assert!(bench.disk.contents("/data/topics/quick/p00002/consumer.ahead").is_some());
        store.set_retention("slow", topic("slow", 1).retention);
        assert!(opened.try_recv().is_err(), "the slow topic's callers still wait");
        gate.open();
    });
    assert!(opened.try_iter().all(|opened| opened));
    bench.ticks(&store, 2);
    assert!(bench.disk.contents("/data/topics/slow/p00002/consumer.ahead").is_some());
}

#[test]
fn st_03_all_partitions_are_opened_and_those_that_fail_are_named() {
    let bench = Bench::new(1);
    let store = bench.open();
    let specs = [topic("a", 1), topic("b", 2), topic("c", 3)];
    bench.disk.plant_other("/data/topics/b/p00001");
    let failures = store.open_all(&specs, None);
    let named: Vec<_> = failures.iter().map(|failure| (&*failure.topic, failure.partition)).collect();
    assert_eq!(named, [("b", p(1))]);
    assert!(store.stats(&specs[2], p(2)).unwrap().open);
}

#[test]
fn st_03_partitions_of_one_topic_are_opened_at_once_and_no_more_of_them_than_asked_for() {
    let bench = Bench::new(seed());
    let (store, spec) = (bench.open(), topic("orders", 1));
    for partition in [0, 1] {
        commit(&store.log(&spec, p(partition)).unwrap(), "x");
    }
    store.close().unwrap();
    let store = bench.open();
    bench.disk.plant_other("/data/topics/orders/p00002");
    let gate = Gate::new();
    for name in ["p00000", "p00001"] {
        bench.disk.inject(Fault::hold(CallKind::List, &gate).named(name));
    }
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| store.open_all(std::slice::from_ref(&spec), Some(2)));
        gate.wait_for(2);
        // Both have the guard between them, and the third one is not looked at before they are done.
        assert!(store.opened(&spec, p(0)).is_none() && store.opened(&spec, p(1)).is_none());
        assert!(bench.disk.take_calls().iter().all(|call| !call.path.ends_with("p00002")));
        gate.open();
        let failures = opening.join().unwrap();
        let named: Vec<_> = failures.iter().map(|failure| failure.partition).collect();
        assert_eq!(named, [p(2)], "the one that fails fails alone");
    });
    for partition in [0, 1] {
        assert_eq!(payloads(&store.opened(&spec, p(partition)).unwrap()), ["x"]);
    }
}

#[test]
fn st_03_one_at_a_time_partitions_are_opened_in_their_order_by_the_same_calls_each_time() {
    let calls = |parallelism| {
        let bench = Bench::new(1);
        let store = bench.open();
        bench.disk.take_calls();
        assert!(store.open_all(&[topic("a", 1), topic("b", 2)], Some(parallelism)).is_empty());
        let calls = bench.disk.take_calls();
        calls.iter().map(|call| format!("{:?} {}", call.kind, call.path.display())).collect::<Vec<_>>()
    };
    assert_eq!(calls(1), calls(1));
    let (mut one, mut four) = (calls(1), calls(4));
    one.sort();
    four.sort();
    assert_eq!(one, four, "side by side it is the same calls in another order");
}

#[test]
fn hw_06_a_closed_partition_is_looked_at_without_opening_or_creating_anything() {
    let bench = Bench::new(1);
    let (store, spec) = (bench.open(), topic("orders", 1));
    for number in 0..5 {
        commit(&store.log(&spec, p(0)).unwrap(), &number.to_string());
    }
    let open = store.stats(&spec, p(0)).unwrap();
    assert!(open.open && open.next == Some(at(5)) && open.bytes > 0);
    store.close().unwrap();

    let store = bench.open();
    let before = bench.disk.paths();
    bench.disk.take_calls();
    let closed = store.stats(&spec, p(0)).unwrap();
    assert!(!closed.open && closed.next.is_none());
    assert_eq!((closed.high_watermark, closed.bytes, closed.oldest), (Some(at(5)), open.bytes, at(0)));
    for (spec, partition) in [(&spec, 2), (&topic("nobody", 3), 0), (&topic("orders", 9), 0)] {
        let stats = store.stats(spec, p(partition)).unwrap();
        assert_eq!((stats.segments, stats.high_watermark), (0, Some(Offset::ZERO)), "{}", spec.name);
        assert_eq!(store.consumer_position(spec, p(partition)).unwrap(), position(None, &[]));
    }
    let changes = [
        CallKind::Create,
        CallKind::CreateDir,
        CallKind::Write,
        CallKind::SetLen,
        CallKind::Rename,
        CallKind::Remove,
    ];
    let made: Vec<_> =
        bench.disk.take_calls().into_iter().filter(|call| changes.contains(&call.kind)).collect();
    assert!(made.is_empty(), "{made:?}");
    assert_eq!(bench.disk.paths(), before);
}

#[test]
fn in_01_the_marker_is_durable_before_any_record() {
    let bench = Bench::new(1);
    let store = bench.open();
    bench.disk.take_calls();
    commit(&store.log(&topic("orders", 1), p(0)).unwrap(), "x");
    let calls = bench.disk.take_calls();
    let first =
        |kind, name: &str| calls.iter().position(|call| call.kind == kind && call.is_on(name)).unwrap();
    let record = first(CallKind::Write, "*.log");
    assert!(first(CallKind::SyncData, "incarnation") < record);
    for dir in ["orders", "topics"] {
        assert!(first(CallKind::SyncDir, dir) < record, "{dir}");
    }
}

#[test]
fn in_02_delete_and_recreate_shows_no_old_record() {
    let bench = Bench::new(seed());
    let (store, old, new) = (bench.open(), topic("orders", 1), topic("orders", 2));
    let log = store.log(&old, p(0)).unwrap();
    commit(&log, "old");
    store.delete_topic("orders", Incarnation::new(1)).unwrap();
    assert!(log.is_closed());
    assert!(bench.names("/data/topics").is_empty());
    assert!(matches!(log.read(at(0)), Err(Error::Closed)));
    assert!(matches!(store.log(&old, p(0)), Err(Error::InvalidArgument { name: "incarnation", .. })));
    let log = store.log(&new, p(0)).unwrap();
    assert_eq!(log.high_watermark(), Offset::ZERO);
    assert_eq!(commit(&log, "new"), at(0));
    store.close().unwrap();
    drop(store);
    bench.disk.power_loss();
    assert_eq!(payloads(&bench.open().log(&new, p(0)).unwrap()), ["new"]);
}

#[test]
fn in_02_an_open_log_of_another_incarnation_is_closed_before_its_directory_moves() {
    let bench = Bench::new(1);
    let store = bench.open();
    let old = store.log(&topic("orders", 1), p(0)).unwrap();
    commit(&old, "old");
    store.record_position(&topic("orders", 1), p(0), position(0, &[]));
    let new = store.log(&topic("orders", 2), p(0)).unwrap();
    assert!(old.is_closed());
    assert_eq!(new.high_watermark(), Offset::ZERO);
    bench.ticks(&store, 400);
    assert!(bench.disk.contents("/data/topics/orders/p00000/consumer.ahead").is_none());
    assert_eq!(store.consumer_position(&topic("orders", 2), p(0)).unwrap(), position(None, &[]));
    assert!(bench.disk.contents("/data/topics/orders.stale-0000000000000001/p00000/hwm").is_some());
}

#[test]
fn cs_06_a_position_is_brought_into_the_bounds_of_its_log() {
    let bench = Bench::new(1);
    let spec = topic("orders", 1);
    let file = "/data/topics/orders/p00000/consumer.offset";
    let store = bench.open();
    let log = store.log(&spec, p(0)).unwrap();
    for number in 0..50 {
        commit(&log, &number.to_string());
    }
    store.record_position(&spec, p(0), position(41, &[]));
    store.close().unwrap();
    let store = bench.open();
    store.log(&spec, p(0)).unwrap();
    assert_eq!(store.consumer_position(&spec, p(0)).unwrap(), position(41, &[]), "within them it stays");
    store.close().unwrap();
    bench.disk.alter(file, |bytes| *bytes = 99i64.to_be_bytes().to_vec());
    bench.disk.remove_file("/data/topics/orders/p00000/consumer.ahead".as_ref()).unwrap();
    let store = bench.open();
    store.log(&spec, p(0)).unwrap();
    assert_eq!(store.consumer_position(&spec, p(0)).unwrap(), position(49, &[]));
    store.close().unwrap();
    assert_eq!(bench.disk.contents(file).unwrap(), 49i64.to_be_bytes());
}

#[test]
fn cs_06_what_is_committed_before_anybody_asks_is_not_settled_by_a_position_beyond_the_end() {
    for ask_early in [true, false] {
        let bench = Bench::new(1);
        let (store, spec) = (bench.open(), topic("orders", 1));
        for number in 0..3 {
            commit(&store.log(&spec, p(0)).unwrap(), &number.to_string());
        }
        store.record_position(&spec, p(0), position(2, &[]));
        store.close().unwrap();
        // The records are lost, and the position is not.
        bench.disk.alter("/data/topics/orders/p00000/00000000000000000000.log", Vec::clear);

        let store = bench.open();
        let log = store.log(&spec, p(0)).unwrap();
        // To look is not to ask: what is stated is told as it is, and stays as it is.
        assert_eq!(store.stated_frontier(&spec, p(0)).unwrap(), position(2, &[]).frontier);
        if ask_early {
            store.recover_position(&spec, p(0)).unwrap();
        }
        let new: Vec<_> = (0..5).map(|number| commit(&log, &format!("new {number}"))).collect();
        let found = store.recover_position(&spec, p(0)).unwrap();
        assert!(found.position.frontier < Some(new[0]), "{found:?} settles {new:?}");
        assert!(found.position.acked.is_empty());
        assert_eq!(found.clamped, !ask_early, "told once");
        store.close().unwrap();
        let store = bench.open();
        store.log(&spec, p(0)).unwrap();
        assert!(store.consumer_position(&spec, p(0)).unwrap().frontier < Some(new[0]));
    }
}

#[test]
fn po_03_a_poisoned_log_is_reopened_with_growing_patience() {
    let bench = Bench::new(seed());
    let (store, spec) = (bench.open(), topic("orders", 1));
    let (log, other) = (store.log(&spec, p(0)).unwrap(), store.log(&spec, p(1)).unwrap());
    commit(&log, "one");
    let broken = bench.disk.inject(Fault::fail(CallKind::SyncData, Failure::Io).named("*.log").onwards());
    assert!(log.commit(Batch::of(b"", b"refused")).is_err());
    assert!(matches!(log.commit(Batch::of(b"", b"refused")), Err(Error::Poisoned { .. })));
    let before = bench.disk.fired(broken);
    bench.ticks(&store, 100);
    let tries = bench.disk.fired(broken) - before;
    assert!((3..=5).contains(&tries), "{tries} tries in ten seconds");
    assert_eq!(payloads(&log), ["one"]);
    bench.disk.remove_fault(broken);
    commit(&other, "never poisoned");
    bench.ticks(&store, 100);
    assert_eq!(commit(&log, "two"), at(1));
    assert_eq!(payloads(&log), ["one", "two"]);
    bench.disk.take_calls();
    bench.ticks(&store, 20);
    assert!(bench.disk.take_calls().is_empty(), "healed, it is left alone");
}

#[test]
fn st_01_an_idle_log_is_closed_and_opened_again_when_it_is_asked_for() {
    let bench = Bench::new(1);
    let (store, spec) = (bench.open(), topic("orders", 1));
    let (idle, busy) = (store.log(&spec, p(0)).unwrap(), store.log(&spec, p(1)).unwrap());
    commit(&idle, "x");
    for _ in 0..31 {
        commit(&busy, "y");
        bench.clock.advance(Duration::from_secs(61));
        store.tick();
    }
    assert!(idle.is_closed());
    assert!(!busy.is_closed(), "writes through a held handle count as use");
    assert_eq!(store.stats(&spec, p(0)).unwrap().high_watermark, Some(at(1)));
    assert_eq!(payloads(&store.log(&spec, p(0)).unwrap()), ["x"]);
    assert!(bench.names("/data/topics/orders/p00000").contains(&"hwm".to_owned()));
}

#[test]
fn st_01_an_open_log_is_handed_out_at_once_to_an_executor() {
    let bench = Bench::new(1);
    let (store, spec) = (bench.open(), topic("orders", 1));
    for _ in 0..2 {
        let mut opening = pin!(store.log_async(&spec, p(0)));
        // A runtime driven by hand does blocking work in the thread that asks for it.
        let Poll::Ready(log) = opening.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("it waits")
        };
        commit(&log.unwrap(), "x");
        bench.disk.take_calls();
    }
    let answer = pin!(store.log_async(&spec, p(0))).poll(&mut Context::from_waker(Waker::noop()));
    assert!(answer.is_ready() && bench.disk.take_calls().iter().all(|call| call.kind != CallKind::Open));
}
