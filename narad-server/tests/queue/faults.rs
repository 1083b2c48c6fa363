//! Damage, I/O errors, retention and positions that cannot be: the queue goes on, and says what it lost.

use std::time::Duration;

use crate::support::{BOUND, Bed, ID, pinned, text, texts, wait};
use narad_core::{
    plugin::{Incarnation, PartitionId},
    testkit::{CallKind, Failure, Fault, Gate, SimDisk, seed},
};
use narad_server::queue::{Consume, QueueError, QueueStats, Settle};

const SEGMENT: &str = "/data/topics/orders/p00000/00000000000000000000.log";

fn stats(bed: &Bed) -> QueueStats {
    bed.queues.stats(bed.topic.spec.incarnation).into_iter().find(|s| s.partition == PartitionId(0)).unwrap()
}

/// Flips a bit in the payload that is `text`.
fn damage(disk: &SimDisk, text: &str) {
    disk.alter(SEGMENT, |bytes| {
        let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
        bytes[at] ^= 1;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_record_is_passed_over_counted_and_settled() {
    let bed = Bed::open(&SimDisk::new(seed()));
    bed.put(0, &["first", "second", "third", "fourth"]);
    bed.queues.close();
    bed.store.close().unwrap();
    damage(&bed.disk, "second");
    damage(&bed.disk, "first");
    let bed = Bed::open(&bed.disk);
    let third = bed.next().await;
    assert_eq!(text(&third), "third");
    assert_eq!((stats(&bed).skipped, bed.frontier(0)), (2, Some(1)));
    assert!(bed.runtime.metrics().error_count("queue", "damage") > 0);
    bed.ack(&third).await;
    assert_eq!(bed.frontier(0), Some(2));
    let bed = bed.restart();
    assert_eq!(texts(&bed.consume(Consume { max: 9, ..wait(Duration::ZERO) }).await.unwrap()), ["fourth"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_in_the_middle_of_a_batch_costs_that_record_alone() {
    let bed = Bed::open(&SimDisk::new(seed()));
    bed.put(0, &["first", "second", "third"]);
    bed.queues.close();
    bed.store.close().unwrap();
    damage(&bed.disk, "second");
    let bed = Bed::open(&bed.disk);
    let leased = bed.consume(Consume { max: 9, ..wait(Duration::ZERO) }).await.unwrap();
    assert_eq!(texts(&leased), ["first", "third"]);
    bed.ack(&leased[1]).await;
    bed.ack(&leased[0]).await;
    assert_eq!((bed.frontier(0), stats(&bed).skipped), (Some(2), 1));
    assert_eq!(bed.runtime.metrics().error_count("queue", "damage"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_io_error_is_answered_and_the_lease_given_back() {
    let bed = Bed::open(&SimDisk::new(seed()));
    bed.put(0, &["a"]);
    let bed = bed.restart();
    assert!(bed.consume(pinned(1, Duration::ZERO)).await.unwrap().is_empty());
    bed.log(0);
    let broken = bed.disk.inject(Fault::fail(CallKind::Read, Failure::Io).named("*.log").onwards());
    assert!(matches!(bed.consume(pinned(0, BOUND)).await, Err(QueueError::Storage(_))));
    assert_eq!(stats(&bed).in_flight, 0);
    assert_eq!((stats(&bed).skipped, bed.frontier(0)), (0, None), "that is no damage");
    bed.disk.remove_fault(broken);
    assert_eq!(text(&bed.next().await), "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_cannot_be_read_is_an_error_and_not_a_fresh_start() {
    let bed = Bed::open(&SimDisk::new(seed()));
    bed.put(0, &["a", "b"]);
    let leased = bed.next().await;
    bed.ack(&leased).await;
    let bed = bed.restart();
    let broken = bed.disk.inject(Fault::fail(CallKind::Read, Failure::Io).named("consumer.*").onwards());
    assert!(matches!(bed.consume(pinned(0, Duration::ZERO)).await, Err(QueueError::Storage(_))));
    bed.disk.remove_fault(broken);
    assert_eq!(bed.now().await.unwrap(), "b");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_partition_that_cannot_be_opened_keeps_nobody_from_the_others() {
    let bed = Bed::open(&SimDisk::new(seed()));
    bed.put(0, &["a"]);
    bed.put(1, &["b"]);
    let bed = bed.restart();
    bed.log(1);
    bed.log(2);
    let broken = bed.disk.inject(Fault::fail(CallKind::List, Failure::Io).named("p00000").onwards());
    assert_eq!(bed.now().await.unwrap(), "b");
    assert_eq!(bed.now().await, None);
    assert!(matches!(bed.consume(pinned(0, Duration::ZERO)).await, Err(QueueError::Storage(_))));
    bed.disk.remove_fault(broken);
    assert_eq!(bed.now().await.unwrap(), "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_retention_passes_the_frontier_it_jumps_once_and_counts() {
    let bed = Bed::open_as(&SimDisk::new(seed()), ID, 100);
    bed.put(0, &["x"; 20]);
    let leased = bed.next().await;
    let settled = bed.next().await;
    bed.ack(&settled).await;
    bed.log(0).sweep(None).unwrap();
    let oldest = bed.log(0).oldest_offset().get();
    assert!(oldest > 5);
    let next = bed.next().await;
    assert_eq!(next.record.offset.get(), oldest);
    assert_eq!((stats(&bed).lost, stats(&bed).skipped), (oldest - 1, 0), "all below but the one acked");
    assert_eq!(bed.frontier(0), Some(oldest - 1));
    assert!(matches!(bed.settle(&leased, Settle::Ack).await, Err(QueueError::Gone)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_retention_took_while_the_broker_was_down_is_counted() {
    let bed = Bed::open_as(&SimDisk::new(seed()), ID, 100);
    bed.put(0, &["x"; 20]);
    let settled = bed.next().await;
    bed.ack(&settled).await;
    bed.queues.close();
    bed.log(0).sweep(None).unwrap();
    let oldest = bed.log(0).oldest_offset().get();
    bed.store.close().unwrap();
    let bed = Bed::open_as(&bed.disk, ID, 100);
    assert_eq!(bed.next().await.record.offset.get(), oldest);
    assert_eq!(stats(&bed).lost, oldest - 1, "all below but the one acked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frontier_beyond_the_end_is_clamped_and_no_new_message_skipped() {
    let bed = Bed::open(&SimDisk::new(seed()));
    bed.put(0, &["a", "b"]);
    bed.queues.close();
    bed.store.close().unwrap();
    bed.disk.plant("/data/topics/orders/p00000/consumer.offset", 1_000u64.to_be_bytes());
    let bed = Bed::open(&bed.disk);
    assert_eq!(bed.now().await, None);
    assert_eq!(bed.frontier(0), Some(1));
    bed.put(0, &["c"]);
    assert_eq!(text(&bed.next().await), "c");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_topic_knows_nothing_of_the_leases_before() {
    let mut bed = Bed::open(&SimDisk::new(seed()));
    bed.put(0, &["old"]);
    let old = bed.next().await;
    bed.queues.forget("orders", ID);
    bed.store.delete_topic("orders", ID).unwrap();
    let mut spec = (*bed.topic.spec).clone();
    spec.incarnation = Incarnation::new(0xB2);
    bed.topic.spec = std::sync::Arc::new(spec);
    bed.put(0, &["new"]);
    let new = bed.next().await;
    assert_eq!((text(&new), new.record.offset.get()), ("new".to_owned(), 0));
    for how in [Settle::Ack, Settle::Extend, Settle::Release] {
        assert!(matches!(bed.settle(&old, how).await, Err(QueueError::Gone)));
    }
    bed.ack(&new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_whose_open_hangs_keeps_nobody_from_what_is_open_and_is_served_later() {
    let bed = Bed::open(&SimDisk::new(seed()));
    assert_eq!(bed.now().await, None, "opens them");
    bed.put(0, &["a"]);
    bed.put(1, &["b", "c"]);
    bed.log(0).close().unwrap();
    let gate = Gate::new();
    bed.disk.inject(Fault::hold(CallKind::List, &gate).named("p00000"));
    let at_once = tokio::time::timeout(BOUND, async {
        assert_eq!(bed.now().await.unwrap(), "b");
        assert_eq!(bed.now().await.unwrap(), "c");
        // Nothing else is there, as far as can be seen; many who ask cause one open.
        for asks in futures_util::future::join_all((0..20).map(|_| bed.now())).await {
            assert_eq!(asks, None);
        }
        assert!(bed.consume(pinned(0, Duration::ZERO)).await.unwrap().is_empty());
    });
    at_once.await.expect("no answer while an open hangs");
    assert_eq!(gate.arrived(), 1);
    let parked = tokio::spawn({
        let bed = bed.clone();
        async move { bed.next().await }
    });
    gate.open();
    assert_eq!(text(&parked.await.unwrap()), "a");
}
