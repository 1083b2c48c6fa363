//! The built binary on a real file system, killed at random moments under load: every 202 is delivered with its
//! bytes, no offset is served with two contents, and what was settled in time stays settled.
//!
//! `NARAD_ROUNDS` sets the number of kills, `NARAD_SEED` their moments.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod real_broker;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use real_broker::Broker;
use serde_json::Value;

/// What is settled longer than this before a kill stays settled: one write-out interval and one tick.
const SETTLED_AFTER: Duration = Duration::from_millis(1100);
const PRODUCERS: usize = 8;
const CONSUMERS: usize = 2;

#[derive(Default)]
struct Seen {
    /// Payloads that were answered with 202.
    accepted: HashSet<String>,
    /// Payloads that some consumer got.
    delivered: HashSet<String>,
    /// The one content of each partition and offset.
    contents: HashMap<(u64, u64), String>,
    /// When each was acknowledged.
    acked: HashMap<(u64, u64), Instant>,
    killed: Option<Instant>,
    delivered_again: usize,
}

impl Seen {
    fn deliver(&mut self, message: &Value) {
        let at = (message["partition"].as_u64().unwrap(), message["offset"].as_u64().unwrap());
        let payload = message["payload"].to_string();
        if let Some(before) = self.contents.insert(at, payload.clone()) {
            self.delivered_again += 1;
            assert_eq!(before, payload, "{at:?} was served with two contents");
            if let (Some(acked), Some(killed)) = (self.acked.get(&at), self.killed) {
                let settled_for = killed.saturating_duration_since(*acked);
                assert!(
                    settled_for < SETTLED_AFTER,
                    "{at:?} came back, acknowledged {settled_for:?} before the kill"
                );
            }
        }
        self.delivered.insert(payload);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_202_outlives_kill_9() {
    let seed =
        std::env::var("NARAD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    eprintln!("NARAD_SEED={seed}");
    let rounds = std::env::var("NARAD_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(30);
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let seen = Arc::new(Mutex::new(Seen::default()));
    for round in 0..rounds {
        let mut broker = Broker::start(dir.path()).await;
        if round == 0 {
            broker.create_topic("crash").await;
        }
        let tasks: Vec<_> = (0..PRODUCERS)
            .map(|task| tokio::spawn(produce(broker.url(), seen.clone(), round, task)))
            .chain((0..CONSUMERS).map(|_| tokio::spawn(consume(broker.url(), seen.clone(), true))))
            .collect();
        tokio::time::sleep(Duration::from_millis(random.random_range(20..700))).await;
        seen.lock().killed = Some(Instant::now());
        broker.kill();
        for task in tasks {
            task.await.unwrap();
        }
    }
    let broker = Broker::start(dir.path()).await;
    consume(broker.url(), seen.clone(), false).await;
    assert!(broker.terminate().await.success(), "SIGTERM ends it with status 0");
    let seen = seen.lock();
    let lost: Vec<_> = seen.accepted.difference(&seen.delivered).take(5).collect();
    println!(
        "{rounds} kills: {} accepted, {} delivered, {} of them again",
        seen.accepted.len(),
        seen.delivered.len(),
        seen.delivered_again
    );
    assert!(lost.is_empty(), "acknowledged and lost, with NARAD_SEED={seed}: {lost:?}");
    assert!(seen.accepted.len() > rounds * PRODUCERS, "the load was too small to show anything");
}

/// Produces one message after another until the broker is gone.
async fn produce(url: String, seen: Arc<Mutex<Seen>>, round: usize, task: usize) {
    let client = reqwest::Client::new();
    for n in 0.. {
        let payload = format!("\"round {round} task {task} message {n}\"");
        let request = client.post(format!("{url}/v1/topics/crash/produce?key={task}")).body(payload.clone());
        match request.send().await {
            Ok(answer) if answer.status() == 202 => _ = seen.lock().accepted.insert(payload),
            Ok(answer) => assert!(answer.status().is_server_error(), "{}", answer.status()),
            Err(_) => return,
        }
    }
}

/// Consumes and acknowledges until the broker is gone, or (with `for_ever` off) nothing is left.
async fn consume(url: String, seen: Arc<Mutex<Seen>>, for_ever: bool) {
    let client = reqwest::Client::new();
    loop {
        let Ok(answer) = client.get(format!("{url}/v1/topics/crash/consume?wait=1s")).send().await else {
            return;
        };
        match answer.status().as_u16() {
            200 => {}
            204 if for_ever => continue,
            204 => return,
            status => panic!("consume answered {status}"),
        }
        let Ok(body) = answer.text().await else { return };
        let message: Value = serde_json::from_str(&body).unwrap();
        seen.lock().deliver(&message);
        let at = (message["partition"].as_u64().unwrap(), message["offset"].as_u64().unwrap());
        let handle = message["receipt_handle"].as_str().unwrap();
        let ack = client.post(format!("{url}/v1/topics/crash/ack")).query(&[("receipt_handle", handle)]);
        match ack.send().await {
            Ok(answer) if answer.status() == 204 => _ = seen.lock().acked.insert(at, Instant::now()),
            Ok(answer) => panic!("ack answered {}", answer.status()),
            Err(_) => return,
        }
    }
}
