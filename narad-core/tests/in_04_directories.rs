//! Directories without a topic: looked at again, listed, reclaimed and taken back on somebody's word alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod store_support;

use narad_core::{
    Error,
    disk::Disk,
    format::Batch,
    plugin::Incarnation,
    store::{Store, TopicDirectory, TopicSpec},
    testkit::{CallKind, Failure, Fault, Survival, seed},
};
use store_support::{Bench, at, p, position, topic};

const TOPICS: &str = "/data/topics";
const STALE: &str = "orders.stale-0000000000000001";

fn commit(store: &Store, spec: &TopicSpec, payload: &str) {
    store.log(spec, p(0)).unwrap().commit(Batch::of(b"key", payload.as_bytes())).unwrap();
}

fn first(store: &Store, spec: &TopicSpec) -> Vec<u8> {
    store.log(spec, p(0)).unwrap().read(at(0)).unwrap().payload.to_vec()
}

/// A store in which `orders` was replaced: the first one's directory is set aside.
fn replaced(bench: &Bench) -> Store {
    let store = bench.open();
    commit(&store, &topic("orders", 1), "first");
    commit(&store, &topic("orders", 2), "second");
    store
}

fn quarantined(store: &Store) -> Vec<TopicDirectory> {
    store.directories().unwrap().into_iter().filter(|one| one.quarantined).collect()
}

#[test]
fn in_03_an_open_log_is_looked_at_again_when_the_metadata_move() {
    let bench = Bench::new(1);
    let store = bench.open();
    let (old, new) = (topic("orders", 1), topic("orders", 2));
    let log = store.log(&old, p(0)).unwrap();
    log.commit(Batch::of(b"", b"first")).unwrap();
    store.record_position(&old, p(0), position(0, &[]));
    store.check_incarnation(&old).unwrap();
    assert!(!log.is_closed(), "it is the same incarnation");

    store.check_incarnation(&new).unwrap();
    assert!(log.is_closed());
    bench.ticks(&store, 400);
    assert_eq!(bench.names(TOPICS), ["orders", STALE]);
    assert_eq!(bench.names("/data/topics/orders"), ["incarnation"]);
    assert!(matches!(store.log(&old, p(0)), Err(Error::InvalidArgument { name: "incarnation", .. })));
    assert_eq!(store.consumer_position(&new, p(0)).unwrap(), position(None, &[]));
}

#[test]
fn in_03_a_directory_that_was_swapped_under_an_open_log_is_noticed() {
    let bench = Bench::new(1);
    let (store, spec) = (bench.open(), topic("orders", 1));
    commit(&store, &spec, "ours");
    bench.disk.plant("/data/topics/orders/incarnation", "00000000000000ff");
    store.check_incarnation(&spec).unwrap();
    assert_eq!(bench.names(TOPICS), ["orders", "orders.stale-00000000000000ff"]);
    commit(&store, &spec, "new");
    assert_eq!(first(&store, &spec), b"new");
}

#[test]
fn in_03_looking_again_at_what_is_right_changes_nothing() {
    let bench = Bench::new(1);
    let (store, spec) = (bench.open(), topic("orders", 1));
    commit(&store, &spec, "ours");
    let before = bench.disk.paths();
    store.check_incarnation(&spec).unwrap();
    store.check_incarnation(&topic("nothing-yet", 5)).unwrap();
    assert_eq!(bench.disk.paths(), before);
    assert_eq!(first(&store, &spec), b"ours");
}

#[test]
fn in_04_what_is_quarantined_is_listed_and_stays_until_it_is_reclaimed() {
    let bench = Bench::new(1);
    let store = replaced(&bench);
    bench.disk.plant_dir("/data/topics/lost+found");
    bench.disk.plant("/data/topics/.DS_Store", "x");
    let found = store.directories().unwrap();
    let told: Vec<_> = found
        .iter()
        .map(|one| (&*one.entry, &*one.topic, one.incarnation, one.partitions, one.quarantined))
        .collect();
    assert_eq!(
        told,
        [
            ("orders", "orders", Some(Incarnation::new(2)), 1, false),
            (STALE, "orders", Some(Incarnation::new(1)), 1, true)
        ]
    );
    store.close().unwrap();

    let store = bench.open();
    let stale = quarantined(&store);
    store.reclaim(&stale[0]).unwrap();
    store.reclaim(&stale[0]).unwrap();
    assert_eq!(bench.names(TOPICS), [".DS_Store", "lost+found", "orders"]);
    assert_eq!(first(&store, &topic("orders", 2)), b"second");
}

