//! `narad topic`: what is asked for is what is sent, and what comes back is shown.

use crate::stub::{Answer, Stub};
use serde_json::{Value, json};

fn topic(name: &str) -> Value {
    json!({"name": name, "id": "00000000000000aa", "partitions": 3, "retention_ms": 604_800_000,
           "visibility_timeout_ms": 30_000, "max_in_flight_per_partition": 1024,
           "max_acked_ahead_per_partition": 1024, "created_at": 1_700_000_000, "role": "standalone",
           "partition_stats": [{"index": 0, "segments": 1, "oldest_offset": 0, "next_offset": 7,
                                "high_watermark": 7, "size_bytes": 2048, "oldest_segment_at": null,
                                "owner_node": "here", "status": "ok"}]})
}

async fn broker() -> Stub {
    Stub::start(|asked| {
        let (method, path) = asked.request.split_once(' ').unwrap();
        match method {
            "DELETE" => Answer::status(204),
            "POST" => Answer::body(201, &topic("orders").to_string()),
            _ if path.contains("page_token=next") => {
                Answer::body(200, &json!({"topics": [topic("z")], "next_page_token": ""}).to_string())
            }
            _ if path.contains("page_token=") => Answer::body(
                200,
                &json!({"topics": [topic("orders")], "next_page_token": "next"}).to_string(),
            ),
            _ => Answer::body(200, &topic("orders").to_string()),
        }
    })
    .await
}

