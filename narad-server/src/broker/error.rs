//! Why a use case was refused or failed, in the broker's own terms: no status, no header.

use std::sync::Arc;

use narad_core::format::Offset;

use crate::{ingress::IngressError, meta::MetaError, queue::QueueError};

/// Why the broker did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// There is no such topic.
    #[error("there is no topic {0}")]
    NoTopic(String),
    /// There is no such directory, or a topic has it.
    #[error("there is no directory {0} without a topic")]
    NoDirectory(String),
    /// No topic can have that name.
    #[error("\"{0}\" cannot be a topic: a name is 1 to 200 of A-Z a-z 0-9 . _ -, and neither . nor ..")]
    TopicName(String),
    /// The name is taken, or differs from a taken one in case alone.
    #[error("topic {existing} exists already")]
    TopicExists {
        /// The topic that has it.
        existing: Arc<str>,
    },
    /// An argument is outside its bounds.
    #[error("{name}: {reason}")]
    Invalid {
        /// The argument.
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A message is larger than the broker takes.
    #[error("the message has {bytes} bytes; at most {limit} are taken")]
    MessageTooLarge {
        /// Its payload's bytes.
        bytes: usize,
        /// The bound.
        limit: usize,
    },
    /// One message of a batch is refused, and so is the batch.
    #[error("message {index}: {source}")]
    Message {
        /// Its place, counted from 0.
        index: usize,
        /// Why.
        source: Box<Self>,
    },
    /// The lease has expired, was settled, or never was.
    #[error("the lease is gone: expired, settled, or of another topic")]
    LeaseGone,
    /// Retention took the record.
    #[error("offset {offset} is no longer kept; the oldest is {oldest}")]
    Expired {
        /// The offset asked for.
        offset: Offset,
        /// The oldest kept.
        oldest: Offset,
    },
    /// The record is there and cannot be read.
    #[error("offset {offset} cannot be read: {source}")]
    Unreadable {
        /// The offset asked for.
        offset: Offset,
        /// What is wrong with it.
        source: narad_core::Error,
    },
    /// Too much waits for the disk already. Retry in a moment.
    #[error("too many messages wait for the disk")]
    Overloaded,
    /// The disk is full. Nothing was kept; retry when space was freed.
    #[error("the disk is full")]
    DiskFull,
    /// The server is going down.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The produce WAL failed; it heals by itself. Nothing was kept.
    #[error("the message could not be synced to disk: {0}")]
    Ingress(#[source] narad_core::Error),
    /// The storage engine failed.
    #[error("storage failed: {0}")]
    Storage(#[source] narad_core::Error),
    /// The metastore failed.
    #[error(transparent)]
    Meta(MetaError),
    /// A plugin of the configuration could not be built for a topic.
    #[error(transparent)]
    Plugin(#[from] narad_core::plugin::RegistryError),
    /// A part of the broker stopped before it answered.
    #[error("the broker stopped before it answered")]
    Stopped,
}

impl BrokerError {
    pub(super) fn invalid(name: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { name, reason: reason.into() }
    }
}

impl From<MetaError> for BrokerError {
    fn from(error: MetaError) -> Self {
        match error {
            MetaError::Exists { existing } => Self::TopicExists { existing },
            MetaError::NotFound { name } => Self::NoTopic(name),
            MetaError::DiskFull { .. } => Self::DiskFull,
            MetaError::Closed => Self::ShuttingDown,
            other => Self::Meta(other),
        }
    }
}

impl From<IngressError> for BrokerError {
    fn from(error: IngressError) -> Self {
        match error {
            IngressError::Full => Self::Overloaded,
            IngressError::DiskFull(_) => Self::DiskFull,
            IngressError::Failed(source) => Self::Ingress(source),
            IngressError::Closed => Self::ShuttingDown,
        }
    }
}

impl From<QueueError> for BrokerError {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Gone => Self::LeaseGone,
            QueueError::Storage(source) => source.into(),
            QueueError::Closed => Self::ShuttingDown,
        }
    }
}

impl From<narad_core::Error> for BrokerError {
    fn from(error: narad_core::Error) -> Self {
        match error {
            narad_core::Error::DiskFull { .. } => Self::DiskFull,
            other => Self::Storage(other),
        }
    }
}
