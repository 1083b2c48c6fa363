//! The topics, ready for use: the metastore's record, the plugins built for it, and the counts of its life.
//!
//! A lookup costs a read of the metastore only after the metadata's version has moved. A topic whose plugins cannot be
//! built is found and not served: nothing of it is opened. Knows nothing of leases or of the produce log, whose dispatcher
//! finds its partitions here.

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
    log::Log,
    plugin::{Incarnation, PartitionId, RegistryError},
    runtime::Runtime,
    store::{Store, TopicSpec},
};
use parking_lot::RwLock;
use tokio::sync::watch;

use super::{
    BrokerError, blocking,
    counters::{PartitionCounters, TopicLife},
    topic_plugins::Plugins,
};
use crate::{
    fanout::{Found, Topics},
    ingress::{Lookup, Partitions},
    meta::{MetaStore, Topic, TopicName},
    queue::QueueTopic,
};

/// How long a topic whose plugins could not be built is left alone: the reason may be one that passes.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// How long the plugins of a topic may take to be built while somebody asks how the broker is.
const PATIENCE: Duration = Duration::from_secs(1);

/// A topic, ready for use.
#[derive(Debug)]
pub(super) struct TopicEntry {
    pub(super) topic: Topic,
    served: Result<QueueTopic, Unserved>,
    pub(super) life: Arc<TopicLife>,
    /// By partition; they are the life's.
    pub(super) counters: Vec<Arc<PartitionCounters>>,
}

/// Why a topic is not served.
#[derive(Debug)]
struct Unserved {
    why: Arc<RegistryError>,
    /// When that was found, by the monotonic clock.
    since: Duration,
}

impl TopicEntry {
    /// The counters of a partition that the topic has.
    pub(super) fn counters(&self, partition: PartitionId) -> Option<&PartitionCounters> {
        self.counters.get(partition.0 as usize).map(|counters| &**counters)
    }

    /// # Errors
    /// `Unserved` when a plugin that the topic needs is not there.
    pub(super) fn queue(&self) -> Result<&QueueTopic, BrokerError> {
        self.served.as_ref().map_err(|unserved| BrokerError::Unserved {
            topic: Arc::clone(&self.topic.name),
            source: Arc::clone(&unserved.why),
        })
    }

    /// # Errors
    /// As [`queue`](Self::queue).
    pub(super) fn spec(&self) -> Result<&Arc<TopicSpec>, BrokerError> {
        self.queue().map(|queue| &queue.spec)
    }

