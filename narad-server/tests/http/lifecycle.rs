//! A server's start and end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::http_support::{Narad, answer, config};
use narad_server::serve::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_topics_messages_and_acks() {
    let narad = Narad::start().await;
    let topic = narad.create("t").await;
    for payload in ["one", "two"] {
        narad.post("/v1/topics/t/produce?partition=0", payload).await.is(202);
    }
    let first = narad.get("/v1/topics/t/consume?wait=10s").await.is(200).json();
    assert_eq!(first["payload"], "one");
    let handle = first["receipt_handle"].as_str().unwrap();
    narad.post(&format!("/v1/topics/t/ack?receipt_handle={handle}"), "").await.is(204);
    let dir = narad.stop().await;

    let narad = Narad::start_in(dir, |_| ()).await;
    assert_eq!(narad.ready().await.json(), serde_json::json!({"status": "ready"}));
    assert_eq!(narad.get("/v1/topics/t").await.is(200).json()["id"], topic["id"]);
    let second = narad.get("/v1/topics/t/consume?wait=10s").await.is(200).json();
    assert_eq!(second["payload"], "two");
    narad.get("/v1/topics/t/consume").await.is(204);
    narad.post(&format!("/v1/topics/t/ack?receipt_handle={handle}"), "").await.error(410);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_consumers_are_answered_at_once_when_it_ends() {
    let narad = Narad::start().await;
    narad.create("t").await;
    assert_eq!(narad.get("/healthz").await.is(200).json(), serde_json::json!({"status": "ok"}));
    let parked: Vec<_> = (0..5)
        .map(|_| tokio::spawn(answer(narad.client.get(narad.url("/v1/topics/t/consume?wait=10s")))))
        .collect();
    // All of them are at the server, this request among them.
    narad.until("/metrics", |metrics| metrics.text.contains("narad_http_requests_in_flight 6\n")).await;
    let start = Instant::now();
    narad.stop().await;
    for poll in parked {
        assert_eq!(poll.await.unwrap().status, 204);
    }
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn produces_under_way_are_finished_or_refused_never_lost() {
    let narad = Arc::new(Narad::start().await);
    narad.create("t").await;
    let producers: Vec<_> = (0..8)
        .map(|producer| {
            let narad = Arc::clone(&narad);
            tokio::spawn(async move {
                let mut accepted = 0;
                for message in 0..10_000 {
                    let url = narad.url(&format!("/v1/topics/t/produce?key={producer}"));
                    match narad.client.post(url).body(message.to_string()).send().await {
                        Ok(response) if response.status() == 202 => accepted += 1,
                        _ => break,
                    }
                }
                accepted
            })
        })
        .collect();
    narad.until("/metrics", |metrics| metrics.text.contains("narad_messages_produced_total")).await;
    // The client stays with the producers; the server's end is asked for beside them.
    let broker = narad.server.broker().clone();
    broker.close(Duration::from_secs(5)).await.unwrap();
    let mut accepted = 0;
    for producer in producers {
        accepted += producer.await.unwrap();
    }
    let narad = Arc::into_inner(narad).unwrap();
    let _ = narad.server.shutdown().await;
    let narad = Narad::start_in(narad.dir, |_| ()).await;
    let mut found = 0;
    loop {
        let answer = narad.get("/v1/topics/t/consume?wait=500ms&max=100").await;
        if answer.status == 204 {
            break;
        }
        found += answer.is(200).json()["messages"].as_array().unwrap().len();
    }
    assert!(found >= accepted, "{accepted} were acknowledged and {found} are there");
    assert!(accepted > 0);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_the_directory_is_told_who_has_it() {
    let narad = Narad::start().await;
    let error = Server::start(config(narad.dir.path())).await.unwrap_err();
    let message = error.to_string();
    assert!(message.contains("in use by") && message.contains(&std::process::id().to_string()), "{message}");
    narad.get("/healthz").await.is(200);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_has_lost_its_metadata_is_refused_and_left_as_it_is() {
    let narad = Narad::start().await;
    narad.create("t").await;
    narad.post("/v1/topics/t/produce?partition=0", "x").await.is(202);
    let dir = narad.stop().await;
    let (file, aside) = (dir.path().join("meta").join("meta.redb"), dir.path().join("aside"));
    std::fs::rename(&file, &aside).unwrap();
    for content in [None, Some("")] {
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let error = Server::start(config(dir.path())).await.unwrap_err().to_string();
        assert!(error.contains("metadata") && error.contains("meta"), "{error}");
    }
    std::fs::rename(&aside, &file).unwrap();
    let narad = Narad::start_in(dir, |_| ()).await;
    assert_eq!(narad.get("/v1/topics/t/consume?wait=10s").await.is(200).json()["payload"], "x");
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_that_overruns_its_grace_ends_all_the_same() {
    let narad = Narad::start_with(|config| config.http.shutdown_grace.0 = Duration::ZERO).await;
    narad.create("t").await;
    narad.server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_cannot_be_built_is_named_and_nothing_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.storage.codec = serde_json::json!("lz5");
    let error = Server::start(config).await.unwrap_err().to_string();
    assert!(error.starts_with("unknown codec \"lz5\""), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the directory is left as it is");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_never_runs_open() {
    let narad = Narad::start_with(|config| {
        config.dev = false;
        config.security.enabled = true;
    })
    .await;
    narad.get("/v1/topics").await.error(401);
    let password = narad.server.generated_password().expect("nobody gave one").clone();
    let asked = narad.client.get(narad.url("/v1/topics"));
    answer(asked.basic_auth("admin", password.expose_text())).await.is(200);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_is_named_and_leaves_the_directory_free() {
    let narad = Narad::start().await;
    let dir = tempfile::tempdir().unwrap();
    let mut taken = config(dir.path());
    taken.http.addr = narad.server.addr().to_string().parse().unwrap();
    let error = Server::start(taken).await.unwrap_err().to_string();
    assert!(error.contains(&narad.server.addr().to_string()), "{error}");
    Server::start(config(dir.path())).await.unwrap().shutdown().await.unwrap();
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_cannot_be_opened_is_named_and_the_others_serve() {
    let narad = Narad::start().await;
    narad.create("t").await;
    narad.post("/v1/topics/t/produce?partition=0", "x").await.is(202);
    let broken = {
        let dir = narad.stop().await;
        let partition = dir.path().join("topics").join("t").join("p00001");
        let _ = std::fs::remove_dir_all(&partition);
        std::fs::write(&partition, "not a directory").unwrap();
        dir
    };
    let narad = Narad::start_in(broken, |_| ()).await;
    let ready = narad.ready().await.json();
    let degraded = ready["degraded"].as_array().unwrap();
    assert_eq!(degraded.len(), 1, "{ready}");
    assert!(degraded[0].as_str().unwrap().starts_with("t/1: "), "{ready}");
    assert_eq!(narad.get("/v1/topics/t/consume?wait=10s&partition=0").await.is(200).json()["payload"], "x");
    let described = narad.get("/v1/topics/t").await.is(200).json();
    assert_eq!(described["partition_stats"][0]["status"], "ok");
    narad.get("/v1/topics/t/consume?partition=1&offset=0").await.error(500);
    narad.stop().await;
}
