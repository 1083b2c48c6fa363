//! Every series that the broker has. Opens no log and keeps none open; answers within seconds, whatever the disk does.

use std::{collections::HashMap, sync::Arc, sync::atomic::Ordering};

use narad_core::{
    metrics::{LogMetrics, PluginCalls},
    plugin::Incarnation,
};

use super::{
    Broker, Gauges,
    catalog::TopicEntry,
    counters::Outcome,
    partitions::{self, PartitionGauges},
};
use crate::{
    fanout::LinkStats,
    telemetry::{
        families::{Families, Labels},
        names,
    },
};

/// How the produce log is called in the series of partitions. No topic can be called so, and its directory is.
const PRODUCE_LOG: &str = "ingress/produce";

impl Broker {
    /// Adds every series of this broker: those of topics that are there, and of the whole.
    pub async fn collect(&self, out: &mut Families) {
        let entries = self.0.catalog.entries();
        for entry in &entries {
            topic(entry, out);
        }
        out.add(names::TOPICS, &Labels::none(), entries.len());
        let partitions: u64 = entries.iter().map(|entry| u64::from(entry.topic.partitions)).sum();
        out.add(names::PARTITIONS, &Labels::none(), partitions);
        let engine = self.0.runtime.metrics();
        let logs = engine.logs();
        engine_logs(&logs, &entries, out);
        for calls in engine.plugin_calls() {
            plugin(&calls, out);
        }
        let gauges = self.0.partition_gauges.look(&self.0, entries, &logs).await;
        partition_gauges(&gauges, out);
        self.whole(&self.gauges().await, out).await;
    }

    async fn whole(&self, gauges: &Gauges, out: &mut Families) {
        links(&gauges.links, out);
        let none = Labels::none();
        out.add(names::DISPATCH_BACKLOG, &none, gauges.backlog);
        out.add(names::WAL_FAILED, &none, u64::from(gauges.wal_failed));
        out.add_known(names::DATA_DIR_AVAILABLE, &none, gauges.available_bytes);
        out.add_known(names::BOOT_DURATION, &none, self.0.startup.took());
        if let Some(seen) = self.0.data_dir.look(&self.0.runtime).await {
            out.add(names::DATA_DIR_SIZE, &none, seen.bytes);
            out.add(names::QUARANTINED, &none, seen.quarantined);
        }
        let store = &gauges.store;
        out.add(names::OPEN_LOGS, &none, store.open_logs);
        out.add(names::IDLE_LOGS_EVICTED, &none, store.evicted);
        out.add(names::COLD_RETENTION_SWEPT, &none, store.cold_swept);
        out.add(names::COLD_RETENTION_PANICS, &none, store.cold_panics);
        let cache = self.0.runtime.cache_stats();
        out.add(names::CACHE_HITS, &none, cache.hits);
        out.add(names::CACHE_MISSES, &none, cache.misses);
        out.add(names::REAPER_RESTARTS, &none, store.reaper_restarts);
        for ((component, kind), count) in &gauges.errors {
            out.add(names::ERRORS, &Labels::new([("component", component), ("kind", kind)]), *count);
        }
    }
}

fn topic(entry: &TopicEntry, out: &mut Families) {
    let (name, life) = (&entry.topic.name, &entry.life);
    let of_topic = Labels::shared([("topic", name)]);
    for (counters, partition) in entry.counters.iter().zip(0u32..) {
        let Some([produced, consumed]) = counters.read() else { continue };
        let labels = Labels::new([("topic", name), ("partition", &partition.to_string())]);
        out.add(names::MESSAGES_PRODUCED, &labels, produced.0);
        out.add(names::BYTES_PRODUCED, &labels, produced.1);
        out.add(names::MESSAGES_CONSUMED, &labels, consumed.0);
        out.add(names::BYTES_CONSUMED, &labels, consumed.1);
    }
    out.add(names::CONSUME_EMPTY, &of_topic, life.empty.load(Ordering::Relaxed));
    out.add(names::ACK_EXTENDED, &of_topic, life.extended.load(Ordering::Relaxed));
    out.add(names::NACK, &of_topic, life.released.load(Ordering::Relaxed));
    for (reason, count) in life.rejections() {
        out.add(names::PRODUCE_REJECTIONS, &Labels::new([("topic", name), ("reason", reason)]), count);
    }
    for outcome in Outcome::ALL {
        if let Some(waits) = life.waits.of(outcome).snapshot() {
            let labels = Labels::new([("topic", name), ("outcome", outcome.label())]);
            out.add(names::CONSUME_WAIT, &labels, waits);
        }
    }
}

