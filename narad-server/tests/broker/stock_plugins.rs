//! The plugins of the stock broker, at work in one: dictionaries that are trained from a topic's records, and frames under
//! keys that a restart may lack.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use crate::http_support::{Narad, config};
use narad_core::runtime::Runtime;
use narad_server::{
    broker::{Broker, default_plugins},
    serve::Server,
};
use serde_json::json;

async fn start(dir: tempfile::TempDir) -> Narad {
    let config = config(dir.path());
    let broker = Broker::open_with(Runtime::default(), default_plugins().unwrap(), &config, |options| {
        options.codec_maintenance = Duration::from_millis(50);
    });
    let server = Server::start_on(broker.await.unwrap(), config).await.unwrap();
    let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
    let narad = Narad { server, client, dir };
    narad.ready().await;
    narad
}

fn message(number: usize) -> String {
    format!(
        "{{\"order\":{number},\"state\":\"shipped\",\"customer\":\"customer-{}\",\"items\":[1,2,3]}}",
        number % 97
    )
}

/// Sends `count` messages in commits of their own, as far as they arrive one by one.
async fn produce(narad: &Narad, topic: &str, from: usize, count: usize) {
    for number in from..from + count {
        narad.post(&format!("/v1/topics/{topic}/produce?partition=0"), message(number)).await.is(202);
    }
}

async fn read(narad: &Narad, topic: &str, offset: usize) -> String {
    let path = format!("/v1/topics/{topic}/consume?partition=0&offset={offset}");
    narad.until(&path, |answer| answer.status == 200).await.json()["payload"].to_string()
}

async fn appears(narad: &Narad, dir: &Path) {
    let there = || fs::read_dir(dir).is_ok_and(|entries| entries.count() > 0);
    while !there() {
        // The work is done by the store's own thread; a request in between gives it time.
        narad.get("/healthz").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dictionary_is_trained_from_a_topics_records_and_old_and_new_frames_stay_readable() {
    let narad = start(tempfile::tempdir().unwrap()).await;
    let body = json!({ "name": "t", "codec": { "name": "zstd-dict", "dictionary_bytes": "4KiB" } });
    narad.post("/v1/topics", body.to_string()).await.is(201);
    let batch: Vec<_> = (0..1000).map(|n| json!({ "payload": message(n), "partition": 0 })).collect();
    narad.post("/v1/topics/t/produce/batch", json!({ "messages": batch }).to_string()).await.is(202);
    produce(&narad, "t", 1000, 50).await;
    let kept = narad.dir.path().join("topics/t/plugins/zstd-dict");
    tokio::time::timeout(Duration::from_secs(30), appears(&narad, &kept))
        .await
        .expect("a dictionary is trained");
    produce(&narad, "t", 1050, 20).await;
    let mut before = Vec::new();
    for offset in [0, 999, 1000, 1049, 1050, 1069] {
        before.push(read(&narad, "t", offset).await);
    }
    let narad = start(narad.stop().await).await;
    for (offset, payload) in [0, 999, 1000, 1049, 1050, 1069].into_iter().zip(before) {
        assert_eq!(read(&narad, "t", offset).await, payload);
    }
    // Another codec for later frames: the dictionaries are still there for those before.
    let change = json!({ "codec": "lz4" }).to_string();
    narad.send(reqwest::Method::PATCH, "/v1/topics/t", change).await.is(200);
    produce(&narad, "t", 1070, 1).await;
    let narad = start(narad.stop().await).await;
    assert!(read(&narad, "t", 1069).await.contains("1069") && read(&narad, "t", 1070).await.contains("1070"));
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_whose_keys_are_gone_is_not_served_until_they_are_back() {
    let keys = tempfile::tempdir().unwrap();
    let file = keys.path().join("keys");
    fs::write(&file, format!("1:{}=\n", "A".repeat(43))).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let narad = start(tempfile::tempdir().unwrap()).await;
    let body = json!({ "name": "secret", "codec": { "name": "aead", "keys": { "file": file } } });
    narad.post("/v1/topics", body.to_string()).await.is(201);
    narad.create("plain").await;
    produce(&narad, "secret", 0, 3).await;
    read(&narad, "secret", 2).await;
    let dir = narad.stop().await;
    let stored = fs::read(dir.path().join("topics/secret/p00000/00000000000000000000.log")).unwrap();
    assert!(!stored.windows(8).any(|bytes| bytes == b"customer"));

    fs::rename(&file, keys.path().join("elsewhere")).unwrap();
    let narad = start(dir).await;
    assert!(narad.get("/readyz").await.text.contains("topic secret is not served"));
    narad.get("/v1/topics/secret/consume").await.error(503);
    produce(&narad, "plain", 0, 1).await;
    fs::rename(keys.path().join("elsewhere"), &file).unwrap();
    // No restart is needed: it is tried again once a second.
    let got = narad.until("/v1/topics/secret/consume?wait=1s", |answer| answer.status == 200).await;
    assert!(got.json()["payload"].to_string().contains("shipped"));
    assert_eq!(narad.get("/readyz").await.json(), json!({ "status": "ready" }));
    narad.stop().await;
}
