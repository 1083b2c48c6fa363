//! Consume, settle and replay.

use std::{sync::atomic::Ordering, time::Duration};

use narad_core::{
    Error,
    clock::Clock,
    format::{Offset, Record},
    plugin::PartitionId,
    store::TopicSpec,
};
use tracing::Instrument;

use super::{
    Broker, BrokerError,
    catalog::TopicEntry,
    counters::{Outcome, TopicLife},
    produce::check_partition,
};
use crate::{
    queue::{Consume, Delivery, QueueError, Receipt, Settle},
    telemetry::spans::{self, Operation},
};

/// What a replay found at an offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replayed {
    /// The record.
    Record(Record),
    /// Nothing was committed there yet.
    PastTheEnd,
}

/// A consume that runs. Counted when it ends, also when its client leaves and it is dropped.
struct Waiting<'a> {
    life: &'a TopicLife,
    clock: &'a dyn Clock,
    since: Duration,
    outcome: Outcome,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let took = self.clock.monotonic().saturating_sub(self.since);
        self.life.waits.of(self.outcome).observe(took);
    }
}

impl Broker {
    /// Leases the next messages, waiting for the first one as long as `request` says; none when there was none.
    /// Dropping the future gives everything back.
    ///
    /// # Errors
    /// `Invalid` for a partition that the topic has not got; `NoTopic` also when the topic was deleted while this waited;
    /// `Unserved`.
    pub async fn consume(&self, topic: &str, request: Consume) -> Result<Vec<Delivery>, BrokerError> {
        let entry = self.0.catalog.topic(topic).await?;
        let span = spans::messaging(Operation::Receive, &entry.topic.name);
        let deliveries = self.consume_of(&entry, request).instrument(span.clone()).await?;
        let sizes = deliveries.iter().map(|one| (one.partition.0, one.record.payload.len()));
        spans::messages(&span, sizes);
        Ok(deliveries)
    }

    async fn consume_of(&self, entry: &TopicEntry, request: Consume) -> Result<Vec<Delivery>, BrokerError> {
        if let Some(partition) = request.partition {
            check_partition(partition, entry.topic.partitions)?;
        }
        let queue = entry.queue()?;
        let clock = self.0.runtime.clock();
        let mut wait = Waiting {
            life: &entry.life,
            clock: &**clock,
            since: clock.monotonic(),
            outcome: Outcome::Cancelled,
        };
        let deliveries = match self.0.queues.consume(queue, request).await {
            Ok(deliveries) => deliveries,
            Err(QueueError::Storage(error)) => return Err(self.failed(entry, error).await),
            Err(error) => return Err(error.into()),
        };
        wait.outcome = match (deliveries.is_empty(), request.wait.is_zero()) {
            (false, _) => Outcome::Hit,
            (true, false) => Outcome::Timeout,
            (true, true) => Outcome::NoWait,
        };
        drop(wait);
        if deliveries.is_empty() {
            self.still_there(entry).await?;
            entry.life.empty.fetch_add(1, Ordering::Relaxed);
        }
        for delivery in &deliveries {
            if let Some(counters) = entry.counters(delivery.partition) {
                counters.consumed(delivery.record.payload.len() as u64);
            }
        }
        Ok(deliveries)
    }

    /// Acknowledges, renews or gives back one lease.
    ///
    /// # Errors
    /// `LeaseGone` when it expired, was settled, or is another topic's.
    pub async fn settle(&self, topic: &str, receipt: Receipt, how: Settle) -> Result<(), BrokerError> {
        let entry = self.0.catalog.topic(topic).await?;
        if receipt.partition.0 >= entry.topic.partitions {
            return Err(BrokerError::LeaseGone);
        }
        let span = spans::messaging(Operation::Settle, &entry.topic.name);
        self.0.queues.settle(entry.queue()?, receipt, how).instrument(span).await?;
        match how {
            Settle::Extend => drop(entry.life.extended.fetch_add(1, Ordering::Relaxed)),
            Settle::Release => drop(entry.life.released.fetch_add(1, Ordering::Relaxed)),
            Settle::Ack => {}
        }
        Ok(())
    }

    /// Reads one record, leasing nothing.
    ///
    /// # Errors
    /// `Expired` when retention took it, `Unreadable` when it is damaged or of an unknown codec.
    pub async fn replay(
        &self,
        topic: &str,
        partition: PartitionId,
        offset: Offset,
    ) -> Result<Replayed, BrokerError> {
        let entry = self.0.catalog.topic(topic).await?;
        check_partition(partition, entry.topic.partitions)?;
        match self.read(entry.spec()?, partition, offset).await {
            Ok(record) => Ok(Replayed::Record(record)),
            Err(Error::NotYet { .. }) => Ok(Replayed::PastTheEnd),
            Err(Error::Expired { offset, oldest }) => Err(BrokerError::Expired { offset, oldest }),
            Err(source @ (Error::Corrupt { .. } | Error::UnknownCodec { .. })) => {
                tracing::warn!(%topic, %partition, error = %source, "a record that was asked for cannot be read");
                Err(BrokerError::Unreadable { offset, source })
            }
            Err(error) => Err(self.failed(&entry, error).await),
        }
    }

    async fn read(&self, spec: &TopicSpec, partition: PartitionId, offset: Offset) -> Result<Record, Error> {
        let log = || self.0.store.log_async(spec, partition);
        match log().await?.read_async(offset).await {
            // It was idle, and closed just then.
            Err(Error::Closed) => log().await?.read_async(offset).await,
            outcome => outcome,
        }
    }

    /// Whether the topic is what it was; as far as is known, for nothing failed that the caller asked for.
    async fn still_there(&self, entry: &TopicEntry) -> Result<(), BrokerError> {
        match self.0.catalog.topic(&entry.topic.name).await {
            Ok(current) if current.topic.id != entry.topic.id => {
                Err(BrokerError::NoTopic(entry.topic.name.to_string()))
            }
            Err(gone @ BrokerError::NoTopic(_)) => Err(gone),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// What a failure of storage means: when the topic was deleted meanwhile, that is all there is to say.
    async fn failed(&self, entry: &TopicEntry, error: Error) -> BrokerError {
        match self.0.catalog.meta().topic(&entry.topic.name).await {
            Ok(current) if current.as_ref().is_none_or(|topic| topic.id != entry.topic.id) => {
                BrokerError::NoTopic(entry.topic.name.to_string())
            }
            _ => error.into(),
        }
    }
}
