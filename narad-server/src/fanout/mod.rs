//! Copies of a parent's messages to its children: cursors, the delay gate.
//!
//! Each pair of a parent's partition and a child has a cursor. A pass reads committed records from the parent's log at
//! the cursor, commits those that are due to the child's partitions, and only then moves the cursor, durably: a crash
//! repeats a batch and never loses one. A child whose commits fail is tried again once a second, alone.
//!
//! Nothing here runs while there is nothing to copy: the logs' announcements begin a pass, and one timer looks after
//! what lingers, is retried or becomes due. Nothing here decides what is linked, keeps a log open that nobody uses, or
//! copies a message before it is due by the wall clock.

mod certainty;
mod copy;
mod cursor;
mod engine;
mod followers;
mod lag;
mod link;
mod shared;
mod signals;
mod task;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use narad_core::{
    plugin::{Incarnation, PartitionId},
    store::TopicSpec,
};

pub use certainty::Linking;
pub use engine::Fanout;
pub use followers::NotKnownYet;
pub use signals::Signals;

/// Where the fan-out finds the topics of a link.
#[async_trait]
pub trait Topics: Send + Sync + 'static {
    /// The topic `name` in its life `id`, with the settings that it has now. Asked before each pass.
    async fn topic(&self, name: &str, id: Incarnation) -> Found;
}

/// What [`Topics::topic`] found.
#[derive(Debug, Clone)]
pub enum Found {
    /// The topic.
    Here(Arc<TopicSpec>),
    /// It was deleted, or another one has the name.
    Gone,
    /// It cannot be said now; it is asked again in a second.
    Unavailable(narad_core::Error),
}

/// The bounds of the fan-out; the defaults suit a broker.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FanoutOptions {
    /// Messages of one pass, at most.
    pub batch_records: usize,
    /// Bytes of one pass, at most; a larger message makes a pass of its own.
    pub batch_bytes: usize,
    /// How long a pass waits for more after it was announced that there is something.
    pub linger: Duration,
    /// How long a cursor that failed is left alone.
    pub retry: Duration,
    /// Passes that run at one time.
    pub parallel: usize,
    /// Passes to one child that run at one time, so that one that hangs leaves room for others.
    pub parallel_per_child: usize,
    /// How long the end of a link waits for a pass that runs.
    pub patience: Duration,
}

impl Default for FanoutOptions {
    fn default() -> Self {
        Self {
            batch_records: 4096,
            batch_bytes: 4 << 20,
            linger: Duration::from_millis(25),
            retry: Duration::from_secs(1),
            parallel: 16,
            parallel_per_child: 4,
            patience: Duration::from_secs(5),
        }
    }
}

impl From<&crate::config::Fanout> for FanoutOptions {
    fn from(settings: &crate::config::Fanout) -> Self {
        let size = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
        Self {
            batch_records: size(settings.max_batch_records),
            batch_bytes: size(settings.max_batch_bytes),
            linger: Duration::from_millis(settings.linger_ms),
            ..Self::default()
        }
    }
}

/// What a child has not got yet, messages that are not due included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lag {
    /// Messages committed to the parent and not copied, in the partitions of which that is known.
    pub messages: u64,
    /// Whether it is known of every partition.
    pub complete: bool,
}

/// Numbers of one link since the process started.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LinkStats {
    /// The parent.
    pub parent: Arc<str>,
    /// The child.
    pub child: Arc<str>,
    /// Messages copied, repeats included.
    pub committed: u64,
    /// Messages that the child never gets: retention took them first, or they could not be read.
    pub dropped: u64,
    /// By partition of the parent.
    pub partitions: Vec<PartitionLag>,
}

/// What a child has not got yet of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionLag {
    /// The parent's partition.
    pub partition: PartitionId,
    /// Messages committed and not copied; `None` when that would take an open.
    pub messages: Option<u64>,
    /// For how long the first of them has been due, in seconds.
    pub due_seconds: u64,
}
