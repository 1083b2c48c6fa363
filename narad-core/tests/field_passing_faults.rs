//! Field faults that pass: descriptors that run out at any call, a disk that is full for a while. One partition at a
//! time suffers, nothing is quarantined, deleted or given up, no file is left behind, and the next try succeeds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod store_support;

use std::time::Duration;

use narad_core::{
    Error,
    format::Batch,
    store::{Store, TopicSpec},
    testkit::{CallKind, Failure, Fault, FaultId, Survival},
};
use store_support::{Bench, p, position, topic};

fn spec() -> TopicSpec {
    // Every commit fills a segment, so that descriptors are needed all the time.
    let mut spec = topic("orders", 1);
    spec.segment_bytes = 1;
    spec
}

/// Three partitions of two records, some settled, closed in good order.
fn used(seed: u64) -> Bench {
    let bench = Bench::new(seed);
    let store = bench.open();
    for partition in 0..3 {
        let log = store.log(&spec(), p(partition)).unwrap();
        for n in 0..2 {
            log.commit(Batch::of(b"key", format!("{partition}/{n}").as_bytes())).unwrap();
        }
        store.record_position(&spec(), p(partition), position(0, &[]));
    }
    store.close().unwrap();
    bench
}

/// The life of a process, during which one fault hits once.
struct Life<'a> {
    bench: &'a Bench,
    fault: FaultId,
    why: String,
}

impl Life<'_> {
    /// Tries until it succeeds: once more than the fault hits, and with time for a log to be healed.
    fn try_twice<T>(
        &self,
        store: Option<&Store>,
        what: &str,
        mut work: impl FnMut() -> Result<T, Error>,
    ) -> T {
        let before = self.bench.disk.fired(self.fault);
        let first = match work() {
            Ok(done) => return done,
            Err(error) => error,
        };
        assert!(self.bench.disk.fired(self.fault) > before, "{}: {what}: {first} without a fault", self.why);
        if let Some(store) = store {
            self.bench.clock.advance(Duration::from_secs(2));
            store.tick();
        }
        work().unwrap_or_else(|error| panic!("{}: {what} failed again: {error}; first {first}", self.why))
    }

    fn live(&self) {
        let store = self.try_twice(None, "the start", || self.bench.try_open());
        for partition in 0..3 {
            let what = |step: &str| format!("{step} of partition {partition}");
            let log = self.try_twice(Some(&store), &what("the open"), || store.log(&spec(), p(partition)));
            let batch = Batch::of(b"key", format!("{partition}/2").as_bytes());
            self.try_twice(Some(&store), &what("a commit"), || log.commit(batch.clone()));
            let (mut from, mut found) = (log.oldest_offset(), Vec::new());
            while from < log.high_watermark() {
                // What was read before a fault is handed out, and the next batch meets it.
                let read = || log.read_batch(from, 100, 1 << 20);
                let batch = self.try_twice(Some(&store), &what("a read"), read);
                assert!(batch.unreadable.is_empty() && batch.next > from, "{}: {batch:?}", self.why);
                found.extend(batch.records.iter().map(|record| record.payload.to_vec()));
                from = batch.next;
            }
            let expected: Vec<_> = (0..3).map(|n| format!("{partition}/{n}").into_bytes()).collect();
            assert_eq!(found, expected, "{}: {}", self.why, what("the content"));
            let at = self.try_twice(Some(&store), &what("the position"), || {
                store.consumer_position(&spec(), p(partition))
            });
            assert_eq!(at, position(0, &[]), "{}", self.why);
            store.record_position(&spec(), p(partition), position(1, &[]));
        }
        // Time for what was put off: positions, healing.
        self.bench.ticks(&store, 40);
        let closed = store.close();
        assert!(closed.is_ok() || self.bench.disk.fired(self.fault) > 0, "{}: {closed:?}", self.why);
    }

    fn check(&self) {
        self.bench.disk.clear_faults();
        self.bench.disk.power_loss_keeping(Survival::Nothing);
        let store = self.bench.open();
        for partition in 0..3 {
            let log = store.log(&spec(), p(partition)).unwrap();
            let records = log.read_batch(log.oldest_offset(), 100, 1 << 20).unwrap().records;
            assert_eq!(records.len(), 3, "{}: partition {partition} after a power loss", self.why);
            let at = store.consumer_position(&spec(), p(partition)).unwrap();
            assert_eq!(at, position(1, &[]), "{}: partition {partition}", self.why);
        }
        store.close().unwrap();
        assert_eq!(self.bench.names("/data/topics"), ["orders"], "{}", self.why);
        for path in self.bench.disk.paths() {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let own = ["LOCK", "incarnation", "hwm", "consumer.offset", "consumer.ahead"].contains(&&*name)
                || (name.len() == 24 && name.ends_with(".log"));
            assert!(own, "{}: {} was left behind", self.why, path.display());
        }
    }
}

fn at_each_call(failure: Failure, kinds: &[CallKind]) {
    for &kind in kinds {
        for nth in 1.. {
            let bench = used(nth);
            let fault = bench.disk.inject(Fault::fail(kind, failure).at(nth));
            let life = Life { bench: &bench, fault, why: format!("{failure:?} at {kind:?} {nth}") };
            life.live();
            let hit = bench.disk.fired(fault) > 0;
            life.check();
            if !hit {
                assert!(nth > 1, "{}: no such call", life.why);
                break;
            }
        }
    }
}

#[test]
fn descriptors_that_run_out_at_any_call_pass_and_cost_no_record() {
    // Whatever takes a descriptor: of a file, and of a directory that is listed or synced.
    let kinds = [CallKind::Lock, CallKind::Open, CallKind::Create, CallKind::List, CallKind::SyncDir];
    at_each_call(Failure::TooManyFiles, &kinds);
}

#[test]
fn a_disk_that_is_full_at_any_call_passes_and_leaves_no_file_behind() {
    let kinds = [CallKind::Create, CallKind::CreateDir, CallKind::Write, CallKind::SetLen];
    at_each_call(Failure::NoSpace, &kinds);
}

#[test]
fn one_partition_without_descriptors_keeps_no_other_from_opening() {
    for name in ["p00001", "00000000000000000002.log"] {
        let bench = used(1);
        // The second partition is listed, or its newest segment opened, in vain, for as long as it lasts.
        let kind = if name == "p00001" { CallKind::List } else { CallKind::Open };
        // Each open is tried once more, after others gave theirs back.
        for nth in [1, 2] {
            let fault = Fault::fail(kind, Failure::TooManyFiles).named(name);
            bench.disk.inject(if kind == CallKind::List { fault.onwards() } else { fault.at(nth) });
        }
        let store = bench.open();
        let failed = store.open_all(&[spec()], Some(1));
        assert_eq!(failed.len(), 1, "{name}: {failed:?}");
        assert!(matches!(failed[0].error, Error::Io { .. }), "{name}: {failed:?}");
        bench.disk.clear_faults();
        for partition in 0..3 {
            assert_eq!(store.log(&spec(), p(partition)).unwrap().next_offset().get(), 2, "{name}");
        }
    }
}
