//! Children over HTTP: routes and statuses, three children at once, restarts, deletes under load.

use std::collections::BTreeSet;

use crate::http_support::{Answer, Narad};
use reqwest::Method;
use serde_json::{Value, json};

const HOUR: u64 = 3_600_000;
const YEAR: u64 = 365 * 24 * HOUR;

impl Narad {
    async fn attach(&self, parent: &str, child: &str, delay_ms: u64) -> Answer {
        let body = json!({"child": child, "delay_ms": delay_ms}).to_string();
        self.post(&format!("/v1/topics/{parent}/children"), body).await
    }

    async fn detach(&self, parent: &str, child: &str) -> Answer {
        self.send(Method::DELETE, &format!("/v1/topics/{parent}/children/{child}"), "").await
    }

    async fn children(&self, parent: &str) -> Vec<Value> {
        let list = self.get(&format!("/v1/topics/{parent}/children")).await.is(200).json();
        list["children"].as_array().unwrap().clone()
    }

    async fn create_with(&self, body: Value) -> Answer {
        self.post("/v1/topics", body.to_string()).await
    }

    async fn produce(&self, topic: &str, payload: &str) -> Answer {
        self.post(&format!("/v1/topics/{topic}/produce"), payload.to_owned()).await
    }

    /// Everything that the topic holds.
    async fn payloads(&self, topic: &str) -> Vec<String> {
        let mut payloads = Vec::new();
        for partition in 0..3 {
            for offset in 0.. {
                let path = format!("/v1/topics/{topic}/consume?partition={partition}&offset={offset}");
                let answer = self.get(&path).await;
                if answer.status == 204 {
                    break;
                }
                payloads.push(answer.is(200).json()["payload"].as_str().unwrap().to_owned());
            }
        }
        payloads
    }

    /// Waits until nothing is behind.
    async fn copied(&self, parent: &str) {
        let nothing = |series: &str, text: &str| {
            let mut lines = text.lines().filter(|line| line.starts_with(series)).peekable();
            lines.peek().is_some() && lines.all(|line| line.ends_with(" 0"))
        };
        self.until("/metrics", |answer| nothing("narad_ingress_dispatch_backlog_records", &answer.text))
            .await;
        let path = format!("/v1/topics/{parent}/children");
        self.until(&path, |answer| {
            let children = answer.json()["children"].as_array().unwrap().clone();
            children.iter().all(|child| child["lag_messages"] == 0 && child["lag_complete"] == true)
        })
        .await;
    }
}

