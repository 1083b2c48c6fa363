//! What the engine counts: failures, each log's work, each call into a plugin.
//!
//! Knows no exporter and no name of a metric but those that it is handed. Whoever counts looks its counters up once and
//! adds to atomics from then on; what is counted of a topic goes with the topic, so that nothing here grows with names
//! that are no more.

mod calls;
mod histogram;
mod log;
mod timed;

use std::{collections::BTreeMap, sync::Arc};

pub use self::{
    calls::PluginCalls,
    histogram::{CALL_BOUNDS, Histogram, HistogramSnapshot, WAIT_BOUNDS},
    log::{LogMetrics, Recovered},
};
use crate::{
    clock::Clock,
    plugin::{Incarnation, LogIdentity},
    sync::Mutex,
};

/// Operations of plugins that are told apart; what comes beyond is counted under the name `other`.
const MAX_CALLS: usize = 1024;

/// What the engine counts for the whole process.
#[derive(Debug)]
pub struct Metrics {
    clock: Arc<dyn Clock>,
    errors: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    deleted: Mutex<BTreeMap<&'static str, Deleted>>,
    /// The logs of each life of a topic, in the order in which they were first opened.
    logs: Mutex<BTreeMap<Life, Vec<Arc<LogMetrics>>>>,
    calls: Mutex<BTreeMap<Operation, Arc<PluginCalls>>>,
}

/// A topic in one incarnation, or a log that stands alone.
type Life = (Arc<str>, Option<Incarnation>);
/// A plugin's kind and name, and the method that is called.
type Operation = (&'static str, Arc<str>, &'static str);

/// What retention deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Bytes.
    pub bytes: u64,
    /// Offsets.
    pub messages: u64,
}

impl Deleted {
    fn add(&mut self, bytes: u64, messages: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.messages = self.messages.saturating_add(messages);
    }
}

impl Metrics {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            errors: Mutex::default(),
            deleted: Mutex::default(),
            logs: Mutex::default(),
            calls: Mutex::default(),
        }
    }

    /// Counts an error: `narad_errors_total{component, kind}`.
    pub fn error(&self, component: &'static str, kind: &'static str) {
        self.errors_of(component, kind, 1);
    }

    /// Counts several.
    pub fn errors_of(&self, component: &'static str, kind: &'static str, count: u64) {
        *self.errors.lock().entry((component, kind)).or_default() += count;
    }

    /// The errors counted so far, by component and kind.
    pub fn errors(&self) -> Vec<((&'static str, &'static str), u64)> {
        self.errors.lock().iter().map(|(key, count)| (*key, *count)).collect()
    }

    /// How often an error was counted.
    pub fn error_count(&self, component: &str, kind: &str) -> u64 {
        let errors: &BTreeMap<(&str, &str), u64> = &self.errors.lock();
        errors.get(&(component, kind)).copied().unwrap_or_default()
    }

    /// What retention deleted so far in all logs, those of deleted topics included, by reason.
    pub fn deletions(&self) -> Vec<(&'static str, Deleted)> {
        self.deleted.lock().iter().map(|(reason, sum)| (*reason, *sum)).collect()
    }

    /// The counters of every log that was opened, but for those of topics that were deleted since.
    pub fn logs(&self) -> Vec<Arc<LogMetrics>> {
        self.logs.lock().values().flatten().cloned().collect()
    }

    /// Every operation of a plugin that a log was opened with.
    pub fn plugin_calls(&self) -> Vec<Arc<PluginCalls>> {
        self.calls.lock().values().cloned().collect()
    }

    /// The counters of a log, made on first use.
    pub(crate) fn log(&self, identity: &LogIdentity) -> Arc<LogMetrics> {
        let mut logs = self.logs.lock();
        let of_life = logs.entry((Arc::clone(&identity.name), identity.incarnation)).or_default();
        if let Some(known) = of_life.iter().find(|log| log.identity().partition == identity.partition) {
            return Arc::clone(known);
        }
        let log = Arc::new(LogMetrics::new(identity.clone()));
        of_life.push(Arc::clone(&log));
        log
    }

    /// Forgets what was counted of a topic's logs: it was deleted.
    pub(crate) fn forget(&self, topic: &str, incarnation: Incarnation) {
        self.logs.lock().remove(&(Arc::from(topic), Some(incarnation)));
    }

    /// Counts what retention deleted of a log, by its reason.
    pub(crate) fn deleted(&self, log: &LogMetrics, reason: &'static str, bytes: u64, messages: u64) {
        self.deleted.lock().entry(reason).or_default().add(bytes, messages);
        log.deleted(reason, bytes, messages);
    }

    /// The counters of a plugin's operation, made on first use.
    pub(crate) fn calls(
        &self,
        kind: &'static str,
        plugin: &str,
        operation: &'static str,
    ) -> Arc<PluginCalls> {
        let mut calls = self.calls.lock();
        let mut key = (kind, Arc::from(plugin), operation);
        if let Some(known) = calls.get(&key) {
            return Arc::clone(known);
        }
        if calls.len() >= MAX_CALLS {
            key.1 = Arc::from("other");
        }
        let made = || Arc::new(PluginCalls::new(key.0, Arc::clone(&key.1), key.2, Arc::clone(&self.clock)));
        Arc::clone(calls.entry(key.clone()).or_insert_with(made))
    }
}
