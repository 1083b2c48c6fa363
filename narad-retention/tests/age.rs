//! Which segments the age policy lets go.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::time::Duration;

use narad_core::{
    format::Offset,
    plugin::{RetentionDecision, RetentionPolicy, RetentionView, SegmentInfo},
};
use narad_retention::{Age, Forever};

const NOW_MS: i64 = 1_767_225_600_000;
const RETENTION: Duration = Duration::from_millis(1_000);

/// Segments of ten records each, last written at these times.
fn segments(last_writes_ms: &[i64]) -> Vec<SegmentInfo> {
    let segment = |(start, last_write_ms): (u32, &i64)| {
        SegmentInfo::sealed(start.into(), (start + 10).into(), 100, *last_write_ms, *last_write_ms)
    };
    (0..).step_by(10).zip(last_writes_ms).map(segment).collect()
}

fn expired(retention: Duration, now_ms: i64, last_writes_ms: &[i64]) -> usize {
    let segments = segments(last_writes_ms);
    Age::new(retention).decide(&RetentionView::new(now_ms, &segments, Offset::MAX)).expire
}

#[test]
fn rt_01_a_segment_goes_once_its_last_write_is_older_than_the_retention() {
    assert_eq!(expired(RETENTION, NOW_MS, &[NOW_MS - 1_000]), 0);
    assert_eq!(expired(RETENTION, NOW_MS, &[NOW_MS - 1_001]), 1);
    assert_eq!(expired(RETENTION, NOW_MS, &[NOW_MS - 5_000, NOW_MS - 2_000, NOW_MS - 500]), 2);
    assert_eq!(expired(RETENTION, NOW_MS, &[]), 0);
}

#[test]
fn rt_01_the_roll_age_is_the_retention() {
    assert_eq!(Age::new(RETENTION).roll_age(), Some(RETENTION));
    assert_eq!(Forever.roll_age(), None);
}

#[test]
fn rt_05_only_a_prefix_goes_whatever_lies_behind_a_young_segment() {
    assert_eq!(expired(RETENTION, NOW_MS, &[NOW_MS, NOW_MS - 5_000, 0]), 0);
    assert_eq!(expired(RETENTION, NOW_MS, &[NOW_MS - 5_000, NOW_MS, NOW_MS - 5_000]), 1);
}

#[test]
fn rt_05_a_last_write_in_the_future_counts_as_now() {
    assert_eq!(expired(RETENTION, NOW_MS, &[NOW_MS + 1_000_000, i64::MAX]), 0);
    assert_eq!(expired(RETENTION, 0, &[NOW_MS]), 0);
    assert_eq!(expired(Duration::ZERO, NOW_MS, &[NOW_MS + 1]), 0);
}

#[test]
fn times_and_retentions_at_the_ends_of_their_ranges() {
    assert_eq!(expired(RETENTION, i64::MAX, &[i64::MIN]), 1);
    assert_eq!(expired(Duration::MAX, i64::MAX, &[i64::MIN]), 0);
    assert_eq!(expired(Duration::from_millis(u64::MAX), i64::MAX, &[i64::MIN]), 0);
}

#[test]
fn rt_08_the_reason_is_age_and_keeping_has_none() {
    let old = segments(&[0]);
    let view = RetentionView::new(NOW_MS, &old, Offset::MAX);
    assert_eq!(Age::new(RETENTION).decide(&view), RetentionDecision::expire(1, "age"));
    assert_eq!(Age::new(Duration::MAX).decide(&view), RetentionDecision::KEEP);
    assert_eq!(Forever.decide(&view), RetentionDecision::KEEP);
}