    /// Whether building its plugins anew is not worth trying now.
    fn is_settled_at(&self, now: Duration) -> bool {
        self.served.as_ref().err().is_none_or(|unserved| now < unserved.since.saturating_add(TRY_AGAIN))
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
    plugins: Arc<Plugins>,
    entries: RwLock<HashMap<Arc<str>, Cached>>,
}

impl Catalog {
    pub(super) fn new(runtime: Runtime, meta: Arc<dyn MetaStore>, store: Store, plugins: Plugins) -> Self {
        let (plugins, entries) = (Arc::new(plugins), RwLock::default());
        Self { runtime, version: meta.version(), meta, store, plugins, entries }
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
            && cached.entry.is_settled_at(self.runtime.clock().monotonic())
        {
            return Ok(Some(Arc::clone(&cached.entry)));
        }
        match self.meta.topic(name).await? {
            Some(topic) => {
                let before = self.entries.read().get(name).map(|cached| cached.entry.topic.version);
                let entry = self.adopt(topic, version).await?;
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

    /// Makes `topic`, read at `version` or later, the one that lookups answer. A retention or a codec that changed reaches
    /// the open logs before this returns. A topic whose plugins cannot be built is adopted as one that is not served.
    ///
    /// # Errors
    /// `Stopped`.
    pub(super) async fn adopt(&self, topic: Topic, version: u64) -> Result<Arc<TopicEntry>, BrokerError> {
        let before = match self.up_to_date(&self.entries.read(), &topic, version) {
            Ok(entry) => return Ok(entry),
            Err(before) => before,
        };
        let built = self.build(&topic, before).await?;
        let mut entries = self.entries.write();
        // Somebody may have read later meanwhile, or have built it first.
        let before = match self.up_to_date(&entries, &topic, version) {
            Ok(entry) => return Ok(entry),
            Err(before) => before,
        };
        let before = before.filter(|before| before.topic.id == topic.id);
        if let (Ok(spec), Some(before)) = (&built, &before) {
            self.change_open_logs(spec, before);
        }
        let served = match built {
            Ok(spec) => Ok(QueueTopic {
                version: topic.version,
                spec: Arc::new(spec),
                visibility: Duration::from_millis(topic.visibility_timeout_ms),
                max_in_flight: topic.max_in_flight_per_partition,
                max_acked_ahead: topic.max_acked_ahead_per_partition,
            }),
            Err(why) => {
                let known = before.as_ref().is_some_and(|before| before.served.is_err());
                if !known {
                    tracing::error!(topic = %topic.name, %why, "the topic is not served, and nothing of it touched");
                }
                Err(Unserved { why: Arc::new(why), since: self.runtime.clock().monotonic() })
            }
        };
        let life = before.map(|before| Arc::clone(&before.life)).unwrap_or_default();
        let counters = life.counters(topic.partitions);
        let entry = Arc::new(TopicEntry { topic, served, life, counters });
        let cached = Cached { entry: Arc::clone(&entry), checked: AtomicU64::new(version) };
        entries.insert(Arc::clone(&entry.topic.name), cached);
        Ok(entry)
    }

    /// The entry that is there, if it is as new as `topic`, read at `version`, and need not be tried again; else that of
    /// before.
    fn up_to_date(
        &self,
        entries: &HashMap<Arc<str>, Cached>,
        topic: &Topic,
        version: u64,
    ) -> Result<Arc<TopicEntry>, Option<Arc<TopicEntry>>> {
        let Some(cached) = entries.get(&topic.name) else { return Err(None) };
        let entry = Arc::clone(&cached.entry);
        if entry.topic.version < topic.version
            || (entry.topic.version == topic.version
                && !entry.is_settled_at(self.runtime.clock().monotonic()))
        {
            return Err(Some(entry));
        }
        if entry.topic.version == topic.version {
            cached.checked.fetch_max(version, Ordering::AcqRel);
        }
        Ok(entry)
    }

    /// Files may have to be read for it, which is not for an async thread.
    async fn build(
        &self,
        topic: &Topic,
        before: Option<Arc<TopicEntry>>,
    ) -> Result<Result<TopicSpec, RegistryError>, BrokerError> {
        let (plugins, topic) = (Arc::clone(&self.plugins), topic.clone());
        blocking(move || {
            let before = before.as_deref().and_then(|entry| Some((&entry.topic, &**entry.spec().ok()?)));
            plugins.spec(&topic, before)
        })
        .await
    }

    /// Puts what is new in `spec` into the logs that are open. Never waits for a file.
    fn change_open_logs(&self, spec: &TopicSpec, before: &TopicEntry) {
        let old = before.spec().ok();
        if old.is_none_or(|old| !Arc::ptr_eq(&old.retention, &spec.retention)) {
            self.store.set_retention(&spec.name, Arc::clone(&spec.retention));
        }
        if old.is_none_or(|old| !Arc::ptr_eq(&old.codec, &spec.codec))
            && let Err(error) = self.store.set_codec(&spec.name, &spec.codec, spec.readable.clone())
        {
            tracing::error!(topic = %spec.name, %error, "the codec of open logs could not be changed");
        }
    }

    /// Has the store look at the topic's directory and its open logs again, in the background: a produce does not wait
    /// for a partition that is slow to open.
    fn check_incarnation(&self, entry: &TopicEntry) {
        let Ok(spec) = entry.spec() else { return };
        let (store, spec) = (self.store.clone(), Arc::clone(spec));
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

    pub(super) fn plugins(&self) -> &Arc<Plugins> {
        &self.plugins
    }

    /// The topics that are not served, and why, by name. Asking tries again what is due for it.
    pub(super) async fn unserved(&self) -> Vec<BrokerError> {
        let mut unserved = Vec::new();
        for entry in self.entries().into_iter().filter(|entry| entry.queue().is_err()) {
            match tokio::time::timeout(PATIENCE, self.find(&entry.topic.name)).await {
                Ok(Ok(now)) => unserved.extend(now.and_then(|entry| entry.queue().err())),
                Ok(Err(_)) | Err(_) => unserved.extend(entry.queue().err()),
            }
        }
        unserved
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
            Ok(Some(entry)) if entry.topic.id == id => match entry.spec() {
                Ok(spec) => Found::Here(Arc::clone(spec)),
                Err(error) => Found::Unavailable(unavailable(error)),
            },
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

    fn open_log(&self, topic: &str, id: Incarnation, partition: PartitionId) -> Option<Log> {
        let entry = self.entries.read().get(topic).map(|cached| Arc::clone(&cached.entry))?;
        let spec = entry.spec().ok().filter(|_| entry.topic.id == id)?;
        self.store.opened(spec, partition)
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
