//! A broker whose metadata fail: what clients are answered, what `/readyz` says, and that no message goes with them.

use std::{net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};

use axum::{Extension, Router};
use narad_core::{
    clock::{Clock, SystemClock},
    runtime::{Runtime, RuntimeOptions},
    testkit::{CallKind, Failure, Fault, SimDisk},
};
use narad_server::{
    broker::{Broker, BrokerError, ChildOf, NewTopic, TopicEdit, default_plugins},
    config::{Config, Overrides, load},
    http::{Access, App, Peer},
};
use reqwest::{Client, Method};
use serde_json::Value;

const FILE: &str = "/data/meta/meta.redb";

fn config() -> Config {
    let data_dir = Some(PathBuf::from("/data"));
    load(&Overrides { dev: true, data_dir, ..Overrides::default() }, []).unwrap().0
}

async fn open(disk: &SimDisk) -> Result<Broker, BrokerError> {
    open_by(disk, Arc::new(SystemClock::new())).await
}

async fn open_by(disk: &SimDisk, clock: Arc<dyn Clock>) -> Result<Broker, BrokerError> {
    let mut options = RuntimeOptions::default();
    (options.disk, options.clock) = (Arc::new(disk.process()), clock);
    Broker::open(Runtime::new(options), default_plugins().unwrap(), &config()).await
}

/// The API over a broker on a simulated disk.
struct Api {
    client: Client,
    url: String,
    broker: Broker,
}

impl Api {
    async fn start(disk: &SimDisk) -> Self {
        let broker = open(disk).await.unwrap();
        let routes = App::new(broker.clone(), config().http, Access::Loopback).routes();
        let routes = Router::from(routes).layer(Extension(Peer(Ipv4Addr::LOCALHOST.into())));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let api =
            Self { client: Client::builder().timeout(Duration::from_secs(30)).build().unwrap(), url, broker };
        while api.send(Method::GET, "/readyz", "").await.0 != 200 {
            tokio::task::yield_now().await;
        }
        api
    }

