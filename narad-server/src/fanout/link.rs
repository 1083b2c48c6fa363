//! A link that is copied along: its cursors, its counts, and its end.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use narad_core::{format::Offset, plugin::PartitionId};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{RwLockReadGuard, Semaphore};

use super::cursor::Cursor;
use crate::meta::Link;

/// A link between two topics.
#[derive(Debug)]
pub(super) struct ActiveLink {
    link: RwLock<Link>,
    pub(super) epoch: u64,
    cursors: Mutex<HashMap<PartitionId, Arc<Cursor>>>,
    /// Messages copied.
    pub(super) committed: AtomicU64,
    /// Messages that the child never gets.
    pub(super) dropped: AtomicU64,
    /// One for each pass that may run.
    pub(super) slots: Semaphore,
    ended: AtomicBool,
    /// Held by a pass while it commits: whoever takes it alone knows that nothing reaches the child any more.
    commits: tokio::sync::RwLock<()>,
}

impl ActiveLink {
    pub(super) fn new(link: Link, slots: usize) -> Self {
        Self {
            epoch: link.parent.epoch,
            link: RwLock::new(link),
            cursors: Mutex::default(),
            committed: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            slots: Semaphore::new(slots.max(1)),
            ended: AtomicBool::new(false),
            commits: tokio::sync::RwLock::default(),
        }
    }

    /// What is linked, as it was last known.
    pub(super) fn link(&self) -> Link {
        self.link.read().clone()
    }

    /// Learns what became of it: the parent may have more partitions. Answers whether anything did.
    pub(super) fn update(&self, link: Link) -> bool {
        let mut known = self.link.write();
        let changed = *known != link;
        *known = link;
        changed
    }

    /// The cursor of a partition of the parent, made on first use.
    pub(super) fn cursor(&self, partition: PartitionId) -> Arc<Cursor> {
        Arc::clone(self.cursors.lock().entry(partition).or_default())
    }

    /// The cursor, if it was used.
    pub(super) fn known_cursor(&self, partition: PartitionId) -> Option<Arc<Cursor>> {
        self.cursors.lock().get(&partition).cloned()
    }

    /// Where copying of a partition begins.
    pub(super) fn start(link: &Link, partition: PartitionId) -> Offset {
        let index = usize::try_from(partition.0).ok();
        index.and_then(|index| link.parent.offsets.get(index)).copied().unwrap_or(Offset::ZERO)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Lets a pass commit; `None` once the link has ended.
    pub(super) async fn may_commit(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let guard = self.commits.read().await;
        (!self.has_ended()).then_some(guard)
    }

    /// Ends the link: nothing reaches the child any more when this returns. Answers `false` when a pass hangs in the
    /// disk for longer than `patience`; what it has begun may still arrive.
    pub(super) async fn end(&self, patience: Duration) -> bool {
        self.ended.store(true, Ordering::SeqCst);
        tokio::time::timeout(patience, self.commits.write()).await.is_ok()
    }
}
