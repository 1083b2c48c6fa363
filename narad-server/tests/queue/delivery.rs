//! What a consumer is given: each message once, partitions in turn, batches within their bounds, and across restarts.

use std::time::Duration;

use crate::support::{Bed, pinned, text, texts, wait};
use narad_core::testkit::{SimDisk, seed};
use narad_server::queue::{Consume, QueueError, Settle};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acked_is_not_delivered_after_a_restart_and_all_else_is() {
    let bed = Bed::open(&SimDisk::new(seed()));
    bed.put(0, &["a", "b", "c", "d"]);
    let mut leased = Vec::new();
    for _ in 0..4 {
        leased.push(bed.next().await);
    }
    for n in [0, 2] {
        bed.ack(&leased[n]).await;
    }
    let bed = bed.restart();
    for old in &leased {
        assert!(matches!(bed.settle(old, Settle::Ack).await, Err(QueueError::Gone)), "another life's lease");
    }
    assert_eq!(
        [bed.now().await, bed.now().await, bed.now().await].map(Option::unwrap_or_default),
        ["b", "d", ""]
    );
    for old in &leased {
        assert!(matches!(bed.settle(old, Settle::Release).await, Err(QueueError::Gone)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_partition_does_not_starve_the_others() {
    let bed = Bed::open(&SimDisk::new(seed()));
    bed.put(0, &["a"; 10]);
    bed.put(1, &["b"]);
    bed.put(2, &["c"]);
    // A partition that is still being opened is nobody's turn.
    for partition in 0..3 {
        let opened = bed.consume(pinned(partition, Duration::from_secs(30))).await.unwrap();
        bed.settle(&opened[0], Settle::Release).await.unwrap();
    }
    let mut first = [bed.next().await, bed.next().await, bed.next().await].map(|delivery| text(&delivery));
    first.sort();
    assert_eq!(first, ["a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_consumer_gets_its_partition_alone() {
    let bed = Bed::open(&SimDisk::new(seed()));
    bed.put(0, &["a"]);
    bed.put(2, &["c"]);
    let request = pinned(2, Duration::ZERO);
    assert_eq!(texts(&bed.consume(request).await.unwrap()), ["c"]);
    assert!(bed.consume(request).await.unwrap().is_empty());
    assert_eq!(bed.now().await.unwrap(), "a");
    assert!(matches!(bed.consume(pinned(3, Duration::ZERO)).await, Err(QueueError::Storage(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_bounded_by_records_and_bytes_and_gives_the_rest_back() {
    let bed = Bed::open(&SimDisk::new(seed()));
    bed.put(0, &["aaaa", "bbbb", "cccc", "dddd", "eeee"]);
    let ask = |max, max_bytes| bed.consume(Consume { max, max_bytes, ..wait(Duration::ZERO) });
    let leased = ask(2, 100).await.unwrap();
    assert_eq!(texts(&leased), ["aaaa", "bbbb"]);
    let leased = ask(100, 9).await.unwrap();
    assert_eq!(texts(&leased), ["cccc", "dddd"]);
    bed.settle(&leased[0], Settle::Release).await.unwrap();
    assert_eq!(texts(&ask(100, 1).await.unwrap()), ["cccc"], "a larger one comes alone");
    assert_eq!(texts(&ask(0, 100).await.unwrap()), ["eeee"]);
    assert!(ask(100, 100).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_takes_from_all_partitions_and_receipts_name_them() {
    let bed = Bed::open(&SimDisk::new(seed()));
    assert_eq!(bed.now().await, None, "opens them");
    (0..3).for_each(|partition| bed.put(partition, &["x", "y"]));
    let leased = bed.consume(Consume { max: 100, ..wait(Duration::ZERO) }).await.unwrap();
    assert_eq!(leased.len(), 6);
    for delivery in &leased {
        assert_eq!(
            (delivery.nonce.partition, delivery.nonce.offset),
            (delivery.partition, delivery.record.offset)
        );
        assert_eq!(delivery.nonce.to_string().parse(), Ok(delivery.nonce));
        bed.ack(delivery).await;
        assert!(matches!(bed.settle(delivery, Settle::Ack).await, Err(QueueError::Gone)), "settled already");
    }
    assert_eq!([0, 1, 2].map(|partition| bed.frontier(partition)), [Some(1); 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_consumers_share_the_messages_and_none_is_held_by_two() {
    let bed = Bed::open(&SimDisk::new(seed()));
    let mut tasks = Vec::new();
    for _ in 0..20 {
        let bed = bed.clone();
        tasks.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            while mine.len() < 15 {
                let delivery = bed.next().await;
                bed.ack(&delivery).await;
                mine.push(text(&delivery));
            }
            mine
        }));
    }
    for n in 0..300u32 {
        bed.put(n % 3, &[&n.to_string()]);
    }
    let mut all: Vec<u32> = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap().iter().map(|text| text.parse::<u32>().unwrap()));
    }
    all.sort_unstable();
    assert_eq!(all, (0..300).collect::<Vec<_>>());
    assert_eq!(bed.now().await, None);
    assert_eq!([0, 1, 2].map(|partition| bed.frontier(partition)), [Some(99); 3]);
}
