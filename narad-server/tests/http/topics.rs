//! `/v1/topics`: fields, statuses, paging, strictness.

use crate::http_support::Narad;
use reqwest::Method;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_created_with_the_defaults_and_described() {
    let narad = Narad::start().await;
    let topic = narad.create("orders").await;
    assert_eq!(topic["name"], "orders");
    assert_eq!(topic["id"].as_str().unwrap().len(), 16);
    assert_eq!(topic["partitions"], 3);
    assert_eq!(topic["retention_ms"], 604_800_000);
    assert_eq!(topic["visibility_timeout_ms"], 30_000);
    assert_eq!(topic["max_in_flight_per_partition"], 1024);
    assert_eq!(topic["max_acked_ahead_per_partition"], 1024);
    assert_eq!(topic["role"], "standalone");
    assert!(topic["created_at"].as_i64().unwrap() > 1_600_000_000);
    assert!(topic.get("owner").is_none());

    narad.post("/v1/topics/orders/produce?partition=1", "x").await.is(202);
    narad.get("/v1/topics/orders/consume?wait=10s&partition=1").await.is(200);
    let described = narad.get("/v1/topics/orders").await.is(200).json();
    assert_eq!(described["id"], topic["id"]);
    assert_eq!(described["schema_version"], 0);
    assert!(described.get("schema").is_none(), "there is none");
    let stats = described["partition_stats"].as_array().unwrap();
    assert_eq!(stats.len(), 3);
    assert_eq!(
        (
            &stats[1]["index"],
            &stats[1]["oldest_offset"],
            &stats[1]["next_offset"],
            &stats[1]["high_watermark"]
        ),
        (&json!(1), &json!(0), &json!(1), &json!(1))
    );
    assert_eq!(stats[1]["segments"], 1);
    assert_eq!(stats[1]["status"], "ok");
    assert!(stats[1]["size_bytes"].as_u64().unwrap() > 0);
    assert!(stats[1]["owner_node"].is_string());
    let one = narad.get("/v1/topics/orders?partition=1").await.is(200).json();
    assert_eq!(one["partition_stats"].as_array().unwrap().len(), 1);
    narad.get("/v1/topics/orders?partition=3").await.error(400);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zeros_mean_defaults_and_bounds_are_kept() {
    let narad = Narad::start().await;
    let zeros = json!({"name": "zeros", "partitions": 0, "visibility_timeout_ms": 0, "retention_ms": 0,
        "max_in_flight_per_partition": 0, "max_acked_ahead_per_partition": 0, "schema": null, "parent": ""});
    let topic = narad.post("/v1/topics", zeros.to_string()).await.is(201).json();
    assert_eq!((&topic["partitions"], &topic["visibility_timeout_ms"]), (&json!(3), &json!(30_000)));
    assert_eq!(topic["retention_ms"], 0, "0 keeps for ever");
    let owned = json!({"name": "owned", "owner": "somebody"});
    assert!(narad.post("/v1/topics", owned.to_string()).await.is(201).json().get("owner").is_none());
    for (body, name) in [
        (json!({"name": "a", "partitions": 2}), "partitions"),
        (json!({"name": "a", "partitions": 109}), "partitions"),
        (json!({"name": "a", "retention_ms": 3_599_999}), "retention_ms"),
        (
            json!({"name": "a", "retention_ms": -1}),
            "integer `-1`, expected a whole number from 0 to 315360000000",
        ),
        (
            json!({"name": "a", "partitions": "3"}),
            "partitions: invalid type: string \"3\", expected a whole number from 0 to 108",
        ),
        (
            json!({"name": "a", "max_in_flight_per_partition": 1.5}),
            "expected a whole number from 0 to 1000000",
        ),
        (json!({"name": "a", "retention_ms": u64::MAX}), "retention_ms"),
        (json!({"name": "a", "visibility_timeout_ms": u64::MAX}), "visibility_timeout_ms"),
        (json!({"name": "a", "partitons": 3}), "partitons"),
        (json!({"name": ".."}), ".."),
        (json!({"name": "a/b"}), "a/b"),
        (json!({"name": ""}), "name"),
        (json!({"partitions": 3}), "name"),
        (json!([]), "object"),
        (json!(["a", null, null, null, null, null, null, null, null]), "object"),
    ] {
        let error = narad.post("/v1/topics", body.to_string()).await.error(400);
        assert!(error.contains(name), "{body}: {error}");
    }
    narad.post("/v1/topics", "").await.error(400);
    narad.post("/v1/topics", "{\"name\":\"a\",\"name\":\"b\"}").await.error(400);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_differ_in_case_alone_collide() {
    let narad = Narad::start().await;
    narad.create("Orders").await;
    let error = narad.post("/v1/topics", r#"{"name":"orders"}"#).await.error(409);
    assert!(error.contains("differs only in letter case") && error.contains("Orders"), "{error}");
    let error = narad.post("/v1/topics", r#"{"name":"Orders"}"#).await.error(409);
    assert_eq!(error, "topic Orders exists already");
    narad.get("/v1/topics/orders").await.error(404);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_follow_in_name_order() {
    let narad = Narad::start().await;
    for name in ["c", "a", "b"] {
        narad.create(name).await;
    }
    let names = |page: &serde_json::Value| {
        page["topics"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let first = narad.get("/v1/topics?limit=2&unknown=1").await.is(200).json();
    assert_eq!(names(&first), ["a", "b"]);
    let token = first["next_page_token"].as_str().unwrap();
    narad.send(Method::DELETE, "/v1/topics/b", "").await.is(204);
    let second = narad.get(&format!("/v1/topics?limit=2&page_token={token}")).await.is(200).json();
    assert_eq!((names(&second), &second["next_page_token"]), (vec!["c".to_owned()], &json!("")));
    for query in ["limit=x", "limit=-1", "limit=0", "limit=1&limit=1", "page_token=%ff"] {
        narad.get(&format!("/v1/topics?{query}")).await.error(400);
    }
    assert_eq!(names(&narad.get("/v1/topics?limit=5000").await.is(200).json()).len(), 2);
    // Scripts page by the names that they have.
    assert_eq!(names(&narad.get("/v1/topics?page_token=a").await.is(200).json()), ["c"]);
    assert!(names(&narad.get("/v1/topics?page_token=zzzz").await.is(200).json()).is_empty());
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_changes_what_it_names() {
    let narad = Narad::start().await;
    narad.create("t").await;
    let patch = |body: serde_json::Value| narad.send(Method::PATCH, "/v1/topics/t", body.to_string());
    let topic = patch(json!({"retention_ms": 7_200_000, "partitions": 5})).await.is(200).json();
    assert_eq!((&topic["retention_ms"], &topic["partitions"]), (&json!(7_200_000), &json!(5)));
    narad.post("/v1/topics/t/produce?partition=4", "x").await.is(202);
    let message = narad.get("/v1/topics/t/consume?wait=10s").await.is(200).json();
    assert_eq!(message["partition"], 4);
    for (body, name) in [
        (json!({}), "nothing"),
        (json!({"partitions": 3}), "partitions"),
        (json!({"partitions": 5}), "grow"),
        (json!({"visibility_timeout_ms": 1}), "visibility_timeout_ms"),
        (json!({"retention_ms": 1}), "retention_ms"),
        (json!({"nmae": 1}), "nmae"),
    ] {
        let error = patch(body.clone()).await.error(400);
        assert!(error.contains(name), "{body}: {error}");
    }
    narad.send(Method::PATCH, "/v1/topics/nope", r#"{"partitions":4}"#).await.error(404);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_topic_is_gone_and_its_successor_starts_empty() {
    let narad = Narad::start().await;
    let first = narad.create("t").await;
    narad.post("/v1/topics/t/produce?partition=0", "old").await.is(202);
    let message = narad.get("/v1/topics/t/consume?wait=10s").await.is(200).json();
    let handle = message["receipt_handle"].as_str().unwrap();
    narad.send(Method::DELETE, "/v1/topics/t", "").await.is(204);
    narad.send(Method::DELETE, "/v1/topics/t", "").await.error(404);
    narad.post("/v1/topics/t/produce", "x").await.error(404);
    narad.get("/v1/topics/t/consume").await.error(404);
    let second = narad.create("t").await;
    assert_ne!(first["id"], second["id"]);
    narad.post(&format!("/v1/topics/t/ack?receipt_handle={handle}"), "").await.error(410);
    narad.get("/v1/topics/t/consume").await.is(204);
    narad.post("/v1/topics/t/produce?partition=0", "new").await.is(202);
    let message = narad.get("/v1/topics/t/consume?wait=10s").await.is(200).json();
    assert_eq!((&message["payload"], &message["offset"]), (&json!("new"), &json!(0)));
    narad.stop().await;
}
