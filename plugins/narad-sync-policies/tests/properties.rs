//! The promise of the adaptive policy: its bounds hold whatever was measured, and its share where they allow it.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::time::Duration;

use narad_core::plugin::{SyncDecision, SyncPolicy, Synced, Unsynced};
use narad_sync_policies::{Adaptive, AdaptiveLimits};
use proptest::prelude::*;

fn limits(share: f64, min_ms: u64, max_ms: u64) -> AdaptiveLimits {
    let mut limits = AdaptiveLimits::default();
    limits.share = share;
    (limits.min_wait, limits.max_wait) = (Duration::from_millis(min_ms), Duration::from_millis(max_ms));
    limits
}

fn measure(policy: &Adaptive, took: Duration) {
    policy.synced(&Synced::new(Unsynced::new(1, 1, Duration::ZERO), took));
}

proptest! {
    #[test]
    fn no_record_waits_longer_than_the_longest_wait_or_shorter_than_the_shortest(
        share in 0.001_f64..=1.0,
        (min_ms, max_ms) in (0_u64..2_000).prop_flat_map(|min| (Just(min), min..5_000)),
        costs_us in prop::collection::vec(0_u64..10_000_000, 0..30),
        (bytes, age_ms) in (1_u64..20_000_000, 0_u64..10_000),
    ) {
        let limits = limits(share, min_ms, max_ms);
        let policy = Adaptive::new(limits).unwrap();
        costs_us.into_iter().for_each(|cost| measure(&policy, Duration::from_micros(cost)));
        let age = Duration::from_millis(age_ms);
        let at_most = match policy.decide(&Unsynced::new(bytes, 1, age)) {
            SyncDecision::Now => age,
            SyncDecision::Within(wait) => {
                prop_assert!(bytes < limits.max_unsynced);
                prop_assert!(age + wait >= limits.min_wait);
                age + wait
            }
            _ => return Err(TestCaseError::fail("it never leaves a record to itself")),
        };
        prop_assert!(at_most <= limits.max_wait.max(age));
    }

    #[test]
    fn a_disk_of_one_speed_is_busy_for_the_share_of_the_time(
        share in 0.01_f64..0.9,
        cost_us in 100_u64..100_000,
    ) {
        let policy = Adaptive::new(limits(share, 0, 1_000_000_000)).unwrap();
        let cost = Duration::from_micros(cost_us);
        (0..100).for_each(|_| measure(&policy, cost));
        let busy = cost.as_secs_f64() / (policy.wait() + cost).as_secs_f64();
        prop_assert!((busy - share).abs() < share * 0.01, "{busy} of the time, not {share}");
    }
}

#[test]
fn it_follows_a_disk_that_becomes_slow_and_fast_again() {
    let policy = Adaptive::new(limits(0.5, 0, 60_000)).unwrap();
    assert_eq!(policy.wait(), Duration::ZERO, "nothing was measured yet");
    let after = |took_ms, times: usize| {
        (0..times).for_each(|_| measure(&policy, Duration::from_millis(took_ms)));
        policy.wait().as_millis()
    };
    assert_eq!(after(10, 1), 10);
    assert!((400..=500).contains(&after(500, 16)));
    assert!((10..=90).contains(&after(10, 16)));
}
