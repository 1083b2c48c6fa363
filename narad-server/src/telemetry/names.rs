//! Every metric: its name, its type, what it says. Existing dashboards use the names, so they never change.

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Durations, by the bound that they stay within; in seconds.
    Histogram,
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name in Prometheus.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it says, in one line.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($constant:ident = $kind:ident $name:literal, $help:literal;)*) => {
        $(#[doc = $help] pub const $constant: Metric = Metric { name: $name, kind: Kind::$kind, help: $help };)*

        /// All of them.
        pub const ALL: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    MESSAGES_PRODUCED = Counter "narad_messages_produced_total", "Messages acknowledged to producers.";
    BYTES_PRODUCED = Counter "narad_bytes_produced_total", "Bytes of the payloads acknowledged to producers.";
    MESSAGES_CONSUMED = Counter "narad_messages_consumed_total", "Messages handed to consumers, repeats included.";
    BYTES_CONSUMED = Counter "narad_bytes_consumed_total", "Bytes of the payloads handed to consumers, repeats included.";
    PRODUCE_REJECTIONS = Counter "narad_produce_rejections_total", "Messages that were not taken, by reason: disk_full, queue_full, wal_failed, shutting_down, delayed_child.";
    CONSUME_WAIT = Histogram "narad_consume_wait_seconds", "How long consumes took until they had an answer, by outcome: hit, timeout, cancelled, no_wait.";
    CONSUME_EMPTY = Counter "narad_consume_empty_total", "Consumes that were answered with nothing.";
    ACK_EXTENDED = Counter "narad_ack_extended_total", "Leases renewed.";
    NACK = Counter "narad_nack_total", "Leases given back.";

    HTTP_REQUESTS = Counter "narad_http_requests_total", "Requests answered.";
    HTTP_DURATION = Histogram "narad_http_request_duration_seconds", "How long requests took until their answer began; the wait of a consume included.";
    HTTP_IN_FLIGHT = Gauge "narad_http_requests_in_flight", "Requests under way.";

    CONSUMER_LAG = Gauge "narad_consumer_lag_messages", "Messages from the oldest that is not acked to the end; absent where that would take an open.";
    OLDEST_AGE = Gauge "narad_oldest_unconsumed_message_age_seconds", "Age of the oldest message that is not acked; 0 when there is none. Of a closed log, at least that of its oldest segment's last write.";
    CONSUMER_DROPPED = Gauge "narad_consumer_dropped_messages", "Messages that retention took before they were acked, since the start.";
    INFLIGHT = Gauge "narad_inflight_size", "Leases in force.";
    ACKED_AHEAD = Gauge "narad_acked_ahead_size", "Messages acked above one that is not.";
    CORRUPT_SKIPPED = Counter "narad_consumer_corrupt_skipped_total", "Messages that could not be read and were passed over.";

    FANOUT_LAG = Gauge "narad_fanout_lag_messages", "Messages of a parent's partition that a child has not got, those that are not due included; absent where that would take an open.";
    FANOUT_DUE_LAG = Gauge "narad_fanout_due_lag_seconds", "For how long the first of them has been due.";
    FANOUT_COMMITTED = Counter "narad_fanout_committed_total", "Messages copied to a child, repeats included.";
    FANOUT_DROPPED = Counter "narad_fanout_child_dropped_messages", "Messages that a child never gets: retention took them first, or they could not be read.";

    FSYNC = Histogram "narad_storage_fsync_duration_seconds", "How long fsyncs of a partition's log took; the produce log is topic=\"ingress/produce\".";
    FLUSH = Histogram "narad_storage_flush_duration_seconds", "How long writes of frames to a partition's log took, fsync left out.";
    FLUSH_BYTES = Counter "narad_storage_flush_bytes_total", "Bytes of frames written to a partition's log.";
    RETENTION_BYTES = Counter "narad_storage_retention_bytes_deleted_total", "Bytes that retention deleted, by the policy's reason.";
    RETENTION_MESSAGES = Counter "narad_storage_retention_messages_deleted_total", "Messages that retention deleted, by the policy's reason.";
    RECOVERY_SCANNED = Counter "narad_storage_recovery_scanned_bytes_total", "Bytes that opens of a partition's log have scanned.";
    RECOVERY_CUT = Counter "narad_storage_recovery_truncated_bytes_total", "Bytes of torn tails that opens of a partition's log have cut.";
    RECOVERY_GAPS = Counter "narad_storage_recovery_gaps_total", "Runs of messages lost to damage that opens of a partition's log have found; each open finds them again.";
    CACHE_HITS = Counter "narad_storage_cache_hits_total", "Reads of frames that were in memory, decoded.";
    CACHE_MISSES = Counter "narad_storage_cache_misses_total", "Reads of frames that had to be read from their file and decoded.";
    PARTITION_SIZE = Gauge "narad_partition_size_bytes", "Bytes of a partition's segments.";
    SEGMENTS = Gauge "narad_segments", "Segments of a partition.";
    TOPIC_BYTES = Gauge "narad_topic_bytes", "Bytes of the segments of all partitions of a topic.";

    DATA_DIR_SIZE = Gauge "narad_data_dir_size_bytes", "Bytes of all files in the data directory, looked at once a minute at most.";
    DATA_DIR_AVAILABLE = Gauge "narad_data_dir_available_bytes", "Bytes that the file system of the data directory has left; absent while it gives no answer.";
    OPEN_LOGS = Gauge "narad_open_partition_logs", "Partitions whose log is open.";
    TOPICS = Gauge "narad_topics_total", "Topics.";
    PARTITIONS = Gauge "narad_partitions_total", "Partitions of all topics.";
    WAL_FAILED = Gauge "narad_ingress_wal_failed", "1 while nothing can be produced.";
    DISPATCH_BACKLOG = Gauge "narad_ingress_dispatch_backlog_records", "Messages acknowledged and not yet in their partitions.";
    REAPER_RESTARTS = Gauge "narad_reaper_restarts", "Threads looking after logs that hung and were replaced.";
    BOOT_DURATION = Gauge "narad_boot_duration_seconds", "How long the start took until every partition was open; absent until then.";
    QUARANTINED = Gauge "narad_quarantined_copies", "Directories of topics that were set aside, looked at once a minute at most.";

    IDLE_LOGS_EVICTED = Counter "narad_idle_logs_evicted_total", "Logs closed for being idle.";
    COLD_RETENTION_SWEPT = Counter "narad_cold_retention_swept_total", "Closed partitions of which retention deleted something.";
    COLD_RETENTION_PANICS = Counter "narad_cold_retention_panics_total", "Visits of retention to a closed partition that panicked.";
    ERRORS = Counter "narad_errors_total", "Failures by component and kind.";

    PLUGIN_CALLS = Counter "narad_plugin_calls_total", "Calls into a plugin.";
    PLUGIN_ERRORS = Counter "narad_plugin_errors_total", "Calls into a plugin that answered an error or panicked.";
    PLUGIN_DURATION = Histogram "narad_plugin_call_duration_seconds", "How long calls into a plugin took.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_all_different_and_end_as_their_type_says() {
        // Names of the contract that Prometheus would have otherwise.
        let kept = [FANOUT_DROPPED.name, TOPICS.name, PARTITIONS.name];
        for metric in ALL {
            let again = ALL.iter().filter(|other| other.name == metric.name).count();
            assert_eq!(again, 1, "{}", metric.name);
            let is_total = metric.name.ends_with("_total");
            assert!(
                is_total == (metric.kind == Kind::Counter) || kept.contains(&metric.name),
                "{}",
                metric.name
            );
        }
    }
}
