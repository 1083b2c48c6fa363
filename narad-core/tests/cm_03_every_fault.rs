//! A history of everything that the write path does, with every disk call in it failing in turn, in every way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/model.rs"]
mod model;
#[path = "common/write_path.rs"]
mod write_path;

use std::time::Duration;

use model::Model;
use narad_core::{
    Result,
    log::Log,
    testkit::{CallKind, Failure, Fault, FaultId, SimDisk, Survival},
};
use write_path::{Bench, segments_of};

/// So small that the history rolls several times.
const SMALL: u64 = 400;
/// So large that the segment is prepared: its frames are written over zeros.
const PREPARED: u64 = 1 << 20;

struct History {
    segment_bytes: u64,
    bench: Bench,
    model: Model,
    fault: Option<FaultId>,
    /// The fault struck while the log was opened or closed: whether `hwm` holds the boundary is then open.
    exact: bool,
    crashes: u64,
}

impl History {
    fn run(segment_bytes: u64, fault: Option<Fault>, crashes: u64) -> Self {
        let bench = Bench::new(7);
        let fault = fault.map(|fault| bench.disk.inject(fault));
        let mut history = Self { segment_bytes, bench, model: Model::default(), fault, exact: true, crashes };
        history.script();
        history
    }

    fn script(&mut self) {
        let log = self.open();
        self.commit(&log, 1);
        self.append(&log, 2);
        self.pass(&log, 100);
        self.commit(&log, 2);
        self.append(&log, 1);
        self.pass(&log, 100);
        self.pass(&log, 1000);
        for count in [3, 1, 4] {
            self.commit(&log, count);
        }
        self.append(&log, 1);
        self.commit_appended(&log);
        self.append(&log, 2);
        self.close(&log);

        let log = self.open();
        self.append(&log, 1);
        self.pass(&log, 100);
        self.commit(&log, 1);
        self.commit(&log, 6);
        self.bench.disk.crash_process();
        self.exact = false;

        let log = self.open();
        self.commit(&log, 1);
        self.close(&log);
        let log = self.open();
        assert_eq!(log.high_watermark().get(), self.model.high_watermark());
        self.power_losses();
    }

    fn struck(&self) -> bool {
        self.fault.is_some_and(|fault| self.bench.disk.fired(fault) > 0)
    }

    fn open(&mut self) -> Log {
        let before = self.struck();
        let log = match self.try_open() {
            Ok(log) if self.struck() == before => log,
            outcome => {
                assert!(self.struck() && !before);
                // Where `hwm` could not be read, more than it states is visible for as long as this open lasts.
                if let Ok(log) = outcome {
                    self.model.clone().recover(&log, false);
                }
                self.bench.disk.crash_process();
                self.try_open().unwrap()
            }
        };
        self.model.recover(&log, self.exact);
        self.exact = true;
        log
    }

    fn try_open(&self) -> Result<Log> {
        self.bench.try_open(segments_of(self.segment_bytes))
    }

    /// A commit that fails is tried again, as a caller would, and then lands.
    fn commit(&mut self, log: &Log, count: usize) {
        let payloads = self.model.payloads(count, 40);
        if let Some(error) = self.model.commit(log, &payloads) {
            self.heal(log, &error);
            assert!(self.model.commit(log, &payloads).is_none(), "the retry fails after {error}");
        }
        self.power_losses();
    }

    fn heal(&mut self, log: &Log, error: &narad_core::Error) {
        assert!(self.struck(), "{error}");
        self.power_losses();
        self.model.reopen(log).unwrap();
        self.power_losses();
    }

    fn append(&mut self, log: &Log, count: usize) {
        let payloads = self.model.payloads(count, 40);
        self.model.append(log, &payloads).unwrap();
    }

    fn commit_appended(&mut self, log: &Log) {
        if let Some(error) = self.model.commit_appended(log) {
            self.heal(log, &error);
        }
        self.power_losses();
    }

    fn pass(&mut self, log: &Log, ms: u64) {
        self.bench.pass(Duration::from_millis(ms));
        self.model.settle(log);
        if log.is_poisoned() {
            self.power_losses();
            self.model.reopen(log).unwrap();
        }
        self.power_losses();
    }

    fn close(&mut self, log: &Log) {
        let before = self.struck();
        if let Err(error) = log.close() {
            assert!(self.struck() && !before, "{error}");
            self.exact = false;
        }
        self.power_losses();
        assert_eq!(self.bench.disk.open_files(), 0, "a closed log holds no file");
    }

    /// The power goes now: every acknowledged record is there after it, and what was shown once stays.
    fn power_losses(&self) {
        if self.fault.is_some() && !self.struck() {
            return;
        }
        for round in 0..=self.crashes {
            let survival = if round == 0 { Survival::Nothing } else { Survival::Random };
            let (fork, log) = self.bench.after_power_loss(survival);
            let mut model = self.model.clone();
            model.recover(&log, false);
            let (_, log) = fork.after_power_loss(Survival::Nothing);
            model.recover(&log, false);
        }
    }
}

fn calls(segment_bytes: u64) -> u64 {
    let history = History::run(segment_bytes, None, 0);
    let disk: &SimDisk = &history.bench.disk;
    disk.calls().len() as u64
}

#[test]
fn cm_03_the_history_itself_keeps_the_rules() {
    let history = History::run(SMALL, None, 20);
    assert!(history.bench.segments().len() >= 3, "it rolls: {:?}", history.bench.segments());
    assert_eq!(history.model.acked().len(), 26);
    let history = History::run(PREPARED, None, 20);
    assert_eq!(history.bench.segments(), [0]);
    let zeros = history.bench.disk.calls().into_iter().filter(|call| call.kind == CallKind::Write);
    assert!(zeros.map(|call| call.bytes).max() >= Some(16 << 10), "zeros are written ahead of the frames");
    assert_eq!(history.model.acked().len(), 26);
}

#[test]
fn cm_03_every_disk_call_fails_in_turn_and_no_acknowledged_record_is_lost() {
    let failures = [Failure::Io, Failure::NoSpace, Failure::TooManyFiles, Failure::AccessDenied];
    for segment_bytes in [SMALL, PREPARED] {
        for call in 1..=calls(segment_bytes) {
            for failure in failures {
                eprintln!("segments of {segment_bytes}, call {call}: {failure:?}");
                let history = History::run(segment_bytes, Some(Fault::fail_all(failure).at(call)), 2);
                assert!(history.struck(), "call {call} was reached");
            }
        }
    }
}

#[test]
fn cm_03_every_write_is_cut_short_in_turn_and_the_rest_fails() {
    for segment_bytes in [SMALL, PREPARED] {
        let writes = {
            let history = History::run(segment_bytes, None, 0);
            history.bench.disk.count(CallKind::Write) as u64
        };
        for write in 1..=writes {
            for bytes in [0, 1, 2, 26, 27, 28, 60] {
                eprintln!("segments of {segment_bytes}, write {write}: {bytes} bytes");
                let bench_fault = Fault::shorten(CallKind::Write, bytes).at(write);
                let history = History::run(segment_bytes, Some(bench_fault), 1);
                assert!(history.struck(), "write {write} was reached");
            }
        }
    }
}

#[test]
fn cm_03_every_interrupted_call_is_tried_again_at_once() {
    for kind in [CallKind::Read, CallKind::Write] {
        let history = History::run(SMALL, Some(Fault::fail(kind, Failure::Interrupted).at(3)), 0);
        assert!(history.struck());
        assert_eq!(history.bench.errors("commit"), 0, "{kind:?}");
    }
}
