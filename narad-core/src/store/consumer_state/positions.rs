//! The two questions that a store answers about consumers: where they are, and where they are now.

use super::{ConsumerPosition, clamp, recover};
use crate::{
    Result,
    plugin::PartitionId,
    store::{Inner, TopicSpec, topic::OpenLog},
};

impl Inner {
    pub(in crate::store) fn consumer_position(
        &self,
        spec: &TopicSpec,
        partition: PartitionId,
    ) -> Result<ConsumerPosition> {
        self.check_open()?;
        spec.check(partition)?;
        let topic = self.topic(&spec.name)?;
        if let Some(position) = topic.recorded(spec.incarnation, partition) {
            return Ok(position);
        }
        let mut position = {
            let guarded = topic.guard.lock();
            // It may have been recorded while this one waited for the guard.
            if let Some(position) = topic.recorded(spec.incarnation, partition) {
                return Ok(position);
            }
            let Some(paths) = topic.existing(&guarded, self, spec.incarnation, partition)? else {
                return Ok(ConsumerPosition::default());
            };
            let recovered = recover(&**self.runtime.disk(), &paths)?;
            if recovered.passed_over {
                self.count_error("state_file");
            }
            recovered.position
        };
        if let Some(open) = topic.find(spec.incarnation, partition) {
            self.fit(spec, &open, &mut position);
            *open.frontier.lock() = position.frontier;
        }
        Ok(position)
    }

    /// Brings the position into the log's bounds. What had to be changed is recorded, so that it is told of once.
    fn fit(&self, spec: &TopicSpec, open: &OpenLog, position: &mut ConsumerPosition) {
        let (start, end) = (open.log.oldest_offset(), open.log.high_watermark());
        let found = position.frontier;
        let Some(reason) = clamp(position, start, end) else { return };
        tracing::warn!(topic = %spec.name, partition = %open.partition, ?found, %start, %end, "{reason}");
        self.count_error("consumer_position_clamped");
        self.record_position(spec, open.partition, position.clone());
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
            *open.frontier.lock() = position.frontier;
        }
        if self.committer.record(&topic, spec.incarnation, partition, position) {
            self.background.position_moved();
        }
    }
}
