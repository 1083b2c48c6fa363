//! The built binary whose system calls fail while it starts: it ends and says which file keeps it from starting, or it
//! serves what it can; whatever it does, the next start finds every acknowledged message.
//!
//! Needs strace and the permission to trace; where one is missing the test says so and is skipped.

use std::{ops::Range, path::Path, sync::Arc};

use crate::real_broker::{Broker, Client, Ledger, can_trace, copy_tree, has_injected, reason, under_strace};
use serde_json::Value;
use tokio::{sync::Semaphore, task::JoinSet};

const PARTITIONS: u32 = 3;
const AT_ONCE: usize = 6;

/// What a start does whose calls fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Start {
    /// It ends, with an error that names the file.
    Ends,
    /// It serves.
    Serves,
    /// It serves, and readiness names the partition.
    Degraded,
    /// It serves, and readiness names the partition if a message waits for it in the produce log: it can be read and not
    /// written.
    ServesReads,
}

/// One injection of strace's, the path whose calls it concerns, and what comes of it.
type Fault = (&'static str, &'static str, Start);

const FAULTS: &[Fault] = &[
    ("openat:error=EACCES", "LOCK", Start::Ends),
    ("openat:error=EROFS", "LOCK", Start::Ends),
    ("pwrite64:error=ENOSPC", "LOCK", Start::Serves),
    ("flock:error=EIO", "LOCK", Start::Ends),
    ("fsync:error=EIO", "", Start::Ends),
    ("openat:error=EIO", "topics", Start::Ends),
    ("getdents64:error=EIO", "topics", Start::Ends),
    ("statx:error=EIO", "meta", Start::Ends),
    ("openat:error=EACCES", "meta/meta.redb", Start::Ends),
    ("openat:error=EMFILE", "meta/meta.redb", Start::Ends),
    ("statx:error=EIO", "meta/meta.redb", Start::Ends),
    ("pread64:error=EIO:when=2", "meta/meta.redb", Start::Ends),
    ("pread64:error=EIO", "meta/meta.redb", Start::Ends),
    ("getdents64:error=EIO", "ingress/produce", Start::Ends),
    ("openat:error=EMFILE", "ingress/produce/00000000000000000000.log", Start::Ends),
    ("pread64:error=EIO", "ingress/produce/00000000000000000000.log", Start::Ends),
    ("fdatasync:error=EIO", "ingress/produce/00000000000000000000.log", Start::Ends),
    ("openat:error=EIO", "ingress/produce/hwm", Start::Serves),
    ("openat:error=EIO", "ingress/produce/checkpoint", Start::Serves),
    ("pread64:error=EIO", "ingress/produce/checkpoint", Start::Serves),
    ("pwrite64:error=ENOSPC", "ingress/produce/checkpoint", Start::Serves),
    ("openat:error=EIO", "topics/t/incarnation", Start::Degraded),
    ("pread64:error=EIO", "topics/t/incarnation", Start::Degraded),
    ("getdents64:error=EIO", "topics/t/p00000", Start::Degraded),
    ("openat:error=EMFILE", "topics/t/p00000/00000000000000000000.log", Start::Degraded),
    // Tried again once logs that nobody uses have given their descriptors back.
    ("openat:error=EMFILE:when=1", "topics/t/p00000/00000000000000000000.log", Start::Serves),
    ("pread64:error=EIO", "topics/t/p00000/00000000000000000000.log", Start::Degraded),
    ("statx:error=EIO", "topics/t/p00000/00000000000000000000.log", Start::Degraded),
    ("fdatasync:error=EIO", "topics/t/p00000/00000000000000000000.log", Start::Degraded),
    ("openat:error=EIO", "topics/t/p00000/hwm", Start::ServesReads),
    ("openat:error=EIO", "topics/t/p00000/consumer.offset", Start::Serves),
    ("pread64:error=EIO", "topics/t/p00000/consumer.offset", Start::Serves),
    ("pread64:error=EIO", "topics/t/p00000/consumer.ahead", Start::Serves),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_a_start_fail() {
    if !can_trace() {
        return;
    }
    let template = Arc::new(tempfile::tempdir().unwrap());
    write(template.path()).await;
    let (room, mut cases) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
    for fault in FAULTS {
        let (room, template) = (Arc::clone(&room), Arc::clone(&template));
        cases.spawn(async move {
            let _place = room.acquire_owned().await.unwrap();
            tokio::spawn(async move { run(template.path(), fault).await })
                .await
                .map_err(|panic| format!("{fault:?}: {}", reason(panic)))
        });
    }
    let mut failed = Vec::new();
    while let Some(outcome) = cases.join_next().await {
        failed.extend(outcome.unwrap().err());
    }
    assert!(failed.is_empty(), "{} cases:\n{}", failed.len(), failed.join("\n"));
}

const BEFORE: u32 = 12;

fn before(ledger: &mut Ledger) {
    for n in 0..BEFORE {
        ledger.answered(&format!("before {n}"), true);
    }
}

/// A directory whose broker was closed, started again and killed: nothing in it states a boundary, there are positions
/// of consumers, and some of it may wait in the produce log.
async fn write(dir: &Path) {
    let broker = Broker::start_through_log(dir).await;
    broker.create_topic("t").await;
    let client = broker.client("t");
    produce(&client, 0..BEFORE / 2).await;
    client.settled().await;
    settle_one(&client).await;
    assert!(broker.terminate().await.success());

    let mut broker = Broker::start_through_log(dir).await;
    let client = broker.client("t");
    settle_one(&client).await;
    let ahead = dir.join("topics/t/p00000/consumer.ahead");
    while !ahead.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    produce(&client, BEFORE / 2..BEFORE).await;
    broker.kill();
    assert!(dir.join("topics/t/p00000/consumer.offset").exists());
}

async fn produce(client: &Client, which: Range<u32>) {
    for n in which {
        let answer = client.produce(&format!("?partition={}", n % PARTITIONS), &format!("before {n}")).await;
        assert_eq!(answer.status, 202);
    }
}

async fn settle_one(client: &Client) {
    let leased = client.consume("?partition=0&wait=5s").await;
    assert_eq!(client.ack(&serde_json::from_str(&leased.body).unwrap()).await.status, 204);
}

async fn run(template: &Path, (inject, path, expected): &Fault) {
    let scratch = tempfile::tempdir().unwrap();
    let (dir, trace) = (scratch.path().join("data"), scratch.path().join("trace"));
    copy_tree(template, &dir);
    let mut ledger = Ledger::default();
    before(&mut ledger);

    match Broker::spawn(under_strace(&dir, &[inject], &[dir.join(path)], &trace)) {
        Err(ended) => {
            assert_eq!(*expected, Start::Ends, "{ended:?}");
            assert!(!ended.status.success());
            assert!(ended.said.contains(dir.to_str().unwrap()), "it names the file: {}", ended.said);
            assert!(!ended.said.contains("panicked"), "{}", ended.said);
        }
        Ok(mut broker) => {
            assert_ne!(*expected, Start::Ends, "it serves: {}", broker.said());
            serve(&broker.client("t"), &mut ledger, *expected).await;
            has_injected(&trace).await;
            broker.kill();
        }
    }

    let broker = Broker::start(&dir).await;
    let client = broker.client("t");
    client.settled().await;
    let copies = ledger.count(&client, PARTITIONS).await;
    // Killed twice: what was under way each time is repeated.
    ledger.check(&copies, 3, 1);
    assert!(broker.terminate().await.success());
}

/// Whatever it answers is one of the contract's answers.
async fn serve(client: &Client, ledger: &mut Ledger, expected: Start) {
    let mut named = false;
    for _ in 0..200 {
        let ready = client.get("/readyz").await;
        assert!([200, 503].contains(&ready.status), "{ready:?}");
        named = ready.body.contains("t/0: ");
        if ready.status == 200 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    if expected != Start::ServesReads {
        let degraded = expected == Start::Degraded;
        assert_eq!(named, degraded, "readiness names the partition that does not work, and no other");
    }
    for n in 0..6 {
        let partition = n % PARTITIONS;
        let payload = format!("while {n}");
        let produced = client.produce(&format!("?partition={partition}"), &payload).await;
        assert!([202, 500, 503].contains(&produced.status), "{produced:?}");
        ledger.answered(&payload, produced.status == 202);
        let replayed = client.consume(&format!("?partition={partition}&offset={}", n / PARTITIONS)).await;
        let consumed = client.consume(&format!("?partition={partition}")).await;
        for answer in [replayed, consumed] {
            if answer.status == 204 {
                continue;
            }
            let body: Value = serde_json::from_str(&answer.body).expect(&answer.body);
            if answer.status == 200 {
                ledger.served(partition, body["offset"].as_u64().unwrap(), body["payload"].as_str().unwrap());
            } else {
                assert!([500, 503].contains(&answer.status), "{answer:?}");
            }
        }
    }
    assert_eq!(client.get("/healthz").await.status, 200);
}
