//! Partitions that do not take their records: they wait alone, and nothing of theirs is lost or mixed up.

use std::time::Duration;

use crate::support::{BOUND, ID, message, open, quick, texts, until};
use narad_core::{
    plugin::Incarnation,
    testkit::{CallKind, Failure, Fault, SimDisk, seed},
};
use narad_server::ingress::{IngressError, Staged};

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_partition_waits_alone_and_gets_its_records_in_order() {
    let mut options = quick();
    // Far less room than the failing partition has records, so that they cannot all be kept in memory.
    (options.memory_records, options.batch_records) = (64, 16);
    let (ingress, fake) = open(&SimDisk::new(seed()), options).await;
    fake.set_unavailable(0, true);
    for call in 0..20u32 {
        let messages = (0..50).flat_map(|n| [0, 1].map(|p| message(p, format!("{call}-{n}")))).collect();
        ingress.produce(messages).await.unwrap();
    }
    let expected: Vec<String> =
        (0..20).flat_map(|call| (0..50).map(move |n| format!("{call}-{n}"))).collect();
    assert_eq!(texts(&fake.wait_for("orders", ID, 1, 1000).await), expected, "the other one goes on");
    until("the other one's records to be done", || ingress.backlog() == 1000).await;
    assert!(fake.payloads("orders", ID, 0).is_empty());
    fake.set_unavailable(0, false);
    assert_eq!(texts(&fake.wait_for("orders", ID, 0, 1000).await), expected);
    until("an empty backlog", || ingress.backlog() == 0).await;
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_partition_is_tried_once_in_a_while_and_no_more() {
    let mut options = quick();
    options.retry = Duration::from_secs(3600);
    let (ingress, fake) = open(&SimDisk::new(seed()), options).await;
    fake.set_unavailable(0, true);
    ingress.produce(vec![message(0, "a")]).await.unwrap();
    fake.wait_for_lookups(0, 1).await;
    for n in 0..50 {
        ingress.produce(vec![message(0, "b"), message(1, n.to_string())]).await.unwrap();
    }
    fake.wait_for("orders", ID, 1, 50).await;
    assert_eq!(fake.lookups(0), 1);
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_fails_is_repeated_and_leaves_one_copy() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = open(&disk, quick()).await;
    let log = fake.log("orders", ID, 0);
    ingress.produce(vec![message(0, "before")]).await.unwrap();
    fake.wait_for("orders", ID, 0, 1).await;
    fake.set_unavailable(0, true);
    ingress.produce(vec![message(0, "a"), message(0, "b")]).await.unwrap();
    let tries = fake.lookups(0);
    fake.wait_for_lookups(0, tries + 1).await;
    let fault = disk.inject(Fault::fail(CallKind::Write, Failure::NoSpace).named("*.log"));
    fake.set_unavailable(0, false);
    assert_eq!(texts(&fake.wait_for("orders", ID, 0, 3).await), ["before", "a", "b"]);
    assert_eq!(disk.fired(fault), 1);
    ingress.close(BOUND).await;
    assert_eq!(log.high_watermark().get(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_a_topic_that_is_no_more_are_dropped_and_its_successor_gets_none() {
    let (ingress, fake) = open(&SimDisk::new(seed()), quick()).await;
    fake.set_unavailable(0, true);
    let successor = Incarnation::new(0xB2);
    ingress.produce((0..10).map(|n| message(0, n.to_string())).collect()).await.unwrap();
    ingress.produce(vec![Staged { id: successor, ..message(1, "new life") }]).await.unwrap();
    assert_eq!(texts(&fake.wait_for("orders", successor, 1, 1).await), ["new life"]);
    until("the successor's record to be done", || ingress.backlog() == 10).await;
    let tries = fake.lookups(0);
    fake.wait_for_lookups(0, tries + 2).await;
    assert_eq!(ingress.backlog(), 10, "what cannot be reached is kept");
    fake.set_gone(ID);
    until("the drop", || ingress.backlog() == 0).await;
    assert!(fake.payloads("orders", successor, 0).is_empty());
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_backlog_holds_producers_back_until_it_is_taken() {
    let mut options = quick();
    (options.backlog_records, options.produce_wait) = (10, Duration::from_millis(50));
    let (ingress, fake) = open(&SimDisk::new(seed()), options).await;
    fake.set_unavailable(0, true);
    ingress.produce((0..10).map(|n| message(0, n.to_string())).collect()).await.unwrap();
    assert!(matches!(ingress.produce(vec![message(1, "x")]).await, Err(IngressError::Full)));
    fake.set_unavailable(0, false);
    fake.wait_for("orders", ID, 0, 10).await;
    until("room", || ingress.backlog() == 0).await;
    ingress.produce(vec![message(1, "x")]).await.unwrap();
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_on_the_way_to_one_partition_costs_nobody_a_message() {
    let (ingress, fake) = open(&SimDisk::new(seed()), quick()).await;
    fake.set_panicking(0, true);
    ingress.produce(vec![message(0, "a"), message(1, "x"), message(0, "b")]).await.unwrap();
    fake.wait_for_lookups(0, 2).await;
    ingress.produce(vec![message(0, "c"), message(1, "y")]).await.unwrap();
    assert_eq!(texts(&fake.wait_for("orders", ID, 1, 2).await), ["x", "y"]);
    fake.set_panicking(0, false);
    assert_eq!(texts(&fake.wait_for("orders", ID, 0, 3).await), ["a", "b", "c"]);
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_its_partition_refuses_for_good_takes_no_other_with_it() {
    let (ingress, fake) = open(&SimDisk::new(seed()), quick()).await;
    // All four at once; then one by one, of which the second and the last are refused again.
    fake.set_too_large([1, 3, 5]);
    ingress.produce(["a", "refused", "b", "refused too"].map(|text| message(0, text)).into()).await.unwrap();
    until("all of it to be done", || ingress.backlog() == 0).await;
    assert_eq!(fake.payloads("orders", ID, 0), ["a", "b"]);
    assert_eq!(fake.lookups(0), 5);
    ingress.produce(vec![message(0, "next")]).await.unwrap();
    assert_eq!(texts(&fake.wait_for("orders", ID, 0, 3).await), ["a", "b", "next"]);
    ingress.close(BOUND).await;
}
