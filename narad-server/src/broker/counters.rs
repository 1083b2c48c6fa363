//! What a topic's partitions have seen since the process started. They go with the topic.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use narad_core::{
    metrics::{Histogram, WAIT_BOUNDS},
    plugin::PartitionId,
};
use parking_lot::Mutex;

use super::in_flight::InFlight;

/// Counts of one partition.
#[derive(Debug, Default)]
pub(super) struct PartitionCounters {
    produced: Flow,
    consumed: Flow,
}

/// Messages that passed.
#[derive(Debug, Default)]
struct Flow {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Flow {
    fn count(&self, bytes: u64) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn read(&self) -> (u64, u64) {
        (self.messages.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

impl PartitionCounters {
    /// A message with a payload of `bytes` was acknowledged to its producer.
    pub(super) fn produced(&self, bytes: u64) {
        self.produced.count(bytes);
    }

    /// A message with a payload of `bytes` was handed to a consumer.
    pub(super) fn consumed(&self, bytes: u64) {
        self.consumed.count(bytes);
    }

    /// Messages and bytes, produced and consumed; `None` when nothing has passed.
    pub(super) fn read(&self) -> Option<[(u64, u64); 2]> {
        let read = [self.produced.read(), self.consumed.read()];
        (read != [(0, 0); 2]).then_some(read)
    }
}

/// How a consume ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It got something.
    Hit,
    /// It waited for nothing.
    Timeout,
    /// Its client left, or it failed.
    Cancelled,
    /// It got nothing, and did not want to wait.
    NoWait,
}

impl Outcome {
    pub(super) const ALL: [Self; 4] = [Self::Hit, Self::Timeout, Self::Cancelled, Self::NoWait];

    /// As a label.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::NoWait => "no_wait",
        }
    }
}

/// How long consumes took, by their outcome.
#[derive(Debug)]
pub(super) struct Waits([Histogram; 4]);

impl Default for Waits {
    fn default() -> Self {
        Self([const { Histogram::new(WAIT_BOUNDS) }; 4])
    }
}

impl Waits {
    pub(super) fn of(&self, outcome: Outcome) -> &Histogram {
        let [hit, timeout, cancelled, no_wait] = &self.0;
        match outcome {
            Outcome::Hit => hit,
            Outcome::Timeout => timeout,
            Outcome::Cancelled => cancelled,
            Outcome::NoWait => no_wait,
        }
    }
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
    /// How long consumes took.
    pub(super) waits: Waits,
    /// Produces that were not answered yet.
    pub(super) in_flight: InFlight,
    partitions: Mutex<Vec<Arc<PartitionCounters>>>,
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

    /// The counters of the first `partitions` partitions, made on first use.
    pub(super) fn counters(&self, partitions: u32) -> Vec<Arc<PartitionCounters>> {
        let mut counters = self.partitions.lock();
        let wanted = partitions as usize;
        if counters.len() < wanted {
            counters.resize_with(wanted, Arc::default);
        }
        counters.iter().take(wanted).cloned().collect()
    }

    pub(super) fn next_partition(&self, partitions: u32) -> PartitionId {
        let turn = self.round_robin.fetch_add(1, Ordering::Relaxed);
        PartitionId(turn.checked_rem(partitions).unwrap_or(0))
    }
}
