//! `narad bench`: what it sends, what it counts, and how it ends.

use std::process::{Command, Stdio};

use crate::http_support::Narad;
use crate::stub::{Answer, Stub};
use serde_json::{Value, json};

async fn broker(produce: impl Fn() -> Answer + Send + Sync + 'static) -> Stub {
    Stub::start(move |asked| {
        if asked.request.contains("/produce") {
            return produce();
        }
        let topic = json!({"name": "t", "id": "00000000000000aa", "partitions": 3, "retention_ms": 0,
            "visibility_timeout_ms": 30000, "max_in_flight_per_partition": 1024,
            "max_acked_ahead_per_partition": 1024, "created_at": 1_700_000_000});
        Answer::body(200, &topic.to_string())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_produced_is_consumed_again_and_measured() {
    let narad = Narad::start().await;
    narad.ready().await;
    narad.create("t").await;
    let address = narad.server.addr().to_string();
    let args =
        ["--json", "bench", "t", "--messages", "300", "--duration", "60s", "--size", "1KiB", "--consume"];
    let ran = crate::stub::narad(&address, &args, b"").await;
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let phases = ran.objects();
    assert_eq!((&phases[0]["phase"], &phases[1]["phase"]), (&json!("produce"), &json!("consume")));
    for phase in &phases {
        assert_eq!((&phase["messages"], &phase["bytes"]), (&json!(300), &json!(300 * 1024)), "{phase}");
        assert_eq!(phase["errors"], json!([]));
        let latency = |name: &str| phase["latency_us"][name].as_u64().unwrap();
        assert!(0 < latency("p50") && latency("p50") <= latency("p99") && latency("p99") <= latency("max"));
    }
    let counts: Vec<u64> = phases[0]["histogram"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bucket| bucket["count"].as_u64().unwrap())
        .collect();
    assert_eq!(counts.iter().sum::<u64>(), 300, "each request is in one bucket");
    narad.get("/v1/topics/t/consume").await.is(204);
    let described = narad.get("/v1/topics/t").await.json();
    let lag: u64 = described["partition_stats"].as_array().unwrap().iter().map(lag_of).sum();
    assert_eq!(lag, 0);

    let ran = crate::stub::narad(&address, &["bench", "t", "--messages", "20", "--rate", "2000"], b"").await;
    let text = ran.text();
    assert!(
        text.starts_with("produce: 20 messages in ") && text.contains("latency of a produce: p50 "),
        "{text}"
    );
    assert!(text.contains("up to ") && text.contains('#'), "{text}");
}

fn lag_of(partition: &Value) -> u64 {
    partition["lag_messages"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_counted_by_their_kind_and_make_the_status_1() {
    let stub = broker(|| Answer::status(202)).await;
    stub.script(
        "/produce",
        [Answer(503, Some(1), r#"{"error":"the disk is full"}"#.into()), Answer::status(429)],
    );
    let args = ["--json", "bench", "t", "--messages", "10", "--connections", "2", "--duration", "60s"];
    let ran = stub.narad(&args, b"").await;
    assert_eq!(ran.status, 1);
    let phase = &ran.objects()[0];
    assert_eq!(phase["messages"], json!(8), "{phase}");
    let errors = phase["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 2);
    assert_eq!(
        (&errors[1]["kind"], &errors[1]["count"]),
        (&json!("status 503 Service Unavailable"), &json!(1))
    );
    assert!(errors[1]["example"].as_str().unwrap().contains("the disk is full"));
    assert_eq!(stub.asked().len(), 11, "nothing is tried again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_not_there_is_an_error_and_no_measurement() {
    let stub = Stub::start(|_| Answer::body(404, r#"{"error":"there is no topic t"}"#)).await;
    let ran = stub.narad(&["bench", "t"], b"").await;
    assert_eq!((ran.status, ran.stdout.as_slice()), (1, &b""[..]));
    assert!(ran.stderr.contains("there is no topic t"), "{}", ran.stderr);
    assert_eq!(stub.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_with_the_figures_so_far() {
    let stub = broker(|| Answer::status(202)).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_narad"));
    command
        .args(["--json", "bench", "t", "--duration", "10m", "--rate", "1000"])
        .env("NARAD_ADDR", stub.address());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while stub.produced().len() < 5 {
        tokio::task::yield_now().await;
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ran = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
    let phase: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((ran.status.code(), &phase["interrupted"]), (Some(0), &json!(true)), "{phase}");
    assert!(phase["messages"].as_u64().unwrap() >= 5 && phase["seconds"].as_f64().unwrap() < 600.0);
}
