//! Codecs and retention policies of a topic's own, over HTTP: given, shown, changed, refused, and missing.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::http_support::{Narad, config};
use narad_core::{
    format::CodecNumber,
    origin,
    plugin::{
        Codec, FrameContext, LogIdentity, PluginError, Registry, RetentionDecision, RetentionPolicy,
        RetentionView, WakeNotifier, WakeReason,
    },
};
use narad_server::{broker::default_plugins, serve::Builder};
use reqwest::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

const NUMBER: CodecNumber = CodecNumber::new(5001).unwrap();
static ASKED: AtomicUsize = AtomicUsize::new(0);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FlipConfig {
    #[serde(default = "all")]
    mask: u8,
}

fn all() -> u8 {
    0xFF
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoKeys {}

/// Changes each byte by a mask that its frames begin with.
#[derive(Debug)]
struct Flip(u8);

impl Codec for Flip {
    fn number(&self) -> CodecNumber {
        NUMBER
    }
    fn name(&self) -> &str {
        "flip"
    }
    fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        out.push(self.0);
        out.extend(raw.iter().map(|byte| byte ^ self.0));
        Ok(())
    }
    fn decode(&self, _: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let (mask, body) = stored.split_first().ok_or("empty")?;
        out.extend(body.iter().map(|byte| byte ^ mask));
        Ok(())
    }
}

/// Keeps everything, and counts how often it was asked before a write.
#[derive(Debug)]
struct Counting;

impl RetentionPolicy for Counting {
    fn name(&self) -> &str {
        "counting"
    }
    fn roll_age(&self) -> Option<Duration> {
        ASKED.fetch_add(1, Ordering::Relaxed);
        None
    }
    fn decide(&self, _: &RetentionView<'_>) -> RetentionDecision {
        RetentionDecision::KEEP
    }
}

#[derive(Debug, Default)]
struct Heard(Mutex<Vec<String>>);

impl WakeNotifier for Heard {
    fn name(&self) -> &str {
        "heard"
    }
    fn wake(&self, log: &LogIdentity, reason: WakeReason) {
        if reason == WakeReason::Committed {
            self.0.lock().unwrap().push(log.name.to_string());
        }
    }
}

fn plugged() -> Registry {
    let mut registry = default_plugins().unwrap();
    registry
        .codec(origin!(), "flip", NUMBER, |config: FlipConfig, _| Ok(Arc::new(Flip(config.mask))))
        .unwrap();
    registry.retention(origin!(), "counting", |_: NoKeys, _| Ok(Arc::new(Counting))).unwrap();
    registry
}

async fn start(dir: tempfile::TempDir, registry: Registry) -> Narad {
    let server = Builder::with_plugins(registry).start(config(dir.path())).await.unwrap();
    let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
    let narad = Narad { server, client, dir };
    narad.ready().await;
    narad
}

async fn fresh() -> Narad {
    start(tempfile::tempdir().unwrap(), plugged()).await
}

async fn create(narad: &Narad, body: Value) -> crate::http_support::Answer {
    narad.post("/v1/topics", body.to_string()).await
}

async fn change(narad: &Narad, topic: &str, body: Value) -> crate::http_support::Answer {
    narad.send(Method::PATCH, &format!("/v1/topics/{topic}"), body.to_string()).await
}

async fn produce(narad: &Narad, topic: &str, payload: &'static str) {
    narad.post(&format!("/v1/topics/{topic}/produce?partition=0"), payload).await.is(202);
}

/// The payloads of partition 0, read without leases, once there are `count`.
async fn stored(narad: &Narad, topic: &str, count: u64) -> Vec<String> {
    let mut payloads = Vec::new();
    for offset in 0..count {
        let path = format!("/v1/topics/{topic}/consume?partition=0&offset={offset}");
        let found = narad.until(&path, |answer| answer.status == 200).await;
        payloads.push(found.json()["payload"].as_str().unwrap().to_owned());
    }
    payloads
}

/// Every file below `dir` with its bytes.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.display().to_string(), std::fs::read(&path).unwrap());
        }
    }
    found
}

