//! Which positions are on their way to the disk, and when the next step is due.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::{Consumer, ConsumerPosition, Step, TICK};
use crate::{
    Result,
    plugin::{Incarnation, PartitionId},
    store::{Inner, topic::Topic},
};

/// The list of partitions whose files trail.
#[derive(Debug, Default)]
pub(in crate::store) struct Committer {
    trailing: Mutex<Vec<(Arc<Topic>, Arc<Consumer>)>>,
    /// Held for a whole pass, so that a close never misses what another pass has taken off the list.
    turn: Mutex<()>,
    phases: AtomicU32,
}

impl Committer {
    /// Takes over a position. Returns whether the committer has to hear of it.
    pub(in crate::store) fn record(
        &self,
        topic: &Arc<Topic>,
        incarnation: Incarnation,
        partition: PartitionId,
        position: ConsumerPosition,
    ) -> bool {
        let mut consumers = topic.consumers.lock();
        // Under the lock of the map: a retirement empties the map after it has put the incarnation on its list.
        if topic.is_retired(incarnation) {
            return false;
        }
        let fresh =
            || Arc::new(Consumer::new(incarnation, partition, self.phases.fetch_add(1, Ordering::Relaxed)));
        let consumer = consumers.entry(partition).or_insert_with(fresh);
        if consumer.incarnation != incarnation {
            consumer.retire();
            *consumer = fresh();
        }
        let mut memory = consumer.memory.lock();
        if memory.position == position && (memory.dirty || memory.queued) {
            return false;
        }
        memory.position = position;
        if !std::mem::replace(&mut memory.queued, true) {
            self.trailing.lock().push((topic.clone(), consumer.clone()));
        }
        !std::mem::replace(&mut memory.dirty, true)
    }

    /// One pass over what trails. Returns when the next one is due, and with `exact` the first failure.
    pub(in crate::store) fn pass(
        &self,
        store: &Inner,
        now: Duration,
        exact: bool,
    ) -> (Option<Duration>, Result<()>) {
        let _turn = self.turn.lock();
        let work = std::mem::take(&mut *self.trailing.lock());
        let (mut still, mut due, mut outcome) = (Vec::new(), None::<Duration>, Ok(()));
        for (topic, consumer) in work {
            let (next, result) = consumer.step(Step { store, topic: &topic, now, exact });
            if let Err(error) = result {
                store.count_error("consumer_state");
                tracing::error!(topic = %topic.name, partition = %consumer.partition, %error,
                    "could not write a consumer's position; it will be tried again");
                outcome = outcome.and(Err(error));
            }
            if next.is_none() && forget_if_levelled(&topic, &consumer) {
                continue;
            }
            let next = next.unwrap_or(now.saturating_add(TICK));
            due = Some(due.map_or(next, |due| due.min(next)));
            still.push((topic, consumer));
        }
        self.trailing.lock().extend(still);
        (due, outcome)
    }
}

/// From here on the files are the truth, and memory is given back.
fn forget_if_levelled(topic: &Topic, consumer: &Arc<Consumer>) -> bool {
    let mut consumers = topic.consumers.lock();
    let mut memory = consumer.memory.lock();
    if memory.dirty && !memory.retired {
        return false;
    }
    memory.queued = false;
    if consumers.get(&consumer.partition).is_some_and(|held| Arc::ptr_eq(held, consumer)) {
        consumers.remove(&consumer.partition);
    }
    true
}
