//! The built binary on a real file system, killed at random moments under load, while it starts, and while it ends:
//! every 202 is delivered with its bytes, no offset is ever served with two contents, whether by consume or by replay,
//! and what was settled in time stays settled.
//!
//! `NARAD_ROUNDS` sets the number of kills under load, `NARAD_SEED` their moments.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::real_broker::{Broker, serve};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

/// What is settled longer than this before a kill stays settled: one write-out interval and one tick.
const SETTLED_AFTER: Duration = Duration::from_millis(1100);
const PRODUCERS: usize = 8;
const CONSUMERS: usize = 3;
const PARTITIONS: u64 = 3;

type Place = (u64, u64);

#[derive(Default)]
struct Seen {
    /// Payloads that were answered with 202.
    accepted: HashSet<String>,
    /// Payloads that some consumer got.
    delivered: HashSet<String>,
    /// The one content of each partition and offset, over all lives.
    contents: HashMap<Place, String>,
    /// In which life and when each was last acknowledged.
    acked: HashMap<Place, (usize, Instant)>,
    /// When each life ended; the last has not.
    kills: Vec<Instant>,
    life: usize,
    delivered_again: usize,
    replayed: usize,
    lives_with_old_acks: usize,
}

impl Seen {
    fn deliver(&mut self, message: &Value) {
        let at = self.hold(message);
        let payload = message["payload"].as_str().unwrap();
        if !self.delivered.insert(payload.to_owned()) {
            self.delivered_again += 1;
        }
        let Some((life, acked)) = self.acked.get(&at) else { return };
        // The kill that ended that life took it back, however much later the message comes again.
        let kill = self.kills.get(*life).unwrap_or_else(|| panic!("{at:?} came back without a crash"));
        // The answer may have been read when the kill had been noted.
        let settled_for = kill.saturating_duration_since(*acked);
        assert!(settled_for < SETTLED_AFTER, "{at:?} came back, settled {settled_for:?} before the kill");
    }

    /// Notes or compares the content of an offset.
    fn hold(&mut self, message: &Value) -> Place {
        let at = (message["partition"].as_u64().unwrap(), message["offset"].as_u64().unwrap());
        let payload = message["payload"].as_str().unwrap();
        let before = self.contents.entry(at).or_insert_with(|| payload.to_owned());
        assert_eq!(before, payload, "{at:?} was served with two contents");
        at
    }

