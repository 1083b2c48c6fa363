//! A recovery beside a commit reads in small steps, so that the commit's fsync does not wait behind all of it; without
//! one it reads as much as it can at a time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod common;

use std::{sync::Arc, thread};

use common::options;
use narad_core::{
    format::Batch,
    log::Log,
    runtime::{Runtime, RuntimeOptions},
    testkit::{Call, CallKind, Fault, Gate, SimDisk},
};

const SEGMENT: &str = "crashed/00000000000000000000.log";
const FRAME: usize = 1 << 20;

#[test]
fn a_recovery_reads_in_small_steps_while_another_log_commits() {
    let disk = SimDisk::new(1);
    let mut with = RuntimeOptions::default();
    with.disk = Arc::new(disk.clone());
    let runtime = Runtime::new(with);
    let crashed = || Log::open(&runtime, "/crashed".as_ref(), options()).unwrap();
    crashed().commit(Batch::of(b"", &[7; FRAME])).unwrap();
    let recovery_reads = || {
        disk.take_calls();
        drop(crashed());
        let of_segment = |call: &Call| call.kind == CallKind::Read && call.path.ends_with(SEGMENT);
        disk.take_calls().iter().filter(|call| of_segment(call)).count()
    };
    let alone = recovery_reads();

    let busy = Log::open(&runtime, "/busy".as_ref(), options()).unwrap();
    let gate = Gate::new();
    disk.inject(Fault::hold(CallKind::SyncData, &gate).named("*.log"));
    thread::scope(|scope| {
        scope.spawn(|| busy.commit(Batch::of(b"", b"one")).unwrap());
        gate.wait_for(1);
        let beside = recovery_reads();
        gate.open();
        assert!(alone <= 8, "{alone} reads of a file that nobody competes for");
        assert!(beside >= FRAME / (64 << 10), "{beside} reads beside a commit, {alone} without");
    });
}
