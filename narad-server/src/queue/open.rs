//! Opening partitions on first use: the log, and where its consumers were.
//!
//! An open runs in a task of its own, one at a time for each partition, to its end: a disk that hangs in one keeps
//! nobody from what is open, and whoever asks for the same partition meanwhile shares the outcome.

use std::{sync::Arc, time::Duration};

use narad_core::{Error, plugin::PartitionId};

use super::{opening::Opening, partition::PartitionQueue, shared::Shared, topic::TopicQueue};

/// How long those who wait go without a partition that could not be opened before it is tried again.
const RETRY: Duration = Duration::from_secs(1);

impl Shared {
    /// Has everything opened that a consumer of `pinned` (of any partition when absent) needs and that is shut.
    pub(super) fn open_shut(
        self: &Arc<Self>,
        queue: &Arc<TopicQueue>,
        pinned: Option<PartitionId>,
    ) -> Vec<Opening> {
        let shut = queue.with(|state| state.shut(pinned));
        shut.into_iter().map(|partition| self.open(queue, partition)).collect()
    }

    /// Has a partition opened, be it open or not; those who wait are served before the outcome is told.
    pub(super) fn open(self: &Arc<Self>, queue: &Arc<TopicQueue>, partition: PartitionId) -> Opening {
        let (end, opening) = Opening::begin();
        let running = queue.with(|state| {
            let cell = state.cell(partition)?;
            let running = cell.opening.clone().filter(Opening::is_running);
            if running.is_none() {
                cell.opening = Some(opening.clone());
            }
            running
        });
        if let Some(running) = running {
            return running;
        }
        let (shared, queue) = (Arc::clone(self), Arc::clone(queue));
        tokio::spawn(async move {
            let outcome = shared.open_partition(&queue, partition).await;
            queue.with(|state| {
                if let Some(cell) = state.cell(partition) {
                    cell.opening = None;
                }
                if let Err(error) = &outcome {
                    state.say_failing(partition, error);
                }
            });
            let now = shared.now();
            if queue.hand_out(&shared.store, &shared.signals, now) {
                shared.signals.set_alarm(now.saturating_add(RETRY), queue.id);
            }
            end(outcome);
        });
        opening
    }

    async fn open_partition(&self, queue: &TopicQueue, partition: PartitionId) -> Result<(), Error> {
        let (spec, known) = queue.with(|state| {
            let known = state.queue(partition).is_some();
            (Arc::clone(&state.topic.spec), known)
        });
        let log = self.store.log_async(&spec, partition).await?;
        let position = if known {
            None
        } else {
            let (store, reading) = (self.store.clone(), Arc::clone(&spec));
            let read = move || store.recover_position(&reading, partition);
            Some(self.runtime.run_blocking(&spec.name, read).await?)
        };
        queue.with(|state| {
            let Some(cell) = state.cell(partition) else { return };
            let (oldest, end) = (log.oldest_offset(), log.high_watermark());
            (cell.log, cell.failing) = (Some(log), false);
            let Some(found) = position else { return };
            let position = found.position;
            let (recovered, recovery) = PartitionQueue::recover(&position, oldest, end);
            let changed = recovered.position() != position;
            cell.queue = Some(recovered);
            if recovery.clamped {
                tracing::warn!(
                    topic = &*spec.name, %partition, stated = ?position.frontier, %end,
                    "the consumers' frontier lay beyond the end of the log; it begins there"
                );
            }
            // The store has told of what it found; retention may have gone on since.
            if recovery.lost > 0 {
                state.say_lost(partition, oldest, recovery.lost);
            }
            if found.lost + recovery.lost > 0 {
                state.count_lost(partition, found.lost + recovery.lost);
            }
            if changed {
                state.record(partition, &self.store);
            }
        });
        Ok(())
    }
}
