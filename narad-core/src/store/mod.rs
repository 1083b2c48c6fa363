//! A data directory: its lock, its layout, the open logs of its topics, and how far their consumers are.
//!
//! A [`Store`] opens logs by topic and partition when they are first used, keeps a deleted topic's records and
//! positions from its successor, lets retention look at the open logs, and closes those that nobody uses. It knows
//! nothing of HTTP, and holds no leases.
//!
//! ```
//! use std::sync::Arc;
//! use narad_core::{format::Batch, plugin::{Incarnation, PartitionId}, runtime::Runtime};
//! use narad_core::store::{ConsumerPosition, Store, StoreOptions, TopicSpec};
//!
//! # let dir = tempfile::tempdir().unwrap();
//! # let data_dir = dir.path();
//! let store = Store::open(&Runtime::default(), data_dir, StoreOptions::default())?;
//! store.start()?; // retention, idle eviction, reopening and positions: by threads of its own until `close`
//! // A topic's incarnation is drawn once, when it is created, and kept with its name.
//! let orders = TopicSpec::new("orders", Incarnation::new(0x5eed), 3, Arc::new(narad_codecs::None));
//! store.open_all(std::slice::from_ref(&orders), None);
//!
//! let log = store.log(&orders, PartitionId(0))?;
//! let offsets = log.commit(Batch::of(b"customer-1", b"a message"))?;
//! let position = store.consumer_position(&orders, PartitionId(0))?;
//! assert_eq!(position.frontier, None); // nobody has settled anything
//! let settled = ConsumerPosition { frontier: Some(offsets.start), acked: Vec::new() };
//! store.record_position(&orders, PartitionId(0), settled);
//! store.close()?; // from here on the positions on disk are exact
//! # Ok::<(), narad_core::Error>(())
//! ```
//!
//! Everything is kept unless the topic says otherwise. Its other settings are fields, to be changed after
//! [`TopicSpec::new`]: `orders.retention = Arc::new(narad_retention::Age::new(week))`.
//!
//! Ask for a log at each use, as above: a [`Log`] that is kept for longer may be closed for being idle (reading from it
//! does not count), and answers `Closed` from then on.
//!
//! Lock order, from the outside in: a log's produce lock, the topic's guard, the maps. File I/O is done under the
//! guard alone, so opening or closing a log stalls callers of its own topic and nobody else.

mod background;
mod backoff;
mod cold_partition;
mod cold_walk;
mod consumer_state;
mod delete;
mod directory;
mod fanout_cursor;
mod files;
mod followers;
mod incarnation;
mod layout;
mod lock;
mod logs;
mod maintenance;
mod open_log;
mod plugin_place;
mod quarantine;
mod reaper;
mod spec;
mod topic;

use std::{
    collections::HashMap,
    future::Future,
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};

use self::{
    background::Background, cold_walk::ColdWalk, consumer_state::Committer, followers::FollowersSeat,
    layout::Layout, maintenance::Maintenance, plugin_place::TopicPlugins, reaper::Reaper, topic::Topic,
};
pub use self::{
    consumer_state::{ConsumerPosition, RecoveredPosition},
    followers::{Followed, Followers},
    layout::check_topic_name,
    quarantine::TopicDirectory,
    spec::{Ailment, OpenFailure, PartitionStats, StoreCounts, StoreOptions, TopicSpec},
};
use crate::{
    Error, Result,
    disk::{DiskExt, File},
    format::Offset,
    log::Log,
    plugin::{Codec, CodecSet, Incarnation, PartitionId, PluginPlace, RetentionPolicy},
    runtime::Runtime,
};

/// An open data directory. Cloning it gives another handle; [`close`](Self::close) before the last one goes, or the
/// logs close as after a crash, and the threads that were [started](Self::start) may hold the directory a moment longer.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    runtime: Runtime,
    layout: Layout,
    options: StoreOptions,
    topics: RwLock<HashMap<Arc<str>, Arc<Topic>>>,
    committer: Committer,
    reaper: Reaper,
    cold_walk: ColdWalk,
    maintenance: Maintenance,
    background: Background,
    counters: Counters,
    followers: FollowersSeat,
    /// Files of deleted topics are left that could not be removed.
    has_leftovers: AtomicBool,
    closed: AtomicBool,
    /// Held as long as the store is open. The last field, so that it is the last to go.
    lock: Mutex<Option<Box<dyn File>>>,
}

/// See [`StoreCounts`].
#[derive(Debug, Default)]
struct Counters {
    evicted: AtomicU64,
    cold_swept: AtomicU64,
    cold_panics: AtomicU64,
    reaper_restarts: AtomicU64,
    lost_to_retention: AtomicU64,
}

