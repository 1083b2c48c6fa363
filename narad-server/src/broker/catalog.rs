//! The topics, ready for use: the metastore's record, the plugins built for it, and the counts of its life.
//!
//! A lookup costs a read of the metastore only after the metadata's version has moved. Knows nothing of leases or
//! of the produce WAL, whose dispatcher finds its partitions here.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use narad_core::{
    plugin::{Incarnation, PartitionId},
    runtime::Runtime,
    store::{Store, TopicSpec},
};
use parking_lot::RwLock;
use tokio::sync::watch;

use super::{
    BrokerError,
    counters::{PartitionCounters, TopicLife},
    plugins::Plugins,
};
use crate::{
    fanout::{Found, Topics},
    ingress::{Lookup, Partitions},
    meta::{MetaStore, Topic, TopicName},
    queue::QueueTopic,
};

/// A topic, ready for use.
#[derive(Debug)]
pub(super) struct TopicEntry {
    pub(super) topic: Topic,
    pub(super) queue: QueueTopic,
    pub(super) life: Arc<TopicLife>,
    /// By partition; they are the life's.
    pub(super) counters: Vec<Arc<PartitionCounters>>,
}

impl TopicEntry {
    /// The counters of a partition that the topic has.
    pub(super) fn counters(&self, partition: PartitionId) -> Option<&PartitionCounters> {
        self.counters.get(partition.0 as usize).map(|counters| &**counters)
    }

    pub(super) fn spec(&self) -> &Arc<TopicSpec> {
        &self.queue.spec
    }
}

struct Cached {
    entry: Arc<TopicEntry>,
    /// The version of all metadata at which the entry was last known to be right.
    checked: AtomicU64,
}

pub(super) struct Catalog {
    runtime: Runtime,
    meta: Arc<dyn MetaStore>,
    version: watch::Receiver<u64>,
    store: Store,
    plugins: Plugins,
    entries: RwLock<HashMap<Arc<str>, Cached>>,
}

impl Catalog {
    pub(super) fn new(runtime: Runtime, meta: Arc<dyn MetaStore>, store: Store, plugins: Plugins) -> Self {
        Self { runtime, version: meta.version(), meta, store, plugins, entries: RwLock::default() }
    }

    pub(super) fn meta(&self) -> &Arc<dyn MetaStore> {
        &self.meta
    }

    /// The topic called `name`.
    ///
    /// # Errors
    /// `TopicName` when no topic can have that name, `NoTopic` when none has it.
    pub(super) async fn topic(&self, name: &str) -> Result<Arc<TopicEntry>, BrokerError> {
        if let Some(entry) = self.find(name).await? {
            return Ok(entry);
        }
        // Only now: a name that came with older data is served, whatever it looks like.
        match TopicName::new(name) {
            Ok(_) => Err(BrokerError::NoTopic(name.to_owned())),
            Err(_) => Err(BrokerError::TopicName(name.to_owned())),
        }
    }

    /// What became of `topic`, if it is still that one: the name may have passed to another since.
    ///
    /// # Errors
    /// `NoTopic`.
    pub(super) async fn same(&self, topic: &Topic) -> Result<Arc<TopicEntry>, BrokerError> {
        let entry = self.topic(&topic.name).await?;
        if entry.topic.id == topic.id { Ok(entry) } else { Err(BrokerError::NoTopic(topic.name.to_string())) }
    }

    async fn find(&self, name: &str) -> Result<Option<Arc<TopicEntry>>, BrokerError> {
        // Before the read: a change that lands in between makes the next lookup read again.
        let version = *self.version.borrow();
        if let Some(cached) = self.entries.read().get(name)
            && cached.checked.load(Ordering::Acquire) == version
        {
            return Ok(Some(Arc::clone(&cached.entry)));
        }
        match self.meta.topic(name).await? {
            Some(topic) => {
                let before = self.entries.read().get(name).map(|cached| cached.entry.topic.version);
                let entry = self.adopt(topic, version)?;
                if before.is_some_and(|before| before != entry.topic.version) {
                    self.check_incarnation(&entry);
                }
                Ok(Some(entry))
            }
            None => {
                self.forget(name);
                Ok(None)
            }
        }
    }

