//! The built binary and an OTLP collector: one that takes what it is sent, and some that do not.
#![cfg(feature = "otlp")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod real_broker;
#[path = "../../examples/otel/src/receiver.rs"]
mod receiver;

use std::{
    process::Command,
    time::{Duration, Instant},
};

use opentelemetry_proto::tonic::{
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use real_broker::{Broker, Client, serve};
use receiver::{Manner, Received, Receiver};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn sending_to(endpoint: &str, data_dir: &std::path::Path) -> Command {
    let mut command = serve(data_dir);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_EXPORTER_OTLP_TIMEOUT", "2000")
        .env("OTEL_METRIC_EXPORT_INTERVAL", "500")
        .env("OTEL_LOGS_EXPORTER", "otlp")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        .env("NARAD_NODE_ID", "node-7");
    command
}

async fn start(endpoint: &str, data_dir: &std::path::Path) -> (Broker, Client) {
    let broker = Broker::spawn(sending_to(endpoint, data_dir)).unwrap();
    broker.ready().await;
    broker.create_topic("t").await;
    let client = broker.client("t");
    (broker, client)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn value(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    Some(match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

fn of(span: &Span, key: &str) -> Option<String> {
    value(&span.attributes, key)
}

/// Waits, with a bound, until what came is what is waited for.
async fn until(receiver: &Receiver, is_it: impl Fn(&Received) -> bool) -> Received {
    for _ in 0..1500 {
        let received = receiver.received();
        if is_it(&received) {
            return received;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let received = receiver.received();
    let names: Vec<_> = received.spans.iter().map(|span| span.name.as_str()).collect();
    panic!("it did not come: {names:?}, {} metrics, {} logs", received.metrics.len(), received.logs.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_messages_life_is_one_trace_and_its_commit_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(Manner::Takes).await.unwrap();
    let mut command = sending_to(&format!("http://{}", receiver.addr), dir.path());
    command.env("NARAD_STORAGE_DIRECT_PRODUCE", "false");
    let broker = Broker::spawn(command).unwrap();
    broker.ready().await;
    broker.create_topic("t").await;
    let client = broker.client("t");
    let produce = client.http.post(client.topic_url("/produce?partition=1&key=secret-key"));
    let produced = produce.header("traceparent", format!("00-{TRACE}-{PARENT}-01")).body("secret payload");
    assert_eq!(produced.send().await.unwrap().status(), 202);
    assert_eq!(client.http.get(client.topic_url("/consume?wait=10s")).send().await.unwrap().status(), 200);

    let topics = client.http.post(format!("{}/v1/topics", client.url));
    let created = topics.header("traceparent", format!("00-{TRACE}-{PARENT}-01")).body("{\"name\":\"u\"}");
    assert_eq!(created.send().await.unwrap().status(), 201);

    let linked = |span: &Span| span.links.iter().any(|link| hex(&link.trace_id) == TRACE);
    let received = until(&receiver, |received| {
        received.spans.iter().any(linked)
            && received.spans.iter().any(|span| span.name == "receive t")
            && received.metrics.iter().any(|metric| metric.name == "narad_messages_produced_total")
            && !received.logs.is_empty()
    })
    .await;

    let named = |name: &str| {
        let found = received.spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
        found
            .into_iter()
            .find(|span| hex(&span.trace_id) == TRACE)
            .unwrap_or_else(|| panic!("no {name} in the trace"))
    };
    let request = named("POST /v1/topics/{topic}/produce");
    assert_eq!(hex(&request.parent_span_id), PARENT);
    assert_eq!(of(request, "http.response.status_code").as_deref(), Some("202"));
    let send = named("send t");
    assert_eq!(send.parent_span_id, request.span_id);
    for (key, expected) in [
        ("messaging.system", "narad"),
        ("messaging.destination.name", "t"),
        ("messaging.operation.name", "send"),
        ("messaging.operation.type", "send"),
        ("messaging.destination.partition.id", "1"),
        ("messaging.message.body.size", "14"),
        ("messaging.batch.message_count", "1"),
    ] {
        assert_eq!(of(send, key).as_deref(), Some(expected), "{key}");
    }
    let append = named("log.commit");
    assert_eq!(
        append.parent_span_id, send.span_id,
        "a commit for one caller belongs into what the caller is at"
    );
    let steps: Vec<_> = append.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(steps, ["write", "fsync", "verify"]);

    let commit = received.spans.iter().find(|span| linked(span)).unwrap();
    assert_eq!(commit.name, "commit t");
    assert_ne!(hex(&commit.trace_id), TRACE, "it is later, and so not nested");
    let below = received.spans.iter().filter(|span| span.parent_span_id == commit.span_id);
    let durable = below.into_iter().find(|span| span.name == "log.commit").unwrap();
    assert_eq!((durable.name.as_str(), of(durable, "records").as_deref()), ("log.commit", Some("1")));
    assert!(of(durable, "bytes").unwrap().parse::<u64>().unwrap() > 14);
    assert_eq!(of(durable, "codec").as_deref(), Some("none"));
    assert!(received.spans.iter().any(|span| span.name == "log.open"));

    let resource = |key: &str| value(&received.resource.attributes, key);
    assert_eq!(resource("service.name").as_deref(), Some("narad"));
    assert_eq!(resource("service.instance.id").as_deref(), Some("node-7"));
    assert_eq!(resource("deployment.environment.name").as_deref(), Some("test"));
    let said = broker.said();
    let line = said.lines().find(|line| line.contains("topic created") && line.contains("topic=u")).unwrap();
    assert!(line.contains(&format!("trace_id={TRACE}")), "{line}");
    // Nobody's span but ours, and nothing of the message.
    let known = |span: &Span| {
        let name = span.name.split(' ').next().unwrap();
        ["GET", "POST", "send", "receive", "commit", "settle", "log.commit", "log.open", "log.sweep"]
            .contains(&name)
    };
    let strange: Vec<_> = received.spans.iter().filter(|span| !known(span)).map(|span| &span.name).collect();
    assert!(strange.is_empty(), "{strange:?}");
    let everything = format!("{received:?}");
    assert!(!everything.contains("secret"), "keys and payloads stay where they are");
    assert!(broker.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_message_is_committed_within_the_trace_of_its_producer() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(Manner::Takes).await.unwrap();
    let broker = Broker::spawn(sending_to(&format!("http://{}", receiver.addr), dir.path())).unwrap();
    broker.ready().await;
    broker.create_topic("t").await;
    let client = broker.client("t");
    let url = client.topic_url("/produce?partition=0");
    // The first one may come before its partition is open, and then goes through the produce log.
    let (mut sent, is_direct) = (0u32, |received: &Received| {
        let in_trace = |name: &str| {
            let of_trace = received.spans.iter().filter(|span| hex(&span.trace_id) == TRACE);
            of_trace.into_iter().find(|span| span.name == name).cloned()
        };
        in_trace("commit t").zip(in_trace("send t"))
    });
    let (commit, send) = loop {
        assert!(sent < 100, "no message went the short way");
        let produced = client.http.post(&url).header("traceparent", format!("00-{TRACE}-{PARENT}-01"));
        assert_eq!(produced.body("payload").send().await.unwrap().status(), 202);
        sent += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
        if let Some(found) = is_direct(&receiver.received()) {
            break found;
        }
    };
    let received = until(&receiver, |received| {
        received.spans.iter().any(|span| span.name == "log.commit" && span.parent_span_id == commit.span_id)
    })
    .await;
    let above = received.spans.iter().find(|span| span.span_id == commit.parent_span_id).unwrap();
    assert_eq!((above.name.as_str(), send.name.as_str()), ("send t", "send t"));
    assert!(commit.links.is_empty(), "it is in its producer's trace, and needs no link to it");
    assert_eq!(of(&commit, "messaging.destination.partition.id").as_deref(), Some("0"));
    assert!(broker.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_refuses_hangs_or_is_not_there_costs_a_counter_and_nothing_else() {
    for case in ["refuses", "hangs", "is not there"] {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = match case {
            "refuses" => format!("http://{}", Receiver::start(Manner::Refuses).await.unwrap().addr),
            "hangs" => format!("http://{}", Receiver::start(Manner::Hangs).await.unwrap().addr),
            // Bound and never listening: a connection is refused.
            _ => {
                let socket = tokio::net::TcpSocket::new_v4().unwrap();
                socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
                format!("http://{}", socket.local_addr().unwrap())
            }
        };
        let (broker, client) = start(&endpoint, dir.path()).await;
        // More spans than the queue holds.
        let producers: Vec<_> = (0..8)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    for _ in 0..150 {
                        assert_eq!(client.produce("", "x").await.status, 202);
                    }
                })
            })
            .collect();
        for producer in producers {
            producer.await.unwrap();
        }
        let failures = |text: &str| {
            text.lines().any(|line| line.starts_with("narad_errors_total{component=\"telemetry\""))
        };
        let mut text = String::new();
        for _ in 0..1500 {
            text = client.get("/metrics").await.body;
            if failures(&text) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(failures(&text), "{case}: {text}");
        let said = broker.said();
        let lines = said.lines().filter(|line| line.contains("telemetry could not be delivered")).count();
        assert!(lines <= 3, "{case}: one line a minute for each signal, not {lines}:\n{said}");
        let asked = Instant::now();
        assert!(broker.terminate().await.success(), "{case}");
        let took = asked.elapsed();
        // The grace of http.shutdown_grace.
        assert!(took < Duration::from_secs(11), "{case}: it took {took:?} to end");
    }
}

#[cfg(feature = "otlp-http")]
#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_over_http_as_well() {
    use std::{collections::BTreeMap, sync::Arc};

    use axum::{Router, body::Bytes, extract::Path, http::HeaderMap, routing::post};
    use opentelemetry_proto::tonic::collector::{
        metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest,
    };
    use parking_lot::Mutex;
    use prost::Message as _;

    let dir = tempfile::tempdir().unwrap();
    let came = Arc::new(Mutex::new(BTreeMap::<String, Vec<Bytes>>::new()));
    let seen = Arc::clone(&came);
    let take = move |Path(signal): Path<String>, headers: HeaderMap, body: Bytes| {
        assert_eq!(headers["content-type"], "application/x-protobuf");
        assert_eq!(headers["x-tenant"], "a b");
        seen.lock().entry(signal).or_default().push(body);
        async {}
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let routes = Router::new().route("/v1/{signal}", post(take));
    tokio::spawn(async move { axum::serve(listener, routes).await });

    let mut command = sending_to(&endpoint, dir.path());
    command
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%20b");
    let broker = Broker::spawn(command).unwrap();
    broker.ready().await;
    broker.create_topic("t").await;
    assert_eq!(broker.client("t").produce("", "x").await.status, 202);
    let all = || {
        let came = came.lock();
        let spans = came.get("traces").into_iter().flatten().any(|body| {
            let request = ExportTraceServiceRequest::decode(body.clone()).unwrap();
            let scopes = request.resource_spans.iter().flat_map(|of| &of.scope_spans);
            scopes.flat_map(|scope| &scope.spans).any(|span| span.name == "commit t")
        });
        let series = came.get("metrics").into_iter().flatten().any(|body| {
            let request = ExportMetricsServiceRequest::decode(body.clone()).unwrap();
            let scopes = request.resource_metrics.iter().flat_map(|of| &of.scope_metrics);
            scopes.flat_map(|scope| &scope.metrics).any(|metric| metric.name == "narad_topics_total")
        });
        spans && series && came.contains_key("logs")
    };
    for _ in 0..1500 {
        if all() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(all(), "{:?}", came.lock().keys());
    assert!(broker.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_cannot_be_used_is_said_and_the_broker_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (broker, client) = start("https://collector.example:4317", dir.path()).await;
    assert_eq!(client.produce("", "x").await.status, 202);
    assert!(broker.said().contains("https is not spoken"), "{}", broker.said());
    assert!(broker.terminate().await.success());
}