    fn killed(&mut self) {
        let now = Instant::now();
        let old = |(_, acked): &(_, Instant)| now.saturating_duration_since(*acked) >= SETTLED_AFTER;
        let here = self.acked.values().filter(|(life, _)| *life == self.life);
        self.lives_with_old_acks += usize::from(here.into_iter().any(old));
        self.kills.push(now);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_202_outlives_kill_9() {
    let seed =
        std::env::var("NARAD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    eprintln!("NARAD_SEED={seed}");
    let rounds = std::env::var("NARAD_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(36);
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let seen = Arc::new(Mutex::new(Seen::default()));
    for round in 0..rounds {
        if round % 3 == 2 {
            kill_a_start(dir.path(), random.random_range(0..80)).await;
        }
        let mut broker = Broker::start(dir.path()).await;
        if round == 0 {
            broker.create_topic("crash").await;
        }
        let url = broker.url();
        let mut tasks = Vec::new();
        for task in 0..PRODUCERS {
            let random = StdRng::seed_from_u64(random.random());
            tasks.push(tokio::spawn(produce(url.clone(), seen.clone(), format!("{round}.{task}"), random)));
        }
        for consumer in 0..CONSUMERS {
            let batches = consumer % 2 == 1;
            tasks.push(tokio::spawn(consume(url.clone(), seen.clone(), batches, true)));
        }
        tasks.push(tokio::spawn(replay(url, seen.clone(), StdRng::seed_from_u64(random.random()))));
        // Some rounds are long enough for acks that no kill may take back.
        let most = if round % 4 == 3 { 2500 } else { 700 };
        tokio::time::sleep(Duration::from_millis(random.random_range(20..most))).await;
        if round % 5 == 4 {
            _ = Command::new("kill").arg(broker.pid().to_string()).status();
            tokio::time::sleep(Duration::from_millis(random.random_range(0..40))).await;
        }
        seen.lock().killed();
        broker.kill();
        for task in tasks {
            task.await.unwrap();
        }
        seen.lock().life += 1;
    }
    let broker = Broker::start(dir.path()).await;
    consume(broker.url(), seen.clone(), true, false).await;
    check_all_offsets(&broker.url(), &seen).await;
    assert!(broker.terminate().await.success(), "SIGTERM ends it with status 0");
    let seen = seen.lock();
    let lost: Vec<_> =
        seen.accepted.difference(&seen.delivered).take(5).map(|payload| &payload[..20]).collect();
    println!(
        "{rounds} kills: {} accepted, {} delivered, {} again, {} replayed, {} lives with old acks",
        seen.accepted.len(),
        seen.delivered.len(),
        seen.delivered_again,
        seen.replayed,
        seen.lives_with_old_acks,
    );
    assert!(lost.is_empty(), "acknowledged and lost, with NARAD_SEED={seed}: {lost:?}");
    assert!(seen.accepted.len() > rounds * PRODUCERS, "the load was too small to show anything");
    assert!(seen.replayed > rounds && seen.lives_with_old_acks > 0, "too little was looked at");
}

/// A crash inside a start, before anybody was served.
async fn kill_a_start(dir: &Path, after_ms: u64) {
    let mut child = serve(dir).stderr(Stdio::null()).spawn().unwrap();
    tokio::time::sleep(Duration::from_millis(after_ms)).await;
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Produces one message after another until the broker is gone.
async fn produce(url: String, seen: Arc<Mutex<Seen>>, name: String, mut random: StdRng) {
    let client = reqwest::Client::new();
    for n in 0.. {
        // Text that no JSON is, of all sizes, each like no other.
        let filler = if random.random_range(0..20) == 0 { 20_000 } else { random.random_range(0..400) };
        let payload =
            format!("{name}.{n} {}", format!("{:x}", random.random::<u64>()).repeat(1 + filler / 16));
        let request = client.post(format!("{url}/v1/topics/crash/produce?key={name}")).body(payload.clone());
        match request.send().await {
            Ok(answer) if answer.status() == 202 => _ = seen.lock().accepted.insert(payload),
            Ok(answer) => assert!(answer.status().is_server_error(), "produce answered {}", answer.status()),
            Err(_) => return,
        }
    }
}

/// Consumes and acknowledges until the broker is gone, or (with `for_ever` off) nothing is left.
async fn consume(url: String, seen: Arc<Mutex<Seen>>, batches: bool, for_ever: bool) {
    let client = reqwest::Client::new();
    let query = if batches { "wait=1s&max=50" } else { "wait=1s" };
    loop {
        let Ok(answer) = client.get(format!("{url}/v1/topics/crash/consume?{query}")).send().await else {
            return;
        };
        match answer.status().as_u16() {
            200 => {}
            // The shutdown has begun.
            503 if for_ever => return,
            204 if for_ever => {
                tokio::task::yield_now().await;
                continue;
            }
            204 => return,
            status => panic!("consume answered {status}"),
        }
        let Ok(body) = answer.text().await else { return };
        let body: Value = serde_json::from_str(&body).unwrap();
        let messages = if batches { body["messages"].as_array().unwrap().clone() } else { vec![body] };
        for message in &messages {
            seen.lock().deliver(message);
        }
        if !acknowledge(&client, &url, &seen, &messages).await {
            return;
        }
    }
}

/// Returns false when the broker is gone, or going.
async fn acknowledge(client: &reqwest::Client, url: &str, seen: &Mutex<Seen>, messages: &[Value]) -> bool {
    let handles: Vec<&Value> = messages.iter().map(|message| &message["receipt_handle"]).collect();
    let body = json!({"receipt_handles": handles}).to_string();
    let Ok(answer) = client.post(format!("{url}/v1/topics/crash/ack")).body(body).send().await else {
        return false;
    };
    assert_eq!(answer.status(), 200);
    let Ok(text) = answer.text().await else { return false };
    let answer: Value = serde_json::from_str(&text).unwrap();
    let mut seen = seen.lock();
    for (message, result) in messages.iter().zip(answer["results"].as_array().unwrap()) {
        match result["status"].as_u64() {
            Some(204) => {
                let at = (message["partition"].as_u64().unwrap(), message["offset"].as_u64().unwrap());
                let life = seen.life;
                seen.acked.insert(at, (life, Instant::now()));
            }
            Some(503) => return false,
            status => panic!("ack answered {status:?}: {result}"),
        }
    }
    true
}

/// Replays offsets that were served before, and some that were not, until the broker is gone.
async fn replay(url: String, seen: Arc<Mutex<Seen>>, mut random: StdRng) {
    let client = reqwest::Client::new();
    loop {
        let known = seen.lock().contents.len() as u64;
        let (partition, offset) =
            (random.random_range(0..PARTITIONS), random.random_range(0..known / 2 + 10));
        // What is consumed while the question is on its way proves nothing about its answer.
        let held_before = seen.lock().contents.contains_key(&(partition, offset));
        let Some(message) = read(&client, &url, partition, offset).await else { return };
        let mut seen = seen.lock();
        match message {
            Some(message) => {
                seen.hold(&message);
                seen.replayed += 1;
            }
            None => assert!(!held_before, "{partition}/{offset} is gone"),
        }
    }
}

/// What an offset holds, `Some(None)` for one past the end; `None` when the broker is gone, or going.
async fn read(client: &reqwest::Client, url: &str, partition: u64, offset: u64) -> Option<Option<Value>> {
    let query = format!("partition={partition}&offset={offset}");
    let answer = client.get(format!("{url}/v1/topics/crash/consume?{query}")).send().await.ok()?;
    match answer.status().as_u16() {
        200 => Some(Some(serde_json::from_str(&answer.text().await.ok()?).unwrap())),
        204 => Some(None),
        503 => None,
        status => panic!("replay of {partition}/{offset} answered {status}"),
    }
}

/// Every offset up to the end can be read and holds what it always held, and none that was served is past the end.
async fn check_all_offsets(url: &str, seen: &Mutex<Seen>) {
    let client = reqwest::Client::new();
    let mut offsets = 0;
    for partition in 0..PARTITIONS {
        for offset in 0.. {
            let Some(message) = read(&client, url, partition, offset).await.unwrap() else { break };
            seen.lock().hold(&message);
            offsets += 1;
        }
    }
    assert_eq!(seen.lock().contents.len(), offsets, "offsets that were served are gone");
}