    /// Makes `topic`, read at `version` or later, the one that lookups answer. A retention that changed reaches the
    /// open logs before this returns.
    pub(super) fn adopt(&self, topic: Topic, version: u64) -> Result<Arc<TopicEntry>, BrokerError> {
        let mut entries = self.entries.write();
        let before = entries.get(&topic.name).map(|cached| Arc::clone(&cached.entry));
        let life = match &before {
            // Somebody has read later than this reader did.
            Some(entry) if entry.topic.version >= topic.version => {
                if let Some(cached) =
                    entries.get(&topic.name).filter(|_| entry.topic.version == topic.version)
                {
                    cached.checked.fetch_max(version, Ordering::AcqRel);
                }
                return Ok(Arc::clone(entry));
            }
            Some(entry) if entry.topic.id == topic.id => Arc::clone(&entry.life),
            _ => Arc::default(),
        };
        let spec = Arc::new(self.plugins.spec(&topic)?);
        if before
            .is_some_and(|entry| entry.topic.id == topic.id && entry.topic.retention_ms != topic.retention_ms)
        {
            self.store.set_retention(&topic.name, Arc::clone(&spec.retention));
        }
        let queue = QueueTopic {
            version: topic.version,
            spec,
            visibility: Duration::from_millis(topic.visibility_timeout_ms),
            max_in_flight: topic.max_in_flight_per_partition,
            max_acked_ahead: topic.max_acked_ahead_per_partition,
        };
        let counters = life.counters(topic.partitions);
        let entry = Arc::new(TopicEntry { topic, queue, life, counters });
        let cached = Cached { entry: Arc::clone(&entry), checked: AtomicU64::new(version) };
        entries.insert(Arc::clone(&entry.topic.name), cached);
        Ok(entry)
    }

    /// Has the store look at the topic's directory and its open logs again, in the background: a produce does not wait
    /// for a partition that is slow to open.
    fn check_incarnation(&self, entry: &TopicEntry) {
        let (store, spec) = (self.store.clone(), Arc::clone(entry.spec()));
        let (runtime, name) = (self.runtime.clone(), Arc::clone(&spec.name));
        tokio::spawn(async move {
            if let Err(error) = runtime.run_blocking(&name, move || store.check_incarnation(&spec)).await {
                tracing::warn!(topic = %name, %error, "the topic's directory could not be looked at again");
            }
        });
    }

    pub(super) fn forget(&self, name: &str) {
        self.entries.write().remove(name);
    }

    /// Every topic that is known, by name: those of the start, and those that were used since.
    pub(super) fn entries(&self) -> Vec<Arc<TopicEntry>> {
        let mut entries: Vec<_> =
            self.entries.read().values().map(|cached| Arc::clone(&cached.entry)).collect();
        entries.sort_by(|one, other| one.topic.name.cmp(&other.topic.name));
        entries
    }
}

#[async_trait]
impl Topics for Catalog {
    async fn topic(&self, name: &str, id: Incarnation) -> Found {
        match self.find(name).await {
            Ok(Some(entry)) if entry.topic.id == id => Found::Here(Arc::clone(entry.spec())),
            // The cache may lag behind the metastore, and records are dropped on this answer: ask the store itself.
            Ok(_) => match self.meta.topic(name).await {
                Ok(current) if current.as_ref().is_none_or(|topic| topic.id != id) => Found::Gone,
                Ok(_) => Found::Unavailable(unavailable("the metadata are changing")),
                Err(error) => Found::Unavailable(unavailable(error)),
            },
            Err(error) => Found::Unavailable(unavailable(error)),
        }
    }
}

#[async_trait]
impl Partitions for Catalog {
    async fn partition(&self, topic: &str, id: Incarnation, partition: PartitionId) -> Lookup {
        let spec = match Topics::topic(self, topic, id).await {
            Found::Here(spec) => spec,
            Found::Gone => return Lookup::Gone,
            Found::Unavailable(error) => return Lookup::Unavailable(error),
        };
        match self.store.log_async(&spec, partition).await {
            Ok(log) => Lookup::Open(log),
            Err(error) => Lookup::Unavailable(error),
        }
    }

    fn count(&self, topic: &str, id: Incarnation) -> u32 {
        let entries = self.entries.read();
        let current = entries.get(topic).map(|cached| &cached.entry.topic).filter(|topic| topic.id == id);
        current.map_or(0, |topic| topic.partitions)
    }
}

/// The engine's form of a failure that is not the engine's.
fn unavailable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> narad_core::Error {
    let source = Arc::new(io::Error::other(cause));
    narad_core::Error::Io { op: "look up", path: PathBuf::from("metadata"), source }
}
