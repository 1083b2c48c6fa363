//! The promise of the policy, over segments of any sizes.
#![allow(clippy::indexing_slicing, missing_docs, reason = "a test")]

use std::num::NonZeroU64;

use narad_core::{
    format::Offset,
    plugin::{RetentionPolicy, RetentionView, SegmentInfo},
};
use narad_retention_size::Size;
use proptest::prelude::*;

fn segments(sizes: &[u64]) -> Vec<SegmentInfo> {
    let segment = |(index, bytes): (u32, &u64)| {
        SegmentInfo::sealed((index * 10).into(), (index * 10 + 10).into(), *bytes, 0, 0)
    };
    (0..).zip(sizes).map(segment).collect()
}

fn expired(max: u64, sizes: &[u64], frontier: Option<Offset>) -> usize {
    let segments = segments(sizes);
    let view = RetentionView::new(0, &segments, Offset::MAX).with_frontier(frontier);
    Size::new(NonZeroU64::new(max).unwrap_or(NonZeroU64::MIN)).decide(&view).expire
}

proptest! {
    #[test]
    fn what_is_left_fits_or_is_the_newest_segment_and_no_more_goes_than_must(
        max in 1_u64..10_000,
        sizes in prop::collection::vec(0_u64..3_000, 0..40),
    ) {
        let expired = expired(max, &sizes, None);
        let kept = &sizes[expired..];
        prop_assert!(kept.iter().sum::<u64>() <= max || kept.len() == 1);
        prop_assert!(sizes.is_empty() || !kept.is_empty(), "the newest segment stays");
        if expired > 0 {
            prop_assert!(sizes[expired - 1..].iter().sum::<u64>() > max, "one less would have done");
        }
    }

    #[test]
    fn a_larger_maximum_never_keeps_less(
        (small, large) in (1_u64..10_000).prop_flat_map(|small| (Just(small), small..20_000)),
        sizes in prop::collection::vec(0_u64..3_000, 0..40),
    ) {
        prop_assert!(expired(large, &sizes, None) <= expired(small, &sizes, None));
    }

    #[test]
    fn consumers_are_not_asked_and_sizes_do_not_overflow(
        frontier in prop::option::of(0_u32..1_000),
        sizes in prop::collection::vec(prop_oneof![Just(u64::MAX), 0_u64..3_000], 1..20),
    ) {
        let with = expired(5_000, &sizes, frontier.map(Offset::from));
        prop_assert_eq!(with, expired(5_000, &sizes, None));
        prop_assert!(with < sizes.len());
    }
}
