//! The policy that keeps everything.

use std::time::Duration;

use narad_core::plugin::{RetentionDecision, RetentionPolicy, RetentionView};

/// Keeps everything; segments roll by size alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct Forever;

impl RetentionPolicy for Forever {
    fn name(&self) -> &str {
        "forever"
    }

    fn roll_age(&self) -> Option<Duration> {
        None
    }

    fn decide(&self, _: &RetentionView<'_>) -> RetentionDecision {
        RetentionDecision::KEEP
    }
}
