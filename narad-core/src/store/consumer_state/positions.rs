//! The two questions that a store answers about consumers: where they are, and where they are now.

use std::sync::atomic::Ordering;

use super::{ConsumerPosition, Fitted, RecoveredPosition, fit, recover};
use crate::{
    Result,
    format::Offset,
    plugin::PartitionId,
    store::{
        Inner, TopicSpec,
        layout::PartitionPaths,
        open_log::{Frontier, OpenLog},
    },
};

impl Inner {
    pub(in crate::store) fn recover_position(
        &self,
        spec: &TopicSpec,
        partition: PartitionId,
    ) -> Result<RecoveredPosition> {
        self.check_open()?;
        spec.check(partition)?;
        let topic = self.topic(&spec.name)?;
        if let Some(position) = topic.consumers.recorded(spec.incarnation, partition) {
            return Ok(RecoveredPosition { position, ..RecoveredPosition::default() });
        }
        let mut position = {
            let guarded = topic.directory.lock();
            // It may have been recorded while this one waited for the guard.
            if let Some(position) = topic.consumers.recorded(spec.incarnation, partition) {
                return Ok(RecoveredPosition { position, ..RecoveredPosition::default() });
            }
            match guarded.existing(self, spec.incarnation, partition)? {
                Some(paths) => self.recovered_position(&paths)?,
                None => return Ok(RecoveredPosition::default()),
            }
        };
        let mut fitted = Fitted::default();
        if let Some(open) = topic.find(spec.incarnation, partition) {
            fitted = self.fit(spec, &open, &mut position);
            open.set_frontier(position.frontier);
        }
        Ok(RecoveredPosition { position, lost: fitted.lost, clamped: fitted.beyond })
    }

    pub(in crate::store) fn stated_frontier(
        &self,
        spec: &TopicSpec,
        partition: PartitionId,
    ) -> Result<Option<Offset>> {
        self.check_open()?;
        spec.check(partition)?;
        let topic = self.topic(&spec.name)?;
        if let Some(position) = topic.consumers.recorded(spec.incarnation, partition) {
            return Ok(position.frontier);
        }
        let guarded = topic.directory.lock();
        let Some(paths) = guarded.existing(self, spec.incarnation, partition)? else { return Ok(None) };
        Ok(recover(&**self.runtime.disk(), &paths)?.position.frontier)
    }

    /// What the partition's files say of its consumers. Called with the guard held.
    pub(in crate::store) fn recovered_position(&self, paths: &PartitionPaths) -> Result<ConsumerPosition> {
        let recovered = recover(&**self.runtime.disk(), paths)?;
        if recovered.passed_over {
            self.count_error("state_file");
        }
        Ok(recovered.position)
    }

    /// Brings the position into the log's bounds. What had to be changed is recorded, so that it is told of once.
    fn fit(&self, spec: &TopicSpec, open: &OpenLog, position: &mut ConsumerPosition) -> Fitted {
        let (start, end) = (open.log.oldest_offset(), open.end_of_positions());
        let found = position.frontier;
        let fitted = fit(position, start, end);
        if fitted.beyond {
            tracing::warn!(topic = %spec.name, partition = %open.partition, ?found, %end,
                "what is said to be settled lies beyond the log's end; brought there");
            self.count_error("consumer_position_clamped");
        }
        if fitted.lost > 0 {
            tracing::warn!(topic = %spec.name, partition = %open.partition, ?found, %start, lost = fitted.lost,
                "retention has passed the frontier; what was not settled is lost");
            self.counters.lost_to_retention.fetch_add(fitted.lost, Ordering::Relaxed);
        }
        if fitted != Fitted::default() {
            self.record_position(spec, open.partition, position.clone());
        }
        fitted
    }

    pub(in crate::store) fn record_position(
        &self,
        spec: &TopicSpec,
        partition: PartitionId,
        position: ConsumerPosition,
    ) {
        let topic = match self
            .check_open()
            .and_then(|()| spec.check(partition))
            .and_then(|()| self.topic(&spec.name))
        {
            Ok(topic) => topic,
            Err(error) => {
                tracing::debug!(topic = %spec.name, %partition, %error, "a consumer's position came to nothing");
                return;
            }
        };
        if let Some(open) = topic.find(spec.incarnation, partition) {
            open.set_frontier(position.frontier);
        } else if let Some(cold) = topic.cold.lock().get_mut(&partition) {
            cold.frontier = Frontier::Known(position.frontier);
        }
        if self.committer.record(&topic.consumers, spec.incarnation, partition, position) {
            self.background.position_moved();
        }
    }
}
