//! Descriptors of a store: given back by logs that are idle, and at once when somebody else needs one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod store_support;

use std::time::Duration;

use narad_core::{
    format::Batch,
    log::Log,
    testkit::{CallKind, Failure, Fault},
};
use store_support::{Bench, at, p, topic};

fn commit(log: &Log) {
    log.commit(Batch::of(b"key", b"payload")).unwrap();
}

#[test]
fn st_06_a_log_that_is_idle_for_a_minute_holds_no_descriptor_and_stays_open() {
    let bench = Bench::new(1);
    let (store, spec) = (bench.open(), topic("orders", 1));
    let held = bench.disk.open_files();
    let logs: Vec<_> = (0..3).map(|partition| store.log(&spec, p(partition)).unwrap()).collect();
    logs.iter().for_each(commit);
    assert!(bench.disk.open_files() >= held + 3);
    for _ in 0..3 {
        bench.clock.advance(Duration::from_secs(61));
        commit(&logs[0]);
        store.tick();
    }
    assert_eq!(bench.disk.open_files(), held + 1, "but for the one that is used");
    for log in &logs {
        assert!(!log.is_closed());
        commit(log);
        assert!(log.read(at(1)).is_ok());
    }
}

#[test]
fn st_06_an_open_that_finds_no_descriptor_gets_one_of_a_log_that_is_idle() {
    let bench = Bench::new(1);
    let (store, spec) = (bench.open(), topic("orders", 1));
    let idle = store.log(&spec, p(0)).unwrap();
    commit(&idle);
    commit(&store.log(&spec, p(1)).unwrap());
    store.close().unwrap();
    let store = bench.open();
    let idle = store.log(&spec, p(0)).unwrap();
    let held = bench.disk.open_files();
    let fault = bench.disk.inject(Fault::fail(CallKind::Open, Failure::TooManyFiles).named("*.log"));
    let log = store.log(&spec, p(1)).unwrap();
    assert_eq!(bench.disk.fired(fault), 1);
    assert_eq!(bench.disk.open_files(), held, "one came and one went");
    commit(&log);
    commit(&idle);
    assert_eq!(idle.high_watermark(), at(2));
}

#[test]
fn st_06_a_commit_that_opens_its_file_again_gets_a_descriptor_of_a_log_that_is_idle() {
    let bench = Bench::new(1);
    let (store, spec) = (bench.open(), topic("orders", 1));
    let (idle, busy) = (store.log(&spec, p(0)).unwrap(), store.log(&spec, p(1)).unwrap());
    [&idle, &busy].into_iter().for_each(commit);
    assert!(busy.release_files());
    let held = bench.disk.open_files();
    let fault = bench.disk.inject(Fault::fail(CallKind::Open, Failure::TooManyFiles).named("*.log"));
    commit(&busy);
    assert_eq!(bench.disk.fired(fault), 1);
    assert_eq!(bench.disk.open_files(), held, "one came and one went");
    commit(&idle);
}

#[test]
fn st_06_where_no_log_is_idle_the_open_fails_and_says_why_and_works_later() {
    let bench = Bench::new(1);
    let (store, spec) = (bench.open(), topic("orders", 1));
    let fault = bench
        .disk
        .inject(Fault::fail(CallKind::Create, Failure::TooManyFiles).named("incarnation").onwards());
    let error = store.log(&spec, p(0)).unwrap_err();
    assert!(error.is_out_of_descriptors(), "{error}");
    bench.disk.remove_fault(fault);
    commit(&store.log(&spec, p(0)).unwrap());
}
