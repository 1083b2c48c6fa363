//! The built binary on a real file system that fills up: refused while full, never acknowledged and lost, reads go
//! on, and after space was freed everything works without a restart.
//!
//! Needs to mount a small tmpfs; where that is not allowed the test says so and is skipped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod real_broker;

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use real_broker::Broker;
use serde_json::Value;

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

struct Client {
    http: reqwest::Client,
    url: String,
}

impl Client {
    fn new(broker: &Broker) -> Self {
        Self { http: reqwest::Client::new(), url: broker.url() }
    }

    async fn produce(&self, payload: &str) -> reqwest::Response {
        self.http
            .post(format!("{}/v1/topics/full/produce", self.url))
            .body(payload.to_owned())
            .send()
            .await
            .unwrap()
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let answer = self.http.get(format!("{}{path}", self.url)).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Everything that can be consumed now, acknowledged.
    async fn drain(&self) -> Vec<String> {
        let mut payloads = Vec::new();
        loop {
            let (status, body) = self.get("/v1/topics/full/consume?wait=1s").await;
            if status == 204 {
                return payloads;
            }
            assert_eq!(status, 200, "{body}");
            let message: Value = serde_json::from_str(&body).unwrap();
            payloads.push(message["payload"].as_str().unwrap().to_owned());
            let handle = message["receipt_handle"].as_str().unwrap();
            let ack = self
                .http
                .post(format!("{}/v1/topics/full/ack", self.url))
                .query(&[("receipt_handle", handle)]);
            assert_eq!(ack.send().await.unwrap().status(), 204);
        }
    }

    /// Produces until it is answered 202: a full disk heals by itself.
    async fn produce_until_accepted(&self, payload: &str) {
        for _ in 0..100 {
            if self.produce(payload).await.status() == 202 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!(
            "produce still fails 10 s after space was freed: {}",
            self.produce(payload).await.text().await.unwrap()
        );
    }
}

fn payload(n: usize) -> String {
    format!("{n}:{}", "x".repeat(40_000))
}

#[tokio::test]
async fn a_full_disk_refuses_produces_and_heals_without_a_restart() {
    let Some(disk) = SmallDisk::mount(24) else { return };
    let broker = Broker::start(&disk.data()).await;
    broker.create_topic("full").await;
    let client = Client::new(&broker);
    let (mut accepted, mut refused) = (HashSet::new(), HashSet::new());
    let mut sent = 0;
    let mut send = async |client: &Client| {
        sent += 1;
        let message = payload(sent);
        let answer = client.produce(&message).await;
        (message, answer.status().as_u16(), answer.headers().contains_key("retry-after"))
    };

    for _ in 0..20 {
        let (message, status, _) = send(&client).await;
        assert_eq!(status, 202);
        accepted.insert(message);
    }
    let ballast = disk.fill();
    for _ in 0..20 {
        let (message, status, retry_after) = send(&client).await;
        match status {
            // What fits into the last page that was there before the disk was full.
            202 => _ = accepted.insert(message),
            503 => {
                assert!(retry_after, "a 503 says when to try again");
                refused.insert(message);
            }
            other => panic!("a full disk answered {other}"),
        }
    }
    assert!(!refused.is_empty());
    assert_eq!(client.get("/healthz").await.0, 200);
    let (status, ready) = client.get("/readyz").await;
    assert_eq!(status, 200, "{ready}");
    assert!(ready.contains("degraded"), "readiness says that the disk is full: {ready}");
    let mut delivered: Vec<String> = client.drain().await;
    assert!(!delivered.is_empty(), "consume goes on while the disk is full");
    let replayed = client.get("/v1/topics/full/consume?partition=0&offset=0").await;
    assert_eq!(replayed.0, 200, "replay goes on while the disk is full");

    fs::remove_file(ballast).unwrap();
    client.produce_until_accepted("after").await;
    delivered.extend(client.drain().await);
    let delivered: HashSet<String> = delivered.into_iter().collect();
    assert!(accepted.is_subset(&delivered), "every 202 is delivered");
    assert!(refused.is_disjoint(&delivered), "nothing that was refused ever appears");
    assert!(delivered.contains("after"));
    let (_, ready) = client.get("/readyz").await;
    assert!(!ready.contains("degraded"), "healed: {ready}");
    assert!(broker.terminate().await.success());
}

#[tokio::test]
async fn a_start_on_a_full_disk_serves_reads_and_deletes() {
    let Some(disk) = SmallDisk::mount(24) else { return };
    let mut broker = Broker::start(&disk.data()).await;
    broker.create_topic("full").await;
    for n in 0..10 {
        assert_eq!(Client::new(&broker).produce(&payload(n)).await.status(), 202);
    }
    settle(&Client::new(&broker)).await;
    broker.kill();
    disk.fill();

    let broker = Broker::start(&disk.data()).await;
    let client = Client::new(&broker);
    let (status, body) = client.get("/v1/topics/full/consume?wait=5s").await;
    assert_eq!(status, 200, "{body}");
    let before = free_bytes(disk.dir.path());
    let deleted = client.http.delete(format!("{}/v1/topics/full", client.url)).send().await.unwrap();
    assert_eq!(deleted.status(), 204, "{}", deleted.text().await.unwrap());
    assert!(free_bytes(disk.dir.path()) > before, "a delete frees space");
    assert!(broker.terminate().await.success());
}

/// Waits until everything produced is in its partition.
async fn settle(client: &Client) {
    for _ in 0..100 {
        let (_, body) = client.get("/v1/topics/full").await;
        let topic: Value = serde_json::from_str(&body).unwrap();
        let stats = topic["partition_stats"].as_array().unwrap();
        let visible: u64 =
            stats.iter().map(|partition| partition["high_watermark"].as_u64().unwrap_or(0)).sum();
        if visible >= 10 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not all messages reached their partitions");
}

fn free_bytes(path: &Path) -> u64 {
    let output = Command::new("df").args(["--output=avail", "-B1"]).arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().nth(1).unwrap().trim().parse().unwrap()
}
