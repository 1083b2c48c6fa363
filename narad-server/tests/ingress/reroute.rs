//! A partition that keeps failing: what may go elsewhere does, what was addressed to it waits, and everything comes back
//! once it works.

use std::{collections::BTreeMap, time::Duration};

use crate::support::{BOUND, Fake, ID, message, open, quick, texts, until};
use narad_core::testkit::{CallKind, Failure, Fault, Gate, SeedGuard, SimDisk, seed};
use narad_server::ingress::Staged;
use rand::{RngExt, SeedableRng, rngs::StdRng};

fn pinned(partition: u32, payload: impl Into<String>) -> Staged {
    Staged { pinned: true, ..message(partition, payload) }
}

fn numbers(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_go_to_the_next_partition_that_works_and_come_back_and_pinned_ones_wait() {
    let mut options = quick();
    (options.batch_records, options.memory_records) = (7, 64);
    let (ingress, fake) = open(&SimDisk::new(seed()), options).await;
    fake.set_count(4);
    fake.set_unavailable(1, true);
    fake.set_unavailable(2, true);
    for n in 0..50 {
        ingress.produce(vec![message(1, n.to_string()), pinned(1, format!("pinned {n}"))]).await.unwrap();
    }
    assert_eq!(
        texts(&fake.wait_for("orders", ID, 3, 50).await),
        numbers(0..50),
        "in order, past one that fails too"
    );
    until("the rerouted ones to be done", || ingress.backlog() == 50).await;
    let mut failing: Vec<_> = ingress.failing().iter().map(|one| one.partition.0).collect();
    failing.sort_unstable();
    assert_eq!(failing, [1, 2]);
    ingress.produce(vec![message(1, "50")]).await.unwrap();
    fake.wait_for("orders", ID, 3, 51).await;
    assert!(fake.payloads("orders", ID, 1).is_empty() && fake.payloads("orders", ID, 0).is_empty());

    fake.set_unavailable(1, false);
    fake.wait_for("orders", ID, 1, 50).await;
    until("an empty backlog", || ingress.backlog() == 0).await;
    assert!(ingress.failing().iter().all(|one| one.partition.0 == 2), "as far as anybody has tried");
    ingress.produce(vec![message(1, "home"), pinned(1, "too")]).await.unwrap();
    let home = texts(&fake.wait_for("orders", ID, 1, 52).await);
    let expected = (0..50).map(|n| format!("pinned {n}")).chain(["home".to_owned(), "too".to_owned()]);
    assert_eq!(home, expected.collect::<Vec<_>>());
    assert_eq!(fake.payloads("orders", ID, 3).len(), 51);
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_goes_elsewhere_before_its_time_or_when_nobody_knows_where() {
    let mut options = quick();
    options.reroute_after = Duration::from_secs(3600);
    let (ingress, fake) = open(&SimDisk::new(seed()), options).await;
    fake.set_count(3);
    fake.set_unavailable(0, true);
    ingress.produce(vec![message(0, "a")]).await.unwrap();
    fake.wait_for_lookups(0, 10).await;
    assert_eq!((fake.lookups(1), fake.lookups(2), ingress.backlog()), (0, 0, 1));
    ingress.close(BOUND).await;

    let (ingress, fake) = open(&SimDisk::new(seed()), quick()).await;
    fake.set_unavailable(0, true);
    ingress.produce(vec![message(0, "a")]).await.unwrap();
    fake.wait_for_lookups(0, 10).await;
    assert_eq!((fake.lookups(1), ingress.backlog()), (0, 1));
    fake.set_unavailable(0, false);
    assert_eq!(texts(&fake.wait_for("orders", ID, 0, 1).await), ["a"]);
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poisoned_log_is_stood_in_for_without_a_second_copy() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = open(&disk, quick()).await;
    let log = fake.log("orders", ID, 0);
    ingress.produce(vec![message(0, "before")]).await.unwrap();
    fake.wait_for("orders", ID, 0, 1).await;
    fake.set_unavailable(0, true);
    ingress.produce(vec![message(0, "first")]).await.unwrap();
    let tries = fake.lookups(0);
    fake.wait_for_lookups(0, tries + 1).await;
    let failing = disk.inject(Fault::fail(CallKind::SyncData, Failure::Io).named("*.log"));
    fake.set_unavailable(0, false);
    until("the failed fsync", || log.is_poisoned()).await;
    assert_eq!(disk.fired(failing), 1);
    fake.set_count(3);
    for text in numbers(0..20) {
        ingress.produce(vec![message(0, text)]).await.unwrap();
    }
    let elsewhere = texts(&fake.wait_for("orders", ID, 1, 21).await);
    assert_eq!(elsewhere, [vec!["first".to_owned()], numbers(0..20)].concat());
    until("an empty backlog", || ingress.backlog() == 0).await;
    log.reopen().unwrap();
    // Found out by whichever comes when it is to be tried again.
    let mut sent = 0;
    while log.high_watermark().get() < 2 {
        ingress.produce(vec![message(0, "after")]).await.unwrap();
        sent += 1;
        until("the message to be somewhere", || ingress.backlog() == 0).await;
    }
    assert_eq!(fake.payloads("orders", ID, 0), ["before", "after"]);
    assert_eq!(fake.payloads("orders", ID, 1).len(), 21 + sent - 1);
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_commit_at_a_time_reaches_the_partition_that_stands_in() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = open(&disk, quick()).await;
    fake.set_count(2);
    fake.set_unavailable(0, true);
    fake.set_unavailable(1, true);
    for n in 0..10 {
        ingress
            .produce(vec![message(0, format!("rerouted {n}")), message(1, format!("own {n}"))])
            .await
            .unwrap();
    }
    fake.wait_for_lookups(0, 10).await;
    let gate = Gate::new();
    // The produce log writes nothing any more.
    disk.inject(Fault::hold(CallKind::Write, &gate).named("*.log").onwards());
    fake.set_unavailable(1, false);
    until("a commit", || gate.arrived() > 0).await;
    // Long enough for another one to begin.
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(gate.arrived(), 1);
    gate.open();
    let all = texts(&fake.wait_for("orders", ID, 1, 20).await);
    for kind in ["rerouted", "own"] {
        let of_kind: Vec<_> = all.iter().filter(|text| text.starts_with(kind)).cloned().collect();
        assert_eq!(of_kind, (0..10).map(|n| format!("{kind} {n}")).collect::<Vec<_>>());
    }
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_no_more_is_dropped_by_whoever_stands_in() {
    let (ingress, fake) = open(&SimDisk::new(seed()), quick()).await;
    fake.set_count(3);
    fake.set_unavailable(0, true);
    ingress.produce(vec![message(0, "a"), pinned(0, "b")]).await.unwrap();
    fake.wait_for("orders", ID, 1, 1).await;
    fake.set_gone(ID);
    until("the drop", || ingress.backlog() == 0).await;
    ingress.close(BOUND).await;
}

/// Every message once, the pinned ones where they belong, and each producer's order kept within a partition.
fn check(fake: &Fake, produced: u32, partitions: u32) {
    let mut seen = BTreeMap::new();
    for partition in 0..partitions {
        let mut last: BTreeMap<String, u32> = BTreeMap::new();
        for text in fake.payloads("orders", ID, partition) {
            let (home, number) = text.split_once(' ').unwrap();
            let number: u32 = number.parse().unwrap();
            assert!(seen.insert(number, partition).is_none(), "{text} is there twice");
            if let Some(home) = home.strip_prefix("pinned:") {
                assert_eq!(home, partition.to_string(), "{text}");
            }
            let before = last.insert(home.to_owned(), number);
            assert!(
                before.is_none_or(|before| before < number),
                "{text} comes after {before:?} in {partition}"
            );
        }
    }
    assert_eq!(seen.len() as u32, produced);
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_fails_and_works_again_each_message_arrives_once_and_in_order() {
    const PARTITIONS: u32 = 4;
    let seed = SeedGuard::new(seed());
    let mut random = StdRng::seed_from_u64(seed.get());
    let mut options = quick();
    options.retry = Duration::from_millis(3);
    options.reroute_after = Duration::from_millis(6);
    (options.batch_records, options.memory_records) = (5, 40);
    let (ingress, fake) = open(&SimDisk::new(seed.get()), options).await;
    fake.set_count(PARTITIONS);
    let mut produced = 0;
    for _ in 0..150 {
        fake.set_unavailable(random.random_range(0..PARTITIONS), random.random_bool(0.5));
        let batch = (0..random.random_range(1..8)).map(|_| {
            let (partition, number) = (random.random_range(0..PARTITIONS), produced);
            produced += 1;
            if random.random_bool(0.3) {
                pinned(partition, format!("pinned:{partition} {number}"))
            } else {
                message(partition, format!("{partition} {number}"))
            }
        });
        ingress.produce(batch.collect()).await.unwrap();
        if random.random_bool(0.3) {
            tokio::time::sleep(Duration::from_millis(random.random_range(0..10))).await;
        }
    }
    (0..PARTITIONS).for_each(|partition| fake.set_unavailable(partition, false));
    until("an empty backlog", || ingress.backlog() == 0).await;
    check(&fake, produced, PARTITIONS);
    ingress.close(BOUND).await;
}
