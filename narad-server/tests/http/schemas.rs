//! Schemas of topics: versions, what may follow, and what they refuse.

use crate::http_support::{Answer, Narad};
use reqwest::Method;
use serde_json::{Value, json};

fn order() -> Value {
    json!({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})
}

fn order_with_note() -> Value {
    let mut schema = order();
    schema["properties"]["note"] = json!({"type": "string"});
    schema
}

async fn create(narad: &Narad, schema: &Value) {
    let body = json!({"name": "orders", "schema": schema});
    narad.post("/v1/topics", body.to_string()).await.is(201);
}

async fn patch(narad: &Narad, body: Value) -> Answer {
    narad.send(Method::PATCH, "/v1/topics/orders", body.to_string()).await
}

async fn versions(narad: &Narad) -> Value {
    narad.get("/v1/topics/orders/schema").await.is(200).json()
}

async fn produce(narad: &Narad, payload: impl Into<reqwest::Body>) -> Answer {
    narad.post("/v1/topics/orders/produce", payload).await
}

async fn batch(narad: &Narad, messages: Value) -> Answer {
    narad.post("/v1/topics/orders/produce/batch", json!({"messages": messages}).to_string()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_kept_as_they_were_written_and_survive_a_restart() {
    let narad = Narad::start().await;
    let text = r#"{ "type":"object",  "required":["id"], "properties":{"id":{"type":"integer"}} }"#;
    narad.post("/v1/topics", format!(r#"{{"name":"orders","schema":{text}}}"#)).await.is(201);
    let answer = narad.get("/v1/topics/orders/schema").await.is(200);
    assert!(answer.text.contains(text), "{}", answer.text);
    assert_eq!(
        answer.json(),
        json!({"topic": "orders", "version": 1, "versions": [{"version": 1, "schema": order()}]})
    );
    patch(&narad, json!({"schema": order()})).await.is(200);
    assert_eq!(versions(&narad).await["version"], 1, "the same is no new version");
    patch(&narad, json!({"schema": order_with_note(), "schema_base_version": 1, "retention_ms": 0}))
        .await
        .is(200);
    let kept = versions(&narad).await;
    assert_eq!((&kept["version"], &kept["versions"][1]["schema"]), (&json!(2), &order_with_note()));
    assert_eq!(kept["versions"][0]["schema"], order());

    let narad = Narad::start_in(narad.stop().await, |_| ()).await;
    assert_eq!(versions(&narad).await, kept);
    let described = narad.get("/v1/topics/orders").await.is(200).json();
    assert_eq!((&described["schema_version"], &described["schema"]), (&json!(2), &order_with_note()));
    assert_eq!(described["retention_ms"], 0);
    produce(&narad, r#"{"id":"x"}"#).await.error(400);
    produce(&narad, r#"{"id":1}"#).await.is(202);

    // The next topic of the name begins anew.
    narad.send(Method::DELETE, "/v1/topics/orders", "").await.is(204);
    narad.get("/v1/topics/orders/schema").await.error(404);
    narad.create("orders").await;
    assert_eq!(versions(&narad).await, json!({"topic": "orders", "version": 0, "versions": []}));
    produce(&narad, "anything").await.is(202);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_gets_its_first_schema_later_and_null_changes_nothing() {
    let narad = Narad::start().await;
    narad.post("/v1/topics", r#"{"name":"orders","schema":null}"#).await.is(201);
    let described = narad.get("/v1/topics/orders").await.is(200).json();
    assert_eq!((&described["schema_version"], &described["schema"]), (&json!(0), &Value::Null));
    produce(&narad, "not json").await.is(202);
    patch(&narad, json!({"schema": null})).await.error(400);
    patch(&narad, json!({"schema": order(), "schema_base_version": 1})).await.error(409);
    patch(&narad, json!({"schema_base_version": 0})).await.error(400);
    patch(&narad, json!({"schema": order(), "schema_base_version": 0})).await.is(200);
    produce(&narad, "not json").await.error(400);
    patch(&narad, json!({"schema": null, "retention_ms": 0})).await.is(200);
    assert_eq!(versions(&narad).await["version"], 1);
    patch(&narad, json!({"schema": {}})).await.is(200);
    produce(&narad, r#"{"id":"x"}"#).await.is(202);
    produce(&narad, "not json").await.error(400);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_schema_is_refused_and_nothing_is_created() {
    let narad = Narad::start().await;
    for (schema, name) in [
        (json!({"type": "strin"}), "/type"),
        (json!({"$ref": "http://127.0.0.1:1/x.json"}), "http://127.0.0.1:1/x.json"),
        (json!({"properties": {"a": {"$ref": "file:///etc/passwd#/a"}}}), "file:///etc/passwd"),
        (json!({"pattern": "(?=a)"}), "/pattern"),
        (json!("{}"), "object"),
        (json!({"title": "x".repeat(70_000)}), "65536"),
    ] {
        let body = json!({"name": "orders", "schema": schema});
        let error = narad.post("/v1/topics", body.to_string()).await.error(400);
        assert!(error.contains("schema") && error.contains(name), "{error}");
    }
    narad.get("/v1/topics/orders").await.error(404);
    let deep =
        format!(r#"{{"name":"orders","schema":{}true{}}}"#, r#"{"not":"#.repeat(5000), "}".repeat(5000));
    assert!(narad.post("/v1/topics", deep).await.error(400).contains("256"));
    create(&narad, &order()).await;
    assert!(
        patch(&narad, json!({"schema": {"type": 1}, "partitions": 5})).await.error(400).contains("/type")
    );
    assert_eq!(narad.get("/v1/topics/orders").await.json()["partitions"], 3, "all or nothing");
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_takes_less_is_refused_and_the_place_named() {
    let narad = Narad::start().await;
    create(&narad, &order()).await;
    let mut stricter = order_with_note();
    stricter["required"] = json!(["id", "note"]);
    let mut narrower = order();
    narrower["properties"]["id"] = json!({"type": "string"});
    let mut closed = order();
    closed["additionalProperties"] = json!(false);
    for (schema, place) in
        [(stricter, "/required"), (narrower, "/properties/id/type"), (closed, "/additionalProperties")]
    {
        let error = patch(&narad, json!({"schema": schema, "partitions": 5})).await.error(400);
        assert!(error.contains(place), "{error}");
    }
    assert_eq!(versions(&narad).await["version"], 1);
    assert_eq!(narad.get("/v1/topics/orders").await.json()["partitions"], 3, "all or nothing");
    patch(&narad, json!({"schema": order_with_note(), "schema_base_version": 2})).await.error(409);
    patch(&narad, json!({"schema": order_with_note(), "schema_base_version": -1})).await.error(400);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_must_be_what_the_schema_asks_for() {
    let narad = Narad::start().await;
    create(&narad, &order()).await;
    for (payload, name) in [("{}", "id"), (r#"{"id":"1"}"#, "/id"), ("hello", "JSON"), ("[1]", "object")] {
        let error = produce(&narad, payload).await.error(400);
        assert!(error.starts_with("payload: ") && error.contains(name), "{error}");
    }
    produce(&narad, vec![0xff_u8, b'1']).await.error(400);
    produce(&narad, "").await.error(400);
    let payload = "{ \"id\" : 1.0 }\n";
    produce(&narad, payload).await.is(202);
    let message = narad.get("/v1/topics/orders/consume?wait=10s").await.is(200);
    assert!(message.text.contains(payload), "stored as it came: {}", message.text);

    let error =
        batch(&narad, json!([{"payload": {"id": 1}}, {"payload": {"id": 2}}, {"payload": {"id": "x"}}]));
    let error = error.await.error(400);
    assert!(error.starts_with("message 2: ") && error.contains("/id"), "{error}");
    // "eyJpZCI6N30=" is {"id":7}; "aGVsbG8=" is hello.
    let base64 = |text: &str| json!({"payload": text, "payload_encoding": "base64"});
    batch(&narad, json!([base64("eyJpZCI6N30=")])).await.is(202);
    let error = batch(&narad, json!([base64("eyJpZCI6N30="), base64("aGVsbG8=")])).await.error(400);
    assert!(error.starts_with("message 1: "), "{error}");
    let next = narad.get("/v1/topics/orders/consume?wait=10s").await.is(200).json();
    assert_eq!(next["payload"], json!({"id": 7}), "a batch that was refused left nothing");
    narad.get("/v1/topics/orders/consume").await.is(204);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_and_deep_payloads_are_checked_as_well() {
    let narad = Narad::start().await;
    let any = json!({"properties": {"list": {"items": {"type": "integer"}}}});
    create(&narad, &any).await;
    let list = |last: &str| format!(r#"{{"list":[{}{last}]}}"#, "1,".repeat(400_000));
    produce(&narad, list("2")).await.is(202);
    let error = produce(&narad, list("\"x\"")).await.error(400);
    assert!(error.contains("/list/400000"), "{error}");
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    produce(&narad, nested(256)).await.is(202);
    let error = produce(&narad, nested(257)).await.error(400);
    assert!(error.contains("257"), "{error}");
    produce(&narad, "[".repeat(1 << 20)).await.error(400);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_counts_as_soon_as_it_is_answered() {
    let narad = Narad::start().await;
    create(&narad, &json!({"type": "integer", "maximum": 0})).await;
    for maximum in 1..30 {
        produce(&narad, maximum.to_string()).await.error(400);
        patch(&narad, json!({"schema": {"type": "integer", "maximum": maximum}})).await.is(200);
        produce(&narad, maximum.to_string()).await.is(202);
    }
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_changes_with_one_base_one_wins_and_without_a_base_all_follow_each_other() {
    let narad = Narad::start().await;
    create(&narad, &json!({"type": "integer", "maximum": 0})).await;
    let with = |maximum: u32, base: Option<u32>| {
        patch(&narad, json!({"schema": {"type": "integer", "maximum": maximum}, "schema_base_version": base}))
    };
    for round in 1..6 {
        let answers =
            futures_util::future::join_all((0..8).map(|one| with(round * 100 + one, Some(round)))).await;
        let won = answers.iter().filter(|answer| answer.status == 200).count();
        assert_eq!(won, 1, "{answers:?}");
        assert!(answers.iter().all(|answer| matches!(answer.status.as_u16(), 200 | 409)), "{answers:?}");
    }
    let before = versions(&narad).await["version"].as_u64().unwrap();
    assert_eq!(before, 6);
    // A smaller maximum than the current one is incompatible: whatever order they come in, each is one or the other.
    let answers = futures_util::future::join_all((0..8).map(|one| with(1000 + one, None))).await;
    let won = answers.iter().filter(|answer| answer.status == 200).count() as u64;
    assert!(answers.iter().all(|answer| matches!(answer.status.as_u16(), 200 | 400 | 409)), "{answers:?}");
    let after = versions(&narad).await;
    assert_eq!(after["version"].as_u64().unwrap(), before + won);
    let last = after["versions"].as_array().unwrap().last().unwrap();
    assert_eq!(last["schema"]["maximum"], 1007, "the largest is compatible with all others");
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_bounded() {
    let narad = Narad::start().await;
    create(&narad, &json!({"maximum": 0})).await;
    for maximum in 1..100 {
        patch(&narad, json!({"schema": {"maximum": maximum}})).await.is(200);
    }
    let error = patch(&narad, json!({"schema": {"maximum": 100}})).await.error(409);
    assert!(error.contains("100 versions"), "{error}");
    patch(&narad, json!({"schema": {"maximum": 99}})).await.is(200);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_without_a_schema_takes_its_parents_for_what_is_produced_to_it() {
    let narad = Narad::start().await;
    create(&narad, &order()).await;
    narad.post("/v1/topics", r#"{"name":"copy","parent":"orders"}"#).await.is(201);
    let error = narad.post("/v1/topics/copy/produce", "{}").await.error(400);
    assert!(error.contains("id"), "{error}");
    narad.post("/v1/topics/copy/produce", r#"{"id":1}"#).await.is(202);
    // It goes with the parent's.
    narad
        .post("/v1/topics", r#"{"name":"other","schema":{"type":"object"},"parent":"orders"}"#)
        .await
        .is(201);
    patch(&narad, json!({"schema": order_with_note(), "schema_base_version": 1})).await.is(200);
    let error = narad.post("/v1/topics/copy/produce", r#"{"id":1,"note":1}"#).await.error(400);
    assert!(error.contains("version 2"), "{error}");
    let versions = async |topic: &str| narad.get(&format!("/v1/topics/{topic}/schema")).await.is(200).json();
    let (theirs, ours) = (versions("orders").await, versions("copy").await);
    assert_eq!((&ours["version"], &ours["versions"]), (&json!(2), &theirs["versions"]));
    assert_eq!(versions("other").await["version"], 1, "it has one of its own");
    // A later child gets all that the parent has, and keeps it when it is on its own.
    narad.post("/v1/topics", r#"{"name":"late","parent":"orders"}"#).await.is(201);
    narad.send(Method::DELETE, "/v1/topics/orders/children/late", "").await.is(204);
    assert_eq!(versions("late").await["versions"], theirs["versions"]);
    narad.send(Method::PATCH, "/v1/topics/copy", r#"{"schema":{}}"#).await.is(200);
    narad.post("/v1/topics/copy/produce", "{}").await.is(202);
    narad.stop().await;
}
