//! A broker whose topics keep what somebody has yet to get: consumers who ack, and a child that waits.

use std::time::Duration;

use crate::http_support::Narad;
use narad_core::runtime::Runtime;
use narad_server::{
    broker::{Broker, default_plugins},
    serve::Server,
};
use reqwest::Method;
use serde_json::{Value, json};

async fn start() -> Narad {
    let dir = tempfile::tempdir().unwrap();
    let mut config = crate::http_support::config(dir.path());
    config.storage.retention = json!("consumed");
    let broker = Broker::open_with(Runtime::default(), default_plugins().unwrap(), &config, |options| {
        options.sweep_interval = Duration::from_millis(50);
    });
    let server = Server::start_on(broker.await.unwrap(), config).await.unwrap();
    let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
    Narad { server, client, dir }
}

async fn produce(narad: &Narad, topic: &str, messages: usize) {
    for _ in 0..messages {
        narad.post(&format!("/v1/topics/{topic}/produce?partition=0"), "a message").await.is(202);
    }
}

/// Takes one message of the topic and acks it.
async fn settle_one(narad: &Narad, topic: &str) {
    let message = narad.get(&format!("/v1/topics/{topic}/consume?wait=10s")).await.is(200).json();
    let handle = message["receipt_handle"].as_str().unwrap();
    narad.post(&format!("/v1/topics/{topic}/ack?receipt_handle={handle}"), "").await.is(204);
}

async fn settle(narad: &Narad, topic: &str, messages: usize) {
    for _ in 0..messages {
        settle_one(narad, topic).await;
    }
}

fn partition(body: &Value) -> (u64, u64) {
    let stats = &body["partition_stats"][0];
    (stats["oldest_offset"].as_u64().unwrap(), stats["high_watermark"].as_u64().unwrap())
}

/// Waits until a sweep has been at all topics that began after this was called, by what it does to a topic of its own.
async fn sweep(narad: &Narad) {
    let before = partition(&narad.get("/v1/topics/probe?partition=0").await.is(200).json()).1;
    for round in 1..=2 {
        produce(narad, "probe", 1).await;
        settle_one(narad, "probe").await;
        let swept = |body: &Value| partition(body).0 == before + round;
        narad.until("/v1/topics/probe?partition=0", |answer| swept(&answer.json())).await;
    }
}

async fn oldest(narad: &Narad) -> (u64, u64) {
    partition(&narad.get("/v1/topics/orders?partition=0").await.is(200).json())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_acked_goes_and_what_a_consumer_or_a_child_has_not_got_stays() {
    let narad = start().await;
    narad.ready().await;
    for topic in ["probe", "orders", "later"] {
        narad.create(topic).await;
    }
    produce(&narad, "orders", 3).await;
    settle(&narad, "orders", 2).await;
    sweep(&narad).await;
    assert_eq!(oldest(&narad).await, (0, 3), "the third waits in the same segment");
    settle_one(&narad, "orders").await;
    narad.until("/v1/topics/orders?partition=0", |answer| partition(&answer.json()) == (3, 3)).await;

    // A child that gets everything an hour later.
    let link = json!({ "child": "later", "delay_ms": 3_600_000 }).to_string();
    narad.post("/v1/topics/orders/children", link).await.is(200);
    produce(&narad, "orders", 3).await;
    settle(&narad, "orders", 3).await;
    sweep(&narad).await;
    assert_eq!(oldest(&narad).await, (3, 6), "every consumer has acked them, and the child has none");
    narad.send(Method::DELETE, "/v1/topics/orders/children/later", "").await.is(204);
    narad.until("/v1/topics/orders?partition=0", |answer| partition(&answer.json()) == (6, 6)).await;

    // And one that gets everything at once.
    let link = json!({ "child": "later", "delay_ms": 0 }).to_string();
    narad.post("/v1/topics/orders/children", link).await.is(200);
    produce(&narad, "orders", 2).await;
    settle(&narad, "orders", 2).await;
    narad.until("/v1/topics/orders?partition=0", |answer| partition(&answer.json()) == (8, 8)).await;
    settle(&narad, "later", 2).await;
    narad.stop().await;
}
