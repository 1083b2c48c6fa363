//! The queues of all topics, and the calls that the broker makes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use narad_core::{
    format::Offset,
    plugin::{Incarnation, PartitionId, WakeNotifier},
    runtime::Runtime,
    store::Store,
};
use parking_lot::RwLock;

use super::{
    Consume, Delivery, QueueError, QueueTopic, Receipt, Settle, consume, pump, shared::Shared,
    signals::Signals,
};

/// Deleted incarnations to be remembered, so that a late request does not bring one back.
const FORGOTTEN: usize = 1024;

/// How far the consumers of a partition are, and what passed them by since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// The partition.
    pub partition: PartitionId,
    /// The highest offset at and below which everything is settled; `None` when nothing is.
    pub frontier: Option<Offset>,
    /// Leases in force.
    pub in_flight: usize,
    /// Offsets acked above the frontier.
    pub acked_ahead: u64,
    /// Records that could not be read and were passed over.
    pub skipped: u64,
    /// Records that retention took before they were settled.
    pub lost: u64,
}

/// The queues of a server. One pump serves all of them.
#[derive(Debug)]
pub struct Queues {
    shared: Arc<Shared>,
}

impl Queues {
    /// Queues over the logs and positions of `store`, by the clock and on the pool of `runtime`. Must be called within
    /// a tokio runtime, which the pump then runs on.
    pub fn new(runtime: &Runtime, store: Store) -> Self {
        let signals = Arc::<Signals>::default();
        let shared = Arc::new(Shared {
            store,
            runtime: runtime.clone(),
            signals: Arc::clone(&signals),
            topics: RwLock::default(),
            closed: AtomicBool::new(false),
        });
        tokio::spawn(pump::run(Arc::downgrade(&shared), signals));
        Self { shared }
    }

    /// What the logs of every topic must be opened with, or consumers that wait are not told of new records.
    pub fn notifier(&self) -> Arc<dyn WakeNotifier> {
        Arc::<Signals>::clone(&self.shared.signals)
    }

    /// Leases the next records, waiting for the first one as long as the request says; none when there was none, when
    /// the topic is deleted meanwhile, or when [`close`](Self::close) is called. A record that came back goes before a
    /// new one; partitions take turns; consumers are served in the order in which they came.
    ///
    /// Dropping the future gives back everything that it was handed, at once.
    ///
    /// # Errors
    /// `Storage` when a partition could not be opened or a record not be read; nothing is leased then. `Closed` after
    /// a close.
    pub async fn consume(&self, topic: &QueueTopic, request: Consume) -> Result<Vec<Delivery>, QueueError> {
        if self.shared.is_closed() {
            return Err(QueueError::Closed);
        }
        let Some(queue) = self.shared.topic(topic) else { return Ok(Vec::new()) };
        consume::consume(&self.shared, &queue, request).await
    }

    /// Settles, renews or gives back one lease. An ack is on disk within the store's commit interval; a crash before
    /// that delivers the record again.
    ///
    /// # Errors
    /// `Gone` when the lease expired, was settled, or is not this topic's, whatever is asked of it.
    pub async fn settle(&self, topic: &QueueTopic, receipt: Receipt, how: Settle) -> Result<(), QueueError> {
        let shared = &self.shared;
        // Leases are remembered by nobody else: a queue that was not used since the start has none.
        let queue = shared.find(topic.spec.incarnation).ok_or(QueueError::Gone)?;
        queue
            .settle(receipt, how, &shared.store, &shared.signals, shared.now())
            .map_err(|_| QueueError::Gone)?;
        shared.hand_out(&queue);
        Ok(())
    }

    /// Takes over settings of a topic that changed, and serves those who wait by the new ones: a cap may have been
    /// raised, a partition added.
    pub fn configure(&self, topic: &QueueTopic) {
        if let Some(queue) = self.shared.find(topic.spec.incarnation) {
            queue.configure(topic);
            self.shared.signals.ready(queue.id);
        }
    }

    /// Forgets a deleted topic: its leases are gone, whoever waits is answered, and a late request finds nothing.
    pub fn forget(&self, _topic: &str, id: Incarnation) {
        let queue = {
            let mut topics = self.shared.topics.write();
            if topics.forgotten.len() >= FORGOTTEN {
                topics.forgotten.pop_front();
            }
            topics.forgotten.push_back(id);
            topics.by_id.remove(&id)
        };
        if let Some(queue) = queue {
            queue.with(|state| {
                state.dead = true;
                state.cells.clear();
                state.waiters.signal_all();
            });
        }
    }

    /// How far the consumers of a topic are; only partitions that were used since the start.
    pub fn stats(&self, id: Incarnation) -> Vec<QueueStats> {
        self.shared.find(id).map(|queue| queue.stats(self.shared.now())).unwrap_or_default()
    }

    /// Answers everybody who waits, with nothing, and refuses consumes from now on. Leases can still be settled.
    pub fn close(&self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        for queue in self.shared.topics.read().by_id.values() {
            queue.with(|state| state.waiters.signal_all());
        }
    }
}
