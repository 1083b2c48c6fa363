//! Why a use case was refused or failed, in the broker's own terms: no status, no header.

use std::sync::Arc;

use narad_core::{format::Offset, plugin::RegistryError};

use crate::{
    ingress::IngressError,
    meta::{LinkRefusal, MetaError},
    queue::QueueError,
    security::AuthError,
};

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
    /// The name is taken.
    #[error("topic {existing} exists already")]
    TopicExists {
        /// The topic that has it.
        existing: Arc<str>,
    },
    /// The name differs from a taken one in case alone. Existing clients know this from the one above by these words.
    #[error("the name differs only in letter case from topic {existing}, which exists")]
    TopicExistsInOtherCase {
        /// The topic that is in the way.
        existing: Arc<str>,
    },
    /// There is no such user.
    #[error("there is no user {0}")]
    NoUser(String),
    /// There is a user of that name.
    #[error("user {0} exists already")]
    UserExists(String),
    /// Somebody else has changed the user's password in between.
    #[error("the password of user {0} was changed meanwhile")]
    UserChanged(String),
    /// Whoever asks may not do that.
    #[error("{0}")]
    Forbidden(Arc<str>),
    /// Too many wrong passwords for this user.
    #[error("too many wrong passwords for user {name}")]
    Throttled {
        /// The user.
        name: String,
        /// When the next try is taken, in seconds.
        retry_after: u64,
    },
    /// Too many passwords are being checked already. Retry in a moment.
    #[error("too many passwords are being checked")]
    TooManyLogins,
    /// A directory cannot become a topic while another topic has its name.
    #[error(
        "topic {existing} exists already, and directory {directory} would become a topic of that name: delete topic \
         {existing}, or rename the directory below topics/ to a name that is free and adopt it under that name"
    )]
    NameTaken {
        /// The topic that has it.
        existing: Arc<str>,
        /// The directory that was to be adopted.
        directory: String,
    },
    /// The schema cannot follow the one that the topic has.
    #[error("schema: {0}")]
    SchemaConflict(String),
    /// The topic is not a child of the other.
    #[error("topic {child} is no child of {parent}")]
    NoChild {
        /// The parent.
        parent: String,
        /// What was taken for its child.
        child: String,
    },
    /// A rule of links forbids it.
    #[error(transparent)]
    Link(LinkRefusal),
    /// Messages reach the topic with a delay, and only from its parent.
    #[error("topic {topic} gets its messages from {parent} with a delay, and takes no others")]
    DelayedChild {
        /// The child.
        topic: Arc<str>,
        /// Its parent.
        parent: Arc<str>,
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
    #[error("offset {offset} cannot be read: {}", without_path(source))]
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
    /// The produce log failed; it heals by itself. Nothing was kept.
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
    Plugin(#[from] RegistryError),
    /// The topic needs a plugin that this broker has not got, or that cannot be built. Start a broker with the plugin.
    #[error("topic {topic} is not served: {}", needed(source))]
    Unserved {
        /// The topic.
        topic: Arc<str>,
        /// What it needs.
        source: Arc<RegistryError>,
    },
    /// A part of the broker stopped before it answered.
    #[error("the broker stopped before it answered")]
    Stopped,
}

/// A client has no use for the name of the server's file, and no right to it.
fn without_path(error: &narad_core::Error) -> String {
    match error {
        narad_core::Error::Corrupt { reason, .. } => format!("it is corrupt: {reason}"),
        other => other.to_string(),
    }
}

/// Which plugin is missing, in the words of whoever has to build a broker with it.
fn needed(error: &RegistryError) -> String {
    match error {
        RegistryError::Unknown { kind, name, known } => {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            format!("it needs the {kind} \"{name}\", which this broker was built without; it has {known}")
        }
        other => other.to_string(),
    }
}

impl BrokerError {
    pub(super) fn invalid(name: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { name, reason: reason.into() }
    }
}

impl From<MetaError> for BrokerError {
    fn from(error: MetaError) -> Self {
        match error {
            MetaError::Exists { existing, wanted } if existing == wanted => Self::TopicExists { existing },
            MetaError::Exists { existing, .. } => Self::TopicExistsInOtherCase { existing },
            MetaError::NotFound { name } => Self::NoTopic(name),
            MetaError::UserExists { name } => Self::UserExists(name),
            MetaError::NoUser { name } => Self::NoUser(name),
            MetaError::UserChanged { name } => Self::UserChanged(name),
            MetaError::Link(refusal) => Self::Link(refusal),
            MetaError::DiskFull { .. } => Self::DiskFull,
            MetaError::Closed => Self::ShuttingDown,
            other => Self::Meta(other),
        }
    }
}

impl From<AuthError> for BrokerError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Throttled { name, retry_after } => {
                Self::Throttled { name, retry_after: retry_after.as_secs() }
            }
            AuthError::Busy => Self::TooManyLogins,
            AuthError::Meta(error) => error.into(),
            AuthError::Hash | AuthError::Stopped => Self::Stopped,
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