impl Store {
    /// Opens the data directory, creating it if need be, and removes what interrupted deletes left. No log is opened.
    ///
    /// # Errors
    /// `Locked` when another process, or another store of this one, has it open. `Unusable` when something else than a
    /// directory has the name of one of its own, a symbolic link to one included; `data_dir` itself may be a link.
    pub fn open(runtime: &Runtime, data_dir: &Path, options: StoreOptions) -> Result<Self> {
        let (disk, layout) = (&**runtime.disk(), Layout::new(data_dir));
        let create =
            |dir: &Path| disk.create_dir_all_durable(dir).map_err(|error| Error::io("mkdir", dir, error));
        create(data_dir)?;
        let lock = lock::take(disk, &layout)?;
        for dir in [layout.topics(), layout.meta(), layout.ingress(), layout.produce_wal()] {
            create(&dir)?;
            // The lock is on what lies below this directory: what a link leads to could be another store's as well.
            files::require_directory(disk, &dir)?;
        }
        // An earlier process may have died between making these names and making them durable.
        files::sync_dir(disk, data_dir)?;
        let after = |interval: Duration| runtime.clock().monotonic().saturating_add(interval);
        let inner = Inner {
            runtime: runtime.clone(),
            layout,
            reaper: Reaper::new(after(options.sweep_interval)),
            cold_walk: ColdWalk::new(after(options.cold_walk.unwrap_or_default())),
            maintenance: Maintenance::new(after(options.codec_maintenance)),
            options,
            topics: RwLock::default(),
            committer: Committer::default(),
            background: Background::default(),
            counters: Counters::default(),
            followers: FollowersSeat::default(),
            has_leftovers: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            lock: Mutex::new(Some(lock)),
        };
        inner.remove_leftovers()?;
        let inner = Arc::new(inner);
        let spares: Weak<Inner> = Arc::downgrade(&inner);
        runtime.share_descriptors(spares);
        Ok(Self { inner })
    }

    /// The partition's log, opened if it is not open; cheap if it is. It may be closed for being idle once nobody has
    /// asked for it here, or written to it, for [`idle_eviction`](StoreOptions::idle_eviction). Blocks while it, or
    /// another log of the topic, is being opened or closed; never because of another topic.
    ///
    /// The first open of a topic marks its directory with the incarnation. A directory that another incarnation
    /// left under the name is set aside as `<name>.stale-<id>`, never served and never removed here.
    ///
    /// # Errors
    /// `Closed` after [`close`](Self::close); `InvalidArgument` for a partition that the topic has not got, a name
    /// that is no topic's, and an incarnation that was deleted or replaced; what [`Log::open`] says.
    pub fn log(&self, spec: &TopicSpec, partition: PartitionId) -> Result<Log> {
        self.inner.log(spec, partition)
    }

