//! Appended records in memory: nothing is promised about them yet.

use std::{ops::Range, sync::Arc, time::Duration};

use crate::{
    error::{Error, Result},
    format::{Batch, Offset},
    sync::atomic::{AtomicU64, Ordering},
};

/// A drain runs at this many bytes.
pub(super) const DRAIN_BYTES: usize = 1 << 20;
/// A drain runs at this many records.
pub(super) const DRAIN_RECORDS: usize = 1000;
/// A drain runs this long after an append into the empty buffer.
pub(super) const DRAIN_INTERVAL: Duration = Duration::from_millis(100);
/// Appends are refused while this many bytes wait for the disk.
const LIMIT_BYTES: u64 = 64 << 20;

/// The buffer, and whether the log takes records at all.
#[derive(Debug)]
pub(super) struct Buffer {
    gate: Gate,
    batch: Batch,
    next: Offset,
    /// Monotonic time of the oldest append in it.
    since: Option<Duration>,
    /// Bytes that were drained and wait for a write to succeed.
    pub(super) waiting_bytes: u64,
    /// Of the records that are appended now.
    fate: Fate,
}

/// What has become of the records that were appended between two failed commits: nothing yet, or which of them the
/// later one dropped. Offsets alone cannot tell, since those of a dropped record are given out again.
#[derive(Debug, Clone)]
pub(super) struct Fate(Arc<AtomicU64>);

impl Fate {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }

    /// Everything at and above `high_watermark` was dropped.
    fn seal(&self, high_watermark: Offset) {
        self.0.store(high_watermark.get(), Ordering::Release);
    }

    /// Whether records that end at `end` were dropped.
    pub(super) fn has_dropped(&self, end: Offset) -> bool {
        end.get() > self.0.load(Ordering::Acquire)
    }
}

/// Whether the log takes records.
#[derive(Debug)]
pub(super) enum Gate {
    /// It does.
    Open,
    /// An fsync failed; it does not until it is reopened.
    Poisoned(Error),
    /// It was closed.
    Closed,
}

/// Records on their way to disk.
#[derive(Debug)]
pub(super) struct Drained {
    pub(super) base: Offset,
    pub(super) batch: Batch,
}

impl Buffer {
    /// An empty buffer in front of a log whose next record gets `next`.
    pub(super) fn new(next: Offset) -> Self {
        Self { gate: Gate::Open, batch: Batch::new(), next, since: None, waiting_bytes: 0, fate: Fate::new() }
    }

    /// Fails unless the log takes records.
    pub(super) fn check_open(&self) -> Result<()> {
        match &self.gate {
            Gate::Open => Ok(()),
            Gate::Poisoned(error) => Err(error.clone()),
            Gate::Closed => Err(Error::Closed),
        }
    }

    /// Whether the log takes records.
    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Lets the log take records, or no longer.
    pub(super) fn set_gate(&mut self, gate: Gate) {
        self.gate = gate;
    }

    /// The offset of the next record.
    pub(super) fn next(&self) -> Offset {
        self.next
    }

    /// What will have become of the records that are appended now.
    pub(super) fn fate(&self) -> Fate {
        self.fate.clone()
    }

    /// When the oldest append in it was made.
    pub(super) fn since(&self) -> Option<Duration> {
        self.since
    }

    /// Whether a drain is due whatever the time.
    pub(super) fn is_full(&self) -> bool {
        self.batch.size() >= DRAIN_BYTES || self.batch.len() >= DRAIN_RECORDS
    }

    /// Takes records in and gives them their offsets.
    pub(super) fn append(&mut self, batch: &Batch, now: Duration) -> Result<Range<Offset>> {
        self.check_open()?;
        batch.check_size()?;
        let bytes = self.waiting_bytes + self.batch.size() as u64;
        if bytes > LIMIT_BYTES {
            return Err(Error::BufferFull { bytes, limit: LIMIT_BYTES });
        }
        let offsets = self.assign(batch.len())?;
        self.batch.append(batch);
        if !batch.is_empty() {
            self.since.get_or_insert(now);
        }
        Ok(offsets)
    }

    /// Takes everything out, with the batches of a commit behind it; returns the offsets of each of them.
    pub(super) fn drain(&mut self, batches: &mut [Batch]) -> Result<(Drained, Vec<Range<Offset>>)> {
        let count = batches.iter().map(|batch| batch.len() as u64).sum::<u64>();
        let base = self.drained_base();
        self.next.checked_add(count).ok_or_else(past_the_end)?;
        let offsets = batches.iter().map(|batch| self.assign(batch.len())).collect::<Result<_>>()?;
        let batch = match batches {
            [only] if self.batch.is_empty() => std::mem::take(only),
            _ => {
                let mut all = std::mem::take(&mut self.batch);
                all.reserve(batches.iter().map(Batch::size).sum());
                for batch in batches {
                    all.append(batch);
                }
                all
            }
        };
        self.since = None;
        Ok((Drained { base, batch }, offsets))
    }

    /// Puts records back that could not be encoded, in front of what was appended since.
    pub(super) fn restore(&mut self, mut drained: Drained, now: Duration) {
        drained.batch.append(&self.batch);
        self.batch = drained.batch;
        self.since = Some(now);
    }

    /// Drops everything above `high_watermark`; the next record gets `next`.
    pub(super) fn discard(&mut self, next: Offset, high_watermark: Offset) {
        self.batch.clear(DRAIN_BYTES);
        self.since = None;
        self.waiting_bytes = 0;
        self.next = next;
        std::mem::replace(&mut self.fate, Fate::new()).seal(high_watermark);
    }

    fn assign(&mut self, count: usize) -> Result<Range<Offset>> {
        let start = self.next;
        self.next = start.checked_add(count as u64).ok_or_else(past_the_end)?;
        Ok(start..self.next)
    }

    fn drained_base(&self) -> Offset {
        Offset::new(self.next.get().saturating_sub(self.batch.len() as u64)).unwrap_or_default()
    }
}

fn past_the_end() -> Error {
    Error::InvalidArgument { name: "batch", reason: "the partition has no offsets left".to_owned() }
}
