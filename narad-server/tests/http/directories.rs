//! Data that no topic has: kept, listed, adopted, and removed only when their topic is known to be deleted.

use std::{fs, path::Path};

use crate::http_support::Narad;
use reqwest::Method;
use serde_json::{Value, json};

fn topics(narad: &Narad) -> std::path::PathBuf {
    narad.dir.path().join("topics")
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

async fn produce(narad: &Narad, topic: &str, payload: &str) {
    narad.post(&format!("/v1/topics/{topic}/produce?key=k"), payload.to_owned()).await.is(202);
}

/// The next message, acknowledged.
async fn next(narad: &Narad, topic: &str) -> Option<Value> {
    let answer = narad.get(&format!("/v1/topics/{topic}/consume?wait=2s")).await;
    if answer.status == 204 {
        return None;
    }
    let message = answer.is(200).json();
    let receipt = message["receipt_handle"].as_str().unwrap();
    narad.post(&format!("/v1/topics/{topic}/ack?receipt_handle={receipt}"), "").await.is(204);
    Some(message["payload"].clone())
}

async fn directories(narad: &Narad) -> Vec<Value> {
    narad.get("/v1/directories").await.is(200).json()["directories"].as_array().unwrap().clone()
}

#[tokio::test]
async fn data_of_another_installation_are_adopted_with_their_messages_and_positions() {
    let narad = Narad::start().await;
    narad.ready().await;
    narad.create("orders").await;
    for payload in ["1", "2", "3"] {
        produce(&narad, "orders", payload).await;
    }
    assert_eq!(next(&narad, "orders").await, Some(json!(1)));
    let old = narad.stop().await;

    let narad = Narad::start().await;
    narad.ready().await;
    copy(&old.path().join("topics/orders"), &topics(&narad).join("orders"));
    let found = directories(&narad).await;
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0]["directory"], &found[0]["topic"]), (&json!("orders"), &json!("orders")));
    assert_eq!(found[0]["quarantined"], json!(false));
    narad.get("/v1/topics/orders").await.error(404);

    let topic = narad.post("/v1/directories/orders/adopt", "").await.is(201).json();
    assert_eq!((&topic["id"], &topic["partitions"]), (&found[0]["id"], &json!(3)));
    assert_eq!(topic["retention_ms"], json!(0), "nothing goes because nobody thought of it");
    assert_eq!(directories(&narad).await, Vec::<Value>::new());
    for payload in [2, 3] {
        assert_eq!(next(&narad, "orders").await, Some(json!(payload)));
    }
    produce(&narad, "orders", "4").await;
    assert_eq!(next(&narad, "orders").await, Some(json!(4)));
    narad.post("/v1/directories/orders/adopt", "").await.error(404);

    let narad = Narad::start_in(narad.stop().await, |_| ()).await;
    narad.ready().await;
    produce(&narad, "orders", "5").await;
    assert_eq!(next(&narad, "orders").await, Some(json!(5)));
}

