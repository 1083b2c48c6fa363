//! `/metrics`: every series of the contract with its type and its labels, and none of what is no more.

use std::{collections::BTreeSet, time::Duration};

use crate::http_support::Narad;
use narad_core::runtime::{Runtime, RuntimeOptions};
use narad_server::{
    broker::{Broker, Message, NewTopic, default_plugins},
    telemetry::{exposition, families::Families, names},
};
use reqwest::Method;
use serde_json::json;

/// The table of the contract: name, type, labels.
const TABLE: &str = "
narad_messages_produced_total counter topic,partition
narad_bytes_produced_total counter topic,partition
narad_messages_consumed_total counter topic,partition
narad_bytes_consumed_total counter topic,partition
narad_produce_rejections_total counter topic,reason
narad_consume_wait_seconds histogram topic,outcome
narad_consume_empty_total counter topic
narad_ack_extended_total counter topic
narad_nack_total counter topic
narad_http_requests_total counter route,method,status
narad_http_request_duration_seconds histogram route,method,status
narad_http_requests_in_flight gauge
narad_consumer_lag_messages gauge topic,partition
narad_oldest_unconsumed_message_age_seconds gauge topic,partition
narad_consumer_dropped_messages gauge topic,partition
narad_inflight_size gauge topic,partition
narad_acked_ahead_size gauge topic,partition
narad_consumer_corrupt_skipped_total counter topic,partition
narad_fanout_lag_messages gauge parent,child,partition
narad_fanout_due_lag_seconds gauge parent,child,partition
narad_fanout_committed_total counter parent,child
narad_fanout_child_dropped_messages counter parent,child
narad_storage_fsync_duration_seconds histogram topic,partition
narad_storage_flush_duration_seconds histogram topic,partition
narad_storage_flush_bytes_total counter topic,partition
narad_partition_size_bytes gauge topic,partition
narad_segments gauge topic,partition
narad_topic_bytes gauge topic
narad_data_dir_size_bytes gauge
narad_data_dir_available_bytes gauge
narad_open_partition_logs gauge
narad_topics_total gauge
narad_partitions_total gauge
narad_ingress_wal_failed gauge
narad_ingress_dispatch_backlog_records gauge
narad_reaper_restarts gauge
narad_boot_duration_seconds gauge
narad_quarantined_copies gauge
narad_storage_cache_hits_total counter
narad_storage_cache_misses_total counter
narad_idle_logs_evicted_total counter
narad_cold_retention_swept_total counter
narad_cold_retention_panics_total counter
narad_plugin_calls_total counter kind,plugin,operation
narad_plugin_errors_total counter kind,plugin,operation
narad_plugin_call_duration_seconds histogram kind,plugin,operation
";

/// Those that take a failure, or an hour, to appear.
const RARE: [(&str, &str); 3] = [
    ("narad_storage_retention_bytes_deleted_total", "counter"),
    ("narad_storage_retention_messages_deleted_total", "counter"),
    ("narad_errors_total", "counter"),
];

