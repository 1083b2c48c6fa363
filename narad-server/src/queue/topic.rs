//! The queue of one topic: its partitions and its line of consumers, under one lock.
//!
//! Nothing here does I/O. What needs it (opening a partition, reading a record) is done elsewhere, before or after.

use std::{sync::Arc, time::Duration};

use narad_core::{
    format::Offset,
    log::Log,
    plugin::{Incarnation, PartitionId},
    store::Store,
};
use parking_lot::Mutex;

use super::{
    QueueStats, QueueTopic, Receipt, Settle,
    opening::Opening,
    partition::{LeaseGone, PartitionQueue},
    signals::Signals,
    waiters::{Grant, Waiters},
};

/// The queue of one incarnation of a topic.
#[derive(Debug)]
pub(super) struct TopicQueue {
    pub(super) id: Incarnation,
    state: Mutex<State>,
}

/// What the lock of a topic guards.
#[derive(Debug)]
pub(super) struct State {
    pub(super) topic: QueueTopic,
    pub(super) cells: Vec<Cell>,
    pub(super) waiters: Waiters,
    /// The partition whose turn it is.
    pub(super) turn: usize,
    /// The topic was deleted.
    pub(super) dead: bool,
    /// When the pump will look here because a lease ends.
    pub(super) alarm: Option<Duration>,
}

/// One partition.
#[derive(Debug, Default)]
pub(super) struct Cell {
    /// Absent until the position was read.
    pub(super) queue: Option<PartitionQueue>,
    /// The log as it was last seen; it may have been closed since.
    pub(super) log: Option<Log>,
    /// The last try to open it failed, which was said then.
    pub(super) failing: bool,
    /// The open that runs, if one does.
    pub(super) opening: Option<Opening>,
    /// Records that could not be read and were passed over.
    skipped: u64,
    /// Records that retention took before they were settled.
    lost: u64,
}

impl Cell {
    /// Whether the partition has to be opened before it can give out anything.
    pub(super) fn is_shut(&self) -> bool {
        self.queue.is_none() || self.log.as_ref().is_none_or(Log::is_closed)
    }
}

impl TopicQueue {
    pub(super) fn new(topic: &QueueTopic) -> Self {
        let mut state = State {
            topic: topic.clone(),
            cells: Vec::new(),
            waiters: Waiters::default(),
            turn: 0,
            dead: false,
            alarm: None,
        };
        state.grow();
        Self { id: topic.spec.incarnation, state: Mutex::new(state) }
    }

    /// Runs `work` under the topic's lock. It must not do I/O.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock())
    }

    /// Takes over settings that are newer than those in force: whoever looked the topic up before a change may come
    /// later than the change.
    pub(super) fn configure(&self, topic: &QueueTopic) {
        self.with(|state| {
            if topic.version > state.topic.version {
                state.topic = topic.clone();
                state.grow();
            }
        });
    }

    /// Hands what there is to those who wait, in the order in which they came. Returns whether somebody still waits
    /// who would need a partition opened.
    pub(super) fn hand_out(&self, store: &Store, signals: &Signals, now: Duration) -> bool {
        self.with(|state| {
            if state.waiters.is_empty() {
                return false;
            }
            state.hand_out(store, now);
            state.arm(self.id, signals, now);
            !state.waiters.is_empty() && !state.dead && state.cells.iter().any(Cell::is_shut)
        })
    }

    /// Does what a consumer asks of a lease.
    pub(super) fn settle(
        &self,
        receipt: Receipt,
        how: Settle,
        store: &Store,
        signals: &Signals,
        now: Duration,
    ) -> Result<(), LeaseGone> {
        let Receipt { partition, offset, nonce } = receipt;
        self.with(|state| {
            let expires = now.saturating_add(state.topic.visibility);
            let queue = state.queue(partition).ok_or(LeaseGone)?;
            match how {
                Settle::Ack => {
                    queue.ack(offset, nonce, now)?;
                    state.record(partition, store);
                }
                Settle::Extend => queue.extend(offset, nonce, now, expires)?,
                Settle::Release => queue.release(offset, nonce, now)?,
            }
            state.arm(self.id, signals, now);
            Ok(())
        })
    }

    /// The state of each partition that was used.
    pub(super) fn stats(&self, now: Duration) -> Vec<QueueStats> {
        self.with(|state| {
            let used = |(cell, index): (&Cell, u32)| {
                let queue = cell.queue.as_ref()?;
                Some(QueueStats {
                    partition: PartitionId(index),
                    frontier: queue.frontier(),
                    in_flight: queue.in_flight(now),
                    acked_ahead: queue.acked_ahead(),
                    skipped: cell.skipped,
                    lost: cell.lost,
                })
            };
            state.cells.iter().zip(0u32..).filter_map(used).collect()
        })
    }
}

