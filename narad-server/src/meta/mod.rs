//! Metadata: the topics and the users with their versions, behind one trait.
//!
//! A replicated store will come behind the same trait, so nobody outside may assume that a write is local, instant,
//! or seen by a read that began before it was answered. Knows nothing of logs, leases or HTTP.

mod backend;
mod embedded;
mod failure;
mod file;
mod link;
mod linking;
mod record;
mod reserve;
mod schemas;
mod tables;
mod topic;
mod user;
mod user_record;
mod users;

use std::{fmt::Debug, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use narad_core::plugin::Incarnation;
use tokio::sync::watch;

pub use embedded::RedbMetaStore;
pub use link::{
    ChildLink, Link, LinkRefusal, Linked, MAX_CHILDREN, NewLink, ParentLink, RETENTION_MARGIN_MS,
};
pub use topic::{
    CodecChange, NameError, SchemaChange, SchemaVersion, Topic, TopicChange, TopicName, plugin_name,
};
pub use user::{Action, Grant, PasswordHash, User, UserChange, UserName, UserNameError};

/// Why the metastore did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum MetaError {
    /// A topic of that name exists, or one whose name differs in case alone.
    #[error("topic {existing} exists already")]
    Exists {
        /// The topic that is there.
        existing: Arc<str>,
        /// The name that was to be taken.
        wanted: Arc<str>,
    },
    /// There is no such topic, or it is another incarnation by now.
    #[error("there is no topic {name}")]
    NotFound {
        /// The name that was asked for.
        name: String,
    },
    /// A user of that name exists.
    #[error("user {name} exists already")]
    UserExists {
        /// The name.
        name: String,
    },
    /// There is no such user.
    #[error("there is no user {name}")]
    NoUser {
        /// The name that was asked for.
        name: String,
    },
    /// Somebody else has changed the user's password in between.
    #[error("the password of user {name} was changed meanwhile")]
    UserChanged {
        /// The user.
        name: String,
    },
    /// The topic's schema is not of the version that the change was to follow.
    #[error("the schema of topic {name} is at version {current}")]
    SchemaMoved {
        /// The topic.
        name: String,
        /// The current version; 0 when there is none.
        current: u32,
    },
    /// The topic is no child, or not by the link that was meant.
    #[error("topic {child} is no child of that topic")]
    NotLinked {
        /// The topic that was taken for a child.
        child: String,
    },
    /// A rule of links forbids it.
    #[error(transparent)]
    Link(LinkRefusal),
    /// The disk is full. Free space and retry; a change that was asked for is whole or absent.
    #[error("no space left for metadata: {source}")]
    DiskFull {
        /// What the store said.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A record cannot be read by this version of the program. Use the one that wrote it.
    #[error("the record of topic {name} cannot be read: {reason}")]
    Unreadable {
        /// The topic.
        name: String,
        /// What does not fit.
        reason: String,
    },
    /// The same for a user's record.
    #[error("the record of user {name} cannot be read: {reason}")]
    UnreadableUser {
        /// The user.
        name: String,
        /// What does not fit.
        reason: String,
    },
    /// The store's file cannot be opened: damaged, not its own, or unreadable for now. Nothing was changed.
    #[error("{} cannot be opened: {source}", path.display())]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// What the store said.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The store has failed before this was begun, or while it was only reading. Nothing was changed; the file is
    /// opened anew by the next call, so retry.
    #[error("the metastore is not available: {source}")]
    Unavailable {
        /// What the store said.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The store was closed.
    #[error("the metastore is closed")]
    Closed,
    /// The store failed. Whether a change that was asked for was made is unknown: look before repeating it.
    #[error("the metastore failed: {source}")]
    Failed {
        /// What the store said.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
}

/// Keeps the metadata.
///
/// # Contract
/// 1. A change that was answered `Ok` survives a power loss.
/// 2. Each change moves the version that `version` watches, after it can be read and before it is answered.
/// 3. Names are unique without regard to ASCII case. Creating and deleting are atomic: a crash leaves a topic whole or gone.
///    So are changes of links, which are written in the records of both ends.
/// 4. A deleted incarnation is told of for ever, unless a topic of that incarnation is created again.
/// 5. Dropping a call's future does not undo the change, nor half of it.
#[async_trait]
pub trait MetaStore: Debug + Send + Sync + 'static {
    /// The version of all metadata: it grows with each change and may grow without one.
    fn version(&self) -> watch::Receiver<u64>;

    /// Adds a topic and answers it with its version.
    ///
    /// # Errors
    /// `Exists` also for a name that differs in ASCII case alone; `NoUser` when its owner is gone.
    async fn create_topic(&self, topic: Topic) -> Result<Topic, MetaError> {
        self.create_topic_with_schema(topic, None).await
    }

    /// The same with the first version of the topic's schema.
    ///
    /// # Errors
    /// As [`create_topic`](Self::create_topic).
    async fn create_topic_with_schema(
        &self,
        topic: Topic,
        schema: Option<Arc<str>>,
    ) -> Result<Topic, MetaError>;

    /// Adds a topic that is a child from its beginning, with or without a schema of its own: all of it, or nothing.
    ///
    /// # Errors
    /// As [`create_topic`](Self::create_topic) and [`attach`](Self::attach).
    async fn create_child(
        &self,
        child: Topic,
        schema: Option<Arc<str>>,
        link: NewLink,
    ) -> Result<Linked, MetaError>;

    /// Makes a topic the child of another. The link gets an epoch that no link had before; a child without a schema
    /// takes the parent's current one as its first version.
    ///
    /// # Errors
    /// `Link` when a rule forbids it; `NotFound` also when a name belongs to another incarnation.
    async fn attach(&self, child: &str, child_id: Incarnation, link: NewLink) -> Result<Linked, MetaError>;

    /// Ends the link of `child` that began with `epoch`.
    ///
    /// # Errors
    /// `NotLinked` when there is no such link.
    async fn detach(&self, child: &str, epoch: u64) -> Result<(), MetaError>;

    /// Every link, by the child's name.
    async fn links(&self) -> Result<Vec<Link>, MetaError>;

    /// The topic of that name, letter for letter.
    async fn topic(&self, name: &str) -> Result<Option<Topic>, MetaError>;

    /// At most `limit` topics in name order, those behind `after` alone.
    async fn topics(&self, after: Option<&str>, limit: usize) -> Result<Vec<Topic>, MetaError>;

    /// Changes what `change` names and answers the whole topic.
    ///
    /// # Errors
    /// `NotFound` also when the name belongs to another incarnation; `SchemaMoved`, and `Link` for a retention that is too
    /// short for a child's delay: nothing is changed then.
    async fn update_topic(
        &self,
        name: &str,
        id: Incarnation,
        change: TopicChange,
    ) -> Result<Topic, MetaError>;

    /// Removes the topic with its links: its children become topics of their own, its parent has a child less.
    ///
    /// # Errors
    /// `NotFound` also when the name belongs to another incarnation.
    async fn delete_topic(&self, name: &str, id: Incarnation) -> Result<(), MetaError>;

    /// Every version of the schema of the topic of this incarnation, in order.
    async fn schemas(&self, id: Incarnation) -> Result<Vec<SchemaVersion>, MetaError>;

    /// One version of it.
    async fn schema(&self, id: Incarnation, version: u32) -> Result<Option<Arc<str>>, MetaError>;

    /// Whether a topic of this incarnation was here and was deleted: the word on which its data are removed. Not of one
    /// that was never here.
    async fn is_deleted(&self, id: Incarnation) -> Result<bool, MetaError>;

    /// Adds a user and answers it with its version.
    ///
    /// # Errors
    /// `UserExists`.
    async fn create_user(&self, user: User) -> Result<User, MetaError>;

    /// The user of that name, letter for letter.
    async fn user(&self, name: &str) -> Result<Option<User>, MetaError>;

    /// Every user, in name order.
    async fn users(&self) -> Result<Vec<User>, MetaError>;

    /// Changes what `change` names and answers the whole user.
    ///
    /// # Errors
    /// `NoUser`; `UserChanged` when the password is not the one that `change` expects.
    async fn update_user(&self, name: &str, change: UserChange) -> Result<User, MetaError>;

    /// Removes the user. In the same step its topics lose their owner, so that a later user of the name has no claim to
    /// them.
    ///
    /// # Errors
    /// `NoUser`.
    async fn delete_user(&self, name: &str) -> Result<(), MetaError>;

    /// Lets go of what the store holds; every later call answers `Closed`.
    async fn close(&self);
}
