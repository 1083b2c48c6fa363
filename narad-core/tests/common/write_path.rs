//! What the tests of the write path share: a log on a simulated disk, driven by hand.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::{path::Path, sync::Arc, time::Duration};

use narad_codecs::None as NoCodec;
use narad_core::{
    Error, Result,
    format::{Batch, HEADER_LEN, Offset},
    log::{Log, LogOptions},
    runtime::Runtime,
    testkit::{CallKind, Failure, Fault, ManualClock, SimDisk, Survival},
};

/// The partition under test.
pub const DIR: &str = "/data/p00000";

/// A disk, a clock and a runtime without threads.
#[derive(Clone)]
pub struct Bench {
    pub disk: SimDisk,
    pub clock: ManualClock,
    pub runtime: Runtime,
}

impl Bench {
    pub fn new(seed: u64) -> Self {
        let clock = ManualClock::new();
        Self::on(SimDisk::with_clock(seed, Arc::new(clock.clone())), clock)
    }

    pub fn on(disk: SimDisk, clock: ManualClock) -> Self {
        let runtime = Runtime::driven_by_hand(Arc::new(disk.clone()), Arc::new(clock.clone()));
        Self { disk, clock, runtime }
    }

    /// A copy of the disk as it is now, unsynced state included, with a process of its own.
    pub fn fork(&self) -> Self {
        Self::on(self.disk.fork(), self.clock.clone())
    }

    pub fn open(&self) -> Log {
        self.open_with(options())
    }

    pub fn open_with(&self, options: LogOptions) -> Log {
        self.try_open(options).unwrap()
    }

    pub fn try_open(&self, options: LogOptions) -> Result<Log> {
        Log::open(&self.runtime, Path::new(DIR), options)
    }

    /// The machine goes down now and comes up again: what an open then finds.
    pub fn after_power_loss(&self, survival: Survival) -> (Self, Log) {
        let fork = self.fork();
        fork.disk.power_loss_keeping(survival);
        let log = fork.open();
        (fork, log)
    }

    /// Time passes, and the timers are called.
    pub fn pass(&self, time: Duration) -> usize {
        self.clock.advance(time);
        self.runtime.run_due()
    }

    pub fn fail(&self, kind: CallKind, failure: Failure, name: &str) {
        self.disk.inject(Fault::fail(kind, failure).named(name));
    }

    pub fn errors(&self, kind: &str) -> u64 {
        self.runtime.metrics().error_count("storage", kind)
    }

    /// The bytes of the segment that begins at `base`.
    pub fn segment(&self, base: u64) -> Option<Vec<u8>> {
        self.disk.contents(segment_path(base))
    }

    /// The first offsets of the segment files.
    pub fn segments(&self) -> Vec<u64> {
        let names = self.disk.paths().into_iter().filter_map(|path| path.file_stem()?.to_str()?.parse().ok());
        names.collect()
    }

    pub fn hwm_file(&self) -> Option<Vec<u8>> {
        self.disk.contents(format!("{DIR}/hwm"))
    }

    /// Syncs of files and of directories since the calls were last taken.
    pub fn syncs(&self) -> (usize, usize) {
        (self.disk.count(CallKind::SyncData), self.disk.count(CallKind::SyncDir))
    }
}

pub fn segment_path(base: u64) -> String {
    format!("{DIR}/{base:020}.log")
}

pub fn options() -> LogOptions {
    LogOptions::new("test", Arc::new(NoCodec))
}

/// Options with segments of that size.
pub fn segments_of(bytes: u64) -> LogOptions {
    let mut options = options();
    options.segment_bytes = bytes;
    options
}

pub fn offset(value: u64) -> Offset {
    Offset::new(value).unwrap()
}

pub fn record(payload: &str) -> Batch {
    Batch::of(b"", payload.as_bytes())
}

pub fn records<'a>(payloads: impl IntoIterator<Item = &'a str>) -> Batch {
    let mut batch = Batch::new();
    for payload in payloads {
        batch.push(b"", payload.as_bytes());
    }
    batch
}

/// Bytes of a frame that holds this batch uncompressed.
pub fn frame_len(batch: &Batch) -> u64 {
    (HEADER_LEN + batch.size()) as u64
}

/// Everything that can be read, by offset; what is unreadable, or committed before its predecessor, fails the test.
pub fn visible(log: &Log) -> Vec<(u64, String)> {
    let (mut found, mut newest_ms) = (Vec::new(), 0);
    let mut next = log.oldest_offset();
    while next < log.high_watermark() {
        let batch = retried(|| log.read_batch(next, 100, 1 << 20));
        assert_eq!(batch.unreadable, Vec::new(), "unreadable records");
        assert!(batch.next > next, "a batch read gets on");
        next = batch.next;
        for record in &batch.records {
            assert!(record.committed_at_ms >= newest_ms, "commit times decrease at {}", record.offset);
            newest_ms = record.committed_at_ms;
        }
        let texts = batch
            .records
            .into_iter()
            .map(|record| (record.offset.get(), String::from_utf8(record.payload.to_vec()).unwrap()));
        found.extend(texts);
    }
    assert!(matches!(log.read(log.high_watermark()), Err(Error::NotYet { .. })));
    found
}

/// A read that meets a fault says so, and can be tried again.
fn retried<T>(mut read: impl FnMut() -> Result<T>) -> T {
    for _ in 0..50 {
        match read() {
            Ok(found) => return found,
            Err(error) => assert!(matches!(error, Error::Io { .. } | Error::DiskFull { .. }), "{error}"),
        }
    }
    read().unwrap()
}

/// The payloads that can be read, which begin at offset 0 and have no gap.
pub fn payloads(log: &Log) -> Vec<String> {
    let visible = visible(log);
    for (expected, (offset, _)) in visible.iter().enumerate() {
        assert_eq!(*offset, expected as u64, "no gap");
    }
    visible.into_iter().map(|(_, payload)| payload).collect()
}
