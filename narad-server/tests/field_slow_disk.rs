//! Field fault: fsyncs that hang exhaust what all share, and the whole API hangs with them. Health answers within a
//! tenth of a second, other topics are served, and nothing is acknowledged that is not synced.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

use std::{
    net::Ipv4Addr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{Extension, Router};
use narad_core::{
    runtime::{Runtime, RuntimeOptions},
    testkit::{CallKind, Fault, Gate, SimDisk, seed},
};
use narad_server::{
    broker::{Broker, default_plugins},
    config::{Overrides, load},
    http::{Access, App, Peer},
};
use reqwest::{Client, Method, Response};
use tokio::net::TcpListener;

/// Longer than anything a test waits for takes.
const BOUND: Duration = Duration::from_secs(30);

/// A payload that is no JSON, which would come back as such.
fn text(n: u32) -> String {
    format!("message {n}")
}

/// The API over a broker whose logs lie on a simulated disk.
struct Api {
    disk: SimDisk,
    client: Client,
    url: String,
    broker: Broker,
    _dir: tempfile::TempDir,
}

impl Api {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // For metadata that are kept on a real file system.
        std::fs::create_dir(dir.path().join("meta")).unwrap();
        let overrides = Overrides {
            dev: true,
            addr: Some("127.0.0.1:0".to_owned()),
            data_dir: Some(dir.path().to_owned()),
            ..Overrides::default()
        };
        let (mut config, _) = load(&overrides, []).unwrap();
        config.storage.direct_produce = false;
        let disk = SimDisk::new(seed());
        let mut options = RuntimeOptions::default();
        options.disk = Arc::new(disk.clone());
        let broker = Broker::open(Runtime::new(options), default_plugins().unwrap(), &config).await.unwrap();
        let routes = App::new(broker.clone(), config.http, Access::Loopback).routes();
        let routes = Router::from(routes).layer(Extension(Peer(Ipv4Addr::LOCALHOST.into())));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let api = Self { disk, client: Client::new(), url, broker, _dir: dir };
        while api.send(Method::GET, "/readyz", "").await.status() != 200 {
            tokio::task::yield_now().await;
        }
        api
    }

    async fn send(&self, method: Method, path: &str, body: impl Into<reqwest::Body>) -> Response {
        let asked = self.client.request(method, format!("{}{path}", self.url)).body(body).send();
        tokio::time::timeout(BOUND, asked).await.unwrap_or_else(|_| panic!("{path} hangs")).unwrap()
    }

    async fn expect(
        &self,
        status: u16,
        method: Method,
        path: &str,
        body: impl Into<reqwest::Body>,
    ) -> String {
        let answer = self.send(method, path, body).await;
        let found = answer.status();
        let text = answer.text().await.unwrap();
        assert_eq!(found, status, "{path}: {text}");
        text
    }

    async fn create(&self, topic: &str) {
        self.expect(201, Method::POST, "/v1/topics", format!("{{\"name\":\"{topic}\"}}")).await;
    }

    async fn produce(&self, topic: &str, partition: u32, payload: impl Into<String>) {
        let path = format!("/v1/topics/{topic}/produce?partition={partition}");
        self.expect(202, Method::POST, &path, payload.into()).await;
    }

    /// Leases and acks the next message, which is there or comes.
    async fn take(&self, topic: &str) -> String {
        let text = self.expect(200, Method::GET, &format!("/v1/topics/{topic}/consume?wait=10s"), "").await;
        let message: serde_json::Value = serde_json::from_str(&text).unwrap();
        let handle = message["receipt_handle"].as_str().unwrap();
        self.expect(204, Method::POST, &format!("/v1/topics/{topic}/ack?receipt_handle={handle}"), "").await;
        message["payload"].as_str().unwrap().to_owned()
    }

    /// Health within a tenth of a second, whichever of a few tries the machine has time for.
    async fn assert_healthy(&self) {
        let mut quickest = Duration::MAX;
        for _ in 0..5 {
            let asked = Instant::now();
            self.expect(200, Method::GET, "/healthz", "").await;
            quickest = quickest.min(asked.elapsed());
        }
        assert!(quickest < Duration::from_millis(100), "health took {quickest:?}");
    }

    /// Waits at the gate for the sync that is to hang there, and says on which file.
    async fn hangs_at(&self, gate: &Gate) -> String {
        let (gate, disk) = (gate.clone(), self.disk.clone());
        tokio::task::spawn_blocking(move || gate.wait_for(1)).await.unwrap();
        let syncs =
            disk.calls().into_iter().filter(|call| call.kind == CallKind::SyncData && call.is_on("*.log"));
        syncs.last().unwrap().path.display().to_string()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_whose_fsync_hangs_holds_up_neither_health_nor_other_topics() {
    let api = Api::start().await;
    for topic in ["slow", "other"] {
        api.create(topic).await;
    }
    let gate = Gate::new();
    // The first sync is the produce log's, the second the partition's.
    api.disk.take_calls();
    api.disk.inject(Fault::hold(CallKind::SyncData, &gate).named("*.log").at(2));
    api.produce("slow", 0, "hangs").await;
    let hanging = api.hangs_at(&gate).await;
    assert!(hanging.contains("topics/slow/p00000"), "{hanging}");
    for n in 0..50 {
        api.produce("slow", 0, text(n)).await;
    }
    for n in 0..5 {
        api.assert_healthy().await;
        api.produce("other", n % 3, text(n)).await;
        assert_eq!(api.take("other").await, text(n));
        // The other partitions of the slow topic are no slower.
        api.produce("slow", 1 + n % 2, format!("beside {n}")).await;
        assert_eq!(api.take("slow").await, format!("beside {n}"));
    }
    api.expect(200, Method::GET, "/metrics", "").await;
    api.expect(200, Method::GET, "/readyz", "").await;
    api.expect(200, Method::GET, "/v1/topics/slow", "").await;
    api.expect(204, Method::GET, "/v1/topics/slow/consume?partition=0&wait=0s", "").await;
    api.create("new").await;
    gate.open();
    assert_eq!(api.take("slow").await, "hangs");
    for n in 0..50 {
        assert_eq!(api.take("slow").await, text(n), "what waited comes in order");
    }
    api.broker.close(BOUND).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_produce_log_whose_fsync_hangs_acknowledges_nothing_and_holds_up_neither_health_nor_consumes() {
    let api = Arc::new(Api::start().await);
    api.create("t").await;
    for n in 0..5 {
        api.produce("t", 0, text(n)).await;
    }
    // All of them have reached their partition: only the produce log has something to sync.
    let described = async {
        while !api.expect(200, Method::GET, "/v1/topics/t", "").await.contains("\"high_watermark\":5") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(BOUND, described).await.unwrap();
    assert_eq!(api.take("t").await, text(0));
    let gate = Gate::new();
    api.disk.take_calls();
    api.disk.inject(Fault::hold(CallKind::SyncData, &gate).named("*.log"));
    let produces: Vec<_> = (0..100)
        .map(|n| {
            let api = Arc::clone(&api);
            tokio::spawn(async move { api.produce("t", n % 3, format!("late {n}")).await })
        })
        .collect();
    let hanging = api.hangs_at(&gate).await;
    assert!(hanging.contains("ingress"), "{hanging}");
    for n in 1..5 {
        api.assert_healthy().await;
        assert_eq!(api.take("t").await, text(n));
    }
    assert!(produces.iter().all(|produce| !produce.is_finished()), "acknowledged before the sync");
    api.expect(200, Method::GET, "/v1/topics/t/consume?partition=0&offset=3", "").await;
    api.expect(200, Method::GET, "/readyz", "").await;
    gate.open();
    for produce in produces {
        produce.await.unwrap();
    }
    let mut late = Vec::new();
    for _ in 0..100 {
        late.push(api.take("t").await);
    }
    late.sort();
    late.dedup();
    assert_eq!(late.len(), 100);
    api.broker.close(BOUND).await.unwrap();
}