/// The series of the logs of topics that are there, and of the produce log.
fn engine_logs(logs: &[Arc<LogMetrics>], entries: &[Arc<TopicEntry>], out: &mut Families) {
    let topics: HashMap<&str, Incarnation> =
        entries.iter().map(|entry| (&*entry.topic.name, entry.topic.id)).collect();
    for log in logs {
        let identity = log.identity();
        let topic = match identity.incarnation {
            None => PRODUCE_LOG,
            Some(id) if topics.get(&*identity.name) == Some(&id) => &*identity.name,
            Some(_) => continue,
        };
        let partition = identity.partition.to_string();
        let labels = Labels::new([("topic", topic), ("partition", &partition)]);
        if let Some(fsyncs) = log.fsyncs() {
            out.add(names::FSYNC, &labels, fsyncs);
        }
        if let Some(flushes) = log.flushes() {
            out.add(names::FLUSH, &labels, flushes);
            out.add(names::FLUSH_BYTES, &labels, log.flushed_bytes());
        }
        for (reason, deleted) in log.deletions() {
            let labels = Labels::new([("topic", topic), ("partition", &partition), ("reason", reason)]);
            out.add(names::RETENTION_BYTES, &labels, deleted.bytes);
            out.add(names::RETENTION_MESSAGES, &labels, deleted.messages);
        }
        let recovered = log.recovered();
        let found = [
            (names::RECOVERY_SCANNED, recovered.scanned_bytes),
            (names::RECOVERY_CUT, recovered.cut_bytes),
            (names::RECOVERY_GAPS, recovered.gaps),
        ];
        for (metric, count) in found.into_iter().filter(|(_, count)| *count > 0) {
            out.add(metric, &labels, count);
        }
    }
}

fn plugin(calls: &PluginCalls, out: &mut Families) {
    let Some(durations) = calls.durations() else { return };
    let labels = [("kind", calls.kind), ("plugin", &*calls.plugin), ("operation", calls.operation)];
    let labels = Labels::new(labels);
    out.add(names::PLUGIN_CALLS, &labels, durations.count());
    out.add(names::PLUGIN_ERRORS, &labels, calls.errors());
    out.add(names::PLUGIN_DURATION, &labels, durations);
}

fn partition_gauges(gauges: &[PartitionGauges], out: &mut Families) {
    for partition in gauges {
        let labels = &partition.labels;
        out.add(names::PARTITION_SIZE, labels, partition.bytes);
        out.add(names::SEGMENTS, labels, partition.segments);
        out.add_known(names::CONSUMER_LAG, labels, partition.lag);
        out.add_known(names::OLDEST_AGE, labels, partition.oldest_age);
        if let Some(queue) = &partition.queue {
            out.add(names::CONSUMER_DROPPED, labels, queue.lost);
            out.add(names::INFLIGHT, labels, queue.in_flight);
            out.add(names::ACKED_AHEAD, labels, queue.acked_ahead);
            out.add(names::CORRUPT_SKIPPED, labels, queue.skipped);
        }
    }
    for (topic, bytes) in partitions::bytes_by_topic(gauges) {
        out.add(names::TOPIC_BYTES, &Labels::shared([("topic", topic)]), bytes);
    }
}

fn links(links: &[LinkStats], out: &mut Families) {
    for link in links {
        let of_link = Labels::shared([("parent", &link.parent), ("child", &link.child)]);
        out.add(names::FANOUT_COMMITTED, &of_link, link.committed);
        out.add(names::FANOUT_DROPPED, &of_link, link.dropped);
        for lag in &link.partitions {
            let partition = lag.partition.to_string();
            let labels =
                Labels::new([("parent", &*link.parent), ("child", &*link.child), ("partition", &partition)]);
            out.add_known(names::FANOUT_LAG, &labels, lag.messages);
            out.add(names::FANOUT_DUE_LAG, &labels, lag.due_seconds);
        }
    }
}