    /// The status, whether a time to retry is given, and the body.
    async fn send(&self, method: Method, path: &str, body: &'static str) -> (u16, bool, Value) {
        let answer =
            self.client.request(method, format!("{}{path}", self.url)).body(body).send().await.unwrap();
        let (status, retry) = (answer.status().as_u16(), answer.headers().contains_key("retry-after"));
        (status, retry, serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or_default())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_that_cannot_be_opened_again_are_503_and_said_by_readyz_until_they_can() {
    let disk = SimDisk::new(1);
    let api = Api::start(&disk).await;
    let (status, ..) = api.send(Method::POST, "/v1/topics", r#"{"name":"t"}"#).await;
    assert_eq!(status, 201);

    let failing = [CallKind::SyncData, CallKind::Lock]
        .map(|kind| disk.inject(Fault::fail(kind, Failure::Io).named("meta.redb").onwards()));
    let (status, _, body) = api.send(Method::POST, "/v1/topics", r#"{"name":"u"}"#).await;
    assert_eq!(status, 500, "whether it was made is not known: {body}");
    for (method, path) in [(Method::GET, "/v1/topics"), (Method::DELETE, "/v1/topics/u")] {
        let (status, retry, body) = api.send(method, path, "").await;
        assert!(status == 503 && retry, "{path}: {status}");
        assert!(body["error"].as_str().unwrap().contains(FILE), "{body}");
    }
    let (status, _, body) = api.send(Method::GET, "/readyz", "").await;
    assert_eq!(status, 200);
    assert!(body["degraded"][0].as_str().unwrap().contains("meta.redb"), "{body}");
    let (status, ..) = api.send(Method::POST, "/v1/topics/t/produce?partition=0", "x").await;
    assert_eq!(status, 202, "a topic that is known takes messages all the same");

    failing.into_iter().for_each(|fault| disk.remove_fault(fault));
    let (_, _, body) = api.send(Method::GET, "/readyz", "").await;
    assert_eq!(body, serde_json::json!({"status": "ready"}));
    let (status, ..) = api.send(Method::POST, "/v1/topics", r#"{"name":"v"}"#).await;
    assert_eq!(status, 201);
    let (status, ..) = api.send(Method::GET, "/v1/topics/t/consume?wait=10s", "").await;
    assert_eq!(status, 200);
    api.broker.close(Duration::from_secs(10)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_a_sound_registry_is_refused_and_removes_nothing() {
    let disk = SimDisk::new(1);
    let api = Api::start(&disk).await;
    api.send(Method::POST, "/v1/topics", r#"{"name":"t"}"#).await;
    let (status, ..) = api.send(Method::POST, "/v1/topics/t/produce?partition=0", "x").await;
    assert_eq!(status, 202);
    api.broker.close(Duration::from_secs(10)).await.unwrap();
    let good = disk.contents(FILE).unwrap();

    let half = good[..good.len() / 8 * 4].to_vec();
    for damaged in [Vec::new(), vec![0; good.len()], half, good[..good.len() - 4096].to_vec()] {
        let fork = disk.fork();
        fork.alter(FILE, |bytes| bytes.clone_from(&damaged));
        let before = fork.paths();
        let error = open(&fork).await.map(drop).unwrap_err().to_string();
        assert!(error.contains(FILE), "{} bytes: {error}", damaged.len());
        assert_eq!(fork.paths(), before, "{} bytes", damaged.len());
        fork.alter(FILE, |bytes| bytes.clone_from(&good));
        let api = Api::start(&fork).await;
        let (status, ..) = api.send(Method::GET, "/v1/topics/t/consume?wait=10s", "").await;
        assert_eq!(status, 200, "the message is still there once the file is restored");
    }
}

/// A clock by which the threads of the store take their time.
#[derive(Debug, Default)]
struct SlowThreads(SystemClock);

impl Clock for SlowThreads {
    fn unix_ms(&self) -> i64 {
        self.0.unix_ms()
    }

    fn monotonic(&self) -> Duration {
        if std::thread::current().name() == Some("narad-reaper") {
            std::thread::sleep(Duration::from_millis(50));
        }
        self.0.monotonic()
    }
}

/// Whoever tries again at once does not find the lock still held by a thread of the attempt that failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_fails_has_given_the_directory_back_when_it_says_so() {
    let disk = SimDisk::new(1);
    let open = || open_by(&disk, Arc::new(SlowThreads::default()));
    // The metadata, and when these are open the log of the produces.
    for (kind, failing) in [(CallKind::Lock, "meta.redb"), (CallKind::List, "produce")] {
        let fault = disk.inject(Fault::fail(kind, Failure::Io).named(failing).onwards());
        for attempt in 1..=2 {
            let error = open().await.map(drop).expect_err(failing);
            assert!(error.to_string().contains(failing), "{failing}, attempt {attempt}: {error}");
        }
        disk.remove_fault(fault);
        open().await.unwrap().close(Duration::from_secs(10)).await.unwrap();
    }
}

/// Nothing of a broker that is closed before its partitions are open goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_closed_while_it_starts_is_gone() {
    let disk = SimDisk::new(1);
    let broker = open(&disk).await.unwrap();
    for name in ["t", "u"] {
        broker.create_topic(NewTopic { name: name.to_owned(), ..NewTopic::default() }).await.unwrap();
    }
    broker.close(Duration::from_secs(10)).await.unwrap();
    for _ in 0..20 {
        // Whatever of the broker is left holds its clock.
        let clock = Arc::new(SystemClock::new());
        let held = Arc::downgrade(&clock);
        let broker = open_by(&disk, clock).await.unwrap();
        broker.close(Duration::from_secs(10)).await.unwrap();
        drop(broker);
        // What still runs when it is dropped ends by itself.
        let gone = async {
            while held.strong_count() > 0 {
                tokio::task::yield_now().await
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone).await.expect("it is gone");
    }
}

/// Who may change a topic is found out before it is changed, and the name may pass to another topic in between.
#[tokio::test]
async fn what_was_allowed_for_a_topic_is_not_done_to_the_next_one_of_its_name() {
    let disk = SimDisk::new(1);
    let broker = open(&disk).await.unwrap();
    let new = |name: &str| NewTopic { name: name.to_owned(), ..NewTopic::default() };
    let (before, other) =
        (broker.create_topic(new("t")).await.unwrap(), broker.create_topic(new("u")).await.unwrap());
    broker.delete_topic(&before).await.unwrap();
    let now = broker.create_topic(new("t")).await.unwrap();

    let mut edit = TopicEdit::default();
    edit.settings.retention_ms = Some(0);
    let child = NewTopic { parent: Some(ChildOf { parent: before.clone(), delay_ms: 0 }), ..new("v") };
    let refused = [
        broker.delete_topic(&before).await.err(),
        broker.update_topic(&before, edit).await.err(),
        broker.attach(&before, &other, 0).await.err(),
        broker.attach(&other, &before, 0).await.err(),
        broker.create_topic(child).await.err(),
    ];
    for (nth, error) in refused.into_iter().enumerate() {
        assert!(matches!(error, Some(BrokerError::NoTopic(name)) if name == "t"), "{nth}");
    }
    assert_eq!(broker.topic("t").await.unwrap(), now);
    broker.close(Duration::ZERO).await.unwrap();
}
