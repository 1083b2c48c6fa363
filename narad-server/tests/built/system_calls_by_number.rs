//! The built binary on a fresh directory, with the n-th call of a kind failing whatever it is for, once or from then
//! on: it says that it cannot start, or it keeps what it promised. And deletes whose files cannot be moved or removed.
//!
//! Needs strace and the permission to trace; where one is missing the tests say so and are skipped.

use std::{sync::Arc, time::Duration};

use crate::real_broker::{Attached, Broker, Client, Ledger, can_trace, reason, under_strace};
use serde_json::Value;
use tokio::{sync::Semaphore, task::JoinSet};

const PARTITIONS: u32 = 3;
const AT_ONCE: usize = 6;
const FAULTS: &[&str] = &[
    "fdatasync:error=EIO",
    "fsync:error=EIO",
    "pwrite64:error=EIO",
    "pwrite64:error=ENOSPC",
    "pread64:error=EIO",
    "ftruncate:error=EIO",
    "rename:error=EACCES",
    "mkdir:error=EROFS",
    "unlink:error=EROFS",
    "statx:error=EIO",
    "getdents64:error=EIO",
];
/// Which calls of each thread fail.
const WHICH: &[&str] = &["1", "2", "3", "4", "6", "9", "14", "3+", "9+", "20+", "2+4"];
/// The first opens are those of the loader.
const OPENS: &[&str] = &["14", "16", "18", "20", "24", "16+", "30+"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nth_call_on_a_fresh_directory_fails() {
    if !can_trace() {
        return;
    }
    let (room, mut cases) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
    let calls =
        FAULTS.iter().flat_map(|fault| WHICH.iter().map(move |which| format!("{fault}:when={which}")));
    let opens = OPENS.iter().map(|which| format!("openat:error=EMFILE:when={which}"));
    for (number, fault) in calls.chain(opens).enumerate() {
        let room = Arc::clone(&room);
        cases.spawn(async move {
            let _place = room.acquire_owned().await.unwrap();
            let case = fault.clone();
            let outcome = tokio::spawn(async move { run(&fault, number % 2 == 0).await }).await;
            outcome.map_err(|panic| format!("{case}: {}", reason(panic)))
        });
    }
    let (mut failed, mut injected) = (Vec::new(), 0);
    while let Some(outcome) = cases.join_next().await {
        match outcome.unwrap() {
            Ok(hit) => injected += usize::from(hit),
            Err(failure) => failed.push(failure),
        }
    }
    assert!(failed.is_empty(), "{} cases:\n{}", failed.len(), failed.join("\n"));
    println!("calls failed in {injected} cases");
    assert!(injected > 60, "calls failed in {injected} cases: too few to show anything");
}

/// Returns whether a call failed.
async fn run(fault: &str, killed: bool) -> bool {
    let scratch = tempfile::tempdir().unwrap();
    let (dir, trace) = (scratch.path().join("data"), scratch.path().join("trace"));
    let (mut ledger, mut created) = (Ledger::default(), false);
    match Broker::spawn(under_strace(&dir, &[fault], &[], &trace)) {
        Err(ended) => {
            assert!(!ended.status.success());
            assert!(!ended.said.is_empty() && !ended.said.contains("panicked"), "{}", ended.said);
        }
        Ok(mut broker) => {
            let client = broker.client("t");
            created = client.create().await.status == 201 || client.create().await.status == 201;
            if created {
                work(&client, &mut ledger).await;
            }
            assert!(!broker.said().contains("panicked"), "{}", broker.said());
            if killed {
                broker.kill();
            } else {
                broker.terminate().await;
            }
        }
    }

    let broker = Broker::start(&dir).await;
    let client = broker.client("t");
    client.settled().await;
    if created {
        let copies = ledger.count(&client, PARTITIONS).await;
        ledger.check(&copies, 2, 1);
    }
    assert!(broker.terminate().await.success());
    String::from_utf8_lossy(&std::fs::read(trace).unwrap()).contains("INJECTED")
}

async fn work(client: &Client, ledger: &mut Ledger) {
    for n in 0..12 {
        let payload = format!("message {n}");
        let produced = client.produce(&format!("?partition={}", n % PARTITIONS), &payload).await;
        assert!([202, 500, 503].contains(&produced.status), "{produced:?}");
        ledger.answered(&payload, produced.status == 202);
        let leased = client.consume(&format!("?partition={}", n % PARTITIONS)).await;
        assert!([200, 204, 500, 503].contains(&leased.status), "{leased:?}");
        if leased.status == 200 {
            let message: Value = serde_json::from_str(&leased.body).unwrap();
            let offset = message["offset"].as_u64().unwrap();
            ledger.served(n % PARTITIONS, offset, message["payload"].as_str().unwrap());
            let ack = client.ack(&message).await;
            assert!([204, 500, 503].contains(&ack.status), "{ack:?}");
        }
        assert_eq!(client.get("/healthz").await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_whose_files_cannot_be_moved_or_removed_leaves_the_topic_whole_or_gone() {
    if !can_trace() {
        return;
    }
    let faults: [&[&str]; 4] = [
        &["rename:error=EACCES"],
        &["unlink:error=EROFS", "rmdir:error=EROFS"],
        &["rmdir:error=EIO"],
        &["fsync:error=EIO", "unlink:error=EIO"],
    ];
    for fault in faults {
        delete_under(fault).await;
    }
}

async fn delete_under(fault: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path()).await;
    broker.create_topic("t").await;
    let client = broker.client("t");
    for partition in 0..PARTITIONS {
        assert_eq!(client.produce(&format!("?partition={partition}"), "old").await.status, 202);
    }
    client.settled().await;
    let attached = Attached::to(&broker, fault, &[]);
    let deleted = client.delete().await;
    assert!([204, 500, 503].contains(&deleted.status), "{fault:?}: {deleted:?}");
    if deleted.status == 204 {
        assert_eq!(client.consume("").await.status, 404, "{fault:?}");
    }
    attached.has_injected().await;
    drop(attached);
    if client.consume("").await.status != 404 {
        let again = client.delete().await;
        assert_eq!(again.status, 204, "{fault:?}: {again:?}");
    }
    broker.create_topic("t").await;
    only_new(&client, fault).await;
    assert!(broker.terminate().await.success());

    let broker = Broker::start(dir.path()).await;
    let client = broker.client("t");
    assert_eq!(client.replay(0, 0).await, [(0, Some("new".to_owned()))], "{fault:?}");
    // What could not be deleted was set aside, and is removed now that its topic is known to be deleted.
    let left = || {
        let entries = std::fs::read_dir(dir.path().join("topics")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let removed = tokio::time::timeout(Duration::from_secs(20), async {
        while left() != ["t"] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(removed.await.is_ok(), "{fault:?} leaves {:?}", left());
    assert!(broker.terminate().await.success());
}

/// Nothing of the deleted topic is in the one that has its name.
async fn only_new(client: &Client, fault: &[&str]) {
    for partition in 0..PARTITIONS {
        client
            .produce_until_accepted(&format!("?partition={partition}"), "new", Duration::from_secs(15))
            .await;
    }
    client.settled().await;
    for partition in 0..PARTITIONS {
        assert_eq!(client.replay(partition, 0).await, [(0, Some("new".to_owned()))], "{fault:?}");
    }
}
