//! One message's life, as a collector sees it: a broker and an OTLP receiver in one process, a message through it, and
//! the spans and series that come out.
//!
//! `cargo run -p otel -- DATA_DIR`

mod receiver;

use std::{collections::BTreeMap, error::Error, path::PathBuf, time::Duration};

use narad_server::{config, serve::Server, telemetry};
use opentelemetry_proto::tonic::{
    common::v1::{KeyValue, any_value::Value},
    metrics::v1::{Metric, metric::Data, number_data_point},
    trace::v1::Span,
};
use receiver::{Manner, Receiver};
use tokio::time::Instant;

/// The trace that the producer is at, as its `traceparent` header says.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let data_dir = std::env::args().nth(1).map(PathBuf::from).ok_or("give a directory for the data")?;
    let receiver = Receiver::start(Manner::Takes).await?;
    let overrides = config::Overrides {
        dev: true,
        addr: Some("127.0.0.1:0".to_owned()),
        data_dir: Some(data_dir),
        ..config::Overrides::default()
    };
    let (mut config, _) = config::load(&overrides, [])?;
    // A lone message on an idle broker would take the short way, past the produce log.
    config.storage.direct_produce = false;
    config.telemetry.otlp_endpoint = Some(format!("http://{}", receiver.addr));

    let mut telemetry = telemetry::start(&config);
    let server = Server::start(config).await?;
    telemetry.send_series(server.series());

    let (http, api) = (reqwest::Client::new(), format!("http://{}/v1/topics", server.addr()));
    http.post(&api).body(r#"{"name":"orders"}"#).send().await?.error_for_status()?;
    let traceparent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let produce = http.post(format!("{api}/orders/produce?partition=0")).header("traceparent", traceparent);
    produce.body("an order").send().await?.error_for_status()?;
    let consumed = http.get(format!("{api}/orders/consume?wait=10s")).send().await?.error_for_status()?;
    let message: serde_json::Value = serde_json::from_str(&consumed.text().await?)?;
    let handle =
        message.get("receipt_handle").and_then(serde_json::Value::as_str).ok_or("no message came")?;
    http.post(format!("{api}/orders/ack?receipt_handle={handle}")).send().await?.error_for_status()?;

    server.shutdown().await?;
    telemetry.shutdown(Instant::now() + Duration::from_secs(10)).await;

    let received = receiver.received();
    println!("spans (each under its parent):");
    print_below(&received.spans, None, 1);
    println!("series of the topic:");
    for (series, value) in series(&received.metrics) {
        println!("  {series} {value}");
    }
    let of_the_trace = |span: &&Span| hex(&span.trace_id) == TRACE;
    let linked = |span: &Span| span.links.iter().any(|link| hex(&link.trace_id) == TRACE);
    if received.spans.iter().filter(of_the_trace).count() < 2 || !received.spans.iter().any(linked) {
        return Err("the message's way is not all there".into());
    }
    Ok(())
}

/// Prints the spans below `parent`; those whose parent is not here stand at the top.
fn print_below(spans: &[Span], parent: Option<&Span>, depth: usize) {
    let is_here = |id: &[u8]| spans.iter().any(|span| span.span_id == id);
    let mut below: Vec<&Span> = spans
        .iter()
        .filter(|span| match parent {
            Some(parent) => span.parent_span_id == parent.span_id,
            None => !is_here(&span.parent_span_id),
        })
        .collect();
    below.sort_by_key(|span| span.start_time_unix_nano);
    for span in below {
        let micros = span.end_time_unix_nano.saturating_sub(span.start_time_unix_nano) / 1000;
        let indent = "  ".repeat(depth);
        println!(
            "{indent}{} {micros} µs  [trace {}…]",
            span.name,
            hex(&span.trace_id).get(..8).unwrap_or_default()
        );
        for link in &span.links {
            println!("{indent}  caused by trace {}…", hex(&link.trace_id).get(..8).unwrap_or_default());
        }
        for attribute in span.attributes.iter().filter(|attribute| !attribute.key.starts_with("code.")) {
            println!("{indent}  {}", text(attribute));
        }
        for event in &span.events {
            let after = event.time_unix_nano.saturating_sub(span.start_time_unix_nano) / 1000;
            println!("{indent}  after {after} µs: {}", event.name);
        }
        print_below(spans, Some(span), depth + 1);
    }
}

/// The last value of each number about the topic, and the number of observations of each histogram.
fn series(metrics: &[Metric]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for metric in metrics {
        let mut keep = |attributes: &[KeyValue], value: String| {
            let labels: Vec<_> = attributes.iter().map(text).collect();
            if labels.iter().any(|label| label.contains("orders")) {
                found.insert(format!("{}{{{}}}", metric.name, labels.join(",")), value);
            }
        };
        let points = match &metric.data {
            Some(Data::Gauge(gauge)) => &gauge.data_points,
            Some(Data::Sum(sum)) => &sum.data_points,
            Some(Data::Histogram(histogram)) => {
                for point in &histogram.data_points {
                    let sum = point.sum.unwrap_or_default();
                    keep(&point.attributes, format!("{} in {sum:.6} s", point.count));
                }
                continue;
            }
            _ => continue,
        };
        for point in points {
            let value = match point.value {
                Some(number_data_point::Value::AsInt(number)) => number.to_string(),
                Some(number_data_point::Value::AsDouble(number)) => format!("{number:.3}"),
                None => continue,
            };
            keep(&point.attributes, value);
        }
    }
    found
}

fn text(attribute: &KeyValue) -> String {
    let value = match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        _ => String::new(),
    };
    format!("{}={value}", attribute.key)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
