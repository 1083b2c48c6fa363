//! The retention of the WAL: a segment goes once everything in it is done.

use std::time::Duration;

use narad_core::plugin::{RetentionDecision, RetentionPolicy, RetentionView};

/// Expires the sealed segments that lie wholly at or below the frontier, which is the last record that is done.
#[derive(Debug)]
pub(super) struct DoneSegments;

impl RetentionPolicy for DoneSegments {
    fn name(&self) -> &str {
        "ingress-done"
    }

    fn roll_age(&self) -> Option<Duration> {
        None
    }

    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        let Some(frontier) = view.frontier else { return RetentionDecision::KEEP };
        let done = frontier.saturating_add(1);
        let expire = view.segments.iter().take_while(|segment| segment.sealed && segment.end <= done).count();
        RetentionDecision::expire(expire, "done")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use narad_core::{format::Offset, plugin::SegmentInfo, testkit::conformance};

    use super::*;

    #[test]
    fn the_contract_of_retention_policies_is_kept() {
        conformance::retention_policy(|| Arc::new(DoneSegments));
    }

    #[test]
    fn only_sealed_segments_that_are_wholly_done_go() {
        let segment = |start: u32, end: u32| SegmentInfo::sealed(start.into(), end.into(), 1, 0, 0);
        let mut active = segment(20, 30);
        active.sealed = false;
        let segments = [segment(0, 10), segment(10, 20), active];
        let expired = |frontier: Option<u32>| {
            let view =
                RetentionView::new(0, &segments, Offset::from(30)).with_frontier(frontier.map(Offset::from));
            DoneSegments.decide(&view).expire
        };
        assert_eq!([None, Some(8), Some(9), Some(18), Some(19), Some(29)].map(expired), [0, 0, 1, 1, 2, 2]);
    }
}
