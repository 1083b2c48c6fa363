//! A log that the store has open, and what it remembers of one between two lookups.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::backoff::Backoff;
use crate::{
    format::Offset,
    log::Log,
    plugin::{Incarnation, PartitionId, RetentionPolicy},
};

/// Where the consumers of a partition are, if that is known without asking its files.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Frontier {
    /// The files have to be asked.
    #[default]
    Unknown,
    /// The highest offset at and below which everything is settled; `None` when nothing is.
    Known(Option<Offset>),
}

impl Frontier {
    pub(super) fn known(self) -> Option<Offset> {
        match self {
            Self::Known(frontier) => frontier,
            Self::Unknown => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct OpenLog {
    pub(super) log: Log,
    pub(super) incarnation: Incarnation,
    pub(super) partition: PartitionId,
    pub(super) retention: Mutex<Arc<dyn RetentionPolicy>>,
    /// Where the consumers are, as far as this process was told.
    frontier: Mutex<Option<Offset>>,
    /// Where the log ended when it was opened, until its consumers' position is known: the files can state nothing
    /// beyond, whatever was committed since.
    end_at_open: Mutex<Option<Offset>>,
    pub(super) reopening: Mutex<Backoff>,
    /// A reaper is at work on it, or hangs there.
    pub(super) reaping: AtomicBool,
    used_ms: AtomicU64,
    seen_next: AtomicU64,
    /// Where the log ended when its codec last looked at a sample of it.
    pub(super) sampled: AtomicU64,
}

impl OpenLog {
    pub(super) fn new(
        log: Log,
        incarnation: Incarnation,
        partition: PartitionId,
        retention: Arc<dyn RetentionPolicy>,
        now: Duration,
    ) -> Self {
        let seen_next = AtomicU64::new(log.next_offset().get());
        let end_at_open = Mutex::new(Some(log.high_watermark()));
        Self {
            log,
            incarnation,
            partition,
            retention: Mutex::new(retention),
            frontier: Mutex::default(),
            end_at_open,
            reopening: Mutex::default(),
            reaping: AtomicBool::new(false),
            used_ms: AtomicU64::new(millis(now)),
            seen_next,
            sampled: AtomicU64::new(0),
        }
    }

    /// Where the log ends for a position that was read from the files.
    pub(super) fn end_of_positions(&self) -> Offset {
        self.end_at_open.lock().unwrap_or_else(|| self.log.high_watermark())
    }

    /// The highest offset at and below which they have settled everything; `None` when nothing, or not known.
    pub(super) fn frontier(&self) -> Option<Offset> {
        *self.frontier.lock()
    }

    /// The same, if it is known.
    pub(super) fn known_frontier(&self) -> Frontier {
        match *self.end_at_open.lock() {
            Some(_) => Frontier::Unknown,
            None => Frontier::Known(self.frontier()),
        }
    }

    /// Takes over where the consumers are.
    pub(super) fn set_frontier(&self, frontier: Option<Offset>) {
        *self.frontier.lock() = frontier;
        *self.end_at_open.lock() = None;
    }

    /// Somebody asked for it.
    pub(super) fn touch(&self, now: Duration) {
        self.used_ms.store(millis(now), Ordering::Relaxed);
    }

    /// For how long nobody asked for it and nobody wrote to it.
    pub(super) fn idle_for(&self, now: Duration) -> Duration {
        let next = self.log.next_offset().get();
        if self.seen_next.swap(next, Ordering::Relaxed) != next {
            self.touch(now);
        }
        Duration::from_millis(millis(now).saturating_sub(self.used_ms.load(Ordering::Relaxed)))
    }

    pub(super) fn set_retention(&self, policy: Arc<dyn RetentionPolicy>) {
        *self.retention.lock() = policy.clone();
        self.log.set_retention(policy);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
