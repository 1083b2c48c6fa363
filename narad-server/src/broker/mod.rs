//! The use cases: topics, produce, consume, settle, replay, users. `http` and tests call them.
//!
//! Knows no HTTP. Every change of metadata goes through `MetaStore`, every file through the store.

mod catalog;
mod consume;
mod counters;
mod data_dir;
mod directories;
mod error;
mod in_flight;
mod links;
mod metrics;
mod partitions;
mod plugins;
mod produce;
mod readiness;
mod schemas;
mod stats;
mod topic_plugins;
mod topics;
mod users;
mod wake;

use std::{path::Path, sync::Arc, time::Duration};

use narad_core::{
    disk::Disk,
    plugin::Registry,
    runtime::Runtime,
    store::{Store, StoreOptions},
};

use rustix::process::{Resource, getrlimit};
use tracing::{Instrument, Span};

use self::{
    catalog::Catalog, data_dir::DataDir, partitions::PartitionLooks, readiness::Startup, schemas::Checkers,
    topic_plugins::Plugins, wake::Told,
};
pub use self::{
    consume::Replayed,
    error::BrokerError,
    links::{Child, MAX_DELAY_MS},
    plugins::{check_plugins, default_plugins},
    produce::{MAX_BATCH_MESSAGES, MAX_KEY_BYTES, MAX_PAYLOAD_BYTES, Message},
    readiness::Readiness,
    schemas::MAX_SCHEMA_VERSIONS,
    stats::{Gauges, PartitionReport, PartitionStatus},
    topics::{ChildOf, NewTopic, Page, TopicEdit},
    users::NewUser,
};
use crate::{
    config::{Config, Storage, TopicDefaults},
    fanout::{self, Fanout},
    ingress::{Ingress, IngressOptions, Partitions},
    meta::RedbMetaStore,
    queue::Queues,
    security::Authenticator,
};

/// The broker. Cheap to clone; [`close`](Self::close) before the last handle goes.
#[derive(Clone)]
pub struct Broker(Arc<Inner>);

struct Inner {
    runtime: Runtime,
    store: Store,
    catalog: Arc<Catalog>,
    authenticator: Authenticator,
    queues: Arc<Queues>,
    ingress: Ingress,
    checkers: Checkers,
    fanout: Fanout,
    /// Held while the fan-out learns of links, so that what it is told last is what holds.
    links: tokio::sync::Mutex<()>,
    defaults: TopicDefaults,
    node_id: String,
    startup: Startup,
    partition_gauges: PartitionLooks,
    data_dir: DataDir,
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").field("node_id", &self.0.node_id).finish_non_exhaustive()
    }
}

impl Broker {
    /// Opens the data directory and everything in it but the partitions; those open in the background, and
    /// [`readiness`](Self::readiness) tells when they have.
    ///
    /// # Errors
    /// The directory is in use or cannot be used, or a plugin of the configuration cannot be built.
    pub async fn open(runtime: Runtime, registry: Registry, config: &Config) -> Result<Self, BrokerError> {
        Self::open_with(runtime, registry, config, |_| ()).await
    }

    /// The same with store options that `adjust` has changed after the configuration has had its say: for those that it
    /// has no setting for, such as how often retention looks at the logs.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with(
        runtime: Runtime,
        registry: Registry,
        config: &Config,
        adjust: impl FnOnce(&mut StoreOptions),
    ) -> Result<Self, BrokerError> {
        let startup = Startup::begin(&runtime);
        let mut options = store_options(&config.storage);
        adjust(&mut options);
        // A configuration that cannot be used leaves the directory as it is.
        let plugins = Plugins::new(registry, config.storage.clone())?;
        let configured_wake = plugins.configured_wake(&config.node.id)?;
        let (store, meta) = {
            let (runtime, data_dir) = (runtime.clone(), config.storage.data_dir.clone());
            blocking(move || open_files(&runtime, &data_dir, options)).await??
        };
        let queues = Arc::new(Queues::new(&runtime, store.clone()));
        let signals = Arc::<fanout::Signals>::default();
        let told = Told::new(
            [queues.notifier(), Arc::<fanout::Signals>::clone(&signals)],
            &runtime,
            configured_wake,
        );
        let plugins = plugins.serving(store.clone(), Arc::new(told));
        let catalog = Arc::new(Catalog::new(runtime.clone(), Arc::new(meta), store.clone(), plugins));
        let partitions: Arc<dyn Partitions> = Arc::<Catalog>::clone(&catalog);
        let options = IngressOptions {
            prepare_segments: config.storage.prepare_segments,
            direct: config.storage.direct_produce,
            ..IngressOptions::default()
        };
        let ingress = match Ingress::open(&runtime, store.ingress_dir(), partitions, options).await {
            Ok(ingress) => ingress,
            Err(error) => {
                tell_unclean(close_files(&catalog, store).await);
                return Err(error.into());
            }
        };
        let topics: Arc<dyn fanout::Topics> = Arc::<Catalog>::clone(&catalog);
        let fanout = Fanout::new(&runtime, store.clone(), topics, signals, (&config.fanout).into());
        store.set_followers(fanout.followers());
        let broker = Self(Arc::new(Inner {
            authenticator: Authenticator::new(Arc::clone(catalog.meta()), Arc::clone(runtime.clock())),
            fanout,
            links: tokio::sync::Mutex::default(),
            runtime,
            store,
            catalog,
            queues,
            ingress,
            checkers: Checkers::default(),
            defaults: config.topic.clone(),
            node_id: config.node.id.clone(),
            startup,
            partition_gauges: PartitionLooks::default(),
            data_dir: DataDir::new(config.storage.data_dir.clone()),
        }));
        broker.open_partitions();
        broker.follow_links();
        broker.reclaim_from_time_to_time();
        Ok(broker)
    }

    /// The name of this node.
    pub fn node_id(&self) -> &str {
        &self.0.node_id
    }

    /// Has logs that nobody uses at this moment close their files, for something else that finds no descriptor.
    pub async fn spare_descriptors(&self) {
        let runtime = self.0.runtime.clone();
        // Without an answer there is nothing to be done about it either.
        let _ = blocking(move || runtime.spare_descriptors()).await;
    }

    /// Answers parked consumes with nothing, at once, and refuses new ones. Produce goes on.
    pub fn stop_consumes(&self) {
        self.0.queues.close();
    }

    /// Ends everything: consumes, then the produce log (its backlog is given until `deadline` to reach the
    /// partitions; what is left is dispatched after the next start) and the copying to children, then every log and
    /// position.
    ///
    /// # Errors
    /// What could not be made exact on disk. Nothing acknowledged is lost by that.
    pub async fn close(&self, deadline: Duration) -> Result<(), BrokerError> {
        self.0.queues.close();
        tokio::join!(self.0.ingress.close(deadline), self.0.fanout.close(deadline));
        close_files(&self.0.catalog, self.0.store.clone()).await
    }
}

