//! How much of the WAL is not done yet: told by the dispatcher, asked by whoever produces.

use std::sync::atomic::{AtomicU64, Ordering};

use narad_core::format::Offset;
use tokio::sync::Notify;

/// Messages in the WAL that are not done, as the dispatcher last said, and who waits for them to become fewer.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    read_to: AtomicU64,
    undone: AtomicU64,
    pub(super) fewer: Notify,
}

impl Backlog {
    /// The dispatcher has read the WAL up to `read_to`, and `undone` of what it read is not done.
    pub(super) fn set(&self, read_to: Offset, undone: u64) {
        self.read_to.store(read_to.get(), Ordering::Relaxed);
        self.undone.store(undone, Ordering::Relaxed);
        self.fewer.notify_waiters();
    }

    /// Messages below `end` that are not done.
    pub(super) fn len(&self, end: Offset) -> u64 {
        let unread = end.get().saturating_sub(self.read_to.load(Ordering::Relaxed));
        unread.saturating_add(self.undone.load(Ordering::Relaxed))
    }
}
