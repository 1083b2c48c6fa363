//! The policy that syncs as often as the disk can bear.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use narad_core::plugin::{SyncDecision, SyncPolicy, Synced, Unsynced};

/// How much a new measurement counts beside what was known: one in so many.
const MEMORY: u64 = 8;

/// What an [`Adaptive`] policy keeps to.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct AdaptiveLimits {
    /// The part of the time that may go into fsyncs, above 0 and at most 1.
    pub share: f64,
    /// A record waits at least this long for its sync, however fast the disk is.
    pub min_wait: Duration,
    /// A record waits no longer than this, however slow it is.
    pub max_wait: Duration,
    /// So many unsynced bytes are synced at once, at least 1.
    pub max_unsynced: u64,
}

impl Default for AdaptiveLimits {
    /// A tenth of the time; 10 ms to 1 s; 8 MiB.
    fn default() -> Self {
        Self {
            share: 0.1,
            min_wait: Duration::from_millis(10),
            max_wait: Duration::from_secs(1),
            max_unsynced: 8 << 20,
        }
    }
}

/// Limits that nothing can keep to.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitsError {
    /// The share is no part of a whole.
    #[error("share is {0}; a part of the time is above 0 and at most 1, such as 0.1")]
    Share(f64),
    /// The shortest wait is longer than the longest.
    #[error("min_wait, {min:?}, is longer than max_wait, {max:?}")]
    Waits {
        /// The shortest wait.
        min: Duration,
        /// The longest wait.
        max: Duration,
    },
    /// No bytes are to be unsynced.
    #[error("max_unsynced is 0; \"every-write\" is the policy that leaves nothing unsynced")]
    NoBytes,
}

/// Syncs at intervals that it takes from what an fsync costs: on a fast disk often, so that little is at stake, on a slow
/// one no more often than a share of the time allows.
///
/// Survives: what was drained outlives the process. A power loss or a crash of the system takes what was written within
/// the interval, which is at least `min_wait`, at most `max_wait`, and never more than `max_unsynced`, and what is written
/// while an fsync takes place.
///
/// What it has measured, it keeps in memory alone: until the first fsync it waits `min_wait`. One that serves several logs
/// measures all of them.
#[derive(Debug)]
pub struct Adaptive {
    limits: AdaptiveLimits,
    /// What an fsync takes, in nanoseconds, the last ones counting most; 0 when none was measured yet.
    cost_nanos: AtomicU64,
}

impl Adaptive {
    /// A policy that has measured nothing yet.
    ///
    /// # Errors
    /// Limits that nothing can keep to.
    pub fn new(limits: AdaptiveLimits) -> Result<Self, LimitsError> {
        let AdaptiveLimits { share, min_wait: min, max_wait: max, max_unsynced } = limits;
        if !(share > 0.0 && share <= 1.0) {
            return Err(LimitsError::Share(share));
        }
        if min > max {
            return Err(LimitsError::Waits { min, max });
        }
        if max_unsynced == 0 {
            return Err(LimitsError::NoBytes);
        }
        Ok(Self { limits, cost_nanos: AtomicU64::new(0) })
    }

    /// How long a record waits for its sync at present.
    pub fn wait(&self) -> Duration {
        let cost = Duration::from_nanos(self.cost_nanos.load(Ordering::Relaxed));
        // Of a wait and the fsync after it, the fsync is the share.
        let wait = cost.as_secs_f64() * (1.0 / self.limits.share - 1.0);
        let wait = Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX);
        wait.clamp(self.limits.min_wait, self.limits.max_wait)
    }
}

impl SyncPolicy for Adaptive {
    fn name(&self) -> &str {
        "adaptive"
    }

    fn decide(&self, unsynced: &Unsynced) -> SyncDecision {
        if unsynced.bytes >= self.limits.max_unsynced {
            return SyncDecision::Now;
        }
        match self.wait().checked_sub(unsynced.age) {
            Some(left) if !left.is_zero() => SyncDecision::Within(left),
            _ => SyncDecision::Now,
        }
    }

    fn synced(&self, synced: &Synced) {
        let took = u64::try_from(synced.took.as_nanos()).unwrap_or(u64::MAX).max(1);
        // Of two logs that measure at once, one may go unheard: the next measurement makes up for it.
        let before = self.cost_nanos.load(Ordering::Relaxed);
        let after = match before {
            0 => took,
            _ => (before - before / MEMORY).saturating_add(took / MEMORY).max(1),
        };
        self.cost_nanos.store(after, Ordering::Relaxed);
    }
}