impl State {
    /// Makes a cell for each partition. There are never fewer than before.
    fn grow(&mut self) {
        let partitions = self.topic.spec.partitions as usize;
        if self.cells.len() < partitions {
            self.cells.resize_with(partitions, Cell::default);
        }
    }

    pub(super) fn cell(&mut self, partition: PartitionId) -> Option<&mut Cell> {
        self.cells.get_mut(partition.0 as usize)
    }

    pub(super) fn queue(&mut self, partition: PartitionId) -> Option<&mut PartitionQueue> {
        self.cell(partition)?.queue.as_mut()
    }

    /// Follows retention: the frontier is never below what the log keeps.
    pub(super) fn jump(&mut self, partition: PartitionId, oldest: Offset, store: &Store) {
        let Some(cell) = self.cell(partition) else { return };
        let Some(queue) = &mut cell.queue else { return };
        let lost = queue.jump_to(oldest);
        if lost > 0 {
            cell.lost = cell.lost.saturating_add(lost);
            self.say_lost(partition, oldest, lost);
            self.record(partition, store);
        }
    }

    /// The partitions that a consumer of `pinned`, of any when absent, needs and that are shut.
    pub(super) fn shut(&self, pinned: Option<PartitionId>) -> Vec<PartitionId> {
        let cells = self.cells.iter().zip(0u32..).map(|(cell, index)| (cell, PartitionId(index)));
        let needed = cells.filter(|(_, partition)| pinned.is_none_or(|pinned| pinned == *partition));
        needed.filter(|(cell, _)| cell.is_shut()).map(|(_, partition)| partition).collect()
    }

    /// Whether a consumer of `pinned`, of any when absent, can be given anything at all.
    pub(super) fn is_usable(&self, pinned: Option<PartitionId>) -> bool {
        let needed = pinned.map_or(self.cells.len(), |_| 1);
        self.shut(pinned).len() < needed
    }

    /// Says that retention took records before they were settled.
    pub(super) fn say_lost(&self, partition: PartitionId, oldest: Offset, lost: u64) {
        tracing::warn!(
            topic = &*self.topic.spec.name, %partition, %oldest, messages = lost,
            "retention has passed the frontier; unsettled messages are lost"
        );
    }

    /// Says that a partition cannot be opened, once for as long as that is so.
    pub(super) fn say_failing(&mut self, partition: PartitionId, error: &narad_core::Error) {
        let said = self.cell(partition).is_none_or(|cell| std::mem::replace(&mut cell.failing, true));
        if !said {
            let topic = &*self.topic.spec.name;
            tracing::error!(topic, %partition, %error, "partition cannot be opened; consumers go without it");
        }
    }

    /// Counts records that retention took.
    pub(super) fn count_lost(&mut self, partition: PartitionId, lost: u64) {
        if let Some(cell) = self.cell(partition) {
            cell.lost = cell.lost.saturating_add(lost);
        }
    }

    /// Passes over a range that cannot be read. What `held` holds of it goes first. Returns how many messages are lost by
    /// it.
    pub(super) fn skip(
        &mut self,
        partition: PartitionId,
        range: std::ops::Range<Offset>,
        held: &[Grant],
        store: &Store,
        now: Duration,
    ) -> u64 {
        let Some(cell) = self.cell(partition) else { return 0 };
        let Some(queue) = &mut cell.queue else { return 0 };
        for grant in held {
            // An end of the lease that retention brought is no matter here.
            _ = queue.release(grant.offset, grant.nonce, now);
        }
        let skipped = queue.skip(range.clone(), now);
        cell.skipped = cell.skipped.saturating_add(skipped);
        if skipped > 0 {
            tracing::error!(
                topic = &*self.topic.spec.name, %partition, from = %range.start, to = %range.end, skipped,
                "messages cannot be read and are passed over"
            );
            self.record(partition, store);
        }
        skipped
    }

    /// Gives leases back.
    pub(super) fn release(&mut self, grants: &[Grant], now: Duration) {
        for grant in grants {
            if let Some(queue) = self.queue(grant.partition) {
                _ = queue.release(grant.offset, grant.nonce, now);
            }
        }
    }

    /// The records were read and go to their consumer: the time of their leases begins. Returns whether the lease
    /// still exists; retention may have ended it.
    pub(super) fn begin(&mut self, grant: &Grant, now: Duration) -> bool {
        let expires = now.saturating_add(self.topic.visibility);
        let begun = self.queue(grant.partition).map(|queue| queue.begin(grant.offset, grant.nonce, expires));
        matches!(begun, Some(Ok(())))
    }

    /// Tells the store how far the partition is.
    pub(super) fn record(&mut self, partition: PartitionId, store: &Store) {
        let spec = Arc::clone(&self.topic.spec);
        if let Some(queue) = self.queue(partition) {
            store.record_position(&spec, partition, queue.position());
        }
    }
}
