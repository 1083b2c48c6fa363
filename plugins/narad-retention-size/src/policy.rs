//! The policy that keeps a partition below a size.

use std::{num::NonZeroU64, time::Duration};

use narad_core::plugin::{RetentionDecision, RetentionPolicy, RetentionView};

/// Expires the oldest segments for as long as the partition holds more than a number of bytes.
///
/// What counts is the size of the segments' files. The newest segment is never expired, whatever its size: a log that
/// is written to always keeps its newest records, so a partition holds at most the maximum, or its newest segment where
/// that alone is larger (64 MiB, unless the log was opened with another segment size), and what is written until the
/// next sweep, once a minute.
///
/// Consumers are not asked: what they have not settled goes as well. The policy `all` of `narad-retention` over this one
/// and `consumed` waits for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    max_bytes: NonZeroU64,
}

impl Size {
    /// Keeps at most `max_bytes` in a partition, and its newest segment.
    pub const fn new(max_bytes: NonZeroU64) -> Self {
        Self { max_bytes }
    }
}

impl RetentionPolicy for Size {
    fn name(&self) -> &str {
        "size"
    }

    /// Time makes nothing too large.
    fn roll_age(&self) -> Option<Duration> {
        None
    }

    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        // From the newest on: the sum cannot overflow before it is past the maximum.
        let mut held = 0_u64;
        let fitting = view.segments.iter().rev().take_while(|segment| {
            held = held.saturating_add(segment.bytes);
            held <= self.max_bytes.get()
        });
        let kept = fitting.count().max(1);
        match view.segments.len().saturating_sub(kept) {
            0 => RetentionDecision::KEEP,
            expired => RetentionDecision::expire(expired, "size"),
        }
    }
}
