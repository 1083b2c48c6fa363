//! What `any` and `all` let go is what their policies let go.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::{sync::Arc, time::Duration};

use narad_core::{
    format::Offset,
    plugin::{RetentionDecision, RetentionPolicy, RetentionView, SegmentInfo},
    testkit::conformance,
};
use narad_retention::{Age, All, Any, Forever, NoPolicies};
use proptest::prelude::*;

/// Lets go so many segments, for a reason of its own.
#[derive(Debug)]
struct Takes(usize, &'static str);

impl RetentionPolicy for Takes {
    fn name(&self) -> &str {
        "takes"
    }
    fn roll_age(&self) -> Option<Duration> {
        (self.0 > 0).then(|| Duration::from_secs(self.0 as u64))
    }
    fn decide(&self, _: &RetentionView<'_>) -> RetentionDecision {
        RetentionDecision::expire(self.0, self.1)
    }
}

fn takes(counts: &[usize]) -> Vec<Arc<dyn RetentionPolicy>> {
    const REASONS: [&str; 4] = ["first", "second", "third", "fourth"];
    let policy = |(&count, reason)| -> Arc<dyn RetentionPolicy> { Arc::new(Takes(count, reason)) };
    counts.iter().zip(REASONS).map(policy).collect()
}

fn any(counts: &[usize]) -> Any {
    Any::new(takes(counts)).unwrap()
}

fn all(counts: &[usize]) -> All {
    All::new(takes(counts)).unwrap()
}

/// What is decided over ten segments.
fn decide(policy: &dyn RetentionPolicy) -> (usize, &'static str) {
    let segment = |start: u32| SegmentInfo::sealed(start.into(), (start + 1).into(), 1, 0, 0);
    let segments: Vec<_> = (0..10).map(segment).collect();
    let decision = policy.decide(&RetentionView::new(0, &segments, Offset::MAX));
    (decision.expire, decision.reason)
}

#[test]
fn the_reason_is_that_of_the_policy_that_decides() {
    assert_eq!(decide(&any(&[2, 5, 3])), (5, "second"));
    assert_eq!(decide(&any(&[5, 5])), (5, "first"));
    assert_eq!(decide(&any(&[0, 0])), (0, "none"));
    assert_eq!(decide(&all(&[7, 5, 9])), (5, "second"));
    assert_eq!(decide(&all(&[usize::MAX, 99])), (10, "first"), "more than there are is all of them");
    assert_eq!(decide(&all(&[7, 0])), (0, "none"));
}

#[test]
fn a_segment_rolls_as_early_as_any_needs_and_as_late_as_all_allow() {
    let seconds = |policy: &dyn RetentionPolicy| policy.roll_age().map(|age| age.as_secs());
    assert_eq!(seconds(&any(&[3, 0, 2])), Some(2));
    assert_eq!(seconds(&all(&[3, 0, 2])), Some(3));
    assert_eq!((seconds(&any(&[0])), seconds(&all(&[0]))), (None, None));
}

#[test]
fn nothing_is_made_of_no_policy() {
    assert_eq!(Any::new(Vec::new()).err(), Some(NoPolicies));
    assert_eq!(All::new(Vec::new()).err(), Some(NoPolicies), "all of none would take everything");
}

#[test]
fn both_keep_the_contract() {
    let policies = || -> Vec<Arc<dyn RetentionPolicy>> {
        vec![Arc::new(Age::new(Duration::from_secs(60))), Arc::new(Age::new(Duration::from_secs(3_600)))]
    };
    conformance::retention_policy(|| Arc::new(Any::new(policies()).unwrap()));
    conformance::retention_policy(|| Arc::new(All::new(policies()).unwrap()));
    conformance::retention_policy(|| {
        let nested: Arc<dyn RetentionPolicy> = Arc::new(Any::new(policies()).unwrap());
        Arc::new(All::new(vec![nested, Arc::new(Forever)]).unwrap())
    });
}

proptest! {
    #[test]
    fn any_takes_as_much_as_the_greediest_and_all_as_little_as_the_most_careful(
        counts in prop::collection::vec(0_usize..20, 1..4),
    ) {
        let (most, least) = (*counts.iter().max().unwrap(), *counts.iter().min().unwrap());
        prop_assert_eq!(decide(&any(&counts)).0, most.min(10));
        prop_assert_eq!(decide(&all(&counts)).0, least.min(10));
    }
}
