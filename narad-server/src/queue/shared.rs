//! What the calls, the pump and the consumers share.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use narad_core::{clock::Clock, plugin::Incarnation, runtime::Runtime, store::Store};
use parking_lot::RwLock;

use super::{QueueTopic, signals::Signals, topic::TopicQueue};

/// What they share; the pump ends with it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) runtime: Runtime,
    pub(super) signals: Arc<Signals>,
    pub(super) topics: RwLock<Topics>,
    pub(super) closed: AtomicBool,
}

/// The queues that were used since the start.
#[derive(Debug, Default)]
pub(super) struct Topics {
    pub(super) by_id: HashMap<Incarnation, Arc<TopicQueue>>,
    /// Incarnations that were deleted.
    pub(super) forgotten: VecDeque<Incarnation>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.signals.end();
    }
}

impl Shared {
    pub(super) fn now(&self) -> Duration {
        self.clock().monotonic()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Hands out what the topic has, and wakes the pump if that takes an open.
    pub(super) fn hand_out(&self, queue: &TopicQueue) {
        if queue.hand_out(&self.store, &self.signals, self.now()) {
            self.signals.ready(queue.id);
        }
    }

    /// The pump's look at a topic.
    pub(super) fn look_at(self: &Arc<Self>, id: Incarnation) {
        let Some(queue) = self.find(id) else { return };
        if queue.hand_out(&self.store, &self.signals, self.now()) {
            self.open_shut(&queue, None);
        }
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        self.runtime.clock()
    }

    pub(super) fn find(&self, id: Incarnation) -> Option<Arc<TopicQueue>> {
        self.topics.read().by_id.get(&id).cloned()
    }

    /// The topic's queue, made on first use, with the settings as given. `None` for one that was deleted.
    pub(super) fn topic(&self, topic: &QueueTopic) -> Option<Arc<TopicQueue>> {
        let id = topic.spec.incarnation;
        if let Some(queue) = self.find(id) {
            queue.configure(topic);
            return Some(queue);
        }
        let mut topics = self.topics.write();
        if topics.forgotten.contains(&id) {
            return None;
        }
        let queue = topics.by_id.entry(id).or_insert_with(|| Arc::new(TopicQueue::new(topic)));
        Some(Arc::clone(queue))
    }
}