fn holds(dir: &Path, text: &str) -> bool {
    files(dir).values().any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_created_with_plugins_of_its_own_and_keeps_them_over_a_restart() {
    let narad = fresh().await;
    let spec = json!({ "name": "flip", "mask": 85 });
    let made =
        create(&narad, json!({ "name": "t", "codec": spec, "retention": "counting" })).await.is(201).json();
    assert_eq!(
        (&made["codec"], &made["retention"], &made["retention_ms"]),
        (&spec, &json!("counting"), &json!(0))
    );
    let zstd = create(&narad, json!({ "name": "z", "codec": "zstd" })).await.is(201).json();
    assert_eq!((&zstd["codec"], zstd.get("retention")), (&json!("zstd"), None));
    assert_eq!(narad.create("plain").await.get("codec"), None);
    for topic in ["t", "z", "plain"] {
        produce(&narad, topic, "a message for the disk").await;
        assert_eq!(stored(&narad, topic, 1).await, ["a message for the disk"]);
    }
    let dir = narad.stop().await;
    let topics = dir.path().join("topics");
    assert!(holds(&topics.join("plain"), "a message for the disk") && !holds(&topics.join("t"), "message"));

    let narad = start(dir, plugged()).await;
    assert_eq!(narad.get("/v1/topics/t").await.is(200).json()["codec"], spec);
    let asked = ASKED.load(Ordering::Relaxed);
    produce(&narad, "t", "another").await;
    assert_eq!(stored(&narad, "t", 2).await, ["a message for the disk", "another"]);
    assert!(ASKED.load(Ordering::Relaxed) > asked, "the topic's policy is asked");
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_by_name() {
    let narad = fresh().await;
    narad.create("t").await;
    let refusals = [
        (json!({ "codec": "gzip" }), "codec: unknown codec \"gzip\"; known are"),
        (json!({ "codec": "gzip" }), "flip, "),
        (json!({ "codec": { "name": "zstd", "level": 99 } }), "between 1 and 22"),
        (json!({ "codec": { "name": "zstd", "levle": 3 } }), "`levle`"),
        (json!({ "codec": { "level": 3 } }), "an object with a \"name\""),
        (json!({ "codec": 3 }), "expected a name"),
        (json!({ "codec": { "name": "flip", "mask": "x".repeat(20_000) } }), "at most 16384"),
        (
            json!({ "retention": "size-of-nothing" }),
            "unknown retention policy \"size-of-nothing\"; known are age, ",
        ),
        (json!({ "retention": "age" }), "retention_ms"),
        (json!({ "retention": { "name": "age", "retention_ms": 5 } }), "at least 3600000"),
        (json!({ "retention": { "name": "age", "retention_ms": 5 } }), "retention_ms: "),
        (json!({ "retention": "counting", "retention_ms": 3_600_000 }), "only one of the two"),
    ];
    for (body, says) in refusals {
        let says = says.replace("at least 3600000", "3600000");
        let error = change(&narad, "t", body.clone()).await.error(400);
        assert!(error.contains(&says), "{body}: {error}");
        let mut body = body;
        body["name"] = json!("new");
        let error = create(&narad, body.clone()).await.error(400);
        assert!(error.contains(&says), "{body}: {error}");
    }
    narad.get("/v1/topics/new").await.error(404);
    assert_eq!(narad.get("/v1/topics/t").await.json().get("codec"), None);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rt_06_a_new_codec_is_for_later_frames_and_the_old_ones_stay_readable() {
    let narad = fresh().await;
    narad.create("t").await;
    produce(&narad, "t", "written plainly").await;
    stored(&narad, "t", 1).await;
    let changed = change(&narad, "t", json!({ "codec": { "name": "flip", "mask": 7 } })).await.is(200).json();
    assert_eq!(changed["codec"], json!({ "name": "flip", "mask": 7 }));
    produce(&narad, "t", "written flipped").await;
    stored(&narad, "t", 2).await;
    change(&narad, "t", json!({ "codec": "zstd" })).await.is(200);
    produce(&narad, "t", "written packed").await;
    let all = ["written plainly", "written flipped", "written packed"];
    assert_eq!(stored(&narad, "t", 3).await, all);
    let dir = narad.stop().await;
    let files = dir.path().join("topics/t");
    assert!(holds(&files, "written plainly") && !holds(&files, "written flipped"));
    let narad = start(dir, plugged()).await;
    assert_eq!(stored(&narad, "t", 3).await, all);
    // Frames of `flip` may still be there, and would be passed over as unreadable.
    let narad = start(narad.stop().await, default_plugins().unwrap()).await;
    assert!(narad.get("/readyz").await.text.contains("codec \\\"flip\\\""));
    narad.get("/v1/topics/t/consume").await.error(503);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn milliseconds_and_a_policy_take_each_others_place_and_reach_open_logs() {
    let narad = fresh().await;
    narad.create("t").await;
    produce(&narad, "t", "first").await;
    stored(&narad, "t", 1).await;
    let retention = |answer: &Value| (answer["retention"].clone(), answer["retention_ms"].clone());
    let changed = change(&narad, "t", json!({ "retention": "counting" })).await.is(200).json();
    assert_eq!(retention(&changed), (json!("counting"), json!(0)));
    let asked = ASKED.load(Ordering::Relaxed);
    produce(&narad, "t", "second").await;
    stored(&narad, "t", 2).await;
    assert!(ASKED.load(Ordering::Relaxed) > asked, "the open log goes by it");
    let changed = change(&narad, "t", json!({ "retention_ms": 7_200_000 })).await.is(200).json();
    assert_eq!(retention(&changed), (Value::Null, json!(7_200_000)));
    let age = json!({ "name": "age", "retention_ms": 3_600_000 });
    let changed = change(&narad, "t", json!({ "retention": age })).await.is(200).json();
    assert_eq!(retention(&changed), (Value::Null, json!(3_600_000)));
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_without_the_plugin_serves_the_others_says_what_it_needs_and_touches_nothing() {
    let narad = fresh().await;
    create(&narad, json!({ "name": "coded", "codec": "flip" })).await.is(201);
    create(&narad, json!({ "name": "kept", "retention": "counting" })).await.is(201);
    narad.create("plain").await;
    for topic in ["coded", "kept", "plain"] {
        produce(&narad, topic, "hello").await;
        stored(&narad, topic, 1).await;
    }
    let dir = narad.stop().await;
    let topics = dir.path().join("topics");
    let before = [files(&topics.join("coded")), files(&topics.join("kept"))];

    let narad = start(dir, default_plugins().unwrap()).await;
    let degraded = narad.get("/readyz").await.is(200).json().to_string();
    let coded =
        "topic coded is not served: it needs the codec \\\"flip\\\", which this broker was built without";
    assert!(degraded.contains(coded), "{degraded}");
    assert!(degraded.contains("topic kept is not served: it needs the retention policy"), "{degraded}");
    for topic in ["coded", "kept"] {
        for path in ["consume", "consume?wait=10s", "consume?partition=0&offset=0", "consume?max=5"] {
            let refused = narad.get(&format!("/v1/topics/{topic}/{path}")).await;
            assert!(refused.headers.contains_key("retry-after"));
            assert!(refused.error(503).contains("is not served"), "{path}");
        }
        narad.post(&format!("/v1/topics/{topic}/produce"), "lost?").await.error(503);
        let batch = json!({ "messages": [{ "payload": 1 }] }).to_string();
        narad.post(&format!("/v1/topics/{topic}/produce/batch"), batch).await.error(503);
        narad.post(&format!("/v1/topics/{topic}/ack?receipt_handle=0:0:1"), "").await;
        let shown = narad.get(&format!("/v1/topics/{topic}")).await.is(200).json();
        assert_eq!(shown["partition_stats"][0]["status"], "unavailable");
    }
    assert_eq!(stored(&narad, "plain", 1).await, ["hello"]);
    produce(&narad, "plain", "goes on").await;
    assert_eq!(narad.get("/v1/topics").await.is(200).json()["topics"].as_array().unwrap().len(), 3);
    // What it can be given is given: with another policy the topic is served at once.
    change(&narad, "kept", json!({ "retention_ms": 0 })).await.is(200);
    assert_eq!(stored(&narad, "kept", 1).await, ["hello"]);
    let dir = narad.stop().await;
    assert_eq!(files(&dir.path().join("topics/coded")), before[0]);
    assert!(!before[1].is_empty());

    let narad = start(dir, plugged()).await;
    assert_eq!(narad.get("/readyz").await.json(), json!({ "status": "ready" }));
    assert_eq!(narad.get("/v1/topics/coded/consume?wait=10s").await.is(200).json()["payload"], "hello");
    let narad = start(narad.stop().await, default_plugins().unwrap()).await;
    narad.send(Method::DELETE, "/v1/topics/coded", "").await.is(204);
    assert!(!narad.dir.path().join("topics/coded").exists(), "a delete needs no plugin");
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configured_wake_notifier_hears_of_every_topic_and_no_consumer_waits_for_it() {
    let heard = Arc::new(Heard::default());
    let mut registry = default_plugins().unwrap();
    let handed = Arc::clone(&heard);
    registry.wake(origin!(), "heard", move |_: NoKeys, _| Ok(Arc::<Heard>::clone(&handed))).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.storage.wake = json!("heard");
    let server = Builder::with_plugins(registry).start(config).await.unwrap();
    let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
    let narad = Narad { server, client, dir };
    narad.create("t").await;
    produce(&narad, "t", "hello").await;
    narad.get("/v1/topics/t/consume?wait=10s").await.is(200);
    while !heard.0.lock().unwrap().iter().any(|topic| topic == "t") {
        tokio::task::yield_now().await;
    }
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_are_nested_without_end_are_refused_and_the_broker_lives() {
    let narad = fresh().await;
    for (open, close) in [
        ("[", "]"),
        ("{\"a\":", "}"),
        ("{\"name\":\"any\",\"of\":[", "]}"),
        ("{\"name\":\"flip\",\"mask\":", "}"),
    ] {
        for key in ["codec", "retention"] {
            let (head, tail) = (open.repeat(30_000), close.repeat(30_000));
            let body = format!("{{\"name\":\"t\",\"{key}\":{head}1{tail}}}");
            narad.post("/v1/topics", body).await.error(400);
        }
    }
    narad.create("t").await;
    narad.stop().await;
}