#[tokio::test]
async fn in_04_what_was_never_here_is_set_aside_and_kept_and_gets_its_place_back() {
    let narad = Narad::start().await;
    narad.ready().await;
    narad.create("orders").await;
    produce(&narad, "orders", "\"theirs\"").await;
    while narad.get("/v1/topics/orders/consume").await.status == 204 {}
    let old = narad.stop().await;

    let narad = Narad::start().await;
    narad.ready().await;
    narad.create("orders").await;
    let dir = narad.stop().await;
    copy(&old.path().join("topics/orders"), &dir.path().join("topics/orders"));
    let narad = Narad::start_in(dir, |_| ()).await;
    narad.ready().await;
    produce(&narad, "orders", "\"ours\"").await;
    assert_eq!(next(&narad, "orders").await, Some(json!("ours")));
    let found = directories(&narad).await;
    assert_eq!((found.len(), &found[0]["quarantined"]), (1, &json!(true)));
    let entry = found[0]["directory"].as_str().unwrap().to_owned();

    // This installation has never had it: another start, and a delete of the topic, leave it where it is.
    let narad = Narad::start_in(narad.stop().await, |_| ()).await;
    narad.ready().await;
    let taken = narad.post(&format!("/v1/directories/{entry}/adopt"), "").await.error(409);
    assert!(taken.contains("delete topic orders, or rename"), "{taken}");
    narad.send(Method::DELETE, "/v1/topics/orders", "").await.is(204);
    assert_eq!(names(&topics(&narad)), [&*entry]);
    let topic =
        narad.post(&format!("/v1/directories/{entry}/adopt"), r#"{"retention_ms":3600000}"#).await.is(201);
    assert_eq!(topic.json()["retention_ms"], json!(3_600_000));
    assert_eq!(next(&narad, "orders").await, Some(json!("theirs")));
}

#[tokio::test]
async fn in_04_what_is_known_to_be_deleted_is_reclaimed_at_a_start() {
    let narad = Narad::start().await;
    narad.ready().await;
    narad.create("orders").await;
    produce(&narad, "orders", "1").await;
    assert_eq!(next(&narad, "orders").await, Some(json!(1)));
    let kept = tempfile::tempdir().unwrap();
    copy(&topics(&narad).join("orders"), &kept.path().join("orders"));
    narad.send(Method::DELETE, "/v1/topics/orders", "").await.is(204);
    assert_eq!(names(&topics(&narad)), Vec::<String>::new());
    narad.create("orders").await;
    let dir = narad.stop().await;
    // As by a backup that was restored over it.
    copy(&kept.path().join("orders"), &dir.path().join("topics/orders"));

    let narad = Narad::start_in(dir, |_| ()).await;
    narad.ready().await;
    produce(&narad, "orders", "2").await;
    assert_eq!(next(&narad, "orders").await, Some(json!(2)), "the old one's messages are not served");
    let narad = Narad::start_in(narad.stop().await, |_| ()).await;
    narad.ready().await;
    while names(&topics(&narad)) != ["orders"] {
        tokio::task::yield_now().await;
    }
    assert_eq!(next(&narad, "orders").await, None);
}

#[tokio::test]
async fn an_adoption_that_does_not_fit_is_refused_and_changes_nothing() {
    let narad = Narad::start().await;
    narad.ready().await;
    let dir = topics(&narad);
    for partition in 0..5 {
        fs::create_dir_all(dir.join(format!("found/p{partition:05}"))).unwrap();
    }
    fs::create_dir_all(dir.join("lost+found")).unwrap();
    let adopt = |path: &'static str, body: &'static str| narad.post(path, body);
    adopt("/v1/directories/%ff/adopt", "").await.error(400);
    adopt("/v1/directories/found/adopt", r#"{"partitions":4}"#).await.error(400);
    adopt("/v1/directories/found/adopt", r#"{"retention_ms":5}"#).await.error(400);
    adopt("/v1/directories/found/adopt", r#"{"name":"x"}"#).await.error(400);
    fs::create_dir_all(dir.join("empty")).unwrap();
    fs::create_dir_all(dir.join("odd name/p00000")).unwrap();
    adopt("/v1/directories/lost+found/adopt", "").await.error(404);
    adopt("/v1/directories/empty/adopt", "").await.error(404);
    adopt("/v1/directories/odd%20name/adopt", "").await.error(400);
    let listed: Vec<_> = directories(&narad).await.iter().map(|one| one["directory"].clone()).collect();
    assert_eq!(listed, ["found", "odd name"], "what holds nothing of a topic is not offered");
    for nowhere in ["nothing", "..", "%2e%2e", "..%2fmeta", "found%2fp00000", "meta"] {
        let answer = narad.post(&format!("/v1/directories/{nowhere}/adopt"), "").await;
        assert!([404, 400, 405].contains(&answer.status.as_u16()), "{nowhere}: {answer:?}");
    }
    assert_eq!(names(&dir), ["empty", "found", "lost+found", "odd name"]);
    assert_eq!(names(&dir.join("found")).len(), 5);
    let topic = adopt("/v1/directories/found/adopt", r#"{"partitions":7}"#).await.is(201).json();
    assert_eq!(topic["partitions"], json!(7));
}

#[tokio::test]
async fn partitions_that_another_server_wrote_are_adopted_with_its_consumers_positions() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../narad-core/tests/fixtures/golden");
    let narad = Narad::start().await;
    narad.ready().await;
    let partitions = ["srv_clean_none_p0", "srv_kill9_none_p1"];
    let mut expected = Vec::new();
    for (index, name) in partitions.into_iter().enumerate() {
        copy(&golden.join(name), &topics(&narad).join(format!("orders/p{index:05}")));
        let manifest = fs::read(golden.join(format!("{name}.json"))).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let number = |field: &str| manifest[field].as_u64().unwrap();
        expected.push((number("consumer_frontier_file") + 1, number("high_watermark")));
    }
    let topic = narad.post("/v1/directories/orders/adopt", "").await.is(201).json();
    assert_eq!(topic["partitions"], 3);
    for (index, (next, end)) in expected.into_iter().enumerate() {
        let one = narad.get(&format!("/v1/topics/orders/consume?wait=10s&partition={index}")).await.is(200);
        assert_eq!(one.json()["offset"], next, "the first that was not acked");
        let described = narad.get(&format!("/v1/topics/orders?partition={index}")).await.is(200).json();
        assert_eq!(described["partition_stats"][0]["high_watermark"], end);
    }
    narad.stop().await;
}
