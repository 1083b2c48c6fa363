//! How often a plugin was called for one operation, how long it took, and how often that failed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::histogram::{CALL_BOUNDS, Histogram, HistogramSnapshot};
use crate::clock::Clock;

/// The calls of one operation of one plugin, in all logs.
#[derive(Debug)]
pub struct PluginCalls {
    /// `codec`, `retention`, `sync` or `wake`.
    pub kind: &'static str,
    /// The plugin's name.
    pub plugin: Arc<str>,
    /// The method of the plugin's trait.
    pub operation: &'static str,
    clock: Arc<dyn Clock>,
    durations: Histogram,
    errors: AtomicU64,
}

impl PluginCalls {
    pub(super) fn new(
        kind: &'static str,
        plugin: Arc<str>,
        operation: &'static str,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let durations = Histogram::new(CALL_BOUNDS);
        Self { kind, plugin, operation, clock, durations, errors: AtomicU64::new(0) }
    }

    /// How long the calls took; as many observations as there were calls.
    pub fn durations(&self) -> Option<HistogramSnapshot> {
        self.durations.snapshot()
    }

    /// Calls that answered an error or what they must not, or panicked.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Makes a call that can fail by a panic alone.
    pub(crate) fn time<T>(&self, call: impl FnOnce() -> T) -> T {
        let mut running = Running { calls: self, since: self.clock.monotonic(), failed: true };
        let answer = call();
        running.failed = false;
        answer
    }

    /// Makes a call that can fail.
    pub(crate) fn time_fallible<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.time_judged(call, Result::is_ok)
    }

    /// Makes a call whose answer may be one that counts as a failure.
    pub(crate) fn time_judged<T>(&self, call: impl FnOnce() -> T, is_good: impl FnOnce(&T) -> bool) -> T {
        let mut running = Running { calls: self, since: self.clock.monotonic(), failed: true };
        let answer = call();
        running.failed = !is_good(&answer);
        answer
    }
}

/// A call that runs. Counted when it ends, be it by a panic.
struct Running<'a> {
    calls: &'a PluginCalls,
    since: Duration,
    failed: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let calls = self.calls;
        calls.durations.observe(calls.clock.monotonic().saturating_sub(self.since));
        if self.failed {
            calls.errors.fetch_add(1, Ordering::Relaxed);
        }
    }
}
