//! The policy that keeps segments for a time after their last write.

use std::time::Duration;

use narad_core::plugin::{RetentionDecision, RetentionPolicy, RetentionView};

/// Expires the oldest segments for as long as their last write is older than the retention.
///
/// A segment rolls at the retention's age as well, so that a record lives at most twice the retention and one sweep.
/// The wall clock decides: a last write in the future counts as now, and a clock that steps back expires nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age {
    retention: Duration,
}

impl Age {
    /// Keeps a segment for `retention` after its last write.
    pub const fn new(retention: Duration) -> Self {
        Self { retention }
    }
}

impl RetentionPolicy for Age {
    fn name(&self) -> &str {
        "age"
    }

    fn roll_age(&self) -> Option<Duration> {
        Some(self.retention)
    }

    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        let age_of = |last_write_ms: i64| {
            let ms = view.now_ms.saturating_sub(last_write_ms);
            Duration::from_millis(u64::try_from(ms).unwrap_or(0))
        };
        let expired =
            view.segments.iter().take_while(|segment| age_of(segment.last_write_ms) > self.retention).count();
        if expired == 0 { RetentionDecision::KEEP } else { RetentionDecision::expire(expired, "age") }
    }
}