    /// The same without blocking the executor: at once when the log is open, else on the runtime's pool.
    pub fn log_async(
        &self,
        spec: &TopicSpec,
        partition: PartitionId,
    ) -> impl Future<Output = Result<Log>> + Send + 'static + use<> {
        let answer = match self.inner.open_log(spec, partition) {
            Ok(Some(open)) => Ok(Ok(open.log.clone())),
            Ok(None) => Err((self.inner.clone(), spec.clone())),
            Err(error) => Ok(Err(error)),
        };
        async move {
            match answer {
                Ok(at_once) => at_once,
                Err((store, spec)) => {
                    let (runtime, group) = (store.runtime.clone(), spec.name.clone());
                    runtime.run_blocking(&group, move || store.log(&spec, partition)).await
                }
            }
        }
    }

    /// The log of a partition if it is open now, and counts as used then: nothing is opened or waited for.
    pub fn opened(&self, spec: &TopicSpec, partition: PartitionId) -> Option<Log> {
        self.inner.open_log(spec, partition).ok().flatten().map(|open| open.log.clone())
    }

    /// Opens every partition of `specs`, `parallelism` at once (`None`: as many as there are cores, at most 8), of as many
    /// topics as there are, and returns those that could not be opened, by topic and partition; each is logged, and
    /// tried again when it is used.
    pub fn open_all(&self, specs: &[TopicSpec], parallelism: Option<usize>) -> Vec<OpenFailure> {
        self.inner.open_all(specs, parallelism)
    }

    /// What a partition holds. Opens no log and creates nothing; waits for a log of the topic that is being opened
    /// or closed.
    pub fn stats(&self, spec: &TopicSpec, partition: PartitionId) -> Result<PartitionStats> {
        self.inner.stats(spec, partition)
    }

    /// What an open partition holds; `None` when its log is not open. Looks at memory alone, and does not count as a use.
    pub fn open_stats(&self, spec: &TopicSpec, partition: PartitionId) -> Option<PartitionStats> {
        self.inner.unused(spec, partition).map(|log| log.stats().into())
    }

    /// When a record of an open log was committed, Unix milliseconds; `None` when the log is not open or the record cannot
    /// be read. Does not count as a use. Blocking.
    pub fn committed_at_ms(&self, spec: &TopicSpec, partition: PartitionId, offset: Offset) -> Option<i64> {
        let log = self.inner.unused(spec, partition)?;
        log.read(offset).ok().map(|record| record.committed_at_ms)
    }

    /// The open logs that take no messages now: poisoned ones, and those whose commit has run for `patience`. Looks at
    /// memory alone, so that it answers while a disk hangs.
    pub fn ailments(&self, patience: Duration) -> Vec<(Arc<str>, PartitionId, Ailment)> {
        self.inner.ailments(patience)
    }

    /// Replaces the retention of a topic's open logs, in place and at once. Logs that are opened later go by their
    /// [`TopicSpec`]. Never blocks on file I/O.
    pub fn set_retention(&self, topic: &str, policy: Arc<dyn RetentionPolicy>) {
        let topic = self.inner.topics.read().get(topic).cloned();
        if let Some(topic) = topic {
            topic.set_retention(&policy);
        }
    }

    /// Has `followers` asked how far those are who follow a topic, beside its consumers, before retention is: to be
    /// called before [`start`](Self::start). Nobody follows a topic of a store that was told of none.
    pub fn set_followers(&self, followers: Arc<dyn Followers>) {
        self.inner.followers.set(followers);
    }

    /// Replaces the codec of a topic's open logs, in place, for the frames that are begun from here on; what was written
    /// before stays readable as far as `readable` goes. Logs that are opened later go by their [`TopicSpec`]. Never blocks
    /// on file I/O.
    ///
    /// # Errors
    /// `InvalidArgument` when two codecs claim one number; nothing is changed then.
    pub fn set_codec(&self, topic: &str, codec: &Arc<dyn Codec>, mut readable: CodecSet) -> Result<()> {
        readable.insert(codec.clone())?;
        let topic = self.inner.topics.read().get(topic).cloned();
        if let Some(topic) = topic {
            topic.set_codec(codec, &readable);
        }
        Ok(())
    }

    /// Deletes what an incarnation of a topic has on disk, after closing its logs. From here on nobody gets a log
    /// of that incarnation, and its consumers' positions are forgotten. Idempotent; needs no open.
    ///
    /// A crash leaves the topic whole or gone. A directory of another incarnation is left alone; one without a
    /// marker is set aside as `<name>.stale-<id>`.
    ///
    /// # Errors
    /// When it could not be set aside; then the topic's files are whole. Files that cannot be removed after that
    /// are no error: the next start removes them.
    pub fn delete_topic(&self, name: &str, incarnation: Incarnation) -> Result<()> {
        self.inner.delete_topic(name, incarnation)
    }

    /// Looks again whose a topic's directory is, to be called when its metadata have moved: logs of another incarnation
    /// than `spec`'s that are still open are closed, their consumers' positions forgotten, and a directory that is no
    /// longer the incarnation's is set aside. Idempotent; waits for a log of the topic that is being opened or closed.
    ///
    /// # Errors
    /// As [`log`](Self::log) for a directory that cannot be looked at, or made.
    pub fn check_incarnation(&self, spec: &TopicSpec) -> Result<()> {
        self.inner.check_incarnation(spec)
    }

    /// The directories below `topics/`, by name: those of topics, and those that were set aside.
    ///
    /// # Errors
    /// When one cannot be listed, or its marker not be read.
    pub fn directories(&self) -> Result<Vec<TopicDirectory>> {
        self.inner.directories()
    }

    /// Those that were set aside alone. Lists `topics/`, and looks into no other directory below it.
    ///
    /// # Errors
    /// As [`directories`](Self::directories).
    pub fn quarantined(&self) -> Result<Vec<TopicDirectory>> {
        self.inner.quarantined()
    }

    /// Removes a directory that was set aside, once whoever keeps the metadata has confirmed that its incarnation was
    /// deleted. A crash leaves it whole or gone. Idempotent.
    ///
    /// # Errors
    /// `Unusable` for one that is not quarantined, or whose marker no longer says whose it was: it stays.
    pub fn reclaim(&self, directory: &TopicDirectory) -> Result<()> {
        self.inner.reclaim(directory)
    }

    /// Gives a directory to the topic of its name: one without a marker is marked, one that was set aside gets its
    /// place back. To be called before the topic's metadata exist; a crash in between is mended by calling it again.
    ///
    /// # Errors
    /// `Unusable` when it belongs to another incarnation than `incarnation`, or its place is taken.
    pub fn adopt(&self, directory: &TopicDirectory, incarnation: Incarnation) -> Result<()> {
        self.inner.adopt(directory, incarnation)
    }

    /// What was done since the store was opened.
    pub fn counts(&self) -> StoreCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.inner.counters;
        StoreCounts {
            evicted: count(&counters.evicted),
            cold_swept: count(&counters.cold_swept),
            cold_panics: count(&counters.cold_panics),
            reaper_restarts: count(&counters.reaper_restarts),
            lost_to_retention: count(&counters.lost_to_retention),
            open_logs: self.inner.open_count(),
        }
    }

    /// How far the partition's consumers are: what was last recorded, or what the files say. When the log is open,
    /// a position beyond its bounds is brought into them. Blocking; creates nothing.
    ///
    /// # Errors
    /// `Io` when a file cannot be read: that is not taken for "nothing settled".
    pub fn consumer_position(&self, spec: &TopicSpec, partition: PartitionId) -> Result<ConsumerPosition> {
        self.recover_position(spec, partition).map(|recovered| recovered.position)
    }

    /// The same, with what had to be changed about it: the first answer after a position was found out of bounds says so,
    /// and the next has the new one.
    ///
    /// # Errors
    /// As [`consumer_position`](Self::consumer_position).
    pub fn recover_position(&self, spec: &TopicSpec, partition: PartitionId) -> Result<RecoveredPosition> {
        self.inner.recover_position(spec, partition)
    }

    /// The highest offset at and below which everything is settled, as it was last recorded or as the files say; `None`
    /// when nothing is. Only looks: a position beyond the log's bounds stays as it is. Blocking; creates nothing.
    ///
    /// # Errors
    /// As [`consumer_position`](Self::consumer_position).
    pub fn stated_frontier(&self, spec: &TopicSpec, partition: PartitionId) -> Result<Option<Offset>> {
        self.inner.stated_frontier(spec, partition)
    }

    /// Takes over a new position: in the page cache within 100 ms, synced within
    /// [`consumer_commit_interval`](StoreOptions::consumer_commit_interval), exact at [`close`](Self::close). Cheap,
    /// and never blocks on file I/O. Without effect once the incarnation was deleted or the store closed.
    pub fn record_position(&self, spec: &TopicSpec, partition: PartitionId, position: ConsumerPosition) {
        self.inner.record_position(spec, partition, position);
    }

    /// Where the plugins of this incarnation of a topic keep their files, for the
    /// [`PluginContext`](crate::plugin::PluginContext) that they are built with. Touches no file. Whoever uses it waits for
    /// a log of the topic that is being opened or closed, and gets nothing once the incarnation was deleted or the store
    /// closed.
    pub fn plugin_place(&self, topic: &str, incarnation: Incarnation) -> Arc<dyn PluginPlace> {
        Arc::new(TopicPlugins::new(Arc::downgrade(&self.inner), topic.into(), incarnation))
    }

    /// Where the broker's produce log lives.
    pub fn ingress_dir(&self) -> PathBuf {
        self.inner.layout.produce_wal()
    }

    /// Where the metastore lives.
    pub fn meta_dir(&self) -> PathBuf {
        self.inner.layout.meta()
    }

    /// One step of the background work, by the runtime's clock: positions, then reopening, retention, eviction,
    /// the retention of closed logs, and the maintenance of codecs. With threads at work, it also replaces one that hangs.
    pub fn tick(&self) {
        let (store, now) = (&self.inner, self.inner.now());
        if self.inner.check_open().is_ok() {
            store.background.replace_those_that_hang(store, now);
            let _ = store.committer.pass(store, now, false);
            store.reaper.step(store, now);
            store.cold_walk.step(store, now);
            store.maintenance.step(store, now);
        }
    }

    /// Starts the threads that do the background work until [`close`](Self::close).
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(&self) -> Result<()> {
        self.inner.check_open()?;
        self.inner.background.start(&self.inner)
    }

    /// Closes every log, makes every position exact on disk, and gives the directory back. Idempotent.
    ///
    /// # Errors
    /// The first failure; everything else is closed all the same.
    pub fn close(&self) -> Result<()> {
        let store = &self.inner;
        if store.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        store.background.stop();
        let logs = store.close_all();
        let (_, positions) = store.committer.pass(store, store.now(), true);
        store.lock.lock().take();
        logs.and(positions)
    }
}

impl Inner {
    fn now(&self) -> Duration {
        self.runtime.clock().monotonic()
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(()) }
    }

    fn count_error(&self, kind: &'static str) {
        self.runtime.metrics().error("storage", kind);
    }

    /// The topic's place, made on first use; refused for a name that is no topic's.
    fn topic(&self, name: &str) -> Result<Arc<Topic>> {
        if let Some(topic) = self.topics.read().get(name) {
            return Ok(topic.clone());
        }
        check_topic_name(name)?;
        let name: Arc<str> = name.into();
        Ok(self.topics.write().entry(name.clone()).or_insert_with(|| Topic::new(name)).clone())
    }
}
