//! Random histories of a log on a failing disk, against a reference model. `NARAD_SEED` repeats a run, and
//! `NARAD_HISTORIES` says how many there are.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/model.rs"]
mod model;
#[path = "common/write_path.rs"]
mod write_path;

use std::{sync::Arc, time::Duration};

use model::Model;
use narad_core::{
    Error,
    log::{Log, LogOptions},
    testkit::{CallKind, Failure, Fault, SeedGuard, Survival, seed},
};
use narad_retention::Age;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use write_path::{Bench, segments_of};

const HISTORIES: u64 = 2_000;
const STEPS: usize = 40;
const START_MS: i64 = 1_800_000_000_000;
/// Tries that a caller makes until the disk is well again.
const TRIES: usize = 40;

const KINDS: [CallKind; 9] = [
    CallKind::Open,
    CallKind::Create,
    CallKind::Read,
    CallKind::Write,
    CallKind::SyncData,
    CallKind::SyncDir,
    CallKind::SetLen,
    CallKind::List,
    CallKind::Metadata,
];
const FAILURES: [Failure; 5] =
    [Failure::Io, Failure::NoSpace, Failure::TooManyFiles, Failure::AccessDenied, Failure::QuotaExceeded];

/// Segments roll by size and by age.
fn small_segments() -> LogOptions {
    let mut options = segments_of(500);
    options.retention = Arc::new(Age::new(Duration::from_secs(600)));
    options
}

struct History {
    bench: Bench,
    model: Model,
    rng: StdRng,
    log: Log,
    steps: Vec<String>,
}

impl History {
    fn run(seed: u64) {
        let mut rng = StdRng::seed_from_u64(seed);
        let bench = Bench::new(rng.random());
        bench.clock.set_unix_ms(START_MS);
        let log = bench.open_with(small_segments());
        let mut history = Self { bench, model: Model::default(), rng, log, steps: Vec::new() };
        history.model.recover(&history.log, true);
        for _ in 0..STEPS {
            history.step();
        }
        history.bench.disk.clear_faults();
        history.power_loss();
    }

    fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..20 => self.append(),
            20..45 => self.commit(),
            45..50 => {
                self.note("commit appended");
                self.model.commit_appended(&self.log);
            }
            50..68 => self.pass(),
            68..82 => self.fault(),
            82..84 => {
                // Less than the hour beyond which a recovered time is not believed.
                let ms = START_MS + self.rng.random_range(0..3_000_000);
                self.note(format!("the wall clock says {ms}"));
                self.bench.clock.set_unix_ms(ms);
            }
            84..87 => {
                self.note("clear faults");
                self.bench.disk.clear_faults();
            }
            87..91 => {
                self.note("reopen");
                _ = self.model.reopen(&self.log);
                self.model.settle(&self.log);
            }
            91..95 => self.close(),
            95..98 => self.crash(),
            _ => self.power_loss(),
        }
    }

    fn note(&mut self, step: impl Into<String>) {
        self.steps.push(step.into());
    }

    fn some_payloads(&mut self) -> Vec<String> {
        let (count, len) = (self.rng.random_range(1..4), self.rng.random_range(1..200));
        self.model.payloads(count, len)
    }

    fn append(&mut self) {
        let payloads = self.some_payloads();
        self.note(format!("append {payloads:?}"));
        self.model.append(&self.log, &payloads).unwrap();
    }

    fn commit(&mut self) {
        let payloads = self.some_payloads();
        self.note(format!("commit {payloads:?}"));
        // What a drain writes is not read back before a commit asks for it: only a commit can tell that a bit flipped.
        let flip = Fault::flip_bit(CallKind::Write).named("*.log");
        let flip = self.rng.random_ratio(1, 20).then(|| self.bench.disk.inject(flip));
        let outcome = self.model.commit(&self.log, &payloads);
        if let Some(flip) = flip {
            self.bench.disk.remove_fault(flip);
        }
        let Some(mut error) = outcome else { return };
        // A caller tries again until the disk is well: the batch then lands once.
        for tried in 0..self.rng.random_range(0..TRIES) {
            if tried == TRIES / 2 {
                self.bench.disk.clear_faults();
            }
            if matches!(error, Error::Poisoned { .. }) && self.model.reopen(&self.log).is_err() {
                continue;
            }
            match self.model.commit(&self.log, &payloads) {
                Some(again) => error = again,
                None => return,
            }
        }
    }

    fn pass(&mut self) {
        let ms = self.rng.random_range(1..1500);
        self.note(format!("{ms} ms pass"));
        self.bench.pass(Duration::from_millis(ms));
        self.model.settle(&self.log);
    }

    fn fault(&mut self) {
        let kind = KINDS[self.rng.random_range(0..KINDS.len())];
        let failure = FAILURES[self.rng.random_range(0..FAILURES.len())];
        let mut fault = if kind == CallKind::Write && self.rng.random() {
            Fault::shorten(kind, self.rng.random_range(0..120))
        } else {
            Fault::fail(kind, failure)
        };
        fault = fault.at(self.rng.random_range(1..4));
        // The model must be able to look.
        if !matches!(kind, CallKind::Read | CallKind::Open) && self.rng.random_ratio(1, 5) {
            fault = fault.onwards();
        }
        self.note(format!("{fault:?}"));
        self.bench.disk.inject(fault);
    }

    fn close(&mut self) {
        self.note("close");
        let was_poisoned = self.log.is_poisoned();
        let closed = self.log.close();
        assert_eq!(self.bench.disk.open_files(), 0, "a closed log holds no file");
        assert!(matches!(self.log.append(&narad_core::format::Batch::of(b"", b"")), Err(Error::Closed)));
        if closed.is_ok() && !was_poisoned {
            self.open(true);
        } else {
            self.power_loss();
        }
    }

    /// The process dies. What it wrote is in the system's cache, unless a sync failed: then the machine goes too, since
    /// nobody can tell what that cache is worth.
    fn crash(&mut self) {
        if self.log.is_poisoned() {
            return self.power_loss();
        }
        self.note("crash");
        self.bench.disk.crash_process();
        self.open(false);
    }

    fn power_loss(&mut self) {
        self.note("power loss");
        let kinds = [Survival::Random, Survival::Random, Survival::Nothing, Survival::Everything];
        self.bench.disk.power_loss_keeping(kinds[self.rng.random_range(0..kinds.len())]);
        self.open(false);
    }

    /// Opens the log, first with whatever faults are in force.
    fn open(&mut self, exact: bool) {
        match self.bench.try_open(small_segments()) {
            // Where `hwm` could not be read, more than it states is visible for as long as this open lasts.
            Ok(log) => self.model.clone().recover(&log, false),
            // A sync that failed in an open leaves a cache behind that nobody can trust.
            Err(_) => self.bench.disk.power_loss(),
        }
        self.bench.disk.clear_faults();
        self.bench.disk.crash_process();
        self.log = self.bench.open_with(small_segments());
        self.model.recover(&self.log, exact);
    }
}

impl Drop for History {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for step in &self.steps {
                eprintln!("{step}");
            }
        }
    }
}

fn histories() -> u64 {
    std::env::var("NARAD_HISTORIES").map_or(HISTORIES, |count| count.parse().expect("NARAD_HISTORIES"))
}

#[test]
fn cm_03_random_histories_agree_with_the_model() {
    let first = SeedGuard::new(seed());
    for number in 0..histories() {
        let seed = first.get().wrapping_add(number);
        let _guard = SeedGuard::new(seed);
        History::run(seed);
    }
}
