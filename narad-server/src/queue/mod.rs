//! Leases, the frontier, waiters, the pump.
//!
//! A consumer takes a place in its topic's line; whoever notices that records may be there (the consumer itself, a
//! settle, a commit, the end of a lease) hands out what there is, in the order of the line, under the topic's lock
//! and without I/O. The consumer then reads what it was handed in its own task. So each record goes to exactly one
//! consumer, nothing slips in between the look and the wait, and an idle topic costs nothing.
//!
//! Nothing here waits for a disk under a lock, speaks HTTP, or remembers a lease beyond the process.

mod consume;
mod hand_out;
mod offset_set;
mod open;
mod opening;
mod partition;
mod pump;
mod queues;
mod receipt;
mod seat;
mod shared;
mod signals;
mod topic;
mod waiters;

use std::{sync::Arc, time::Duration};

use narad_core::{format::Record, plugin::PartitionId, store::TopicSpec};

pub use queues::{QueueStats, Queues};
pub use receipt::{Receipt, ReceiptError};

/// A topic, as far as its queue is concerned. Cheap to clone.
#[derive(Debug, Clone)]
pub struct QueueTopic {
    /// Which of two settings of one topic is the newer: the version of its metadata. An older one never takes the
    /// place of a newer one.
    pub version: u64,
    /// Where its logs are.
    pub spec: Arc<TopicSpec>,
    /// How long a lease lasts.
    pub visibility: Duration,
    /// Leases of one partition at one time; at it, the partition gives out nothing.
    pub max_in_flight: u32,
    /// Offsets of one partition acked out of order; at it, the partition gives out only the record that holds the
    /// frontier back. No ack is refused for it.
    pub max_acked_ahead: u32,
}

/// What a consumer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consume {
    /// How long to wait for the first record. Zero: only what is there.
    pub wait: Duration,
    /// The partition; any when absent.
    pub partition: Option<PartitionId>,
    /// Records, at most; 0 counts as 1.
    pub max: usize,
    /// Bytes of keys and payloads, at most; one larger record comes alone.
    pub max_bytes: usize,
}

/// A leased record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Where it comes from.
    pub partition: PartitionId,
    /// The record.
    pub record: Record,
    /// Names the lease.
    pub nonce: Receipt,
}

/// What a consumer does with a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settle {
    /// The record is done and is not delivered again.
    Ack,
    /// The lease lasts its full time again, from now.
    Extend,
    /// The record goes back and is delivered again at once.
    Release,
}

/// Why the queue did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum QueueError {
    /// The lease expired, was settled, or never was.
    #[error("the lease is gone: it expired, was settled, or is another topic's")]
    Gone,
    /// A record or a position could not be read. What was leased for it was given back; try again.
    #[error(transparent)]
    Storage(#[from] narad_core::Error),
    /// The server is going down.
    #[error("the queue is closed")]
    Closed,
}
