//! Field faults of topics: one that cannot be opened, or that holds what cannot be removed, blocks neither its name,
//! nor its delete, nor the start, nor another topic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod store_support;

use narad_core::{
    format::Batch,
    plugin::Incarnation,
    testkit::{CallKind, Failure, Fault},
};
use store_support::{Bench, p, position, topic};

const FIRST: &str = "/data/topics/orders/p00000/00000000000000000000.log";

/// Two topics with a record and a position each, closed in good order.
fn used() -> Bench {
    let bench = Bench::new(1);
    let store = bench.open();
    for (name, id) in [("orders", 1), ("others", 2)] {
        store.log(&topic(name, id), p(0)).unwrap().commit(Batch::of(b"key", b"old")).unwrap();
        store.record_position(&topic(name, id), p(0), position(0, &[]));
    }
    store.close().unwrap();
    bench
}

#[test]
fn a_topic_that_cannot_be_opened_is_deleted_and_its_name_used_again() {
    type Harm = fn(&Bench);
    let harms: [(&str, Harm); 5] = [
        ("a segment named for the largest offset", |bench| {
            bench.disk.plant(format!("/data/topics/orders/p00000/{:020}.log", i64::MAX), *b"");
        }),
        ("a partition that is a file", |bench| {
            bench.disk.plant("/data/topics/orders/p00001", *b"");
            bench.disk.plant_other("/data/topics/orders/p00002");
        }),
        ("records that cannot be read", |bench| {
            bench.disk.inject(Fault::fail(CallKind::Read, Failure::Io).named("*.log").onwards());
        }),
        ("a directory that cannot be listed", |bench| {
            bench.disk.inject(Fault::fail(CallKind::List, Failure::AccessDenied).named("p00000").onwards());
        }),
        ("no descriptors", |bench| {
            bench.disk.inject(Fault::fail(CallKind::Open, Failure::TooManyFiles).named("*.log").onwards());
        }),
    ];
    for (what, harm) in harms {
        let bench = used();
        harm(&bench);
        let store = bench.open();
        let failed = store.open_all(&[topic("orders", 1)], Some(1));
        assert!(!failed.is_empty(), "{what}: it opens");
        store.delete_topic("orders", Incarnation::new(1)).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(!bench.names("/data/topics").contains(&"orders".to_owned()), "{what}: the name is taken");
        bench.disk.clear_faults();
        let fresh = topic("orders", 7);
        let log = store.log(&fresh, p(0)).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(log.commit(Batch::of(b"key", b"new")).unwrap().start.get(), 0, "{what}");
        assert_eq!(store.consumer_position(&fresh, p(0)).unwrap(), position(None, &[]), "{what}");
        assert_eq!(store.log(&topic("others", 2), p(0)).unwrap().high_watermark().get(), 1, "{what}");
        store.close().unwrap();
        bench.open().close().unwrap();
        assert_eq!(bench.names("/data/topics"), ["orders", "others"], "{what}: the next start cleans up");
    }
}

#[test]
fn what_a_delete_cannot_remove_blocks_nothing_and_goes_at_a_later_start() {
    let bench = used();
    bench.disk.plant("/data/topics/orders/lost+found/#1", *b"found");
    let stuck =
        bench.disk.inject(Fault::fail(CallKind::List, Failure::AccessDenied).named("lost+found").onwards());
    let store = bench.open();
    store.delete_topic("orders", Incarnation::new(1)).unwrap();
    let left = bench.names("/data/topics");
    assert_eq!(left, ["orders.deleted-0000000000000001", "others"]);
    // The same name again, and deleted again: no collision with what is left.
    store.log(&topic("orders", 3), p(0)).unwrap();
    bench.disk.plant("/data/topics/orders/lost+found/#2", *b"found");
    store.delete_topic("orders", Incarnation::new(3)).unwrap();
    store.close().unwrap();
    bench.open().close().unwrap();
    assert_eq!(bench.names("/data/topics").len(), 3, "a start goes on without what cannot be removed");
    bench.disk.remove_fault(stuck);
    bench.open().close().unwrap();
    assert_eq!(bench.names("/data/topics"), ["others"]);
}

#[test]
fn a_crash_at_any_call_of_a_first_open_leaves_a_topic_that_opens_and_can_be_deleted() {
    for call in 1.. {
        let bench = Bench::new(call);
        bench.open().close().unwrap();
        let store = bench.open();
        let cut = bench.disk.inject(Fault::fail_all(Failure::Io).at(call).onwards());
        let opened = store.log(&topic("orders", 1), p(0)).is_ok();
        let interrupted = bench.disk.fired(cut) > 0;
        drop(store);
        bench.disk.power_loss();
        bench.disk.clear_faults();
        for delete_first in [false, true] {
            let bench = Bench { disk: bench.disk.fork(), clock: bench.clock.clone() };
            let store = bench.open();
            let id = if delete_first {
                store
                    .delete_topic("orders", Incarnation::new(1))
                    .unwrap_or_else(|error| panic!("call {call}: {error}"));
                9
            } else {
                1
            };
            let log =
                store.log(&topic("orders", id), p(0)).unwrap_or_else(|error| panic!("call {call}: {error}"));
            assert_eq!(log.commit(Batch::of(b"key", b"new")).unwrap().start.get(), 0, "call {call}");
            store.close().unwrap();
        }
        if opened && !interrupted {
            assert!(call > 5, "an open made only {call} calls");
            break;
        }
    }
}

#[test]
fn a_lost_and_found_that_may_not_be_listed_stops_no_start() {
    let bench = used();
    for level in [
        "/data",
        "/data/topics",
        "/data/topics/orders",
        "/data/topics/orders/p00000",
        "/data/ingress/produce",
    ] {
        bench.disk.plant_dir(format!("{level}/lost+found"));
    }
    let listed = bench.disk.inject(Fault::fail_all(Failure::AccessDenied).named("lost+found").onwards());
    let store = bench.open();
    let log = store.log(&topic("orders", 1), p(0)).unwrap();
    log.commit(Batch::of(b"key", b"new")).unwrap();
    log.sweep(None).unwrap();
    bench.ticks(&store, 20);
    store.close().unwrap();
    assert_eq!(bench.disk.fired(listed), 0, "nobody looks into it");
    assert!(bench.disk.contents(FIRST).is_some_and(|bytes| !bytes.is_empty()));
}