/// Samples as `name{label,…}` without values, those of a histogram by the names that they have.
fn shapes(text: &str) -> BTreeSet<String> {
    let shape = |line: &str| {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let Some((name, labels)) = series.split_once('{') else { return series.to_owned() };
        let labels = labels.trim_end_matches('}').split("\",");
        let labels: Vec<_> = labels.map(|label| label.split_once('=').unwrap().0).collect();
        format!("{name}{{{}}}", labels.join(","))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(shape).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_series_of_the_contract_is_there_with_its_type_and_its_labels() {
    let narad = Narad::start().await;
    narad.ready().await;
    narad.create("t").await;
    let child = json!({"name": "later", "parent": "t", "fanout_delay_ms": 60_000});
    narad.post("/v1/topics", child.to_string()).await.is(201);
    narad.post("/v1/topics/later/produce", "refused").await.is(409);
    narad.post("/v1/topics/t/produce?partition=0", "four").await.is(202);
    let taken = narad.get("/v1/topics/t/consume?wait=10s").await.is(200).json();
    let handle = taken["receipt_handle"].as_str().unwrap();
    narad.post(&format!("/v1/topics/t/ack?receipt_handle={handle}&extend=true"), "").await.is(204);
    narad.get("/v1/topics/later/consume").await.is(204);
    let text =
        narad.until("/metrics", |answer| answer.text.contains("narad_boot_duration_seconds")).await.text;

    let shapes = shapes(&text);
    for row in TABLE.lines().filter(|row| !row.is_empty()) {
        let mut words = row.split(' ');
        let (name, kind, labels) = (words.next().unwrap(), words.next().unwrap(), words.next());
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{row}\n{text}");
        let suffixes: &[(&str, bool)] = if kind == "histogram" {
            &[("_bucket", true), ("_sum", false), ("_count", false)]
        } else {
            &[("", false)]
        };
        for (suffix, has_bound) in suffixes {
            let labels: Vec<_> = labels.into_iter().chain(has_bound.then_some("le")).collect();
            let shape = match labels.as_slice() {
                [] => name.to_owned(),
                labels => format!("{name}{suffix}{{{}}}", labels.join(",")),
            };
            assert!(shapes.contains(&shape), "{shape}\n{text}");
        }
    }
    for (name, kind) in RARE {
        let known = names::ALL.iter().find(|metric| metric.name == name).unwrap();
        assert_eq!(format!("{:?}", known.kind).to_lowercase(), kind, "{name}");
    }
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_consumers_have_not_got_shows_and_goes_when_it_is_acked() {
    let narad = Narad::start().await;
    narad.create("t").await;
    narad.post("/v1/topics/t/produce?partition=1", "one").await.is(202);
    let lag = |count: u64| format!("narad_consumer_lag_messages{{topic=\"t\",partition=\"1\"}} {count}\n");
    narad.until("/metrics", |answer| answer.text.contains(&lag(1))).await;
    let taken = narad.get("/v1/topics/t/consume?wait=10s").await.is(200).json();
    narad
        .until("/metrics", |answer| {
            answer.text.contains("narad_inflight_size{topic=\"t\",partition=\"1\"} 1\n")
        })
        .await;
    let handle = taken["receipt_handle"].as_str().unwrap();
    narad.post(&format!("/v1/topics/t/ack?receipt_handle={handle}"), "").await.is(204);
    let text = narad.until("/metrics", |answer| answer.text.contains(&lag(0))).await.text;
    let age = "narad_oldest_unconsumed_message_age_seconds{topic=\"t\",partition=\"1\"} 0\n";
    assert!(text.contains(age), "{text}");
    assert!(text.contains("narad_consume_wait_seconds_count{topic=\"t\",outcome=\"hit\"} 1\n"), "{text}");
    let fsyncs = "narad_storage_fsync_duration_seconds_count{topic=\"t\",partition=\"1\"} 1\n";
    assert!(text.contains(fsyncs), "{text}");
    assert!(text.contains("narad_storage_fsync_duration_seconds_count{topic=\"ingress/produce\""), "{text}");
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn series_of_deleted_topics_are_gone_and_unknown_topics_make_none() {
    const TOPICS: usize = 200;
    let narad = Narad::start().await;
    narad.ready().await;
    // Every route once, so that its series of requests are there before.
    use_topic(&narad, "first").await;
    let before = shapes_and_labels(&narad.get("/metrics").await.text);
    for topic in 0..TOPICS {
        use_topic(&narad, &format!("t-{topic}")).await;
    }
    for topic in 0..TOPICS {
        let path = format!("/v1/topics/nobody-{topic}/produce");
        narad.post(&path, "x").await.is(404);
        narad.get(&format!("/v1/topics/nobody-{topic}/consume")).await.is(404);
    }
    let after = shapes_and_labels(&narad.get("/metrics").await.text);
    // Those of requests that nobody made before, and of a retention policy's first sweep, are no topic's.
    let is_of_a_topic =
        |series: &&String| !series.contains("status=\"404\"") && !series.starts_with("narad_plugin_");
    let new: Vec<_> = after.difference(&before).filter(is_of_a_topic).collect();
    assert!(new.is_empty(), "{new:?}");
    let nobody: Vec<_> = after.iter().filter(|series| series.contains("nobody")).collect();
    assert!(nobody.is_empty(), "{nobody:?}");
    narad.stop().await;
}

async fn use_topic(narad: &Narad, name: &str) {
    narad.create(name).await;
    narad.post(&format!("/v1/topics/{name}/produce?partition=0"), "x").await.is(202);
    narad.get(&format!("/v1/topics/{name}/consume?wait=10s")).await.is(200);
    assert!(narad.get("/metrics").await.text.contains(&format!("topic=\"{name}\"")));
    narad.send(Method::DELETE, &format!("/v1/topics/{name}"), "").await.is(204);
}

/// Series with their labels, without values.
fn shapes_and_labels(text: &str) -> BTreeSet<String> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_partitions_keeps_no_log_open_and_closed_ones_keep_their_series() {
    let dir = tempfile::tempdir().unwrap();
    let config = crate::http_support::config(dir.path());
    let runtime = Runtime::new(RuntimeOptions::default());
    let idle = |options: &mut narad_core::store::StoreOptions| {
        options.idle_eviction = Some(Duration::from_millis(200));
        options.sweep_interval = Duration::from_millis(50);
    };
    let broker = Broker::open_with(runtime, default_plugins().unwrap(), &config, idle).await.unwrap();
    let new = NewTopic { name: "t".to_owned(), ..NewTopic::default() };
    broker.create_topic(new).await.unwrap();
    let message = Message {
        payload: "x".into(),
        partition: Some(narad_core::plugin::PartitionId(0)),
        ..Message::default()
    };
    broker.produce("t", message).await.unwrap();
    let look = || async {
        let mut families = Families::default();
        broker.collect(&mut families).await;
        exposition::text(&families)
    };
    let lag = "narad_consumer_lag_messages{topic=\"t\",partition=\"0\"} 1\n";
    let closed = async {
        loop {
            let text = look().await;
            if text.contains("narad_open_partition_logs 0\n") && text.contains(lag) {
                return text;
            }
        }
    };
    let text = tokio::time::timeout(Duration::from_secs(30), closed)
        .await
        .expect("it is closed while it is looked at");
    assert!(text.contains("narad_segments{topic=\"t\",partition=\"0\"} 1\n"), "{text}");
    assert!(text.contains("narad_topic_bytes{topic=\"t\"}"), "{text}");
    broker.close(Duration::from_secs(5)).await.unwrap();
}
