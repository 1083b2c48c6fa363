//! `narad server report` and `narad completions`.

use crate::http_support::Narad;
use crate::stub::{Answer, Stub, narad};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_one_page_without_a_name_in_it() {
    let broker = Narad::start_with(|config| config.node.id = "build-host-7".to_owned()).await;
    broker.ready().await;
    broker.create("secret-project").await;
    for _ in 0..3 {
        broker
            .post("/v1/topics/secret-project/produce?partition=1", r#"{"password":"hunter2"}"#)
            .await
            .is(202);
    }
    let message = broker.get("/v1/topics/secret-project/consume?wait=10s").await.is(200).json();
    let receipt = message["receipt_handle"].as_str().unwrap();
    broker.post(&format!("/v1/topics/secret-project/ack?receipt_handle={receipt}"), "").await.is(204);
    broker
        .until("/v1/topics/secret-project?partition=1", |answer| {
            answer.json()["partition_stats"][0]["lag_messages"] == json!(2)
        })
        .await;

    let address = broker.server.addr().to_string();
    let ran = narad(&address, &["server", "report"], b"").await;
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let text = ran.text();
    for line in ["alive               yes", "ready               ready", "lag                 2", "topic-1"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    for private in ["secret-project", "build-host-7", "hunter2", &*address] {
        assert!(!text.contains(private), "{private}: {text}");
    }
    let ran = narad(&address, &["--json", "server", "report", "--names"], b"").await;
    let facts = ran.objects().pop().unwrap();
    assert_eq!(facts["server_version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&facts["lag_messages"], &facts["partitions"]), (&json!(2), &json!(3)), "{facts}");
    assert_eq!(facts["topics"][0]["name"], "secret-project");
    assert!(facts["available_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{facts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_reported_without_names_and_makes_the_status_1() {
    let stub = Stub::start(|asked| match asked.request.split_once(' ').unwrap().1 {
        "/healthz" => Answer::body(200, r#"{"status":"ok"}"#),
        "/readyz" => Answer::body(
            200,
            r#"{"status":"ready","degraded":["private/0: open /srv/data/topics/private/p00000: no such file"]}"#,
        ),
        path if path.starts_with("/v1/topics?") => Answer::body(
            200,
            &json!({"topics": [{"name": "private", "id": "00000000000000aa", "partitions": 3, "retention_ms": 0,
                "visibility_timeout_ms": 1, "max_in_flight_per_partition": 1,
                "max_acked_ahead_per_partition": 1, "created_at": 1}], "next_page_token": ""})
            .to_string(),
        ),
        path if path.starts_with("/v1/topics/") => Answer::status(500),
        _ => Answer::body(404, r#"{"error":"there is no such thing"}"#),
    })
    .await;
    let ran = stub.narad(&["server", "report"], b"").await;
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let text = ran.text();
    assert!(text.contains("topic-1/0: open [path]: no such file"), "{text}");
    assert!(
        text.contains("server              unknown")
            && text.contains("served elsewhere: see http.metrics_addr"),
        "{text}"
    );
    assert!(!text.contains("private"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_an_error() {
    let ran = narad("127.0.0.1:1", &["server", "report"], b"").await;
    assert_eq!((ran.status, ran.stdout.as_slice()), (1, &b""[..]));
    assert!(ran.stderr.contains("narad serve --dev"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_know_every_subcommand() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = narad("", &["completions", shell], b"").await;
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        for word in ["bench", "report", "replay", "adopt", "schema"] {
            assert!(ran.text().contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(narad("", &["completions", "sh"], b"").await.status, 2);
}

#[test]
fn a_broker_of_ones_own_speaks_under_its_own_name() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("my-broker");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_narad"), &own).unwrap();
    let run = |arguments: &[&str]| std::process::Command::new(&own).args(arguments).output().unwrap();
    let script = String::from_utf8(run(&["completions", "bash"]).stdout).unwrap();
    assert!(script.contains("my-broker") && !script.contains("_narad()"), "{script}");
    let complaint = String::from_utf8(run(&["topic", "ls", "--server", "127.0.0.1:1"]).stderr).unwrap();
    assert!(complaint.starts_with("my-broker: "), "{complaint}");
}
