//! Whose a directory is: incarnations, deletes, and what is none of the store's business.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod store_support;

use std::path::Path;

use narad_core::{
    Error,
    disk::Disk,
    plugin::Incarnation,
    store::Store,
    testkit::{CallKind, Failure, Fault, seed},
};
use store_support::{Bench, p, position, topic};

/// Gives the topic a directory with a position in its first partition.
fn use_topic(bench: &Bench, store: &Store, name: &str, id: u64) {
    store.record_position(&topic(name, id), p(0), position(41, &[43]));
    bench.ticks(store, 11);
}

#[test]
fn in_02_a_directory_without_a_marker_is_adopted_and_stamped() {
    for marker in
        [None, Some(&b""[..]), Some(&b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"[..]), Some(&b"0000beef"[..])]
    {
        let bench = Bench::new(1);
        bench.disk.plant("/data/topics/orders/p00000/consumer.offset", 41i64.to_be_bytes());
        if let Some(bytes) = marker {
            bench.disk.plant("/data/topics/orders/incarnation", bytes);
        }
        let store = bench.open();
        use_topic(&bench, &store, "orders", 0xBEEF);
        bench.disk.power_loss();
        assert_eq!(bench.disk.contents("/data/topics/orders/incarnation").unwrap(), b"000000000000beef");
        assert_eq!(bench.names("/data/topics"), ["orders"]);
    }
}

#[test]
fn in_02_a_marker_with_a_trailing_newline_matches() {
    let bench = Bench::new(1);
    bench.disk.plant("/data/topics/orders/incarnation", *b"000000000000beef\n");
    let store = bench.open();
    use_topic(&bench, &store, "orders", 0xBEEF);
    assert_eq!(bench.disk.contents("/data/topics/orders/incarnation").unwrap(), b"000000000000beef\n");
    assert_eq!(bench.names("/data/topics"), ["orders"]);
}

#[test]
fn in_02_another_incarnations_directory_is_set_aside_whole() {
    let bench = Bench::new(1);
    let store = bench.open();
    use_topic(&bench, &store, "orders", 1);
    store.close().unwrap();
    let old = bench.disk.contents("/data/topics/orders/p00000/consumer.ahead").unwrap();
    // Somebody's earlier leftover has the name that would come first.
    bench.disk.plant("/data/topics/orders.stale-0000000000000001/p00000/precious", *b"x");

    let store = bench.open();
    let fresh = topic("orders", 2);
    assert_eq!(
        store.consumer_position(&fresh, p(0)).unwrap(),
        position(None, &[]),
        "looking renames nothing"
    );
    assert_eq!(bench.names("/data/topics"), ["orders", "orders.stale-0000000000000001"]);
    store.record_position(&fresh, p(0), position(3, &[]));
    bench.ticks(&store, 11);
    assert_eq!(
        bench.names("/data/topics"),
        ["orders", "orders.stale-0000000000000001", "orders.stale-0000000000000001-1"]
    );
    let kept = "/data/topics/orders.stale-0000000000000001-1/p00000/consumer.ahead";
    assert_eq!(bench.disk.contents(kept).unwrap(), old);
    assert!(bench.disk.contents("/data/topics/orders.stale-0000000000000001/p00000/precious").is_some());
    assert_eq!(store.consumer_position(&fresh, p(0)).unwrap(), position(3, &[]));
}

#[test]
fn in_02_a_replaced_incarnation_does_not_push_its_successor_out() {
    let bench = Bench::new(1);
    let store = bench.open();
    use_topic(&bench, &store, "orders", 1);
    use_topic(&bench, &store, "orders", 2);
    assert_eq!(bench.names("/data/topics"), ["orders", "orders.stale-0000000000000001"]);
    store.record_position(&topic("orders", 1), p(0), position(99, &[]));
    bench.ticks(&store, 11);
    assert!(matches!(store.log(&topic("orders", 1), p(0)), Err(Error::InvalidArgument { .. })));
    assert_eq!(bench.names("/data/topics"), ["orders", "orders.stale-0000000000000001"]);
    assert_eq!(store.consumer_position(&topic("orders", 2), p(0)).unwrap(), position(41, &[43]));
}

#[test]
fn in_01_a_marker_whose_sync_failed_is_written_again() {
    let bench = Bench::new(seed());
    let store = bench.open();
    bench.disk.inject(Fault::fail(narad_core::testkit::CallKind::SyncData, Failure::Io).named("incarnation"));
    use_topic(&bench, &store, "orders", 1);
    bench.ticks(&store, 30);
    bench.disk.power_loss();
    assert_eq!(bench.disk.contents("/data/topics/orders/incarnation").unwrap(), b"0000000000000001");
}

#[test]
fn cs_05_delete_and_recreate_shows_nothing_of_the_old_topic() {
    let bench = Bench::new(1);
    let store = bench.open();
    use_topic(&bench, &store, "orders", 1);
    store.record_position(&topic("orders", 1), p(1), position(7, &[]));
    store.delete_topic("orders", Incarnation::new(1)).unwrap();
    assert!(bench.names("/data/topics").is_empty());
    store.record_position(&topic("orders", 1), p(2), position(8, &[]));
    bench.ticks(&store, 400);
    assert!(bench.names("/data/topics").is_empty(), "a late ack brings nothing back");
    use_topic(&bench, &store, "orders", 2);
    for partition in [1, 2] {
        assert_eq!(store.consumer_position(&topic("orders", 2), p(partition)).unwrap(), position(None, &[]));
    }
    store.delete_topic("orders", Incarnation::new(1)).unwrap();
    assert_eq!(bench.names("/data/topics"), ["orders"], "a repeated delete takes nothing of the successor");
}

#[test]
fn a_crash_inside_a_delete_leaves_the_topic_whole_or_gone() {
    let seed = seed();
    // A segment whose space comes back in steps.
    let (segment, bytes) = ("/data/topics/orders/p00001/00000000000000000000.log", vec![7; 5 << 19]);
    for call in 1.. {
        let bench = Bench::new(seed.wrapping_add(call));
        let store = bench.open();
        use_topic(&bench, &store, "orders", 1);
        use_topic(&bench, &store, "others", 5);
        bench.disk.plant(segment, bytes.clone());
        store.close().unwrap();
        let store = bench.open();
        let cut = bench.disk.inject(Fault::fail_all(Failure::Io).at(call).onwards());
        let outcome = store.delete_topic("orders", Incarnation::new(1));
        let interrupted = bench.disk.fired(cut) > 0;
        drop(store);
        bench.disk.power_loss();
        bench.disk.clear_faults();
        let whole = bench.disk.contents("/data/topics/orders/incarnation").is_some();
        assert!(!whole || bench.disk.contents(segment).unwrap() == bytes, "call {call}: a shortened segment");
        assert!(outcome.is_err() || !whole, "call {call}: a delete that was acknowledged came back");

        let store = bench.open();
        let expected: &[&str] = if whole { &["orders", "others"] } else { &["others"] };
        assert_eq!(bench.names("/data/topics"), expected, "call {call}");
        let found = store.consumer_position(&topic("orders", 1), p(0)).unwrap();
        assert_eq!(found, if whole { position(41, &[43]) } else { position(None, &[]) }, "call {call}");
        assert_eq!(store.consumer_position(&topic("others", 5), p(0)).unwrap(), position(41, &[43]));
        if !interrupted {
            assert!(call > 5, "the delete made only {call} calls");
            assert!(bench.disk.count_on(CallKind::SetLen, "*.log") > 0, "in steps");
            assert!(bench.disk.used_bytes() < 1 << 20);
            break;
        }
    }
}

#[test]
fn what_a_killed_delete_left_is_removed_once_its_name_is_durably_gone() {
    for seed in 0..100 {
        let bench = Bench::new(seed);
        let store = bench.open();
        use_topic(&bench, &store, "orders", 1);
        store.close().unwrap();
        let store = bench.open();
        bench.disk.inject(Fault::fail(CallKind::SyncDir, Failure::Io).named("topics").onwards());
        store.delete_topic("orders", Incarnation::new(1)).unwrap_err();
        drop(store);
        bench.disk.crash_process();
        bench.disk.clear_faults();
        drop(bench.open());
        bench.disk.power_loss();

        let store = bench.open();
        let fresh = topic("orders", 2);
        store.log(&fresh, p(0)).unwrap();
        assert_eq!(store.consumer_position(&fresh, p(0)).unwrap(), position(None, &[]), "seed {seed}");
    }
}

#[test]
fn a_delete_keeps_what_nobody_knows_the_owner_of() {
    let bench = Bench::new(1);
    bench.disk.plant("/data/topics/orders/p00000/00000000000000000000.log", *b"records");
    bench.disk.plant_other("/data/topics/linked");
    let store = bench.open();
    store.delete_topic("orders", Incarnation::new(1)).unwrap();
    let kept = "/data/topics/orders.stale-0000000000000001/p00000/00000000000000000000.log";
    assert_eq!(bench.disk.contents(kept).unwrap(), b"records");
    assert!(store.delete_topic("linked", Incarnation::new(1)).is_err(), "a link is not followed");
    assert!(bench.names("/data/topics").contains(&"linked".to_owned()));
    store.delete_topic("never there", Incarnation::new(1)).unwrap();
    assert!(store.delete_topic("../topics", Incarnation::new(1)).is_err());
}

#[test]
fn foreign_entries_are_left_alone() {
    let bench = Bench::new(1);
    let foreign = [
        "/data/lost+found/x",
        "/data/topics/.DS_Store",
        "/data/topics/lost+found/x",
        "/data/topics/orders/notes.txt",
        "/data/topics/orders/p00000/.log.swp",
        "/data/topics/orders/p00000/consumer.ahead.tmp",
        "/data/topics/backup.deleted-123/x",
        "/data/topics/orders.stale-00000000000000ff/x",
    ];
    for path in foreign {
        bench.disk.plant(path, *b"foreign");
    }
    bench.disk.plant("/data/topics/others.deleted-00000000000000ff-3/p00000/hwm", *b"");
    let store = bench.open();
    use_topic(&bench, &store, "orders", 1);
    use_topic(&bench, &store, "others", 2);
    store.delete_topic("others", Incarnation::new(2)).unwrap();
    store.close().unwrap();
    for path in foreign {
        assert_eq!(bench.disk.contents(path).as_deref(), Some(&b"foreign"[..]), "{path}");
    }
    assert!(!bench.names("/data/topics").iter().any(|name| name.starts_with("others")));
}

#[test]
fn a_topic_that_is_a_link_is_refused() {
    let bench = Bench::new(1);
    bench.disk.plant_other("/data/topics/linked");
    bench.disk.plant("/data/topics/orders/incarnation", *b"0000000000000001");
    bench.disk.plant_other("/data/topics/orders/p00000");
    let store = bench.open();
    for name in ["linked", "orders"] {
        assert!(matches!(store.log(&topic(name, 1), p(0)), Err(Error::Unusable { .. })), "{name}");
        assert!(matches!(store.stats(&topic(name, 1), p(0)), Err(Error::Unusable { .. })), "{name}");
    }
    assert!(bench.disk.metadata(Path::new("/data/topics/linked")).is_ok());
}

#[test]
fn cs_05_a_deleted_topic_keeps_no_descriptor_for_its_positions() {
    let bench = Bench::new(1);
    let store = bench.open();
    let held = bench.disk.open_files();
    use_topic(&bench, &store, "orders", 1);
    bench.ticks(&store, 1);
    assert!(bench.disk.open_files() > held);
    store.delete_topic("orders", Incarnation::new(1)).unwrap();
    assert_eq!(bench.disk.open_files(), held);
}