#[test]
fn in_04_nothing_but_a_quarantined_directory_with_its_marker_is_reclaimed() {
    let bench = Bench::new(1);
    let store = replaced(&bench);
    let current = store.directories().unwrap().into_iter().find(|one| !one.quarantined).unwrap();
    assert!(matches!(store.reclaim(&current), Err(Error::Unusable { .. })));
    let stale = quarantined(&store).remove(0);
    for marker in ["00000000000000ff", "", "0000"] {
        bench.disk.plant(format!("{TOPICS}/{STALE}/incarnation"), marker);
        assert!(matches!(store.reclaim(&stale), Err(Error::Unusable { .. })), "{marker:?}");
        for listed in quarantined(&store) {
            assert_ne!(listed.incarnation, Some(Incarnation::new(1)));
        }
    }
    assert_eq!(bench.names(TOPICS), ["orders", STALE]);
}

#[test]
fn in_04_a_crash_inside_a_reclaim_leaves_the_directory_whole_or_gone() {
    for calls in 0.. {
        let bench = Bench::new(seed());
        let store = replaced(&bench);
        let stale = quarantined(&store).remove(0);
        let fault = bench.disk.inject(Fault::fail_all(Failure::Io).at(calls + 1).onwards());
        let outcome = store.reclaim(&stale);
        let fired = bench.disk.fired(fault);
        bench.disk.clear_faults();
        bench.disk.power_loss();
        let store = bench.open();
        match quarantined(&store).first() {
            Some(whole) => {
                assert_eq!(*whole, stale, "after {calls} calls");
                assert!(
                    bench
                        .disk
                        .contents(format!("{TOPICS}/{STALE}/p00000/00000000000000000000.log"))
                        .is_some()
                );
            }
            None => assert_eq!(bench.names(TOPICS), ["orders"], "after {calls} calls"),
        }
        if fired == 0 {
            outcome.unwrap();
            assert!(calls > 5);
            return;
        }
    }
}

#[test]
fn a_directory_that_came_from_elsewhere_is_adopted_with_its_records() {
    let bench = Bench::new(1);
    let store = replaced(&bench);
    store.delete_topic("orders", Incarnation::new(2)).unwrap();
    // Of an installation that wrote no marker, and of one that did.
    bench.disk.rename(format!("{TOPICS}/{STALE}").as_ref(), format!("{TOPICS}/copied").as_ref()).unwrap();
    let copied = store.directories().unwrap().remove(0);
    assert_eq!((copied.incarnation, copied.partitions), (Some(Incarnation::new(1)), 1));
    assert!(
        matches!(store.adopt(&copied, Incarnation::new(9)), Err(Error::Unusable { .. })),
        "it is another's"
    );
    store.adopt(&copied, Incarnation::new(1)).unwrap();
    store.adopt(&copied, Incarnation::new(1)).unwrap();
    assert_eq!(first(&store, &topic("copied", 1)), b"first");
    store.close().unwrap();

    bench.disk.remove_file(format!("{TOPICS}/copied/incarnation").as_ref()).unwrap();
    let store = bench.open();
    let copied = store.directories().unwrap().remove(0);
    assert_eq!(copied.incarnation, None);
    store.adopt(&copied, Incarnation::new(7)).unwrap();
    assert_eq!(first(&store, &topic("copied", 7)), b"first");
}

#[test]
fn a_quarantined_directory_gets_its_place_back_when_that_is_free() {
    let bench = Bench::new(seed());
    let store = replaced(&bench);
    let stale = quarantined(&store).remove(0);
    assert!(
        matches!(store.adopt(&stale, Incarnation::new(1)), Err(Error::Unusable { .. })),
        "its place is taken"
    );
    store.delete_topic("orders", Incarnation::new(2)).unwrap();
    store.adopt(&stale, Incarnation::new(1)).unwrap();
    assert_eq!(first(&store, &topic("orders", 1)), b"first");
    bench.disk.power_loss();
    let store = bench.open();
    assert_eq!(bench.names(TOPICS), ["orders"]);
    assert_eq!(first(&store, &topic("orders", 1)), b"first");
}

#[test]
fn in_04_an_adoption_that_fails_gives_the_records_to_no_other_topic() {
    for kind in [CallKind::Write, CallKind::SetLen, CallKind::SyncData, CallKind::SyncDir] {
        let bench = Bench::new(seed());
        let store = replaced(&bench);
        let stale = quarantined(&store).remove(0);
        store.delete_topic("orders", Incarnation::new(2)).unwrap();
        let fault = bench.disk.inject(Fault::fail(kind, Failure::Io).onwards());
        let adopted = store.adopt(&stale, Incarnation::new(1));
        assert_eq!(adopted.is_err(), bench.disk.fired(fault) > 0, "{kind:?}: {adopted:?}");
        bench.disk.clear_faults();
        // Somebody creates a topic of that name instead.
        let log = store.log(&topic("orders", 3), p(0)).unwrap();
        assert_eq!(log.next_offset(), at(0), "{kind:?}");
        assert_eq!(quarantined(&store), [stale], "{kind:?}: and the records are still there");
    }
}