/// Closes the metadata, and then the store, which gives the directory to the next process.
async fn close_files(catalog: &Catalog, store: Store) -> Result<(), BrokerError> {
    catalog.meta().close().await;
    let (done, closed) = tokio::sync::oneshot::channel();
    // A thread of its own: a disk that hangs must not keep the process when the grace is over.
    std::thread::spawn(move || done.send(store.close()));
    Ok(closed.await.map_err(|_| BrokerError::Stopped)??)
}

fn store_options(settings: &Storage) -> StoreOptions {
    let mut options = StoreOptions::default();
    options.consumer_commit_interval = Duration::from_millis(settings.consumer_offset_commit_interval_ms);
    let unless_off = |ms: u64| (ms != 0).then(|| Duration::from_millis(ms));
    // Of those that the process may open, a quarter is for consumer positions.
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    options.held_position_files = usize::try_from(descriptors / 4).unwrap_or(usize::MAX);
    options.idle_eviction = unless_off(settings.idle_log_eviction_ms);
    options.cold_walk = unless_off(settings.cold_retention_walk_ms);
    options
}

fn open_files(
    runtime: &Runtime,
    data_dir: &Path,
    options: StoreOptions,
) -> Result<(Store, RedbMetaStore), BrokerError> {
    let store = Store::open(runtime, data_dir, options)?;
    match open_metadata(runtime, &store) {
        Ok(meta) => Ok((store, meta)),
        Err(error) => {
            // Dropped alone, the store keeps the directory until its threads have noticed.
            tell_unclean(store.close());
            Err(error)
        }
    }
}

fn open_metadata(runtime: &Runtime, store: &Store) -> Result<RedbMetaStore, BrokerError> {
    refuse_lost_metadata(&**runtime.disk(), store)?;
    // Whoever has children is not known before the metadata are open.
    store.set_followers(Arc::new(fanout::NotKnownYet));
    store.start()?;
    Ok(RedbMetaStore::open(Arc::clone(runtime.disk()), &store.meta_dir())?)
}

/// What else goes wrong in a start that has failed: its own error is the one that is answered.
fn tell_unclean(closed: Result<(), impl std::fmt::Display>) {
    if let Err(error) = closed {
        tracing::warn!(%error, "the store of a failed start did not close cleanly");
    }
}

/// Without metadata every message is one of a topic that is no more, and the produce log would be emptied as such. The
/// metadata are made before the first file of that log, so one without them has lost them.
fn refuse_lost_metadata(disk: &dyn Disk, store: &Store) -> Result<(), BrokerError> {
    let meta_dir = store.meta_dir();
    let missing = RedbMetaStore::is_missing(disk, &meta_dir)
        .map_err(|error| narad_core::Error::io("stat", meta_dir, error))?;
    if !missing || !holds_files(disk, &store.ingress_dir()) {
        return Ok(());
    }
    let reason = "the metadata are gone, and messages are there that belong to them: restore the directory from a \
                  backup, or move ingress and topics away to begin anew";
    Err(narad_core::Error::Unusable { path: store.meta_dir(), reason: reason.to_owned() }.into())
}

/// Whether anything is in `dir`; what cannot be listed is found out by whoever needs it.
fn holds_files(disk: &dyn Disk, dir: &Path) -> bool {
    disk.list(dir).is_ok_and(|entries| !entries.is_empty())
}

/// Runs blocking work without blocking the executor, to its end even when the caller goes.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, BrokerError> {
    let span = Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await.map_err(|_| BrokerError::Stopped)
}

/// Runs `work` to its end even when the caller goes: a client that hangs up leaves no change half made.
async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, BrokerError>> + Send + 'static,
) -> Result<T, BrokerError> {
    // Its log lines, and what it does in the engine, belong to the trace of whoever asked.
    tokio::spawn(work.in_current_span()).await.map_err(|_| BrokerError::Stopped)?
}
