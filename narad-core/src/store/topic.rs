//! One topic's place in the store: its directory, its open logs, what is known of its closed ones, its consumers.
//!
//! Lock order: the directory's guard, then any of the maps, which are never locked across file I/O.

use std::{
    collections::HashMap,
    sync::{Arc, Weak, atomic::AtomicBool},
};

use parking_lot::{Mutex, RwLock};

use super::{
    TopicSpec,
    cold_partition::ColdPartition,
    consumer_state::TopicConsumers,
    directory::{Directory, Tenant},
    open_log::OpenLog,
};
use crate::{
    Result,
    plugin::{Codec, CodecSet, Incarnation, PartitionId, RetentionPolicy},
};

#[derive(Debug)]
pub(super) struct Topic {
    pub(super) directory: Arc<Directory>,
    pub(super) consumers: Arc<TopicConsumers>,
    logs: RwLock<HashMap<PartitionId, Arc<OpenLog>>>,
    /// What a cold walk remembers of the partitions that are closed.
    pub(super) cold: Mutex<HashMap<PartitionId, ColdPartition>>,
    settings: Mutex<Settings>,
    /// A codec of the topic is being maintained.
    pub(super) maintaining: AtomicBool,
}

/// What the topic's logs go by.
#[derive(Debug, Default)]
struct Settings {
    /// As the last open had it, with what was set since.
    spec: Option<TopicSpec>,
    retention: Changes<Arc<dyn RetentionPolicy>>,
    codec: Changes<(Arc<dyn Codec>, CodecSet)>,
}

/// How often something was set, and to what.
#[derive(Debug)]
struct Changes<T> {
    count: u64,
    to: Option<T>,
}

impl<T> Default for Changes<T> {
    fn default() -> Self {
        Self { count: 0, to: None }
    }
}

impl<T: Clone> Changes<T> {
    fn set(&mut self, to: T) {
        self.count += 1;
        self.to = Some(to);
    }

    /// What it was set to, if it was since it had been set `count` times.
    fn since(&self, count: u64) -> Option<T> {
        self.to.clone().filter(|_| self.count != count)
    }
}

/// How often the settings were changed at some moment; see [`Topic::install`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    retention: u64,
    codec: u64,
}

impl Topic {
    pub(super) fn new(name: Arc<str>) -> Arc<Self> {
        Arc::new_cyclic(|topic: &Weak<Self>| {
            let directory = Arc::new(Directory::new(name, topic.clone()));
            Self {
                consumers: Arc::new(TopicConsumers::new(directory.clone())),
                directory,
                logs: RwLock::default(),
                cold: Mutex::default(),
                settings: Mutex::default(),
                maintaining: AtomicBool::new(false),
            }
        })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.directory.name
    }

    /// The partition's log, if it is open and this incarnation's.
    pub(super) fn find(&self, incarnation: Incarnation, partition: PartitionId) -> Option<Arc<OpenLog>> {
        let logs = self.logs.read();
        logs.get(&partition).filter(|open| open.incarnation == incarnation && !open.log.is_closed()).cloned()
    }

    /// All open logs at this moment.
    pub(super) fn open_logs(&self) -> Vec<Arc<OpenLog>> {
        self.logs.read().values().cloned().collect()
    }

    /// How many there are.
    pub(super) fn open_count(&self) -> usize {
        self.logs.read().len()
    }

    /// Retires every incarnation but `id` that has a log open.
    pub(super) fn retire_others(&self, id: Incarnation) {
        let mut others: Vec<_> = self.open_logs().iter().map(|open| open.incarnation).collect();
        others.retain(|&other| other != id);
        others.dedup();
        for other in others {
            self.retire(other);
        }
    }

    /// Takes one log off the map and closes it. Called with the guard held: who asks for it meanwhile waits there,
    /// and opens it again.
    pub(super) fn close_log(&self, open: &Arc<OpenLog>) -> Result<()> {
        {
            let mut logs = self.logs.write();
            if logs.get(&open.partition).is_some_and(|held| Arc::ptr_eq(held, open)) {
                logs.remove(&open.partition);
            }
        }
        open.log.close()
    }

