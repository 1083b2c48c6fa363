//! The promise of the policy: nothing goes that somebody has yet to settle, or that is to be kept.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

use std::time::Duration;

use narad_core::{
    format::Offset,
    plugin::{RetentionPolicy, RetentionView, SegmentInfo},
};
use narad_retention_consumed::Consumed;
use proptest::prelude::*;

const NOW_MS: i64 = 1_767_225_600_000;

/// Segments of so many records each, last written so long ago.
fn segments(lengths_and_ages: &[(u64, i64)]) -> Vec<SegmentInfo> {
    let mut end = Offset::ZERO;
    let segment = |&(length, age_ms): &(u64, i64)| {
        let start = end;
        end = start.saturating_add(length);
        SegmentInfo::sealed(start, end, 100, NOW_MS - age_ms, NOW_MS - age_ms)
    };
    lengths_and_ages.iter().map(segment).collect()
}

fn expired(keep_ms: u64, segments: &[SegmentInfo], frontier: Option<Offset>) -> usize {
    let view = RetentionView::new(NOW_MS, segments, Offset::MAX).with_frontier(frontier);
    Consumed::new(Duration::from_millis(keep_ms)).decide(&view).expire
}

proptest! {
    #[test]
    fn exactly_the_settled_segments_that_are_old_enough_go(
        lengths_and_ages in prop::collection::vec((1_u64..50, -100_i64..2_000), 0..40),
        frontier in prop::option::of(0_u64..1_000),
        keep_ms in prop_oneof![Just(0_u64), 0_u64..2_000],
    ) {
        let segments = segments(&lengths_and_ages);
        let frontier = frontier.map(|frontier| Offset::new(frontier).unwrap());
        let expired = expired(keep_ms, &segments, frontier);
        let may_go = |segment: &SegmentInfo| {
            let settled = frontier.is_some_and(|frontier| segment.end.get() <= frontier.get() + 1);
            settled && (NOW_MS - segment.last_write_ms).max(0) as u64 >= keep_ms
        };
        prop_assert!(segments[..expired].iter().all(may_go));
        prop_assert!(!segments.get(expired).is_some_and(may_go), "the next one could have gone too");
    }

    #[test]
    fn a_frontier_that_moves_on_never_takes_anything_back(
        lengths_and_ages in prop::collection::vec((1_u64..50, 0_i64..2_000), 0..40),
        (before, after) in (0_u64..1_000).prop_flat_map(|before| (Just(before), before..2_000)),
        keep_ms in 0_u64..2_000,
    ) {
        let segments = segments(&lengths_and_ages);
        let of = |frontier| expired(keep_ms, &segments, Offset::new(frontier));
        prop_assert!(of(before) <= of(after));
        prop_assert_eq!(expired(keep_ms, &segments, None), 0, "not known is not settled");
    }
}

#[test]
fn the_last_offset_there_can_be_is_a_frontier_too() {
    let last = [SegmentInfo::sealed(Offset::ZERO, Offset::MAX, 1, 0, 0)];
    assert_eq!(expired(0, &last, Some(Offset::MAX)), 1);
}
