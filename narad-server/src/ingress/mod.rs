//! The produce log, called WAL (write-ahead log) in here, its checkpoint, the dispatcher.
//!
//! A message is acknowledged once it is synced in the WAL, one log for all topics, so that whatever arrives during
//! one fsync shares the next. The dispatcher then commits it to its partition. The checkpoint is the first WAL
//! record that is not yet done; a start resumes there. A crash loses no acknowledged message, and repeats at most
//! those between the checkpoint on disk and the last commit. A lone message on a broker that has nothing else to do, and
//! a large request for one partition, are committed to their partition at once, without the WAL.
//!
//! Nothing here acknowledges before an fsync of the WAL or of the partition, moves the checkpoint past a record whose
//! partition commit has not succeeded, or lets one failing partition hold up another.

mod backlog;
mod bulk;
mod checkpoint;
mod direct;
mod dispatcher;
mod failing;
mod heal;
mod job;
mod keeper;
mod lane;
mod options;
mod origins;
mod progress;
mod reads;
mod retention;
mod route;
mod trail;
mod wal;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::{
    log::Log,
    plugin::{Incarnation, PartitionId},
};

pub use failing::FailingPartition;
pub use options::IngressOptions;
pub use wal::Ingress;

/// Where the dispatcher finds the partition that a record is for.
#[async_trait]
pub trait Partitions: Send + Sync + 'static {
    /// The open log of a partition of `topic` in its life `id`.
    ///
    /// Called before each commit, for at most one commit of a partition at a time. `Gone` is final: the records are
    /// dropped, so it may be answered only when the metastore confirms that this incarnation is no more.
    async fn partition(&self, topic: &str, id: Incarnation, partition: PartitionId) -> Lookup;

    /// The same log, if it is open now: asks nobody, waits for nothing and opens nothing. May be called while a commit of
    /// the partition runs. Without it no message goes to a partition but through the WAL.
    fn open_log(&self, topic: &str, id: Incarnation, partition: PartitionId) -> Option<Log> {
        _ = (topic, id, partition);
        None
    }

    /// How many partitions `topic` has in its life `id`, as far as is known without asking anybody; 0 when it is not.
    /// Decides who stands in for a partition that fails, and nothing else.
    fn count(&self, topic: &str, id: Incarnation) -> u32;
}

/// What [`Partitions::partition`] found.
#[derive(Debug, Clone)]
pub enum Lookup {
    /// The partition, open.
    Open(Log),
    /// The topic was deleted or recreated under another incarnation; its records have nowhere to go.
    Gone,
    /// It cannot be reached now; the records wait and it is asked again in a second.
    Unavailable(narad_core::Error),
}

/// One message on its way to a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// The topic; at most 65,535 bytes.
    pub topic: Arc<str>,
    /// The topic's life.
    pub id: Incarnation,
    /// The partition.
    pub partition: PartitionId,
    /// Whether the producer named the partition: then the message waits for it, however long it fails. Otherwise it
    /// goes to another one of the topic when this one does not take messages for a while.
    pub pinned: bool,
    /// The message's key; empty when there is none.
    pub key: Bytes,
    /// The message.
    pub payload: Bytes,
}

/// Why messages were not taken. None of them was kept: a later success is a new attempt.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum IngressError {
    /// Too many messages wait for the disk or for their partitions. Retry in a second.
    #[error("the produce queue is full")]
    Full,
    /// The disk is full. Retry when space was freed.
    #[error("the disk is full: {0}")]
    DiskFull(#[source] narad_core::Error),
    /// The WAL failed for another reason; it heals by itself, so retry.
    #[error("the produce log failed: {0}")]
    Failed(#[source] narad_core::Error),
    /// The server is going down.
    #[error("the produce log is closed")]
    Closed,
}
