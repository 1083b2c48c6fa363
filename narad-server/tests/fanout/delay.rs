//! The delay gate: never early by the wall clock, within a second of due, whatever steps the clock takes.

use std::{collections::HashSet, time::Duration};

use crate::support::{Bed, CHILDREN, PARENT, disk, link, pass, settle};
use narad_core::{disk::Disk as _, format::Batch, testkit::seed};

const CHILD: &str = CHILDREN[0];
const MINUTE: Duration = Duration::from_secs(60);
const MS: Duration = Duration::from_millis(1);
/// Within which a message that is due is there.
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_message_is_copied_when_it_is_due_and_no_earlier() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(CHILD, 1, MINUTE)]).await;
    bed.produce(0, &["a"]);
    clock.advance(MINUTE / 2);
    bed.produce(0, &["b"]);
    settle().await;
    clock.advance(MINUTE / 2 - MS);
    pass(10 * MINUTE).await;
    assert_eq!(bed.payloads(CHILD, 0), [""; 0], "a millisecond is missing");
    assert_eq!(bed.fanout.lags(&[1]).await[0].messages, 2);
    clock.advance(MS);
    pass(SECOND + MS).await;
    assert_eq!(bed.payloads(CHILD, 0), ["a"]);
    clock.advance(MINUTE / 2 - MS);
    pass(10 * MINUTE).await;
    assert_eq!(bed.payloads(CHILD, 0), ["a"]);
    clock.advance(MS);
    pass(SECOND + MS).await;
    assert_eq!(bed.payloads(CHILD, 0), ["a", "b"]);
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_stepped_back_delays_and_one_stepped_forward_releases() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(CHILD, 1, MINUTE)]).await;
    bed.produce(0, &["a"]);
    settle().await;
    // An hour back while two minutes go by: not due by the wall clock.
    clock.advance(2 * MINUTE);
    clock.set_unix_ms(narad_core::clock::Clock::unix_ms(&clock) - 3_600_000);
    pass(10 * MINUTE).await;
    assert_eq!(bed.payloads(CHILD, 0), [""; 0]);
    clock.advance_wall(Duration::from_secs(3600));
    pass(SECOND + MS).await;
    assert_eq!(bed.payloads(CHILD, 0), ["a"]);
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_without_a_delay_does_not_care_about_the_clock() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(CHILD, 1, Duration::ZERO)]).await;
    bed.produce(0, &["a"]);
    clock.set_unix_ms(1);
    settle().await;
    assert_eq!(bed.payloads(CHILD, 0), ["a"]);
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_delay_goes_on_over_a_restart_and_over_a_log_that_was_closed_for_being_idle() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(CHILD, 1, MINUTE)]).await;
    bed.produce(0, &["a"]);
    settle().await;
    bed.close().await;
    clock.advance(MINUTE / 2);
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(CHILD, 1, MINUTE)]).await;
    settle().await;
    assert_eq!(bed.payloads(CHILD, 0), [""; 0]);
    bed.log(PARENT, 0).close().unwrap();
    clock.advance(MINUTE / 2);
    pass(SECOND + MS).await;
    assert_eq!(bed.payloads(CHILD, 0), ["a"]);
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn how_long_messages_have_been_due_is_told() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(CHILD, 1, MINUTE)]).await;
    bed.codecs[0].refuses.store(true, std::sync::atomic::Ordering::SeqCst);
    bed.produce(0, &["a"]);
    settle().await;
    let due = async || bed.fanout.stats().await[0].partitions[0].due_seconds;
    assert_eq!(due().await, 0);
    clock.advance(MINUTE + Duration::from_secs(90));
    pass(SECOND + MS).await;
    assert_eq!(due().await, 90);
    bed.codecs[0].refuses.store(false, std::sync::atomic::Ordering::SeqCst);
    pass(2 * SECOND).await;
    assert_eq!(due().await, 0);
    bed.close().await;
}

/// Puts a file where a partition of the child would be, so that it cannot be opened.
fn block(bed: &Bed, partition: u32) {
    bed.disk.plant(blocked(partition), b"a file in its place".to_vec());
}

fn unblock(bed: &Bed, partition: u32) {
    bed.disk.remove_file(blocked(partition).as_ref()).unwrap();
}

fn blocked(partition: u32) -> String {
    format!("/data/topics/{CHILD}/p{partition:05}")
}

/// Commits thirty messages to the parent, for all partitions of the child.
fn produce_thirty(bed: &Bed, name: &str) {
    let keys: Vec<String> = (0..30).map(|n| format!("{name}-{n:02}")).collect();
    let batch: Batch = keys.iter().map(|key| (key.as_bytes(), key.as_bytes())).collect();
    bed.log(PARENT, 0).commit(batch).unwrap();
}

/// How many of the thirty are in some partition of the child, and how many more there are of them than one each.
fn arrived(bed: &Bed, name: &str) -> (usize, usize) {
    let found = (0..3).flat_map(|partition| bed.payloads(CHILD, partition));
    let found: Vec<String> = found.filter(|payload| payload.starts_with(name)).collect();
    let different: HashSet<&String> = found.iter().collect();
    (different.len(), found.len() - different.len())
}

#[tokio::test(start_paused = true)]
async fn what_became_due_while_an_older_batch_was_retried_follows_it_at_once() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(CHILD, 1, MINUTE)]).await;
    block(&bed, 1);
    for (name, apart) in [("first", 10), ("second", 40), ("third", 10)] {
        produce_thirty(&bed, name);
        clock.advance(apart * SECOND);
    }
    // The first is due, and one partition of the child does not take its part of it.
    pass(2 * SECOND).await;
    clock.advance(10 * SECOND);
    pass(2 * SECOND).await;
    unblock(&bed, 1);
    pass(2 * SECOND).await;
    assert_eq!(["first", "second", "third"].map(|name| arrived(&bed, name)), [(30, 0), (30, 0), (0, 0)]);
    clock.advance(MINUTE);
    pass(2 * SECOND).await;
    assert_eq!(arrived(&bed, "third"), (30, 0));
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_stepped_back_between_two_tries_of_a_batch_loses_nothing_of_it() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(CHILD, 1, MINUTE)]).await;
    block(&bed, 1);
    block(&bed, 2);
    produce_thirty(&bed, "early");
    clock.advance(10 * SECOND);
    produce_thirty(&bed, "late");
    clock.advance(MINUTE);
    // Both are due, and one partition of the child takes its part of both.
    pass(2 * SECOND).await;
    clock.set_unix_ms(narad_core::clock::Clock::unix_ms(&clock) - 5000);
    // Now one is due, and another partition takes its part of that.
    unblock(&bed, 1);
    pass(2 * SECOND).await;
    clock.advance(MINUTE);
    pass(2 * SECOND).await;
    unblock(&bed, 2);
    pass(2 * SECOND).await;
    assert_eq!(arrived(&bed, "early"), (30, 0));
    assert_eq!(arrived(&bed, "late").0, 30);
    bed.close().await;
}
