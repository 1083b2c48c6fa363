//! Which positions are on their way to the disk, and when the next step is due.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::{Consumer, ConsumerPosition, Step, TICK, TopicConsumers, topic::Recorded};
use crate::{
    Result,
    plugin::{Incarnation, PartitionId},
    store::Inner,
};

/// The list of partitions whose files trail.
#[derive(Debug, Default)]
pub(in crate::store) struct Committer {
    trailing: Mutex<Vec<(Arc<TopicConsumers>, Arc<Consumer>)>>,
    /// Held for a whole pass, so that a close never misses what another pass has taken off the list.
    turn: Mutex<()>,
    phases: AtomicU32,
}

impl Committer {
    /// Takes over a position. Returns whether the committer has to hear of it.
    pub(in crate::store) fn record(
        &self,
        topic: &Arc<TopicConsumers>,
        incarnation: Incarnation,
        partition: PartitionId,
        position: ConsumerPosition,
    ) -> bool {
        let phase = || self.phases.fetch_add(1, Ordering::Relaxed);
        match topic.record(incarnation, partition, position, phase) {
            Recorded::Nothing => false,
            Recorded::Newer => true,
            Recorded::Unlisted(consumer) => {
                self.trailing.lock().push((topic.clone(), consumer));
                true
            }
        }
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
        let most_held = store.options.held_position_files.max(1);
        let (mut still, mut due, mut outcome) = (Vec::new(), None::<Duration>, Ok(()));
        let mut held = work.iter().filter(|(_, consumer)| consumer.holds_file()).count();
        for (topic, consumer) in work {
            let held_before = consumer.holds_file();
            let (next, mut result) = consumer.step(Step { store, directory: &topic.directory, now, exact });
            held = held + usize::from(consumer.holds_file()) - usize::from(held_before);
            if held > most_held && result.is_ok() {
                // The next write opens it again.
                result = consumer.release_file();
                held -= usize::from(!consumer.holds_file());
            }
            if let Err(error) = result {
                store.count_error("consumer_state");
                if !consumer.keeps_failing() {
                    tracing::error!(topic = %topic.directory.name, partition = %consumer.partition, %error,
                        "could not write a consumer's position; it will be tried again");
                }
                outcome = outcome.and(Err(error));
            }
            if next.is_none() && topic.forget_if_levelled(&consumer) {
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
