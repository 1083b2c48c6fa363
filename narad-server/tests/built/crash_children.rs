//! The built binary, killed under load while messages are copied to children: every 202 after an attach is with the
//! child in the end.
//!
//! `NARAD_ROUNDS` sets the number of kills, `NARAD_SEED` their moments.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::real_broker::{Broker, Client};
use narad_core::testkit::{SeedGuard, seed};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

const PRODUCERS: u64 = 6;
/// At once, and with a delay.
const CHILDREN: [(&str, u64); 2] = [("now", 0), ("later", 30)];

fn rounds() -> u64 {
    std::env::var("NARAD_ROUNDS").map_or(8, |text| text.parse().expect("NARAD_ROUNDS"))
}

/// Produces until the broker is gone; what it acknowledged is on the list.
async fn produce(
    client: Client,
    next: Arc<AtomicU64>,
    accepted: Arc<Mutex<HashSet<String>>>,
    over: Arc<AtomicBool>,
) {
    while !over.load(Ordering::SeqCst) {
        let payload = format!("m{}", next.fetch_add(1, Ordering::SeqCst));
        match client.try_produce("", &payload).await {
            Some(202) => drop(accepted.lock().insert(payload)),
            _ => return,
        }
    }
}

async fn post(broker: &Broker, path: &str, body: Value) -> u16 {
    let request = reqwest::Client::new().post(format!("{}{path}", broker.url())).body(body.to_string());
    request.send().await.unwrap().status().as_u16()
}

async fn copied(client: &Client) {
    for _ in 0..600 {
        let answer = client.get("/v1/topics/parent/children").await;
        let list: Value = serde_json::from_str(&answer.body).unwrap();
        let children = list["children"].as_array().unwrap();
        assert_eq!(children.len(), CHILDREN.len());
        if children.iter().all(|child| child["lag_messages"] == 0 && child["lag_complete"] == true) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("messages are not copied after 30 s: {}", client.get("/metrics").await.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_202_after_an_attach_reaches_the_child_over_kill_9() {
    let seed = SeedGuard::new(seed());
    let mut random = StdRng::seed_from_u64(seed.get());
    let dir = tempfile::tempdir().unwrap();
    let (accepted, next) = (Arc::<Mutex<HashSet<String>>>::default(), Arc::<AtomicU64>::default());
    let mut broker = Broker::start(dir.path()).await;
    broker.create_topic("parent").await;
    broker.create_topic("now").await;
    assert_eq!(post(&broker, "/v1/topics/parent/children", json!({"child": "now"})).await, 200);
    let later = json!({"name": "later", "parent": "parent", "fanout_delay_ms": 30});
    assert_eq!(post(&broker, "/v1/topics", later).await, 201);
    for _ in 0..rounds() {
        let (client, over) = (broker.client("parent"), Arc::<AtomicBool>::default());
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|_| {
                let (next, accepted) = (Arc::clone(&next), Arc::clone(&accepted));
                tokio::spawn(produce(client.clone(), next, accepted, Arc::clone(&over)))
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(random.random_range(5..300))).await;
        broker.kill();
        over.store(true, Ordering::SeqCst);
        for producer in producers {
            producer.await.unwrap();
        }
        broker = Broker::start(dir.path()).await;
    }
    let client = broker.client("parent");
    client.settled().await;
    copied(&client).await;
    let accepted = accepted.lock().clone();
    assert!(accepted.len() > 20, "a run without messages proves nothing");
    for (child, _) in CHILDREN {
        let client = broker.client(child);
        let mut found = HashSet::new();
        for partition in 0..3 {
            for (offset, payload) in client.replay(partition, 0).await {
                found
                    .insert(payload.unwrap_or_else(|| panic!("{child} {partition}/{offset} cannot be read")));
            }
        }
        let missing: Vec<_> = accepted.difference(&found).collect();
        assert!(missing.is_empty(), "{child} lacks {} of {}: {missing:?}", missing.len(), accepted.len());
    }
    assert!(broker.terminate().await.success());
}
