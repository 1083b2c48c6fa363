//! The reaper is watched: one that hangs is replaced, and what it hangs on is passed over.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod store_support;

use std::{sync::Arc, time::Duration};

use narad_core::{
    format::Batch,
    log::Log,
    testkit::{CallKind, Fault, Gate},
};
use store_support::{Bench, TakeAll, at, p, topic};

fn commit(log: &Log) {
    log.commit(Batch::of(b"key", b"payload")).unwrap();
}

#[test]
fn rt_02_a_reaper_that_hangs_is_replaced_and_the_other_logs_are_swept() {
    let bench = Bench::new(1);
    let store = bench.open();
    let logs: Vec<_> = ["one", "other"]
        .map(|name| {
            let mut spec = topic(name, 1);
            spec.retention = Arc::new(TakeAll);
            store.log(&spec, p(0)).unwrap()
        })
        .into();
    logs.iter().for_each(commit);
    let gate = Gate::new();
    bench.disk.inject(Fault::hold(CallKind::Remove, &gate).named("*.log"));
    bench.clock.advance(Duration::from_secs(61));
    store.start().unwrap();
    gate.wait_for(1);
    assert_eq!(store.counts().reaper_restarts, 0);

    logs.iter().for_each(commit);
    bench.clock.advance(Duration::from_secs(61));
    // The same as what the watch does every few seconds.
    store.tick();
    assert_eq!(store.counts().reaper_restarts, 1);
    let swept = logs.iter().filter(|log| log.oldest_offset() == at(2)).count();
    assert_eq!(swept, 1, "the log that it does not hang on");
    // One that hangs is replaced once.
    bench.clock.advance(Duration::from_secs(10));
    store.tick();
    assert_eq!(store.counts().reaper_restarts, 1);
    gate.open();
    store.close().unwrap();
}
