//! Whether the broker is ready: startup opens every partition first (engine rule ST-03).

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use narad_core::{
    runtime::Runtime,
    store::{Ailment, OpenFailure, TopicSpec},
};
use parking_lot::Mutex;

use super::{Broker, BrokerError};

/// Topics read at a time while starting.
const PAGE: usize = 1000;
/// How long the metastore or a partition may take to answer before it counts as not working.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a commit may wait for the disk before it counts as hanging.
const DISK_PATIENCE: Duration = Duration::from_secs(3);

/// How far the broker is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// Partitions are still being opened.
    Starting {
        /// What is being done, for people.
        reason: String,
    },
    /// Requests are served.
    Ready {
        /// What does not work, each with its reason.
        degraded: Vec<String>,
    },
}

/// The state of the startup.
#[derive(Debug)]
pub(super) struct Startup {
    progress: Mutex<Progress>,
    runtime: Runtime,
    began: Duration,
    took: OnceLock<Duration>,
}

impl Startup {
    /// It begins now.
    pub(super) fn begin(runtime: &Runtime) -> Self {
        let began = runtime.clock().monotonic();
        Self { progress: Mutex::default(), runtime: runtime.clone(), began, took: OnceLock::new() }
    }

    /// How long it took until every partition was open, or found to be damaged; `None` while it goes on.
    pub(super) fn took(&self) -> Option<Duration> {
        self.took.get().copied()
    }

    fn end(&self, progress: Progress) {
        *self.progress.lock() = progress;
        let took = *self.took.get_or_init(|| self.runtime.clock().monotonic().saturating_sub(self.began));
        let (mut opened, mut scanned, mut cut, mut gaps) = (0u64, 0u64, 0u64, 0u64);
        for log in self.runtime.metrics().logs() {
            let found = log.recovered();
            opened += found.opens.min(1);
            (scanned, cut, gaps) = (scanned + found.scanned_bytes, cut + found.cut_bytes, gaps + found.gaps);
        }
        tracing::info!(
            seconds = took.as_secs_f64(),
            logs = opened,
            bytes_scanned = scanned,
            bytes_truncated = cut,
            gaps,
            "every partition was opened"
        );
    }
}

#[derive(Debug, Default)]
enum Progress {
    #[default]
    Opening,
    /// The metastore could not be read; it is tried again.
    Waiting(String),
    Done(Vec<OpenFailure>),
}

impl Broker {
    /// Opens every partition in the background, for as long as the broker is open.
    pub(super) fn open_partitions(&self) {
        let broker = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            let mut pause = Duration::from_millis(100);
            loop {
                let Some(broker) = broker.upgrade().map(Self) else { return };
                match broker.open_all().await {
                    Ok(failures) => return broker.0.startup.end(Progress::Done(failures)),
                    Err(BrokerError::ShuttingDown) => return,
                    Err(error) => {
                        tracing::error!(%error, "the partitions could not be opened; trying again");
                        *broker.0.startup.progress.lock() = Progress::Waiting(error.to_string());
                    }
                }
                drop(broker);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(10));
            }
        });
    }

    async fn open_all(&self) -> Result<Vec<OpenFailure>, BrokerError> {
        let catalog = &self.0.catalog;
        let (mut specs, mut after): (Vec<_>, Option<Arc<str>>) = (Vec::new(), None);
        loop {
            let version = *catalog.meta().version().borrow();
            let page = catalog.meta().topics(after.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(Arc::clone(&last.name));
            for topic in page {
                let entry = catalog.adopt(topic, version).await?;
                specs.extend(entry.spec().ok().map(|spec| TopicSpec::clone(spec)));
            }
        }
        let store = self.0.store.clone();
        super::blocking(move || store.open_all(&specs, None)).await
    }

    /// Whether startup has finished, and what does not work.
    pub async fn readiness(&self) -> Readiness {
        let failures = match &*self.0.startup.progress.lock() {
            Progress::Opening => {
                return Readiness::Starting { reason: "partitions are being opened".to_owned() };
            }
            Progress::Waiting(error) => return Readiness::Starting { reason: error.clone() },
            Progress::Done(failures) => failures.clone(),
        };
        let mut degraded = self.still_failing(failures).await;
        degraded.extend(self.0.catalog.unserved().await.iter().map(ToString::to_string));
        if let Some(error) = self.0.ingress.failure() {
            degraded.push(format!("produce log: {error}"));
        }
        degraded.extend(self.failing_metadata().await);
        degraded.extend(self.ailing());
        self.add_failing(&mut degraded);
        Readiness::Ready { degraded }
    }

    /// What keeps the metastore from answering. Asking it also makes it open its file again after a failure.
    async fn failing_metadata(&self) -> Option<String> {
        match tokio::time::timeout(PATIENCE, self.0.catalog.meta().topics(None, 1)).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(format!("metadata: {error}")),
            Err(_) => Some(format!("metadata: no answer within {PATIENCE:?}")),
        }
    }

    /// Those of `failures` that concern a topic that is still there and a partition that has not opened since.
    async fn still_failing(&self, failures: Vec<OpenFailure>) -> Vec<String> {
        let mut still = Vec::new();
        for failure in failures {
            let Ok(entry) = self.0.catalog.topic(&failure.topic).await else { continue };
            // It is told of as a topic that is not served.
            let Ok(spec) = entry.spec() else { continue };
            let (store, spec, partition) = (self.0.store.clone(), Arc::clone(spec), failure.partition);
            let look = self.0.runtime.run_blocking(&failure.topic, move || store.stats(&spec, partition));
            // What gives no answer, for its disk hangs, has not opened.
            let stats = tokio::time::timeout(PATIENCE, look).await;
            if !stats.is_ok_and(|stats| stats.is_ok_and(|stats| stats.open)) {
                still.push(format!("{}/{}: {}", failure.topic, failure.partition, failure.error));
            }
        }
        still
    }

    /// The partitions that do not take what was acknowledged, unless `degraded` names them already.
    fn add_failing(&self, degraded: &mut Vec<String>) {
        for failing in self.0.ingress.failing() {
            let place = format!("{}/{}: ", failing.topic, failing.partition);
            if !degraded.iter().any(|entry| entry.starts_with(&place)) {
                degraded.push(format!("{place}{}", failing.error));
            }
        }
    }

    /// The logs that take no messages, the produce log included when its disk hangs.
    fn ailing(&self) -> Vec<String> {
        let hangs = |time: Duration| format!("a commit has waited for the disk for {} s", time.as_secs());
        let produce_log = self.0.ingress.committing_for().filter(|time| *time >= DISK_PATIENCE);
        let ailments = self.0.store.ailments(DISK_PATIENCE).into_iter();
        let partitions = ailments.map(|(topic, partition, ailment)| match ailment {
            Ailment::Poisoned(error) => format!("{topic}/{partition}: {error}"),
            Ailment::Hangs(time) => format!("{topic}/{partition}: {}", hangs(time)),
            _ => format!("{topic}/{partition}: takes no messages"),
        });
        produce_log
            .map(|time| format!("produce log: {}", hangs(time)))
            .into_iter()
            .chain(partitions)
            .collect()
    }
}
