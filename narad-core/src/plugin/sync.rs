//! `SyncPolicy`: when records that nobody has committed reach the disk for good.

use std::{fmt::Debug, time::Duration};

/// What is written to the active segment and not yet synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsynced {
    /// Bytes, ≥ 1.
    pub bytes: u64,
    /// Records, ≥ 1.
    pub records: u64,
    /// Time since the oldest of them was written.
    pub age: Duration,
}

impl Unsynced {
    /// Of these bytes and records, the oldest written `age` ago.
    pub fn new(bytes: u64, records: u64, age: Duration) -> Self {
        Self { bytes, records, age }
    }
}

/// What a [`SyncPolicy`] answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncDecision {
    /// Sync at once.
    Now,
    /// Sync when this much time has passed from now, unless more is written before; then the policy is asked again.
    Within(Duration),
    /// Nothing is owed. The policy is asked again at the next write or drain; a roll and a close sync in any case.
    NotYet,
}

/// A sync that has succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Synced {
    /// What it made durable, and how old that was when the sync began.
    pub what: Unsynced,
    /// How long the fsync took.
    pub took: Duration,
}

impl Synced {
    /// A sync of `what` that took so long.
    pub fn new(what: Unsynced, took: Duration) -> Self {
        Self { what, took }
    }
}

/// Decides when appended records are synced that nobody commits. A commit never asks: it syncs.
///
/// # Contract
/// 1. Called after each write of unpromised records and when the time it asked for has passed.
/// 2. The answer depends on the argument and on the policy's own state alone; it does no I/O and does not block.
/// 3. Asked under the log's produce lock, from one thread at a time for each log, from many for several logs.
/// 4. A panic is contained; in `decide` it counts as [`SyncDecision::Now`].
/// 5. `synced` is told of each sync of records that has succeeded, those of commits included, under the same lock. A
///    policy that is handed to several logs hears of them all.
///
/// # Example
///
/// ```
/// use narad_core::plugin::{SyncDecision, SyncPolicy, Unsynced};
///
/// /// Loses at most one record to a power cut.
/// #[derive(Debug)]
/// struct EveryWrite;
///
/// impl SyncPolicy for EveryWrite {
///     fn name(&self) -> &str {
///         "every-write"
///     }
///     fn decide(&self, _: &Unsynced) -> SyncDecision {
///         SyncDecision::Now
///     }
/// }
/// ```
///
/// # The usual mistake
///
/// Answering `Within(interval)` whatever the age: each write then pushes the sync further away. Answer
/// `Within(interval - age)`, as [`BatchedSync`] does.
pub trait SyncPolicy: Debug + Send + Sync + 'static {
    /// The policy's name in configuration and metrics.
    fn name(&self) -> &str;

    /// What is to happen to what is unsynced.
    fn decide(&self, unsynced: &Unsynced) -> SyncDecision;

    /// What a sync has cost, for a policy that goes by it. Most do not.
    fn synced(&self, synced: &Synced) {
        let _ = synced;
    }
}

/// Syncs one second after a write, or when 8 MiB have gathered. A process crash loses nothing that was drained, a
/// power loss up to a second of records that nobody committed.
#[derive(Debug, Clone, Copy)]
pub struct BatchedSync {
    interval: Duration,
    bytes: u64,
}

impl BatchedSync {
    /// Syncs after `interval` or `bytes`, whichever comes first.
    pub fn new(interval: Duration, bytes: u64) -> Self {
        Self { interval, bytes }
    }
}

impl Default for BatchedSync {
    fn default() -> Self {
        Self::new(Duration::from_secs(1), 8 << 20)
    }
}

impl SyncPolicy for BatchedSync {
    fn name(&self) -> &str {
        "batched"
    }

    fn decide(&self, unsynced: &Unsynced) -> SyncDecision {
        if unsynced.bytes >= self.bytes || unsynced.age >= self.interval {
            SyncDecision::Now
        } else {
            SyncDecision::Within(self.interval - unsynced.age)
        }
    }
}
