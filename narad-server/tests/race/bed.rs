//! A server in which retention, idle close and the walk over closed logs come round several times a second.

use std::{path::Path, sync::Arc, time::Duration};

use narad_core::{
    plugin::{Registry, RetentionDecision, RetentionPolicy, RetentionView},
    runtime::Runtime,
};
use narad_server::{
    broker::{Broker, default_plugins},
    config::Config,
    serve::Server,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

const NAME: &str = "settled";
/// Written for so long into one segment at most, and kept for so long after the last write: longer than it takes an
/// idle log to be closed, so that the walk over closed logs finds something.
const AGE: Duration = Duration::from_millis(450);

/// Expires what every consumer has settled, soon after it was written. A policy that took more would lose messages by
/// right, and the test could not tell that from a loss.
#[derive(Debug)]
struct Settled;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoKeys {}

impl RetentionPolicy for Settled {
    fn name(&self) -> &str {
        NAME
    }

    fn roll_age(&self) -> Option<Duration> {
        Some(AGE)
    }

    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        let Some(frontier) = view.frontier else { return RetentionDecision::KEEP };
        let settled = frontier.saturating_add(1);
        let old = view.now_ms - AGE.as_millis() as i64;
        let goes = view.segments.iter().take_while(|one| one.end <= settled && one.last_write_ms <= old);
        RetentionDecision::expire(goes.count(), NAME)
    }
}

fn registry() -> Registry {
    let mut registry = default_plugins().unwrap();
    registry.retention(narad_core::origin!(), NAME, |_: NoKeys, _| Ok(Arc::new(Settled))).unwrap();
    registry
}

/// Starts it. The runtime tells what retention has deleted.
pub async fn start(mut config: Config) -> (Server, Runtime) {
    config.storage.retention = Value::from(NAME);
    config.storage.idle_log_eviction_ms = 150;
    config.storage.cold_retention_walk_ms = 200;
    config.storage.consumer_offset_commit_interval_ms = 50;
    let runtime = Runtime::default();
    let broker = Broker::open_with(runtime.clone(), registry(), &config, |options| {
        options.sweep_interval = Duration::from_millis(100);
        options.descriptor_release = Duration::from_millis(100);
    });
    (Server::start_on(broker.await.unwrap(), config).await.unwrap(), runtime)
}

/// What is below `topics/`, by name, files and directories.
pub fn entries(data_dir: &Path) -> Vec<String> {
    let below = std::fs::read_dir(data_dir.join("topics")).unwrap();
    let mut names: Vec<_> = below.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What the descriptors of this process lead to.
pub fn descriptors() -> Vec<String> {
    let listed = std::fs::read_dir("/proc/self/fd").unwrap();
    // The descriptor that lists them is gone before it is looked at.
    let targets = listed.filter_map(|one| std::fs::read_link(one.unwrap().path()).ok());
    targets.map(|target| target.to_string_lossy().into_owned()).collect()
}

/// Waits until `look` finds nothing, and says what it finds when that takes too long.
pub async fn until_none<T: std::fmt::Debug>(what: &str, patience: Duration, look: impl Fn() -> Vec<T>) {
    let begin = tokio::time::Instant::now();
    loop {
        let found = look();
        if found.is_empty() {
            return;
        }
        assert!(begin.elapsed() < patience, "{what} after {patience:?}: {} {found:?}", found.len());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
