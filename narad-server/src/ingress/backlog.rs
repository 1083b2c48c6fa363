//! How much of the WAL is not done yet, and which partitions keep it from that: told by the dispatcher, asked by whoever
//! produces or looks at the server's health.

use std::sync::atomic::{AtomicU64, Ordering};

use narad_core::format::Offset;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::FailingPartition;

/// Messages in the WAL that are not done, as the dispatcher last said, and who waits for them to become fewer.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    read_to: AtomicU64,
    undone: AtomicU64,
    done: AtomicU64,
    pub(super) fewer: Notify,
    failing: Mutex<Vec<(Instant, FailingPartition)>>,
}

impl Backlog {
    /// The dispatcher has read the WAL up to `read_to`, and `undone` of what it read is not done; everything below `done` is.
    pub(super) fn set(&self, read_to: Offset, undone: u64, done: Offset) {
        // In this order, and read in the other one: what was just read is counted twice for a moment, never not at all.
        self.undone.store(undone, Ordering::Release);
        self.read_to.store(read_to.get(), Ordering::Release);
        self.done.store(done.get(), Ordering::Release);
        self.fewer.notify_waiters();
    }

    /// Every record below is done.
    pub(super) fn done(&self) -> Offset {
        Offset::new(self.done.load(Ordering::Acquire)).unwrap_or_default()
    }

    /// These partitions fail; each is told of until then.
    pub(super) fn set_failing(&self, failing: Vec<(Instant, FailingPartition)>) {
        *self.failing.lock() = failing;
    }

    /// The partitions that fail.
    pub(super) fn failing(&self) -> Vec<FailingPartition> {
        let now = Instant::now();
        let failing = self.failing.lock();
        failing.iter().filter(|(until, _)| *until > now).map(|(_, one)| one.clone()).collect()
    }

    /// Messages below `end` that are not done.
    pub(super) fn len(&self, end: Offset) -> u64 {
        let unread = end.get().saturating_sub(self.read_to.load(Ordering::Acquire));
        unread.saturating_add(self.undone.load(Ordering::Acquire))
    }
}
