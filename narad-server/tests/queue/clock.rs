//! Field faults of time: leases, waits and delays go by the monotonic clock, wherever the wall clock is set.

use std::{sync::Arc, time::Duration};

use crate::support::{BOUND, Bed, HOUR, ID, text, wait};
use narad_core::testkit::{ManualClock, SimDisk, seed};
use narad_server::queue::{QueueError, Settle};

/// 1970, 2100, and the ends of what can be told.
const STEPS: [i64; 5] = [0, 1000, 4_102_444_800_000, i64::MAX, i64::MIN];

fn bed() -> (Bed, ManualClock) {
    let clock = ManualClock::new();
    let disk = SimDisk::with_clock(seed(), Arc::new(clock.clone()));
    (Bed::open_with(&disk, ID, 64 << 20, Arc::new(clock.clone())), clock)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_clock_that_steps_ends_no_lease_and_keeps_none() {
    let (bed, clock) = bed();
    bed.put(0, &["a"]);
    let leased = bed.next().await;
    for step in STEPS {
        clock.set_unix_ms(step);
        assert_eq!(bed.now().await, None, "{step}: delivered again before the lease's time");
        clock.advance_monotonic(Duration::from_secs(1));
    }
    bed.settle(&leased, Settle::Extend).await.unwrap();
    clock.set_unix_ms(0);
    clock.advance_monotonic(HOUR - Duration::from_millis(1));
    assert_eq!(bed.now().await, None, "the renewed lease lasts its hour");
    clock.advance_monotonic(Duration::from_millis(1));
    assert_eq!(bed.now().await.as_deref(), Some("a"), "and not longer");
    for verb in [Settle::Ack, Settle::Extend, Settle::Release] {
        assert!(
            matches!(bed.settle(&leased, verb).await, Err(QueueError::Gone)),
            "{verb:?} of a lease that is over"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_clock_that_steps_ends_no_wait_and_hides_no_message() {
    for step in STEPS {
        let (bed, clock) = bed();
        let parked = bed.park(wait(HOUR)).await;
        clock.set_unix_ms(step);
        bed.put(1, &["a"]);
        let got = tokio::time::timeout(BOUND, parked).await.unwrap().unwrap().unwrap();
        assert_eq!(got.iter().map(text).collect::<Vec<_>>(), ["a"], "{step}");
        let parked = bed.park(wait(Duration::from_millis(20))).await;
        clock.set_unix_ms(-step.saturating_add(1));
        let got = tokio::time::timeout(BOUND, parked).await.unwrap().unwrap().unwrap();
        assert!(got.is_empty(), "{step}: the wait ends in its time");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_durations_wrap_nothing() {
    let (mut bed, clock) = bed();
    bed.topic.visibility = Duration::MAX;
    bed.put(0, &["a", "b"]);
    clock.advance_monotonic(HOUR);
    let leased = bed.consume(wait(Duration::MAX)).await.unwrap();
    assert_eq!(leased.len(), 1);
    clock.advance_monotonic(Duration::from_secs(u64::MAX / 4));
    bed.settle(&leased[0], Settle::Extend).await.unwrap();
    bed.settle(&leased[0], Settle::Ack).await.unwrap();
    assert_eq!(bed.now().await.as_deref(), Some("b"));
    // A consumer that waits as long as can be said is woken all the same.
    let parked = bed.park(wait(Duration::from_secs(u64::MAX / 1_000_000_000))).await;
    bed.put(2, &["c"]);
    let got = tokio::time::timeout(BOUND, parked).await.unwrap().unwrap().unwrap();
    assert_eq!(got.iter().map(text).collect::<Vec<_>>(), ["c"]);
}
