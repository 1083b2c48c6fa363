//! The store's own threads: they do what a tick does, and end with the store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod store_support;

use std::{path::Path, sync::Arc};

use narad_core::{
    clock::SystemClock,
    runtime::Runtime,
    store::{Store, StoreOptions},
    testkit::{CallKind, Fault, Gate, SimDisk},
};
use store_support::{DATA, p, position, topic};

#[test]
fn cs_01_a_started_store_writes_positions_by_itself() {
    let disk = SimDisk::new(1);
    let runtime = Runtime::driven_by_hand(Arc::new(disk.clone()), Arc::new(SystemClock::new()));
    let store = Store::open(&runtime, Path::new(DATA), StoreOptions::default()).unwrap();
    store.start().unwrap();
    store.start().unwrap();
    let (written, synced) = (Gate::new(), Gate::new());
    written.open();
    synced.open();
    disk.inject(Fault::hold(CallKind::Write, &written).named("consumer.ahead").onwards());
    // The first sync is that of the open.
    disk.inject(Fault::hold(CallKind::SyncData, &synced).named("consumer.ahead").onwards());
    for frontier in 1..=3u32 {
        store.record_position(&topic("orders", 1), p(0), position(u64::from(frontier), &[]));
        written.wait_for(frontier as usize);
    }
    synced.wait_for(2);
    store.close().unwrap();
    store.close().unwrap();
    assert_eq!(disk.open_files(), 0);
    let offset = disk.contents("/data/topics/orders/p00000/consumer.offset").unwrap();
    assert_eq!(offset, 3i64.to_be_bytes());
}

#[test]
fn a_store_that_is_dropped_gives_its_directory_back_although_its_threads_sleep() {
    let runtime = Runtime::driven_by_hand(Arc::new(SimDisk::new(1)), Arc::new(SystemClock::new()));
    let open = || Store::open(&runtime, Path::new(DATA), StoreOptions::default());
    let store = open().unwrap();
    store.start().unwrap();
    drop(store);
    // A thread may be in the middle of a step, and holds the store for that long.
    while open().is_err() {
        std::thread::yield_now();
    }
}