    /// Closes logs whose directory is no longer the topic's.
    fn close_those(&self, which: impl Fn(&OpenLog) -> bool) {
        let closing: Vec<_> = {
            let mut logs = self.logs.write();
            logs.extract_if(|_, open| which(open)).map(|(_, open)| open).collect()
        };
        for open in closing {
            if let Err(error) = open.log.close() {
                // What it holds goes with the topic.
                tracing::debug!(topic = %self.name(), partition = %open.partition, %error, "closed a retired log");
            }
        }
    }

    /// To be taken before an open; see [`install`](Self::install).
    pub(super) fn mark(&self) -> Mark {
        let settings = self.settings.lock();
        Mark { retention: settings.retention.count, codec: settings.codec.count }
    }

    /// The settings that a log of this incarnation would be opened with, as far as they are known.
    pub(super) fn spec(&self) -> Option<TopicSpec> {
        self.settings.lock().spec.clone()
    }

    /// Learns the settings of a topic whose logs are not open yet.
    pub(super) fn learn(&self, spec: &TopicSpec) {
        if !self.directory.is_retired(spec.incarnation) {
            self.settings.lock().spec = Some(spec.clone());
        }
    }

    /// Puts a log on the map that was opened by `spec`. A retention or a codec that was set since `mark` was taken reaches
    /// it, so that a change and an open that overlap end with the new one, without either waiting for the other.
    pub(super) fn install(&self, open: OpenLog, spec: &TopicSpec, mark: Mark) -> Arc<OpenLog> {
        let open = Arc::new(open);
        self.logs.write().insert(open.partition, open.clone());
        self.cold.lock().remove(&open.partition);
        let (policy, codec) = {
            let mut settings = self.settings.lock();
            let (policy, codec) =
                (settings.retention.since(mark.retention), settings.codec.since(mark.codec));
            let mut spec = spec.clone();
            if let Some(policy) = &policy {
                spec.retention = policy.clone();
            }
            if let Some((codec, readable)) = &codec {
                (spec.codec, spec.readable) = (codec.clone(), readable.clone());
            }
            settings.spec = Some(spec);
            (policy, codec)
        };
        if let Some(policy) = policy {
            open.set_retention(policy);
        }
        if let Some((codec, readable)) = codec {
            set_codec(&open, &codec, &readable);
        }
        open
    }

    pub(super) fn set_retention(&self, policy: &Arc<dyn RetentionPolicy>) {
        {
            let mut settings = self.settings.lock();
            settings.retention.set(policy.clone());
            if let Some(spec) = &mut settings.spec {
                spec.retention = policy.clone();
            }
        }
        for open in self.open_logs() {
            open.set_retention(policy.clone());
        }
    }

    /// `codec` is in `readable`.
    pub(super) fn set_codec(&self, codec: &Arc<dyn Codec>, readable: &CodecSet) {
        {
            let mut settings = self.settings.lock();
            settings.codec.set((codec.clone(), readable.clone()));
            if let Some(spec) = &mut settings.spec {
                (spec.codec, spec.readable) = (codec.clone(), readable.clone());
            }
        }
        for open in self.open_logs() {
            set_codec(&open, codec, readable);
        }
    }
}

fn set_codec(open: &OpenLog, codec: &Arc<dyn Codec>, readable: &CodecSet) {
    if let Err(error) = open.log.set_codec(codec.clone(), readable.clone()) {
        // Whoever set it has put the two together already.
        tracing::error!(log = %open.log.identity(), %error, "could not change the codec of an open log");
    }
}

impl Tenant for Topic {
    /// Nobody opens it again either.
    fn retire(&self, id: Incarnation) {
        self.directory.retire(id);
        self.consumers.retire(id);
        {
            let mut settings = self.settings.lock();
            if settings.spec.as_ref().is_some_and(|spec| spec.incarnation == id) {
                settings.spec = None;
                self.cold.lock().clear();
            }
        }
        self.close_those(|open| open.incarnation == id);
    }

    fn vacate(&self) {
        self.close_those(|_| true);
    }
}
