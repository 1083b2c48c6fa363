//! What a topic's partitions have seen since the process started. They go with the topic.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use narad_core::plugin::PartitionId;
use parking_lot::Mutex;

use super::in_flight::InFlight;

/// Counts of one partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionCounts {
    /// Messages acknowledged to producers.
    pub produced: u64,
    /// Bytes of their payloads.
    pub produced_bytes: u64,
    /// Messages handed to consumers, repeats included.
    pub consumed: u64,
    /// Bytes of their payloads.
    pub consumed_bytes: u64,
}

/// What belongs to a topic's life and outlasts a change of its settings.
#[derive(Debug, Default)]
pub(super) struct TopicLife {
    /// Where the next message without a key goes.
    pub(super) round_robin: AtomicU32,
    /// Consumes that were answered with nothing.
    pub(super) empty: AtomicU64,
    /// Leases renewed.
    pub(super) extended: AtomicU64,
    /// Leases given back.
    pub(super) released: AtomicU64,
    /// Produces that were not answered yet.
    pub(super) in_flight: InFlight,
    partitions: Mutex<BTreeMap<PartitionId, PartitionCounts>>,
    rejections: Mutex<BTreeMap<&'static str, u64>>,
}

impl TopicLife {
    /// Counts `messages` that were not taken, by one of a fixed list of reasons.
    pub(super) fn reject(&self, reason: &'static str, messages: u64) {
        *self.rejections.lock().entry(reason).or_default() += messages;
    }

    pub(super) fn rejections(&self) -> BTreeMap<&'static str, u64> {
        self.rejections.lock().clone()
    }

    pub(super) fn count(&self, partition: PartitionId, change: impl FnOnce(&mut PartitionCounts)) {
        change(self.partitions.lock().entry(partition).or_default());
    }

    pub(super) fn next_partition(&self, partitions: u32) -> PartitionId {
        let turn = self.round_robin.fetch_add(1, Ordering::Relaxed);
        PartitionId(turn.checked_rem(partitions).unwrap_or(0))
    }

    pub(super) fn counts(&self) -> BTreeMap<PartitionId, PartitionCounts> {
        self.partitions.lock().clone()
    }
}

/// Counts of a topic, for the metrics.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TopicCounts {
    /// The topic.
    pub topic: std::sync::Arc<str>,
    /// By partition; those that have seen nothing are left out.
    pub partitions: BTreeMap<PartitionId, PartitionCounts>,
    /// Consumes that were answered with nothing.
    pub empty: u64,
    /// Leases renewed.
    pub extended: u64,
    /// Leases given back.
    pub released: u64,
    /// Messages that were not taken, by reason.
    pub rejections: BTreeMap<&'static str, u64>,
}
