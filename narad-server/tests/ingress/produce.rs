//! What `produce` promises: every message reaches its partition, in order, whole, and only once it was synced.

use std::time::Duration;

use crate::support::{BOUND, ID, WAL, message, open, quick, texts};
use bytes::Bytes;
use narad_core::testkit::{CallKind, Fault, Gate, SimDisk, seed};
use narad_server::ingress::{IngressError, Staged};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_reaches_its_partition_byte_for_byte() {
    let (ingress, fake) = open(&SimDisk::new(seed()), quick()).await;
    let payload: Vec<u8> = (0..=255).collect();
    let odd = Staged { payload: payload.clone().into(), ..message(2, "") };
    let keyless = Staged { key: Bytes::new(), payload: Bytes::new(), ..message(2, "") };
    ingress.produce(vec![odd, keyless]).await.unwrap();
    let records = fake.wait_for("orders", ID, 2, 2).await;
    assert_eq!((&records[0].key[..], &records[0].payload[..]), (&b"k"[..], &payload[..]));
    assert_eq!((records[1].key.len(), records[1].payload.len()), (0, 0), "empty is not absent");
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_one_call_and_of_calls_one_after_the_other_keep_their_order() {
    let (ingress, fake) = open(&SimDisk::new(seed()), quick()).await;
    ingress.produce(Vec::new()).await.unwrap();
    for call in 0..20u32 {
        let messages = (0..50).map(|n| message(n % 3, format!("{call}-{n}"))).collect();
        ingress.produce(messages).await.unwrap();
    }
    for partition in 0..3u32 {
        let expected: Vec<String> = (0..20)
            .flat_map(|call| (0..50).filter(move |n| n % 3 == partition).map(move |n| format!("{call}-{n}")))
            .collect();
        let records = fake.wait_for("orders", ID, partition, expected.len() as u64).await;
        assert_eq!(texts(&records), expected);
    }
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn produce_is_not_answered_before_the_fsync_and_those_who_wait_share_the_next() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = open(&disk, quick()).await;
    ingress.produce(vec![message(0, "first")]).await.unwrap();
    fake.wait_for("orders", ID, 0, 1).await;
    for partition in [0, 1] {
        fake.set_unavailable(partition, true);
    }
    let gate = Gate::new();
    let held = disk.inject(Fault::hold(CallKind::SyncData, &gate).named("*.log"));
    let early = {
        let ingress = ingress.clone();
        tokio::spawn(async move { ingress.produce(vec![message(0, "early")]).await })
    };
    crate::support::until("the held fsync", || gate.arrived() == 1).await;
    let late: Vec<_> = (0..32)
        .map(|n| {
            let ingress = ingress.clone();
            tokio::spawn(async move { ingress.produce(vec![message(1, n.to_string())]).await })
        })
        .collect();
    tokio::time::timeout(Duration::from_millis(50), async {
        while !late.iter().any(|task| task.is_finished()) && !early.is_finished() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect_err("nobody is answered while the fsync runs");
    let syncs = || {
        disk.calls()
            .iter()
            .filter(|call| {
                call.kind == CallKind::SyncData && call.path.starts_with(WAL) && call.is_on("*.log")
            })
            .count()
    };
    let before = syncs();
    disk.remove_fault(held);
    gate.open();
    early.await.unwrap().unwrap();
    for task in late {
        task.await.unwrap().unwrap();
    }
    assert!(syncs() - before <= 2, "32 messages took {} fsyncs", syncs() - before);
    ingress.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_that_goes_away_hurts_no_other() {
    let (ingress, fake) = open(&SimDisk::new(seed()), quick()).await;
    let mut tasks = Vec::new();
    for n in 0..400u32 {
        let ingress = ingress.clone();
        let task = tokio::spawn(async move { ingress.produce(vec![message(n % 2, n.to_string())]).await });
        if n % 3 == 0 {
            task.abort();
        }
        tasks.push((n, task));
    }
    let mut accepted = Vec::new();
    for (n, task) in tasks {
        match task.await {
            Ok(answer) => {
                answer.unwrap();
                accepted.push(n);
            }
            Err(gone) => assert!(gone.is_cancelled() && n % 3 == 0),
        }
    }
    ingress.close(BOUND).await;
    let mut there: Vec<u32> =
        (0..2).flat_map(|p| fake.payloads("orders", ID, p)).map(|text| text.parse().unwrap()).collect();
    there.sort_unstable();
    assert!(there.windows(2).all(|pair| pair[0] < pair[1]), "each at most once");
    assert!(accepted.iter().all(|n| there.binary_search(n).is_ok()), "each accepted one is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_ingress_has_dispatched_everything_and_takes_nothing() {
    let (ingress, fake) = open(&SimDisk::new(seed()), quick()).await;
    ingress.produce((0..100).map(|n| message(0, n.to_string())).collect()).await.unwrap();
    ingress.close(BOUND).await;
    assert_eq!(fake.payloads("orders", ID, 0).len(), 100);
    assert_eq!(ingress.backlog(), 0);
    assert!(matches!(ingress.produce(vec![message(0, "late")]).await, Err(IngressError::Closed)));
    ingress.close(BOUND).await;
}
