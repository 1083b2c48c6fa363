//! Everything that is measured, as it was at one moment: what `/metrics` writes as text and OTLP sends.
//!
//! Whoever counts keeps its own counters and is asked for them; a series exists for as long as what it is about, and
//! nothing here remembers one.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use narad_core::metrics::HistogramSnapshot;

use super::names::{Kind, Metric};

/// Labels and their values, in the order in which they are written. Cheap to clone: one for all series of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels(Arc<[(&'static str, Arc<str>)]>);

/// What a series says.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number.
    Integer(u64),
    /// A number of seconds, say.
    Float(f64),
    /// Durations.
    Histogram(HistogramSnapshot),
}

/// One series.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its labels.
    pub labels: Labels,
    /// Its value.
    pub value: Value,
}

/// The series of all metrics, by the metric's name.
#[derive(Debug, Default)]
pub struct Families(BTreeMap<&'static str, (Metric, Vec<Sample>)>);

impl Labels {
    /// These labels.
    pub fn new<const N: usize>(labels: [(&'static str, &str); N]) -> Self {
        Self(labels.into_iter().map(|(label, value)| (label, Arc::from(value))).collect())
    }

    /// These labels, whose values are shared.
    pub fn shared<const N: usize>(labels: [(&'static str, &Arc<str>); N]) -> Self {
        Self(labels.into_iter().map(|(label, value)| (label, Arc::clone(value))).collect())
    }

    /// No label.
    pub fn none() -> Self {
        Self::new([])
    }

    /// Each label with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(label, value)| (*label, &**value))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Integer(number)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Integer(u64::try_from(number).unwrap_or(u64::MAX))
    }
}

impl From<Duration> for Value {
    fn from(duration: Duration) -> Self {
        Self::Float(duration.as_secs_f64())
    }
}

impl From<HistogramSnapshot> for Value {
    fn from(durations: HistogramSnapshot) -> Self {
        Self::Histogram(durations)
    }
}

impl Families {
    /// Adds a series. Two with equal labels are the caller's mistake.
    pub fn add(&mut self, metric: Metric, labels: &Labels, value: impl Into<Value>) {
        let value = value.into();
        debug_assert_eq!(
            matches!(value, Value::Histogram(_)),
            metric.kind == Kind::Histogram,
            "{} is no such metric",
            metric.name
        );
        let (_, samples) = self.0.entry(metric.name).or_insert_with(|| (metric, Vec::new()));
        samples.push(Sample { labels: labels.clone(), value });
    }

    /// Adds a series if there is something to say.
    pub fn add_known(&mut self, metric: Metric, labels: &Labels, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.add(metric, labels, value);
        }
    }

    /// Each metric that has series, by name.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, &[Sample])> {
        self.0.values().map(|(metric, samples)| (*metric, samples.as_slice()))
    }
}
