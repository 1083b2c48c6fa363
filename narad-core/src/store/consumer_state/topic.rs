//! The positions of one topic that its files trail: never locked across file I/O.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{Consumer, ConsumerPosition};
use crate::{
    plugin::{Incarnation, PartitionId},
    store::directory::Directory,
};

#[derive(Debug)]
pub(in crate::store) struct TopicConsumers {
    pub(super) directory: Arc<Directory>,
    held: Mutex<HashMap<PartitionId, Arc<Consumer>>>,
}

/// What became of a position that was recorded.
pub(super) enum Recorded {
    /// The files say so already, or will, or nobody may know.
    Nothing,
    /// It is newer than what the committer has written.
    Newer,
    /// The same, and the committer has not got this consumer on its list.
    Unlisted(Arc<Consumer>),
}

impl TopicConsumers {
    pub(in crate::store) fn new(directory: Arc<Directory>) -> Self {
        Self { directory, held: Mutex::default() }
    }

    /// The position that the files may trail.
    pub(in crate::store) fn recorded(
        &self,
        id: Incarnation,
        partition: PartitionId,
    ) -> Option<ConsumerPosition> {
        let held = self.held.lock();
        held.get(&partition).filter(|consumer| consumer.incarnation == id).map(|consumer| consumer.position())
    }

    /// Forgets the incarnation's consumers: nothing more of them is written.
    pub(in crate::store) fn retire(&self, id: Incarnation) {
        self.held.lock().retain(|_, consumer| {
            let gone = consumer.incarnation == id;
            if gone {
                consumer.retire();
            }
            !gone
        });
    }

    /// Takes over a position; `phase` is asked for one that is new.
    pub(super) fn record(
        &self,
        id: Incarnation,
        partition: PartitionId,
        position: ConsumerPosition,
        phase: impl FnOnce() -> u32,
    ) -> Recorded {
        let mut held = self.held.lock();
        // Under the lock of the map: a retirement empties the map after it has put the incarnation on its list.
        if self.directory.is_retired(id) {
            return Recorded::Nothing;
        }
        let fresh = || Arc::new(Consumer::new(id, partition, phase()));
        let consumer = match held.entry(partition) {
            Entry::Occupied(same) if same.get().incarnation == id => same.into_mut(),
            Entry::Occupied(mut other) => {
                other.get().retire();
                other.insert(fresh());
                other.into_mut()
            }
            Entry::Vacant(vacant) => vacant.insert(fresh()),
        };
        let mut memory = consumer.memory.lock();
        if memory.position == position && (memory.dirty || memory.queued) {
            return Recorded::Nothing;
        }
        memory.position = position;
        let (was_queued, was_dirty) =
            (std::mem::replace(&mut memory.queued, true), std::mem::replace(&mut memory.dirty, true));
        match (was_queued, was_dirty) {
            (false, _) => Recorded::Unlisted(consumer.clone()),
            (true, false) => Recorded::Newer,
            (true, true) => Recorded::Nothing,
        }
    }

    /// From here on the files are the truth, and memory is given back; unless it is newer by now.
    pub(super) fn forget_if_levelled(&self, consumer: &Arc<Consumer>) -> bool {
        let mut held = self.held.lock();
        let mut memory = consumer.memory.lock();
        if memory.dirty && !memory.retired {
            return false;
        }
        memory.queued = false;
        if held.get(&consumer.partition).is_some_and(|other| Arc::ptr_eq(other, consumer)) {
            held.remove(&consumer.partition);
        }
        true
    }
}
