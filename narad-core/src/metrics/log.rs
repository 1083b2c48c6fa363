//! What is counted of one log. It outlives the log's closing for being idle, and goes with its topic.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::{
    Deleted,
    histogram::{Histogram, HistogramSnapshot, WAIT_BOUNDS},
};
use crate::{plugin::LogIdentity, sync::Mutex};

/// The counters of a log, in this process.
#[derive(Debug)]
pub struct LogMetrics {
    identity: LogIdentity,
    fsync: Histogram,
    flush: Histogram,
    flushed_bytes: AtomicU64,
    opens: AtomicU64,
    scanned_bytes: AtomicU64,
    cut_bytes: AtomicU64,
    gaps: AtomicU64,
    deleted: Mutex<BTreeMap<&'static str, Deleted>>,
}

/// What the opens of a log have found since the process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// How often it was opened.
    pub opens: u64,
    /// Bytes that were scanned.
    pub scanned_bytes: u64,
    /// Bytes of torn tails that were cut.
    pub cut_bytes: u64,
    /// Runs of records that are lost to damage; found again by each open.
    pub gaps: u64,
}

impl LogMetrics {
    pub(super) fn new(identity: LogIdentity) -> Self {
        Self {
            identity,
            fsync: Histogram::new(WAIT_BOUNDS),
            flush: Histogram::new(WAIT_BOUNDS),
            flushed_bytes: AtomicU64::new(0),
            opens: AtomicU64::new(0),
            scanned_bytes: AtomicU64::new(0),
            cut_bytes: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
            deleted: Mutex::default(),
        }
    }

    /// Whose they are.
    pub fn identity(&self) -> &LogIdentity {
        &self.identity
    }

    /// How long the fsyncs of its active segment took, those that failed included.
    pub fn fsyncs(&self) -> Option<HistogramSnapshot> {
        self.fsync.snapshot()
    }

    /// How long the writes of its frames took, those that failed included.
    pub fn flushes(&self) -> Option<HistogramSnapshot> {
        self.flush.snapshot()
    }

    /// Bytes of frames written; what is written again after a failure counts again.
    pub fn flushed_bytes(&self) -> u64 {
        self.flushed_bytes.load(Ordering::Relaxed)
    }

    /// What its opens have found. While `opens` stays what it was and the log is closed, nothing of it changes on disk.
    pub fn recovered(&self) -> Recovered {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Recovered {
            opens: self.opens.load(Ordering::Acquire),
            scanned_bytes: load(&self.scanned_bytes),
            cut_bytes: load(&self.cut_bytes),
            gaps: load(&self.gaps),
        }
    }

    /// What retention deleted, by reason.
    pub fn deletions(&self) -> Vec<(&'static str, Deleted)> {
        self.deleted.lock().iter().map(|(reason, sum)| (*reason, *sum)).collect()
    }

    pub(crate) fn synced(&self, took: Duration) {
        self.fsync.observe(took);
    }

    pub(crate) fn flushed(&self, took: Duration, bytes: u64) {
        self.flush.observe(took);
        self.flushed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn opened(&self, scanned: u64, cut: u64, gaps: u64) {
        self.scanned_bytes.fetch_add(scanned, Ordering::Relaxed);
        self.cut_bytes.fetch_add(cut, Ordering::Relaxed);
        self.gaps.fetch_add(gaps, Ordering::Relaxed);
        self.opens.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn deleted(&self, reason: &'static str, bytes: u64, messages: u64) {
        self.deleted.lock().entry(reason).or_default().add(bytes, messages);
    }
}
