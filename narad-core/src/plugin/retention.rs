//! `RetentionPolicy`: which of the oldest segments may go.

use std::{fmt::Debug, time::Duration};

use crate::format::Offset;

/// One segment, as a policy sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentInfo {
    /// Its first offset.
    pub start: Offset,
    /// The first offset after it.
    pub end: Offset,
    /// Bytes on disk.
    pub bytes: u64,
    /// When its first record was written, Unix milliseconds; never in the future.
    pub first_write_ms: i64,
    /// When its last record was written, Unix milliseconds; never in the future.
    pub last_write_ms: i64,
    /// False for the active segment, which is listed last, and only while everything in it is committed. If the
    /// policy expires it, the engine seals it first; its successor exists before it goes.
    pub sealed: bool,
}

impl SegmentInfo {
    /// A sealed segment of these bounds.
    pub fn sealed(start: Offset, end: Offset, bytes: u64, first_write_ms: i64, last_write_ms: i64) -> Self {
        Self { start, end, bytes, first_write_ms, last_write_ms, sealed: true }
    }
}

/// What a [`RetentionPolicy`] decides from.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RetentionView<'a> {
    /// Wall time, Unix milliseconds.
    pub now_ms: i64,
    /// The segments, oldest first.
    pub segments: &'a [SegmentInfo],
    /// The exclusive bound of what consumers can read.
    pub high_watermark: Offset,
    /// The highest offset at and below which every consumer has settled everything, and every child that records are
    /// copied to has its copy; `None` when that is nothing, or not known.
    pub frontier: Option<Offset>,
}

impl<'a> RetentionView<'a> {
    /// A view with no consumer frontier.
    pub fn new(now_ms: i64, segments: &'a [SegmentInfo], high_watermark: Offset) -> Self {
        Self { now_ms, segments, high_watermark, frontier: None }
    }

    /// The same view with a frontier.
    #[must_use]
    pub fn with_frontier(self, frontier: Option<Offset>) -> Self {
        Self { frontier, ..self }
    }
}

/// What a [`RetentionPolicy`] answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetentionDecision {
    /// How many of the oldest segments may go; more than there are counts as all of them.
    pub expire: usize,
    /// Why, as the `reason` label of the deletion metrics: one of a few fixed words.
    pub reason: &'static str,
}

impl RetentionDecision {
    /// Keep everything.
    pub const KEEP: Self = Self { expire: 0, reason: "none" };

    /// The `expire` oldest segments may go, for `reason`.
    pub const fn expire(expire: usize, reason: &'static str) -> Self {
        Self { expire, reason }
    }
}

/// Decides which of the oldest segments a sweep deletes, and how long a segment may take new records.
///
/// # Contract
/// 1. `decide` depends on its argument and the policy's configuration alone: equal views, equal answers.
/// 2. Only a prefix of the segments can go, so that offsets stay in one piece; the engine deletes no more than the
///    first `expire`.
/// 3. It never expires what its own promise keeps: with a later `now_ms` and nothing else changed it expires at
///    least as many; with a `frontier` of `None` no more than with any other, since nothing may be settled.
/// 4. `roll_age` is asked before a write and after a change of policy; it is constant.
/// 5. Called outside every lock of the log, by one reaper for all logs. No I/O, no blocking; a panic is contained,
///    and that log is skipped for this sweep.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use narad_core::plugin::{RetentionDecision, RetentionPolicy, RetentionView};
///
/// /// Keeps the newest `0` segments.
/// #[derive(Debug)]
/// struct Newest(usize);
///
/// impl RetentionPolicy for Newest {
///     fn name(&self) -> &str {
///         "newest"
///     }
///     fn roll_age(&self) -> Option<Duration> {
///         None
///     }
///     fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
///         RetentionDecision::expire(view.segments.len().saturating_sub(self.0), "count")
///     }
/// }
/// ```
///
/// # The usual mistake
///
/// Counting segments that match anywhere in the list. What goes is a prefix: stop at the first segment that stays
/// (`take_while`, not `filter`).
pub trait RetentionPolicy: Debug + Send + Sync + 'static {
    /// The policy's name in configuration and metrics.
    fn name(&self) -> &str;

    /// The age of its oldest record at which the active segment is sealed before the next write, so that a segment
    /// that never fills does not keep its oldest records for ever. `None`: it is sealed by size alone. Each segment is a
    /// file, and zero seals one at each write: have the constructor refuse what is too short.
    fn roll_age(&self) -> Option<Duration>;

    /// How many of the oldest segments may go.
    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision;
}
