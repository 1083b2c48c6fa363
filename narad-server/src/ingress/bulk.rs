//! The short way of a large request whose messages are all for one partition: they are committed to it, as one commit and
//! without the WAL before it. Beside so many bytes the WAL's shared fsync saves nothing, and each of them would be
//! written twice.
//!
//! Nothing overtakes what was acknowledged before it: where the WAL may hold something for the partition that is not done,
//! the messages go to the WAL as well. A partition that hangs holds up those few alone that were on their way when it began
//! to, be it this one or another: until the last of them has ended nobody else goes this way, whatever becomes of their
//! producers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tracing::Instrument;

use super::{
    Partitions, Staged,
    direct::{Commit, commit},
};

/// Requests with fewer bytes of payload share the WAL's fsync.
const LEAST_BYTES: usize = 64 << 10;
/// Larger ones would be frames of which each read takes as much memory, and stand in memory too long while they wait. The
/// dispatcher cuts them.
const MOST_BYTES: usize = 2 << 20;
/// How long a request waits for its turn, and how long a commit may take, its bytes on a slow disk apart.
const PATIENCE: Duration = Duration::from_millis(50);
/// Bytes that a slow disk takes in a millisecond.
const SLOW_DISK: u64 = 20_000;

/// Who goes this way.
#[derive(Debug)]
pub(super) struct Bulk {
    slots: Arc<Semaphore>,
    /// Commits that take longer than they may.
    slow: Arc<AtomicUsize>,
}

/// A commit that takes longer than it may.
struct Slow(Arc<AtomicUsize>);

impl Slow {
    fn new(slow: &Arc<AtomicUsize>) -> Self {
        slow.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(slow))
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Bulk {
    /// So many commits at a time, at most.
    pub(super) fn new(at_once: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(at_once)), slow: Arc::default() }
    }

    /// Commits the messages to their partition, all or none, if they are many bytes for one that `is_clear` of earlier
    /// messages. Answers whether they are durable and visible; if not, nothing of them was kept.
    pub(super) async fn try_commit(
        &self,
        messages: &[Staged],
        partitions: &dyn Partitions,
        is_clear: impl Fn(&Staged) -> bool,
    ) -> bool {
        let bytes: usize = messages.iter().map(|message| message.payload.len()).sum();
        let fits = (LEAST_BYTES..=MOST_BYTES).contains(&bytes);
        let Some(first) = of_one_partition(messages).filter(|_| fits) else { return false };
        let may_go = || self.slow.load(Ordering::Acquire) == 0 && is_clear(first);
        if !may_go() {
            return false;
        }
        let Ok(Ok(slot)) = timeout(PATIENCE, Arc::clone(&self.slots).acquire_owned()).await else {
            return false;
        };
        if !may_go() {
            return false;
        }
        let Some(log) = partitions.open_log(&first.topic, first.id, first.partition) else { return false };
        if log.committing_for().is_some_and(|time| time > PATIENCE) {
            return false;
        }
        let may_take = PATIENCE + Duration::from_millis(bytes as u64 / SLOW_DISK);
        let seen_through = see_through(commit(&log, messages), may_take, slot, Arc::clone(&self.slow));
        // To the end, even if the producer goes away: the commit has the slot for as long as it has a worker.
        tokio::spawn(seen_through.in_current_span()).await.unwrap_or(false)
    }
}

/// Waits for the commit. Whatever keeps the partition from it, the WAL takes the messages and the dispatcher meets the
/// partition.
async fn see_through(
    mut commit: Commit,
    may_take: Duration,
    _slot: OwnedSemaphorePermit,
    slow: Arc<AtomicUsize>,
) -> bool {
    let outcome = match timeout(may_take, &mut commit).await {
        Ok(outcome) => outcome,
        Err(_) => {
            let _slow = Slow::new(&slow);
            commit.await
        }
    };
    outcome.is_ok()
}

/// The first of messages that are all for one partition.
fn of_one_partition(messages: &[Staged]) -> Option<&Staged> {
    let first = messages.first()?;
    let is_there = |message: &Staged| {
        message.partition == first.partition && message.id == first.id && message.topic == first.topic
    };
    messages.iter().all(is_there).then_some(first)
}
