//! A histogram of durations: a few atomic additions for each observation, no lock, no allocation after the first one.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Upper bounds for what waits for a disk or a network, in nanoseconds: 100 µs to 10 s.
pub const WAIT_BOUNDS: &[u64] = &[
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Upper bounds for a call that computes, in nanoseconds: 1 µs to 1 s.
pub const CALL_BOUNDS: &[u64] = &[
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
];

/// Counts durations by the bound that they stay within.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// Absent until something was observed: most logs of a large broker are idle.
    counts: OnceLock<Box<[AtomicU64]>>,
    sum_nanos: AtomicU64,
}

/// What a histogram had counted at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistogramSnapshot {
    /// The upper bounds, in nanoseconds, ascending; each belongs to its bucket.
    pub bounds: &'static [u64],
    /// Observations in each bucket, not added up; one more than there are bounds.
    pub counts: Vec<u64>,
    /// The sum of what was observed, in nanoseconds.
    pub sum_nanos: u64,
}

impl Histogram {
    /// An empty histogram with these upper bounds, in nanoseconds, ascending.
    pub const fn new(bounds: &'static [u64]) -> Self {
        Self { bounds, counts: OnceLock::new(), sum_nanos: AtomicU64::new(0) }
    }

    /// Counts one duration.
    pub fn observe(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let counts = self.counts.get_or_init(|| (0..=self.bounds.len()).map(|_| AtomicU64::new(0)).collect());
        let bucket = self.bounds.partition_point(|bound| *bound < nanos);
        if let Some(count) = counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
            self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    /// What was counted so far; `None` when nothing was.
    pub fn snapshot(&self) -> Option<HistogramSnapshot> {
        let counts = self.counts.get()?;
        Some(HistogramSnapshot {
            bounds: self.bounds,
            counts: counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum_nanos: self.sum_nanos.load(Ordering::Relaxed),
        })
    }
}

impl HistogramSnapshot {
    /// Observations in all buckets.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_within_the_bound_that_it_equals_and_above_all_in_the_last() {
        let histogram = Histogram::new(&[1_000, 2_000]);
        assert_eq!(histogram.snapshot(), None);
        for nanos in [0, 1_000, 1_001, 2_000, 2_001, 9_000] {
            histogram.observe(Duration::from_nanos(nanos));
        }
        let seen = histogram.snapshot().unwrap();
        assert_eq!((seen.counts.as_slice(), seen.sum_nanos, seen.count()), ([2, 2, 2].as_slice(), 15_002, 6));
        for bounds in [WAIT_BOUNDS, CALL_BOUNDS] {
            assert!(bounds.is_sorted());
        }
    }
}
