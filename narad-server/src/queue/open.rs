//! Opening partitions on first use: the log, and where its consumers were.

use std::{sync::Arc, time::Duration};

use narad_core::{Error, plugin::PartitionId};
use tokio::task::JoinSet;

use super::{
    partition::PartitionQueue,
    queues::Shared,
    topic::{Cell, TopicQueue},
};

/// How long those who wait go without a partition that could not be opened before it is tried again.
const RETRY: Duration = Duration::from_secs(1);

impl Shared {
    /// Opens what a consumer of `pinned` (of any partition when absent) needs and is not open.
    ///
    /// # Errors
    /// What kept the pinned partition from being opened; without one, only when not a single partition is open.
    pub(super) async fn open_missing(
        self: &Arc<Self>,
        queue: &Arc<TopicQueue>,
        pinned: Option<PartitionId>,
    ) -> Result<(), Error> {
        if let Some(partition) = pinned {
            return self.open(queue, partition).await;
        }
        let shut: Vec<PartitionId> = queue.with(|state| {
            let shut = state.cells.iter().zip(0u32..).filter(|(cell, _)| cell.is_shut());
            shut.map(|(_, index)| PartitionId(index)).collect()
        });
        let mut opens = JoinSet::new();
        for partition in shut {
            let (shared, queue) = (Arc::clone(self), Arc::clone(queue));
            opens.spawn(async move { (partition, shared.open(&queue, partition).await) });
        }
        let mut failure = None;
        while let Some(opened) = opens.join_next().await {
            if let Ok((partition, Err(error))) = opened {
                queue.with(|state| state.say_failing(partition, &error));
                failure = Some(error);
            }
        }
        let usable = queue.with(|state| state.dead || state.cells.iter().any(|cell| !cell.is_shut()));
        failure.filter(|_| !usable).map_or(Ok(()), Err)
    }

    /// Opens one partition, unless it is open. One open of it runs at a time, and the others share its success.
    pub(super) async fn open(&self, queue: &TopicQueue, partition: PartitionId) -> Result<(), Error> {
        let look = |cell: &Cell| cell.is_shut().then(|| (Arc::clone(&cell.gate), cell.queue.is_some()));
        let (spec, gate) = queue.with(|state| {
            let spec = Arc::clone(&state.topic.spec);
            (spec, state.cell(partition).map(|cell| look(cell).map(|(gate, _)| gate)))
        });
        let gate = match gate {
            Some(Some(gate)) => gate,
            Some(None) => return Ok(()),
            None if queue.with(|state| state.dead) => return Ok(()),
            None => {
                let reason = format!("{partition}: topic {} has {}", spec.name, spec.partitions);
                return Err(Error::InvalidArgument { name: "partition", reason });
            }
        };
        let _gate = gate.lock().await;
        let Some((_, known)) = queue.with(|state| state.cell(partition).and_then(|cell| look(cell))) else {
            return Ok(());
        };
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

    /// Opens what those who wait need, beside the pump. What cannot be opened is tried again later.
    pub(super) fn open_for_waiters(self: &Arc<Self>, queue: Arc<TopicQueue>) {
        if queue.with(|state| std::mem::replace(&mut state.opening, true)) {
            return;
        }
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            _ = shared.open_missing(&queue, None).await;
            queue.with(|state| state.opening = false);
            let now = shared.now();
            if queue.hand_out(&shared.store, &shared.signals, now) {
                shared.signals.set_alarm(now.saturating_add(RETRY), queue.id);
            }
        });
    }
}
