//! What is known of a partition whose log is closed, so that its retention need not open it to find that nothing has expired.

use std::time::Duration;

use super::open_log::Frontier;
use crate::plugin::SegmentInfo;

/// What is known of a closed partition. Forgotten when it is opened.
#[derive(Debug, Clone, Default)]
pub(super) struct ColdPartition {
    /// Its segments, as the log saw them when it was closed, or as the files look.
    pub(super) segments: Option<Vec<SegmentInfo>>,
    pub(super) frontier: Frontier,
    /// By the runtime's clock, after a visit that panicked.
    pub(super) left_alone_until: Option<Duration>,
}

impl ColdPartition {
    pub(super) fn closed(segments: Vec<SegmentInfo>, frontier: Frontier) -> Self {
        Self { segments: Some(segments), frontier, left_alone_until: None }
    }
}