fn set(payloads: Vec<String>) -> BTreeSet<String> {
    payloads.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_tell_of_their_links() {
    let narad = Narad::start().await;
    for name in ["p", "a", "b"] {
        let topic = narad.create(name).await;
        assert_eq!(topic["role"], "standalone");
        assert_eq!(topic.get("children").or(topic.get("parent")), None);
    }
    narad.attach("p", "b", 0).await.is(200);
    let parent = narad.attach("p", "a", 1500).await.is(200).json();
    assert_eq!((&parent["role"], &parent["children"]), (&json!("parent"), &json!(["a", "b"])));
    let child = narad.get("/v1/topics/a").await.is(200).json();
    assert_eq!((&child["role"], &child["parent"]), (&json!("child"), &json!("p")));
    assert_eq!((&child["fanout_delay_ms"], &child["attach_offsets"]), (&json!(1500), &json!([0, 0, 0])));
    assert_eq!(child["attach_epoch"].as_str().unwrap().len(), 16);
    let list = narad.get("/v1/topics/p/children").await.is(200).json();
    assert_eq!((&list["parent"], &list["parent_id"]), (&json!("p"), &parent["id"]));
    let expected = json!([
        {"name": "a", "delay_ms": 1500, "lag_messages": 0, "lag_complete": true},
        {"name": "b", "delay_ms": 0, "lag_messages": 0, "lag_complete": true},
    ]);
    assert_eq!(list["children"], expected);
    assert_eq!(narad.detach("p", "a").await.is(204).text, "");
    narad.detach("p", "a").await.error(404);
    narad.detach("nobody", "a").await.error(404);
    narad.detach("p", "nobody").await.error(404);
    for name in ["a%2fb", "..%2f", "%00"] {
        narad.detach("p", name).await.error(400);
    }
    narad.get("/v1/topics/nobody/children").await.error(404);
    assert_eq!(narad.get("/v1/topics/a").await.json()["role"], "standalone");
    let again = narad.attach("p", "a", 0).await.is(200);
    let epoch = narad.get("/v1/topics/a").await.json()["attach_epoch"].clone();
    assert!(epoch.as_str() > child["attach_epoch"].as_str(), "{again:?}");
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_linked_is_refused() {
    let narad = Narad::start().await;
    for name in ["p", "c", "q"] {
        narad.create(name).await;
    }
    narad.create_with(json!({"name": "short", "retention_ms": HOUR})).await.is(201);
    for (body, status, word) in [
        ("", 400, "body"),
        ("[]", 400, ""),
        ("{}", 400, "child"),
        (r#"{"child":"c","delay":1}"#, 400, "delay"),
        (r#"{"child":"c","delay_ms":-1}"#, 400, "-1"),
        (r#"{"child":"c","delay_ms":31536000001}"#, 400, "delay_ms"),
        (r#"{"child":"nobody"}"#, 404, "nobody"),
        (r#"{"child":"p"}"#, 400, "p"),
        (r#"{"child":"a/b"}"#, 400, "a/b"),
    ] {
        let error = narad.post("/v1/topics/p/children", body).await.error(status);
        assert!(error.contains(word) || word == "body", "{body}: {error}");
    }
    narad.attach("nobody", "c", 0).await.error(404);
    narad.attach("p", "c", YEAR).await.error(409);
    narad.send(Method::PATCH, "/v1/topics/p", r#"{"retention_ms":0}"#).await.is(200);
    narad.attach("p", "c", YEAR).await.is(200);
    narad.attach("p", "c", 0).await.error(409);
    narad.attach("q", "c", 0).await.error(409);
    narad.attach("c", "q", 0).await.error(409);
    narad.attach("q", "p", 0).await.error(409);
    narad.attach("short", "q", 1).await.error(409);
    let kept = format!("{{\"retention_ms\":{}}}", YEAR + HOUR);
    narad.send(Method::PATCH, "/v1/topics/p", kept).await.is(200);
    let shorter = format!("{{\"retention_ms\":{}}}", YEAR + HOUR - 1);
    narad.send(Method::PATCH, "/v1/topics/p", shorter).await.error(409);
    // A child with a delay takes no produce; one without does.
    narad.produce("c", "x").await.error(409);
    let batch = r#"{"messages":[{"payload":1}]}"#;
    narad.post("/v1/topics/c/produce/batch", batch).await.error(409);
    narad.detach("p", "c").await.is(204);
    narad.produce("c", "x").await.is(202);
    narad.attach("p", "c", 0).await.is(200);
    narad.produce("c", "x").await.is(202);
    // Created as a child: both, or nothing.
    let create =
        |parent: &str, delay: u64| json!({"name": "born", "parent": parent, "fanout_delay_ms": delay});
    narad.create_with(create("nobody", 0)).await.error(404);
    narad.create_with(create("c", 0)).await.error(409);
    narad.create_with(create("short", 1)).await.error(409);
    narad.create_with(create("p", YEAR + 1)).await.error(400);
    narad.create_with(json!({"name": "born", "fanout_delay_ms": 1})).await.error(400);
    narad.get("/v1/topics/born").await.error(404);
    let born = narad.create_with(create("p", 1)).await.is(201).json();
    assert_eq!(
        (&born["role"], &born["parent"], &born["fanout_delay_ms"]),
        (&json!("child"), &json!("p"), &json!(1))
    );
    narad.create_with(json!({"name": "alone", "parent": "", "fanout_delay_ms": 0})).await.is(201);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_children_get_what_is_produced_after_the_attach_over_a_restart_too() {
    let mut narad = Narad::start().await;
    narad.create("p").await;
    for n in 0..20 {
        narad.produce("p", &format!("before-{n}")).await.is(202);
    }
    narad.copied("p").await;
    let names = ["now", "also-now", "later"];
    for name in &names[..2] {
        narad.create(name).await;
        narad.attach("p", name, 0).await.is(200);
    }
    let later = json!({"name": "later", "parent": "p", "fanout_delay_ms": 1});
    narad.create_with(later).await.is(201);
    let mut expected = BTreeSet::new();
    for life in 0..3 {
        for n in 0..40 {
            let payload = format!("{life}-{n}");
            narad.produce("p", &payload).await.is(202);
            expected.insert(payload);
        }
        if life == 1 {
            let dir = narad.stop().await;
            narad = Narad::start_in(dir, |_| ()).await;
            narad.ready().await;
        }
    }
    narad.copied("p").await;
    for name in names {
        assert_eq!(set(narad.payloads(name).await), expected, "{name}");
    }
    let metrics = narad.get("/metrics").await.text;
    for line in [
        "# TYPE narad_fanout_committed_total counter",
        "narad_fanout_lag_messages{parent=\"p\",child=\"later\",partition=\"0\"} 0",
        "narad_fanout_due_lag_seconds{parent=\"p\",child=\"now\",partition=\"2\"} 0",
        "narad_fanout_child_dropped_messages{parent=\"p\",child=\"now\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    // A consumer that waits on a child is woken by the copy.
    let url = narad.url("/v1/topics/now/consume?wait=10s&partition=0&max=100");
    let mut handles = 0;
    while handles < expected.len() {
        let url = url.replace("&partition=0", "");
        let answer = crate::http_support::answer(narad.client.get(&url)).await.is(200);
        for message in answer.json()["messages"].as_array().unwrap() {
            let handle = message["receipt_handle"].as_str().unwrap();
            narad.post(&format!("/v1/topics/now/ack?receipt_handle={handle}"), "").await.is(204);
            handles += 1;
        }
    }
    let parked = tokio::spawn(crate::http_support::answer(narad.client.get(&url)));
    narad.post("/v1/topics/p/produce?partition=0", "woken").await.is(202);
    let message = parked.await.unwrap().is(200).json();
    assert_eq!(message["messages"][0]["payload"], "woken");
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_parent_frees_its_children_and_a_deleted_child_leaves() {
    let narad = Narad::start().await;
    for name in ["p", "a", "b"] {
        narad.create(name).await;
    }
    narad.attach("p", "a", 0).await.is(200);
    narad.attach("p", "b", 24 * HOUR).await.is(200);
    narad.produce("p", "one").await.is(202);
    narad.until("/v1/topics/p/children", |answer| answer.json()["children"][0]["lag_messages"] == 0).await;
    narad.copied_to("a", 1).await;
    assert_eq!(narad.children("p").await[1]["lag_messages"], 1);
    narad.send(Method::DELETE, "/v1/topics/a", "").await.is(204);
    assert_eq!(narad.children("p").await.len(), 1);
    assert!(!narad.get("/metrics").await.text.contains("child=\"a\""));
    narad.send(Method::DELETE, "/v1/topics/p", "").await.is(204);
    let freed = narad.get("/v1/topics/b").await.is(200).json();
    assert_eq!((&freed["role"], freed.get("parent")), (&json!("standalone"), None));
    narad.produce("b", "its own").await.is(202);
    // Names that come again have nothing to do with those that went.
    narad.create("p").await;
    narad.create("a").await;
    assert_eq!(narad.children("p").await, [Value::Null; 0]);
    narad.produce("p", "two").await.is(202);
    narad.attach("p", "a", 0).await.is(200);
    narad.produce("p", "three").await.is(202);
    narad.copied("p").await;
    assert!(set(narad.payloads("a").await).contains("three"));
    assert!(!set(narad.payloads("a").await).contains("one"));
    assert!(!narad.get("/metrics").await.text.contains("component=\"fanout\""), "nothing failed");
    narad.stop().await;
}

impl Narad {
    /// Waits until the topic holds so many messages.
    async fn copied_to(&self, topic: &str, messages: u64) {
        self.until(&format!("/v1/topics/{topic}"), |answer| {
            let stats = answer.json()["partition_stats"].as_array().unwrap().clone();
            stats.iter().map(|one| one["high_watermark"].as_u64().unwrap()).sum::<u64>() == messages
        })
        .await;
    }
}
