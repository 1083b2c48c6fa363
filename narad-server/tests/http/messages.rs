//! Produce, consume, settle, replay.

use std::time::{Duration, Instant};

use crate::http_support::{Narad, answer};
use reqwest::Method;
use serde_json::{Value, json};

async fn consume(narad: &Narad, query: &str) -> Value {
    narad.get(&format!("/v1/topics/t/consume?wait=10s{query}")).await.is(200).json()
}

fn handle(message: &Value) -> &str {
    message["receipt_handle"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_goes_through_and_is_acked_once() {
    let narad = Narad::start().await;
    narad.create("t").await;
    let produced =
        narad.post("/v1/topics/t/produce?key=k%20%C3%A4&partition=2", "{ \"a\" : 1.0 }\n").await.is(202);
    assert_eq!(produced.text, "");
    let raw = narad.get("/v1/topics/t/consume?wait=10s").await.is(200);
    assert!(raw.text.contains("\"payload\":{ \"a\" : 1.0 }\n"), "{}", raw.text);
    assert_eq!(raw.headers["content-type"], "application/json");
    let message = raw.json();
    assert_eq!(
        (&message["topic"], &message["partition"], &message["offset"]),
        (&json!("t"), &json!(2), &json!(0))
    );
    assert_eq!((&message["key"], &message["payload_type"]), (&json!("k ä"), &json!("json")));
    assert!(message["timestamp"].as_i64().unwrap() > 1_600_000_000);
    assert!(handle(&message).starts_with("2:0:"));

    narad.get("/v1/topics/t/consume").await.is(204);
    let ack = format!("/v1/topics/t/ack?receipt_handle={}", handle(&message));
    assert_eq!(narad.post(&ack, "").await.is(204).text, "");
    narad.post(&ack, "").await.error(410);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_bytes_come_back() {
    let narad = Narad::start().await;
    narad.create("t").await;
    narad.post("/v1/topics/t/produce?partition=0", "hello").await.is(202);
    let text = consume(&narad, "").await;
    assert_eq!(
        (&text["payload"], &text["payload_type"], text.get("key")),
        (&json!("hello"), &json!("text"), None)
    );
    narad.post("/v1/topics/t/produce?partition=0&key=%FF", vec![0xFF, 0x00]).await.is(202);
    let binary = consume(&narad, "").await;
    assert_eq!((&binary["payload"], &binary["payload_encoding"]), (&json!("/wA="), &json!("base64")));
    assert_eq!((&binary["key"], &binary["key_encoding"]), (&json!("/w=="), &json!("base64")));
    assert_eq!(binary["payload_type"], "binary");
    let large = vec![b'x'; 1 << 20];
    narad.post("/v1/topics/t/produce?partition=0", large.clone()).await.is(202);
    assert_eq!(consume(&narad, "").await["payload"].as_str().unwrap().len(), large.len());
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_keeps_its_partition_and_without_one_they_take_turns() {
    let narad = Narad::start().await;
    narad.create("t").await;
    for _ in 0..2 {
        narad.post("/v1/topics/t/produce?key=foobar", "x").await.is(202);
    }
    // FNV-1a of "foobar" is 0xBF9CF968.
    for _ in 0..2 {
        assert_eq!(consume(&narad, "").await["partition"], 0xBF9C_F968_u32 % 3);
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        narad.post("/v1/topics/t/produce", "x").await.is(202);
        seen.push(consume(&narad, "").await["partition"].as_u64().unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2]);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_without_keys_stays_together_and_the_next_one_goes_on() {
    let narad = Narad::start().await;
    narad.create("t").await;
    // One small enough to share a commit with others, and one that is a commit by itself.
    for filling in [10, 40_000] {
        let mut partitions = std::collections::BTreeSet::new();
        for batch in 0..3 {
            let payload = |n: u32| json!(format!("{batch}.{n}{}", " ".repeat(filling)));
            let messages: Vec<_> = (0..3).map(|n| json!({ "payload": payload(n) })).collect();
            let named = json!({ "payload": "named", "partition": 0 });
            narad
                .post("/v1/topics/t/produce/batch", json!({ "messages": [named] }).to_string())
                .await
                .is(202);
            let body = json!({ "messages": messages }).to_string();
            narad.post("/v1/topics/t/produce/batch", body).await.is(202);
            let mut seen = Vec::new();
            while seen.len() < 3 {
                let message = consume(&narad, "").await;
                if message["payload"] != "named" {
                    seen.push((message["partition"].as_u64().unwrap(), message["payload"].clone()));
                }
            }
            assert!(seen.iter().all(|(partition, _)| *partition == seen[0].0), "{filling}: {seen:?}");
            assert_eq!(
                seen.iter().map(|(_, payload)| payload.clone()).collect::<Vec<_>>(),
                (0..3).map(payload).collect::<Vec<_>>()
            );
            partitions.insert(seen[0].0);
        }
        assert_eq!(partitions.len(), 3, "each of the three batches went to another partition");
    }
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_given_back_renewed_and_run_out() {
    let narad = Narad::start().await;
    narad.post("/v1/topics", r#"{"name":"t","visibility_timeout_ms":300}"#).await.is(201);
    narad.post("/v1/topics/t/produce", "x").await.is(202);
    let first = consume(&narad, "").await;
    let settle = |message: &Value, extend: &str| {
        format!("/v1/topics/t/ack?receipt_handle={}&extend={extend}", handle(message))
    };
    narad.post(&settle(&first, "true"), "").await.is(204);
    narad.post(&settle(&first, "1"), "").await.is(204);
    narad.post(&settle(&first, "0"), "").await.is(204);
    let second = narad.get("/v1/topics/t/consume").await.is(200).json();
    assert_eq!((&first["offset"], &second["offset"]), (&json!(0), &json!(0)));
    assert_ne!(handle(&first), handle(&second));
    narad.post(&settle(&first, "true"), "").await.error(410);
    // Parked until the lease runs out, and woken by that.
    let third = consume(&narad, "").await;
    assert_eq!(third["offset"], 0);
    narad.post(&settle(&second, "0"), "").await.error(410);
    narad.post(&settle(&third, "2"), "").await.error(400);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_acks_are_settled_one_by_one() {
    let narad = Narad::start().await;
    narad.create("t").await;
    for _ in 0..2 {
        narad.post("/v1/topics/t/produce?partition=0", "x").await.is(202);
    }
    let one = consume(&narad, "").await;
    let two = consume(&narad, "").await;
    let body = json!({"receipt_handles": [handle(&one), "nonsense", handle(&one), handle(&two)]}).to_string();
    let results = narad.post("/v1/topics/t/ack", body.clone()).await.is(200).json();
    let statuses: Vec<_> =
        results["results"].as_array().unwrap().iter().map(|r| r["status"].as_u64()).collect();
    assert_eq!(statuses, [Some(204), Some(400), Some(410), Some(204)]);
    assert!(results["results"][1]["error"].is_string() && results["results"][0].get("error").is_none());
    narad.post(&format!("/v1/topics/t/ack?receipt_handle={}", handle(&one)), body.clone()).await.error(400);
    narad.post("/v1/topics/t/ack", "").await.error(400);
    narad.post("/v1/topics/t/ack", r#"{"receipt_handles":[]}"#).await.error(400);
    narad
        .post("/v1/topics/t/ack", json!({"receipt_handles": vec!["0:0:0"; 101]}).to_string())
        .await
        .error(400);
    narad.post("/v1/topics/t/ack", r#"{"receipt_handle":"x"}"#).await.error(400);
    narad.post("/v1/topics/nope/ack", body).await.error(404);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_produced_whole_or_not_at_all() {
    let narad = Narad::start().await;
    narad.create("t").await;
    let produce = |body: String| narad.post("/v1/topics/t/produce/batch", body);
    let good = r#"{"messages":[{"payload":"a","partition":1},{"payload":null,"partition":1},{"payload":"/w==","payload_encoding":"base64","partition":1}]}"#;
    assert_eq!(produce(good.to_owned()).await.is(202).json(), json!({"accepted": 3}));
    let bad = r#"{"messages":[{"payload":1,"partition":1},{"payload":1,"partition":9}]}"#;
    assert!(produce(bad.to_owned()).await.error(400).starts_with("message 1: "));
    let large = json!({"messages": [{"payload": 1}, {"payload": "x".repeat(1 << 20)}]}).to_string();
    assert!(produce(large).await.error(413).starts_with("message 1: "));
    produce(r#"{"messages":[]}"#.to_owned()).await.error(400);
    produce(json!({"messages": vec![json!({"payload": 1}); 1001]}).to_string()).await.error(400);
    assert!(produce(r#"{"mesages":[]}"#.to_owned()).await.error(400).contains("mesages"));
    let compressed =
        narad.client.post(narad.url("/v1/topics/t/produce/batch")).header("content-encoding", "zstd");
    answer(compressed.body("x")).await.error(400);

    let mut payloads = Vec::new();
    while payloads.len() < 3 {
        let batch = consume(&narad, "&max=10").await;
        payloads
            .extend(batch["messages"].as_array().unwrap().iter().map(|message| message["payload"].clone()));
    }
    assert_eq!(payloads, [json!("a"), Value::Null, json!("/w==")]);
    narad.get("/v1/topics/t/consume?max=10").await.is(204);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_never_passes_its_bound_and_what_does_not_fit_is_given_back() {
    let narad = Narad::start().await;
    narad.create("t").await;
    // As JSON each of these bytes takes six.
    for _ in 0..3 {
        narad.post("/v1/topics/t/produce?partition=0", vec![1u8; 1 << 19]).await.is(202);
    }
    let mut seen = 0;
    while seen < 3 {
        let answer = narad.get("/v1/topics/t/consume?wait=10s&max=10").await.is(200);
        assert!(answer.text.len() <= 8 << 20, "{}", answer.text.len());
        seen += answer.json()["messages"].as_array().unwrap().len();
    }
    assert_eq!(seen, 3);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_reads_without_leasing() {
    let narad = Narad::start().await;
    narad.create("t").await;
    narad.post("/v1/topics/t/produce?partition=0", "x").await.is(202);
    consume(&narad, "").await;
    for _ in 0..2 {
        let message = narad.get("/v1/topics/t/consume?partition=0&offset=0").await.is(200).json();
        assert_eq!((&message["payload"], message.get("receipt_handle")), (&json!("x"), None));
    }
    narad.get("/v1/topics/t/consume?partition=0&offset=1").await.is(204);
    narad.get("/v1/topics/t/consume?partition=1&offset=0").await.is(204);
    narad.get("/v1/topics/t/consume?partition=0&offset=9223372036854775807").await.is(204);
    for query in [
        "offset=0",
        "partition=0&offset=-1",
        "partition=0&offset=9223372036854775808",
        "partition=3&offset=0",
        "partition=0&offset=0&max=1",
        "partition=0&offset=",
    ] {
        narad.get(&format!("/v1/topics/t/consume?{query}")).await.error(400);
    }
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_are_read_clamped_and_ended_by_a_message() {
    let narad = Narad::start_with(|config| config.http.max_consume_wait.0 = Duration::from_millis(200)).await;
    narad.create("t").await;
    for wait in ["0", "-5s", "1ms", "50ms", "0.05s"] {
        let answer = narad.get(&format!("/v1/topics/t/consume?wait={wait}")).await.is(204);
        assert!(answer.headers.get("x-narad-wait-clamped").is_none(), "{wait}");
    }
    let start = Instant::now();
    let clamped = narad.get("/v1/topics/t/consume?wait=1m30s").await.is(204);
    assert!(start.elapsed() >= Duration::from_millis(200) && start.elapsed() < Duration::from_secs(5));
    assert_eq!(clamped.headers["x-narad-wait-clamped"], "200ms");
    for wait in ["5", "", "x", "1y", "99999999999h", "1s&wait=1s"] {
        narad.get(&format!("/v1/topics/t/consume?wait={wait}")).await.error(400);
    }
    for query in ["max=0", "max=101", "max=x", "partition=3", "partition=x", "partition=4294967296"] {
        narad.get(&format!("/v1/topics/t/consume?{query}")).await.error(400);
    }
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_consumer_is_woken_and_one_that_left_loses_nothing() {
    let narad = Narad::start().await;
    narad.create("t").await;
    let url = narad.url("/v1/topics/t/consume?wait=10s");
    let gone = narad.client.get(&url).timeout(Duration::from_millis(100)).send().await;
    assert!(gone.unwrap_err().is_timeout());
    let parked = tokio::spawn(answer(narad.client.get(&url)));
    narad.post("/v1/topics/t/produce", "x").await.is(202);
    assert_eq!(parked.await.unwrap().is(200).json()["payload"], "x");
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_produces_are_refused() {
    let narad = Narad::start().await;
    narad.create("t").await;
    narad.post("/v1/topics/t/produce", "").await.error(400);
    narad.post("/v1/topics/t/produce?partition=3", "x").await.error(400);
    narad.post("/v1/topics/t/produce?partition=0&partition=0", "x").await.error(400);
    narad.post("/v1/topics/t/produce?key=a&key=b", "x").await.error(400);
    narad.post("/v1/topics/nope/produce", "x").await.error(404);
    let batch = |key: String| {
        let body = serde_json::json!({"messages": [{"payload": 1}, {"payload": 1, "key": key}]});
        narad.post("/v1/topics/t/produce/batch", body.to_string())
    };
    batch("k".repeat(64 << 10)).await.is(202);
    let error = batch("k".repeat((64 << 10) + 1)).await.error(400);
    assert!(error.starts_with("message 1: key"), "{error}");
    narad.post("/v1/topics/t/produce/batch", r#"[[{"payload":1}]]"#).await.error(400);
    narad.post("/v1/topics/t/ack", r#"[["0:0:0"]]"#).await.error(400);
    let typed = narad.client.request(Method::POST, narad.url("/v1/topics/t/produce?unknown=1&unknown=2"));
    answer(typed.header("content-type", "application/x-www-form-urlencoded").body("a=b")).await.is(202);
    narad.stop().await;
}
