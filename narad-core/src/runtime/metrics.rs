//! Counters of the engine that outlive a log. They carry names from a fixed list, so they cannot grow.

use std::collections::BTreeMap;

use crate::sync::Mutex;

/// What the engine counts for the whole process.
#[derive(Debug, Default)]
pub struct Metrics {
    errors: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    deleted: Mutex<BTreeMap<&'static str, Deleted>>,
}

/// What retention deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Bytes.
    pub bytes: u64,
    /// Offsets.
    pub messages: u64,
}

impl Metrics {
    /// Counts an error: `narad_errors_total{component, kind}`.
    pub fn error(&self, component: &'static str, kind: &'static str) {
        *self.errors.lock().entry((component, kind)).or_default() += 1;
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

    /// Counts what retention deleted, by its reason.
    pub(crate) fn deleted(&self, reason: &'static str, bytes: u64, messages: u64) {
        let mut deleted = self.deleted.lock();
        let sum = deleted.entry(reason).or_default();
        sum.bytes += bytes;
        sum.messages += messages;
    }

    /// What retention deleted so far, by reason.
    pub fn deletions(&self) -> Vec<(&'static str, Deleted)> {
        self.deleted.lock().iter().map(|(reason, sum)| (*reason, *sum)).collect()
    }
}
