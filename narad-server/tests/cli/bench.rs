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
    assert_eq!(requests(&phases[0]), 300, "each request is in one bucket");
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
async fn batches_are_counted_by_their_messages_and_timed_by_their_requests() {
    let narad = Narad::start().await;
    narad.ready().await;
    narad.create("t").await;
    let address = narad.server.addr().to_string();
    let run = async |more: &[&str]| {
        let args = [&["--json", "bench", "t", "--duration", "60s", "--consume"], more].concat();
        let ran = crate::stub::narad(&address, &args, b"").await;
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran.objects()
    };
    for size in [1, 1000] {
        let phases = run(&["--messages", "250", "--batch", "100", "--size", &size.to_string()]).await;
        for phase in &phases {
            // What is consumed is as long as what was stored.
            assert_eq!((&phase["messages"], &phase["bytes"]), (&json!(250), &json!(250 * size)), "{phase}");
        }
        assert_eq!((&phases[0]["batch"], &phases[1]["batch"]), (&json!(100), &Value::Null));
        assert_eq!(requests(&phases[0]), 3, "the last of them is smaller");
    }
    // As long as a body can be: 15 bytes around all messages, and 13 with each of them, but for the last one's comma.
    let size = (((16 << 20) - 15 + 1) / 16 - 13).to_string();
    let phases = run(&["--messages", "16", "--batch", "16", "--size", &size, "--connections", "1"]).await;
    assert_eq!((&phases[0]["messages"], &phases[1]["messages"]), (&json!(16), &json!(16)));

    let rated = ["bench", "t", "--messages", "90", "--batch", "30", "--rate", "300", "--connections", "1"];
    let began = std::time::Instant::now();
    let text = crate::stub::narad(&address, &rated, b"").await.text();
    // The third batch is due when sixty messages were.
    assert!(began.elapsed() >= std::time::Duration::from_millis(200), "{text}");
    assert!(text.starts_with("produce: 90 messages in ") && text.contains(" in batches of 30: "), "{text}");
    assert!(text.contains("latency of a batch produce: p50 "), "{text}");
}

fn requests(phase: &Value) -> u64 {
    phase["histogram"].as_array().unwrap().iter().map(|bucket| bucket["count"].as_u64().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_has_the_key_in_each_message_and_ends_with_what_is_left() {
    let stub = broker(|| Answer::body(202, r#"{"accepted":40}"#)).await;
    stub.script("produce/batch", [Answer::status(503), Answer::body(202, r#"{"accepted":39}"#)]);
    let args = ["--json", "bench", "t", "--messages", "170", "--batch", "40", "--connections", "1"];
    let ran = stub.narad(&[&args[..], &["--key", "k\"", "--size", "10"]].concat(), b"").await;
    assert_eq!(ran.status, 1);
    let sent: Vec<Value> = stub
        .asked()
        .iter()
        .filter(|asked| asked.request == "POST /v1/topics/t/produce/batch")
        .map(|asked| serde_json::from_slice(&asked.body).unwrap())
        .collect();
    let lengths: Vec<usize> = sent.iter().map(|body| body["messages"].as_array().unwrap().len()).collect();
    assert_eq!(lengths, [40, 40, 40, 40, 10]);
    for message in sent.iter().flat_map(|body| body["messages"].as_array().unwrap()) {
        assert_eq!((&message["key"], message["payload"].to_string().len()), (&json!("k\""), 10));
    }
    let phase = &ran.objects()[0];
    assert_eq!(
        (&phase["messages"], &phase["bytes"], requests(phase)),
        (&json!(80), &json!(800), 2),
        "{phase}"
    );
    let kinds: Vec<(&Value, &Value)> =
        phase["errors"].as_array().unwrap().iter().map(|error| (&error["kind"], &error["count"])).collect();
    let nonsense = json!("an answer that makes no sense");
    // The last batch was answered as if it had been a whole one.
    assert_eq!(kinds, [(&nonsense, &json!(2)), (&json!("status 503 Service Unavailable"), &json!(1))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_no_broker_takes_is_refused_before_one_is_asked() {
    let stub = broker(|| Answer::status(202)).await;
    let ran = stub.narad(&["bench", "t", "--batch", "1000", "--size", "1MiB"], b"").await;
    assert_eq!((ran.status, ran.stdout.as_slice()), (2, &b""[..]));
    assert!(ran.stderr.contains("--batch 15 or less"), "{}", ran.stderr);
    for batch in ["0", "1001"] {
        let ran = stub.narad(&["bench", "t", "--batch", batch], b"").await;
        assert!(ran.status == 2 && ran.stderr.contains("1..=1000"), "{}", ran.stderr);
    }
    assert!(stub.asked().is_empty());
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
