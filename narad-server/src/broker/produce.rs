//! Produce: to a partition by key, by number or in turn, through the ingress.

use std::{cell::LazyCell, sync::Arc};

use bytes::Bytes;
use narad_core::plugin::PartitionId;
use tracing::Instrument;

use super::{Broker, BrokerError, catalog::TopicEntry};
use crate::{
    ingress::{IngressError, Staged},
    placement,
    telemetry::spans::{self, Operation},
};

/// The largest payload of a message, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;
/// The largest key of a message, in bytes: what fits the head of a single produce. So that an answer with one message
/// stays within its bound, whatever JSON makes of key and payload.
pub const MAX_KEY_BYTES: usize = 64 << 10;
/// The most messages of one batch.
pub const MAX_BATCH_MESSAGES: usize = 1000;

/// A message to be produced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// Picks the partition, unless that is given; empty when there is none, and at most 64 KiB.
    pub key: Bytes,
    /// The message, 1 byte to 1 MiB.
    pub payload: Bytes,
    /// The partition; wins over the key. A message whose producer names it goes there and nowhere else: while it does
    /// not take messages, it waits.
    pub partition: Option<PartitionId>,
}

impl Broker {
    /// Takes one message. `Ok` means that it is synced to disk and survives a power loss.
    ///
    /// # Errors
    /// After any error nothing of the message is kept.
    pub async fn produce(&self, topic: &str, message: Message) -> Result<(), BrokerError> {
        let entry = self.0.catalog.topic(topic).await?;
        let _in_flight = entry.life.in_flight.begin();
        check_takes_produce(&entry, 1)?;
        let staged = vec![stage(&entry, message, &turn(&entry))?];
        if let Some((_, refusal)) = self.refused_by_schema(&entry, &staged).await? {
            return Err(refusal);
        }
        self.take(&entry, staged).await
    }

    /// Takes 1 to 1000 messages, all or none, in order. `Ok` is how many, synced to disk.
    ///
    /// # Errors
    /// `Message` names the first message that is refused; nothing of the batch is kept.
    pub async fn produce_batch(&self, topic: &str, messages: Vec<Message>) -> Result<usize, BrokerError> {
        let entry = self.0.catalog.topic(topic).await?;
        let _in_flight = entry.life.in_flight.begin();
        check_takes_produce(&entry, messages.len())?;
        if !(1..=MAX_BATCH_MESSAGES).contains(&messages.len()) {
            let reason = format!("1 to {MAX_BATCH_MESSAGES}, not {}", messages.len());
            return Err(BrokerError::invalid("messages", reason));
        }
        let staged = stage_all(&entry, messages)?;
        let count = staged.len();
        if let Some((index, refusal)) = self.refused_by_schema(&entry, &staged).await? {
            return Err(BrokerError::Message { index, source: Box::new(refusal) });
        }
        self.take(&entry, staged).await?;
        Ok(count)
    }

    async fn take(&self, entry: &TopicEntry, staged: Vec<Staged>) -> Result<(), BrokerError> {
        let sizes: Vec<_> = staged.iter().map(|one| (one.partition, one.payload.len() as u64)).collect();
        let span = spans::messaging(Operation::Send, &entry.topic.name);
        spans::messages(&span, staged.iter().map(|one| (one.partition.0, one.payload.len())));
        if let Err(error) = self.0.ingress.produce(staged).instrument(span).await {
            entry.life.reject(reason(&error), sizes.len() as u64);
            return Err(error.into());
        }
        for (partition, bytes) in sizes {
            if let Some(counters) = entry.counters(partition) {
                counters.produced(bytes);
            }
        }
        Ok(())
    }
}

fn check_takes_produce(entry: &TopicEntry, messages: usize) -> Result<(), BrokerError> {
    // It could wait in the produce log, and nobody knows for how long.
    entry.queue().inspect_err(|_| entry.life.reject("unserved", messages as u64))?;
    match &entry.topic.parent {
        Some(link) if link.delay_ms > 0 => {
            entry.life.reject("delayed_child", messages as u64);
            let (topic, parent) = (Arc::clone(&entry.topic.name), Arc::clone(&link.name));
            Err(BrokerError::DelayedChild { topic, parent })
        }
        _ => Ok(()),
    }
}

/// The label that a refusal is counted under.
fn reason(error: &IngressError) -> &'static str {
    match error {
        IngressError::Full => "queue_full",
        IngressError::DiskFull(_) => "disk_full",
        IngressError::Failed(_) => "wal_failed",
        IngressError::Closed => "shutting_down",
    }
}

/// The partition whose turn it is, once one is asked for.
fn turn(entry: &TopicEntry) -> LazyCell<PartitionId, impl FnOnce() -> PartitionId> {
    LazyCell::new(|| entry.life.next_partition(entry.topic.partitions))
}

/// One turn for all messages of a batch that have neither key nor partition: they stay together and in order, and a batch
/// that is whole in one partition is one commit to it.
fn stage_all(entry: &TopicEntry, messages: Vec<Message>) -> Result<Vec<Staged>, BrokerError> {
    let turn = turn(entry);
    let staged = messages.into_iter().enumerate().map(|(index, message)| {
        stage(entry, message, &turn)
            .map_err(|source| BrokerError::Message { index, source: Box::new(source) })
    });
    staged.collect()
}

/// Gives a message its partition: `turn`, if it has neither key nor partition.
fn stage(
    entry: &TopicEntry,
    message: Message,
    turn: &LazyCell<PartitionId, impl FnOnce() -> PartitionId>,
) -> Result<Staged, BrokerError> {
    let Message { key, payload, partition } = message;
    if payload.is_empty() {
        return Err(BrokerError::invalid("payload", "a message has at least one byte"));
    }
    if payload.len() > MAX_PAYLOAD_BYTES {
        return Err(BrokerError::MessageTooLarge { bytes: payload.len(), limit: MAX_PAYLOAD_BYTES });
    }
    if key.len() > MAX_KEY_BYTES {
        let reason = format!("{} bytes; at most {MAX_KEY_BYTES} are taken", key.len());
        return Err(BrokerError::invalid("key", reason));
    }
    let (partitions, pinned) = (entry.topic.partitions, partition.is_some());
    let partition = match partition {
        Some(partition) => check_partition(partition, partitions)?,
        None if key.is_empty() => **turn,
        None => placement::of_key(&key, partitions),
    };
    let (topic, id) = (Arc::clone(&entry.topic.name), entry.topic.id);
    Ok(Staged { topic, id, partition, pinned, key, payload })
}

pub(super) fn check_partition(partition: PartitionId, partitions: u32) -> Result<PartitionId, BrokerError> {
    if partition.0 < partitions {
        return Ok(partition);
    }
    Err(BrokerError::invalid("partition", format!("{partition} is not there; the topic has {partitions}")))
}