#[test]
fn an_adopted_directory_keeps_its_place_through_a_power_loss() {
    for is_marked in [true, false] {
        let bench = Bench::new(1);
        let store = replaced(&bench);
        store.delete_topic("orders", Incarnation::new(2)).unwrap();
        if !is_marked {
            bench.disk.remove_file(format!("{TOPICS}/{STALE}/incarnation").as_ref()).unwrap();
            bench.disk.sync_dir(format!("{TOPICS}/{STALE}").as_ref()).unwrap();
        }
        store.adopt(&quarantined(&store)[0], Incarnation::new(1)).unwrap();
        bench.disk.power_loss_keeping(Survival::Nothing);
        let store = bench.open();
        assert_eq!(bench.names(TOPICS), ["orders"], "marked: {is_marked}");
        assert_eq!(first(&store, &topic("orders", 1)), b"first");
        assert_eq!(bench.names(TOPICS), ["orders"], "marked: {is_marked}");
    }
}

#[test]
fn in_04_a_reclaimed_directory_stays_away_through_a_power_loss() {
    let bench = Bench::new(1);
    let store = replaced(&bench);
    let stale = quarantined(&store).remove(0);
    // Its files cannot be removed: it is out of the way all the same, for good.
    bench.disk.inject(Fault::fail(CallKind::Remove, Failure::Io).onwards());
    store.reclaim(&stale).unwrap();
    bench.disk.power_loss_keeping(Survival::Nothing);
    bench.disk.clear_faults();
    assert_eq!(bench.names(TOPICS), ["orders", "orders.deleted-0000000000000001"]);
    bench.open();
    assert_eq!(bench.names(TOPICS), ["orders"]);
}

#[test]
fn a_deleted_topics_files_that_could_not_be_removed_go_with_a_later_sweep() {
    let bench = Bench::new(1);
    let (store, spec) = (bench.open(), topic("orders", 1));
    commit(&store, &spec, "x");
    let fault = bench.disk.inject(Fault::fail(CallKind::Remove, Failure::Io).onwards());
    store.delete_topic("orders", spec.incarnation).unwrap();
    assert_eq!(bench.names(TOPICS), ["orders.deleted-0000000000000001"]);
    bench.ticks(&store, 700);
    assert_eq!(bench.names(TOPICS), ["orders.deleted-0000000000000001"]);
    bench.disk.remove_fault(fault);
    bench.ticks(&store, 700);
    assert_eq!(bench.names(TOPICS), Vec::<String>::new());
}

#[test]
fn st_04_a_peek_at_a_log_that_is_closing_waits_for_the_close() {
    let bench = Bench::new(1);
    let (store, spec) = (bench.open(), topic("orders", 1));
    commit(&store, &spec, "x");
    let half_an_hour = std::time::Duration::from_secs(31 * 60);
    bench.clock.advance(half_an_hour);
    store.tick();
    bench.clock.advance(half_an_hour);
    let gate = narad_core::testkit::Gate::new();
    // The close holds the log at the very moment at which `hwm` is half written.
    bench.disk.inject(Fault::hold(CallKind::SyncData, &gate).named("hwm"));
    std::thread::scope(|scope| {
        scope.spawn(|| store.tick());
        gate.wait_for(1);
        let peek = scope.spawn(|| store.stats(&spec, p(0)).unwrap());
        let other = scope.spawn(|| store.stats(&topic("other", 3), p(0)).unwrap());
        other.join().unwrap();
        assert!(!peek.is_finished());
        gate.open();
        let stats = peek.join().unwrap();
        assert_eq!((stats.open, stats.high_watermark), (false, Some(at(1))));
    });
}

#[test]
fn cs_01_no_more_descriptors_are_held_for_positions_than_allowed() {
    let bench = Bench::new(1);
    let mut options = narad_core::store::StoreOptions::default();
    options.held_position_files = 2;
    let store = bench.open_with(options);
    let specs: Vec<_> = (1..=6).map(|id| topic(&format!("t{id}"), id)).collect();
    let before = bench.disk.open_files();
    for round in 0..30 {
        for spec in &specs {
            store.record_position(spec, p(0), position(round, &[]));
        }
        bench.ticks(&store, 1);
        assert!(bench.disk.open_files() - before <= 2, "{} are open", bench.disk.open_files() - before);
    }
    // Each is as durable as it would be with a descriptor of its own.
    bench.disk.power_loss();
    let store = bench.open();
    for spec in &specs {
        let found = store.consumer_position(spec, p(0)).unwrap();
        assert!(found.frontier >= Some(at(18)), "{found:?}");
    }
}
