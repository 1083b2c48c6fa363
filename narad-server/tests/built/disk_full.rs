//! The built binary on a real file system that fills up: refused while full, never acknowledged and lost, reads go
//! on, the metrics say so, and after space was freed everything works without a restart.
//!
//! Needs to mount a small tmpfs; where that is not allowed the tests say so and are skipped.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::real_broker::{Attached, Broker, Client, Ledger, can_trace};

const PARTITIONS: u32 = 3;
const HEALING: Duration = Duration::from_secs(15);
const WAL_FAILED: &str = "narad_ingress_wal_failed";
const AVAILABLE: &str = "narad_data_dir_available_bytes";
const REJECTED: &str = "narad_produce_rejections_total{topic=\"full\",reason=\"disk_full\"}";
const POISONED: &str = "narad_errors_total{component=\"storage\",kind=\"fsync_poisoned\"}";

/// A tmpfs of its own, unmounted when dropped.
struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    fn mount(mebibytes: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m,mode=0700"), "tmpfs"])
            .arg(dir.path())
            .output();
        let works = mounted.is_ok_and(|output| output.status.success());
        if !works {
            eprintln!("notice: no tmpfs can be mounted here; the full-disk test is skipped");
        }
        works.then_some(Self { dir })
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Takes all the space that is left.
    fn fill(&self) -> PathBuf {
        let path = self.dir.path().join("ballast");
        fs::write(&path, []).unwrap();
        for size in [1 << 20, 1 << 12, 1] {
            let chunk = vec![0; size];
            let append = || {
                fs::OpenOptions::new()
                    .append(true)
                    .open(&path)
                    .and_then(|mut f| std::io::Write::write(&mut f, &chunk))
            };
            while append().is_ok_and(|written| written > 0) {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        _ = Command::new("umount").arg("-l").arg(self.dir.path()).status();
    }
}

/// What a page that is there anyway does not hold.
fn payload(n: usize) -> String {
    format!("{n}:{}", "x".repeat(40_000))
}

/// Produces the messages of `numbers`, each answered with `status`.
async fn produce_all(client: &Client, ledger: &mut Ledger, numbers: std::ops::Range<usize>, status: u16) {
    for n in numbers {
        let answer = client.produce("", &payload(n)).await;
        assert_eq!(answer.status, status, "{}", answer.body);
        assert_eq!(answer.retry_after, status == 503, "a 503 says when to try again, and nothing else does");
        ledger.answered(&payload(n), status == 202);
    }
}

async fn produced(client: &Client) -> u64 {
    let mut sum = 0;
    for partition in 0..PARTITIONS {
        let series = format!("narad_messages_produced_total{{topic=\"full\",partition=\"{partition}\"}}");
        sum += client.metric(&series).await.unwrap_or(0);
    }
    sum
}

async fn readiness(client: &Client) -> String {
    let ready = client.get("/readyz").await;
    assert_eq!(ready.status, 200, "{}", ready.body);
    ready.body
}

/// Waits until readiness has nothing to complain of, and the gauge neither.
async fn healed(client: &Client) {
    let begin = tokio::time::Instant::now();
    while readiness(client).await.contains("degraded") {
        assert!(begin.elapsed() < HEALING, "{}", readiness(client).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(client.metric(WAL_FAILED).await, Some(0));
}

#[tokio::test]
async fn a_full_disk_refuses_produces_and_heals_without_a_restart() {
    let Some(disk) = SmallDisk::mount(24) else { return };
    let broker = Broker::start(&disk.data()).await;
    broker.create_topic("full").await;
    let (client, mut ledger) = (broker.client("full"), Ledger::default());
    produce_all(&client, &mut ledger, 0..20, 202).await;
    client.settled().await;
    assert_eq!(client.metric(WAL_FAILED).await, Some(0));
    assert_eq!(client.metric(REJECTED).await, None);
    assert!(client.metric(AVAILABLE).await.unwrap() > 10 << 20);

    let ballast = disk.fill();
    produce_all(&client, &mut ledger, 20..40, 503).await;
    assert_eq!(client.get("/healthz").await.status, 200);
    let ready = readiness(&client).await;
    assert!(ready.contains("degraded") && ready.contains("produce log: "), "{ready}");
    assert_eq!(client.metric(WAL_FAILED).await, Some(1));
    assert_eq!(client.metric(REJECTED).await, Some(20), "each refused message is counted");
    assert!(client.metric(AVAILABLE).await.unwrap() < 64 << 10);
    assert_eq!(produced(&client).await, 20, "what was refused is not counted as produced");
    assert!(client.metric("narad_errors_total{component=\"storage\",kind=\"commit\"}").await.unwrap() > 0);

    assert_eq!(client.drain().await.len(), 20, "consume and ack go on while the disk is full");
    holds_what_was_accepted(&client, &mut ledger, 1).await;

    fs::remove_file(ballast).unwrap();
    // The very next one: nothing has to be waited for.
    produce_all(&client, &mut ledger, 40..50, 202).await;
    client.settled().await;
    healed(&client).await;
    let delivered = client.drain().await;
    assert_eq!(delivered.len(), 10, "what was refused never appears, what was settled does not come again");
    holds_what_was_accepted(&client, &mut ledger, 1).await;

    // Not even after a crash.
    survives_a_crash(broker, &disk, ledger).await;
}

/// Every accepted message is there, at most `most` times, and no refused one.
async fn holds_what_was_accepted(client: &Client, ledger: &mut Ledger, most: usize) {
    let copies = ledger.count(client, PARTITIONS).await;
    ledger.check(&copies, most, 0);
}

/// What was accepted is there after a crash, some of it twice, and nothing that was refused.
async fn survives_a_crash(mut broker: Broker, disk: &SmallDisk, mut ledger: Ledger) {
    broker.kill();
    let broker = Broker::start(&disk.data()).await;
    let client = broker.client("full");
    client.settled().await;
    holds_what_was_accepted(&client, &mut ledger, 2).await;
    assert!(broker.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn po_03_a_log_poisoned_on_a_full_disk_reopens_itself_and_is_named_until_then() {
    if !can_trace() {
        return;
    }
    let Some(disk) = SmallDisk::mount(24) else { return };
    let broker = Broker::start(&disk.data()).await;
    broker.create_topic("full").await;
    let (client, mut ledger) = (broker.client("full"), Ledger::default());
    produce_all(&client, &mut ledger, 0..9, 202).await;
    client.settled().await;
    assert_eq!(client.metric(POISONED).await, None);

    let ballast = disk.fill();
    let wal = disk.data().join("ingress/produce/00000000000000000000.log");
    let uncuttable = Attached::to(&broker, &["ftruncate:error=EIO"], &[wal]);
    // A failed write that cannot be cut off poisons the log; that is no full disk any more.
    for n in 9..15 {
        let answer = client.produce("", &payload(n)).await;
        assert!([500, 503].contains(&answer.status), "{answer:?}");
        ledger.answered(&payload(n), false);
    }
    uncuttable.has_injected().await;
    let ready = readiness(&client).await;
    assert!(ready.contains("produce log: ") && ready.contains("poisoned"), "{ready}");
    assert_eq!(client.metric(WAL_FAILED).await, Some(1));
    assert!(client.metric(POISONED).await.unwrap() >= 1);
    assert_eq!(client.drain().await.len(), 9, "reads go on");

    drop(uncuttable);
    fs::remove_file(ballast).unwrap();
    client.produce_until_accepted("", "after", HEALING).await;
    ledger.answered("after", true);
    healed(&client).await;
    client.settled().await;
    assert_eq!(client.drain().await, ["after"]);
    holds_what_was_accepted(&client, &mut ledger, 1).await;

    survives_a_crash(broker, &disk, ledger).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn po_03_a_poisoned_partition_is_named_until_it_has_reopened_itself() {
    if !can_trace() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path()).await;
    broker.create_topic("full").await;
    let client = broker.client("full");
    assert_eq!(client.produce("?partition=0", "before").await.status, 202);
    client.settled().await;
    let partition = dir.path().join("topics/full/p00000/00000000000000000000.log");
    let failing = Attached::to(&broker, &["fdatasync:error=EIO"], &[partition]);
    assert_eq!(client.produce("?partition=0", "after").await.status, 202);
    failing.has_injected().await;
    let begin = tokio::time::Instant::now();
    while !readiness(&client).await.contains("full/0: the log is poisoned") {
        assert!(begin.elapsed() < HEALING, "{}", readiness(&client).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(client.metric(POISONED).await.unwrap() >= 1);
    assert_eq!(client.metric(WAL_FAILED).await, Some(0), "the produce log is well");
    assert_eq!(client.replay(0, 0).await.len(), 1, "reads go on, and show nothing that is not synced");
    drop(failing);
    client.settled().await;
    healed(&client).await;
    assert_eq!(client.drain().await, ["before", "after"]);
    assert!(broker.terminate().await.success());
}

#[tokio::test]
async fn a_start_on_a_full_disk_serves_reads_and_deletes() {
    let Some(disk) = SmallDisk::mount(24) else { return };
    let mut broker = Broker::start(&disk.data()).await;
    broker.create_topic("full").await;
    broker.create_topic("kept").await;
    let (client, mut ledger) = (broker.client("full"), Ledger::default());
    produce_all(&client, &mut ledger, 0..10, 202).await;
    assert_eq!(broker.client("kept").produce("", "kept").await.status, 202);
    client.settled().await;
    broker.kill();
    disk.fill();
    assert_eq!(free_bytes(disk.dir.path()), 0);

    let mut broker = Broker::start(&disk.data()).await;
    let (client, kept) = (broker.client("full"), broker.client("kept"));
    produce_all(&client, &mut ledger, 10..12, 503).await;
    holds_what_was_accepted(&client, &mut ledger, 1).await;
    assert_eq!(client.drain().await.len(), 10);
    assert_eq!(kept.drain().await, ["kept"]);
    let deleted = client.delete().await;
    assert_eq!(deleted.status, 204, "{}", deleted.body);
    let freed = freed(disk.dir.path(), 10 * 40_000).await;
    assert!(freed >= 10 * 40_000, "a delete frees what the topic took; this one freed {freed} bytes");
    assert_eq!(client.consume("").await.status, 404);
    kept.produce_until_accepted("", "again", HEALING).await;
    kept.settled().await;
    assert_eq!(kept.drain().await, ["again"]);

    broker.kill();
    let broker = Broker::start(&disk.data()).await;
    assert_eq!(broker.client("full").consume("").await.status, 404, "a deleted topic stays deleted");
    assert!(!disk.data().join("topics/full").exists());
    assert!(broker.terminate().await.success());
}

#[tokio::test]
async fn sigterm_on_a_full_disk_ends_with_status_0_and_loses_nothing() {
    let Some(disk) = SmallDisk::mount(24) else { return };
    let broker = Broker::start(&disk.data()).await;
    broker.create_topic("full").await;
    let (client, mut ledger) = (broker.client("full"), Ledger::default());
    produce_all(&client, &mut ledger, 0..10, 202).await;
    client.settled().await;
    disk.fill();
    // Positions that have not been on disk before, for which there is no room.
    let leased = client.consume("?wait=5s").await;
    assert_eq!(leased.status, 200);
    let message = serde_json::from_str(&leased.body).unwrap();
    assert_eq!(client.ack(&message).await.status, 204);
    let status = broker.terminate().await;
    assert!(status.success(), "{status:?}");

    let broker = Broker::start(&disk.data()).await;
    let left = broker.client("full").drain().await.len();
    assert!((9..=10).contains(&left), "{left}: the acked one may come again, and nothing else is missing");
    assert!(broker.terminate().await.success());
}

/// Waits until so much is free, a few seconds at most, and returns what is.
async fn freed(path: &Path, expected: u64) -> u64 {
    for _ in 0..50 {
        if free_bytes(path) >= expected {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    free_bytes(path)
}

fn free_bytes(path: &Path) -> u64 {
    let output = Command::new("df").args(["--output=avail", "-B1"]).arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().nth(1).unwrap().trim().parse().unwrap()
}