fn body(stub: &Stub) -> Value {
    serde_json::from_slice(&stub.asked().pop().unwrap().body).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn add_sends_what_was_given_and_nothing_else() {
    let stub = broker().await;
    let ran = stub.narad(&["topic", "add", "orders"], b"").await;
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(body(&stub), json!({"name": "orders"}));
    assert_eq!(ran.text(), "created orders: 3 partitions, retention 7d, visibility timeout 30s\n");
    let args = [
        "topic",
        "add",
        "orders",
        "--partitions",
        "6",
        "--retention",
        "forever",
        "--visibility-timeout",
        "1m",
    ];
    stub.narad(&args, b"").await;
    let sent = json!({"name": "orders", "partitions": 6, "retention_ms": 0, "visibility_timeout_ms": 60_000});
    assert_eq!(body(&stub), sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn edit_patches_and_rm_deletes() {
    let stub = broker().await;
    let ran =
        stub.narad(&["topic", "edit", "orders", "--retention", "2h", "--max-in-flight", "5"], b"").await;
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(body(&stub), json!({"retention_ms": 7_200_000, "max_in_flight_per_partition": 5}));
    let ran = stub.narad(&["topic", "rm", "orders"], b"").await;
    assert_eq!((ran.status, ran.text().as_str()), (0, "deleted orders\n"));
    let requests: Vec<String> = stub.asked().into_iter().map(|asked| asked.request).collect();
    assert_eq!(requests, ["PATCH /v1/topics/orders", "DELETE /v1/topics/orders"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_is_sent_as_it_is_written_and_shown_as_it_was_given() {
    let (stub, dir) = (broker().await, tempfile::tempdir().unwrap());
    let (written, file) = (r#"{ "maximum": 1e2 }"#, dir.path().join("schema.json"));
    std::fs::write(&file, format!("{written}\n")).unwrap();
    for verb in ["add", "edit"] {
        let ran = stub.narad(&["topic", verb, "orders", "--schema", file.to_str().unwrap()], b"").await;
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let sent = String::from_utf8(stub.asked().pop().unwrap().body.to_vec()).unwrap();
        assert!(sent.contains(&format!("\"schema\":{written}")), "{sent}");
    }
    std::fs::write(&file, "{").unwrap();
    let ran = stub.narad(&["topic", "edit", "orders", "--schema", file.to_str().unwrap()], b"").await;
    assert!(ran.status == 2 && ran.stderr.contains("schema.json: not JSON"), "{}", ran.stderr);

    let versions = format!(
        r#"{{"topic":"orders","version":2,"versions":[{{"version":1,"schema":true}},{{"version":2,"schema":{written}}}]}}"#
    );
    let stub = Stub::start(move |_| Answer::body(200, &versions)).await;
    let ran = stub.narad(&["topic", "schema", "orders"], b"").await;
    assert_eq!((ran.status, ran.text()), (0, format!("{written}\n")), "{}", ran.stderr);
    let ran = stub.narad(&["topic", "schema", "orders", "--at", "1"], b"").await;
    assert_eq!(ran.text(), "true\n");
    let object = stub.narad(&["--json", "topic", "schema", "orders"], b"").await.objects().pop().unwrap();
    assert_eq!((&object["version"], object["versions"].as_array().unwrap().len()), (&json!(2), 2));
    let ran = stub.narad(&["topic", "schema", "orders", "--at", "3"], b"").await;
    assert!(ran.status != 0 && ran.stderr.contains("no version 3"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn info_and_ls_show_owner_links_and_schema() {
    let mut child = topic("orders");
    for (name, value) in [
        ("role", json!("child")),
        ("parent", json!("events")),
        ("fanout_delay_ms", json!(600_000)),
        ("owner", json!("ann")),
        ("schema_version", json!(4)),
    ] {
        child[name] = value;
    }
    let stub = Stub::start(move |asked| {
        if asked.request.contains("page_token") {
            Answer::body(200, &json!({"topics": [child], "next_page_token": ""}).to_string())
        } else {
            Answer::body(200, &child.to_string())
        }
    })
    .await;
    let info = stub.narad(&["topic", "info", "orders"], b"").await.text();
    for part in ["child of events, copied after 10m", "ann", "schema version      4"] {
        assert!(info.contains(part), "{part}: {info}");
    }
    let ls = stub.narad(&["topic", "ls"], b"").await.text();
    assert!(ls.contains("child") && ls.contains("ann"), "{ls}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ls_walks_every_page() {
    let stub = broker().await;
    let ran = stub.narad(&["topic", "ls"], b"").await;
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let text = ran.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("TOPIC") && lines[1].starts_with("orders") && lines[2].starts_with("z "));
    assert_eq!(stub.narad(&["--json", "topic", "ls"], b"").await.objects().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn info_shows_partitions_and_passes_unknown_fields_to_programs() {
    let stub = broker().await;
    let ran = stub.narad(&["topic", "info", "orders"], b"").await;
    assert!(ran.text().contains("PARTITION") && ran.text().contains("2.00 KiB"), "{}", ran.text());
    let object = stub.narad(&["--json", "topic", "info", "orders"], b"").await.objects().pop().unwrap();
    assert_eq!(object, topic("orders"), "nothing of the answer is dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_none_is_not_shown_as_one() {
    let stub = Stub::start(|_| Answer::body(200, "<html>hello</html>")).await;
    let ran = stub.narad(&["topic", "info", "orders"], b"").await;
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("is it a narad broker?"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retention_that_is_too_short_is_refused_in_the_units_it_was_given_in() {
    let stub = broker().await;
    let ran = stub.narad(&["topic", "add", "orders", "--retention", "1s"], b"").await;
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr.contains("the shortest retention is 1h") && ran.stderr.contains("forever"),
        "{}",
        ran.stderr
    );
    assert!(stub.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn children_are_attached_listed_and_detached() {
    let stub = broker().await;
    stub.script("/children", [Answer::body(200, &topic("orders").to_string())]);
    let ran = stub.narad(&["topic", "attach", "orders", "late", "--delay", "10m"], b"").await;
    assert_eq!(
        (ran.status, body(&stub)),
        (0, json!({"child": "late", "delay_ms": 600_000})),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.text(), "attached late to orders: messages are copied after 10m\n");
    let list = json!({"parent": "orders", "parent_id": "00000000000000aa", "children": [
        {"name": "late", "delay_ms": 600_000, "lag_messages": 7, "lag_complete": true},
        {"name": "now", "delay_ms": 0, "lag_messages": 2, "lag_complete": false}]});
    stub.script("/children", [Answer::body(200, &list.to_string())]);
    let ran = stub.narad(&["topic", "children", "orders"], b"").await;
    let lines: Vec<String> =
        ran.text().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines, ["CHILD DELAY BEHIND", "late 10m 7", "now 0s at least 2"]);
    let ran = stub.narad(&["topic", "detach", "orders", "late"], b"").await;
    assert_eq!((ran.status, ran.text().as_str()), (0, "detached late from orders\n"));
    assert_eq!(stub.asked().pop().unwrap().request, "DELETE /v1/topics/orders/children/late");
    let ran = stub.narad(&["topic", "create", "late", "--parent", "orders", "--delay", "1s"], b"").await;
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(body(&stub), json!({"name": "late", "parent": "orders", "fanout_delay_ms": 1000}));
    assert_eq!(stub.narad(&["topic", "create", "late", "--delay", "1s"], b"").await.status, 2);
}
