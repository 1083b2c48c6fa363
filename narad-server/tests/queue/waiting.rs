//! Consumers that wait: woken by whatever makes a message deliverable, in the order in which they came.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::support::{BOUND, Bed, HOUR, ID, pinned, text, texts, wait};
use narad_core::{
    clock::{Clock, SystemClock},
    testkit::{SimDisk, conformance, seed},
};
use narad_server::queue::{QueueError, Settle};

#[tokio::test(flavor = "multi_thread")]
async fn those_who_wait_are_served_in_the_order_in_which_they_came() {
    let bed = Bed::open(&SimDisk::new(seed()));
    let first = bed.park(wait(BOUND)).await;
    let second = bed.park(pinned(1, BOUND)).await;
    let third = bed.park(wait(BOUND)).await;
    bed.put(1, &["a"]);
    assert_eq!(texts(&first.await.unwrap().unwrap()), ["a"]);
    bed.put(1, &["b"]);
    assert_eq!(texts(&second.await.unwrap().unwrap()), ["b"], "pinned, and it came before the third");
    bed.put(1, &["c"]);
    assert_eq!(texts(&third.await.unwrap().unwrap()), ["c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_of_wake_notifiers_is_kept() {
    let bed = Bed::open(&SimDisk::new(seed()));
    conformance::wake_notifier(|| bed.queues.notifier());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_consumer_does_not_hold_up_those_behind_it() {
    let bed = Bed::open(&SimDisk::new(seed()));
    let stuck = bed.park(pinned(0, BOUND)).await;
    let behind = bed.park(wait(BOUND)).await;
    bed.put(2, &["x"]);
    assert_eq!(texts(&behind.await.unwrap().unwrap()), ["x"]);
    assert!(!stuck.is_finished());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_back_wakes_who_waits() {
    let bed = Bed::open(&SimDisk::new(seed()));
    bed.put(0, &["a"]);
    let leased = bed.next().await;
    let parked = bed.park(wait(BOUND)).await;
    bed.settle(&leased, Settle::Release).await.unwrap();
    let again = parked.await.unwrap().unwrap();
    assert_eq!(texts(&again), ["a"]);
    assert_ne!(again[0].nonce, leased.nonce);
    assert!(
        matches!(bed.settle(&leased, Settle::Release).await, Err(QueueError::Gone)),
        "the lease of another"
    );
    bed.ack(&again[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_lease_wakes_who_waits() {
    let mut bed = Bed::open(&SimDisk::new(seed()));
    bed.topic.visibility = Duration::from_millis(50);
    bed.put(0, &["a"]);
    let leased = bed.next().await;
    let again = bed.next().await;
    assert_eq!(text(&again), "a");
    assert!(matches!(bed.settle(&leased, Settle::Extend).await, Err(QueueError::Gone)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cap_that_is_raised_or_freed_wakes_who_waits() {
    let mut bed = Bed::open(&SimDisk::new(seed()));
    bed.topic.max_in_flight = 1;
    bed.put(0, &["a", "b", "c"]);
    let leased = bed.next().await;
    let parked = bed.park(wait(BOUND)).await;
    bed.ack(&leased).await;
    assert_eq!(texts(&parked.await.unwrap().unwrap()), ["b"]);
    let parked = bed.park(wait(BOUND)).await;
    let before = bed.topic.clone();
    (bed.topic.max_in_flight, bed.topic.version) = (2, 2);
    bed.queues.configure(&bed.topic);
    assert_eq!(texts(&parked.await.unwrap().unwrap()), ["c"]);
    // Somebody who looked the topic up before the change comes after it.
    bed.put(0, &["d", "e"]);
    bed.queues.configure(&before);
    bed.topic = before;
    assert_eq!(bed.now().await, None);
    let leased = bed.queues.stats(ID).into_iter().map(|stats| stats.in_flight).sum::<usize>();
    assert_eq!(leased, 2, "by the newer settings");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_is_added_reaches_who_waits() {
    let mut bed = Bed::open(&SimDisk::new(seed()));
    let parked = bed.park(wait(BOUND)).await;
    let mut spec = (*bed.topic.spec).clone();
    spec.partitions = 5;
    (bed.topic.spec, bed.topic.version) = (Arc::new(spec), 2);
    bed.put(4, &["new"]);
    bed.queues.configure(&bed.topic);
    assert_eq!(texts(&parked.await.unwrap().unwrap()), ["new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_closed_for_being_idle_still_wakes_who_waits() {
    let bed = Bed::open(&SimDisk::new(seed()));
    let parked = bed.park(wait(BOUND)).await;
    bed.log(0).close().unwrap();
    bed.put(0, &["a"]);
    assert_eq!(texts(&parked.await.unwrap().unwrap()), ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_goes_away_leaves_its_message_to_the_next() {
    let bed = Bed::open(&SimDisk::new(seed()));
    for round in 0..300u32 {
        let leaver = bed.park(wait(HOUR)).await;
        let message = round.to_string();
        let (putting, sent) = (bed.clone(), message.clone());
        let put = tokio::task::spawn_blocking(move || putting.put(round % 3, &[&sent]));
        for _ in 0..round % 20 {
            tokio::task::yield_now().await;
        }
        leaver.abort();
        let got = match leaver.await {
            Ok(delivered) => delivered.unwrap().pop().unwrap(),
            Err(_) => tokio::time::timeout(BOUND, bed.next()).await.expect("leased to nobody"),
        };
        put.await.unwrap();
        assert_eq!(text(&got), message);
        bed.ack(&got).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_ends_leaves_no_place_in_line() {
    let bed = Bed::open(&SimDisk::new(seed()));
    assert!(bed.consume(wait(Duration::from_millis(5))).await.unwrap().is_empty());
    bed.put(0, &["a"]);
    assert_eq!(bed.now().await.unwrap(), "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn close_and_delete_answer_who_waits_at_once() {
    let bed = Bed::open(&SimDisk::new(seed()));
    let parked = bed.park(wait(HOUR)).await;
    bed.queues.forget("orders", bed.topic.spec.incarnation);
    assert!(parked.await.unwrap().unwrap().is_empty());
    assert!(bed.consume(wait(HOUR)).await.unwrap().is_empty(), "a late request does not bring it back");

    let bed = Bed::open(&SimDisk::new(seed()));
    bed.put(0, &["a"]);
    let leased = bed.next().await;
    let parked = bed.park(wait(HOUR)).await;
    bed.queues.close();
    assert!(parked.await.unwrap().unwrap().is_empty());
    assert!(matches!(bed.consume(wait(HOUR)).await, Err(QueueError::Closed)));
    bed.ack(&leased).await;
}

/// A clock that counts how often it is looked at.
#[derive(Debug, Default)]
struct Watched {
    clock: SystemClock,
    looks: AtomicU64,
}

impl Clock for Watched {
    fn unix_ms(&self) -> i64 {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.clock.unix_ms()
    }
    fn monotonic(&self) -> Duration {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.clock.monotonic()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_who_wait_on_an_idle_topic_cost_nothing() {
    let clock = Arc::new(Watched::default());
    let bed = Bed::open_with(&SimDisk::new(seed()), ID, 64 << 20, Arc::<Watched>::clone(&clock));
    let mut parked = Vec::new();
    for _ in 0..1000 {
        parked.push(bed.park(wait(HOUR)).await);
    }
    // Nothing in the queue or the engine does anything without a look at the clock.
    let looks = clock.looks.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(clock.looks.load(Ordering::Relaxed), looks);
    bed.put(0, &["a"]);
    let served = async {
        while !parked.iter().any(|task| task.is_finished()) {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(BOUND, served).await.unwrap();
    assert!(parked[0].is_finished() && parked.iter().filter(|task| task.is_finished()).count() == 1);
}
