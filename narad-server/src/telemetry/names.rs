//! The names of all metrics. Existing dashboards use them, so they never change.

/// Messages acknowledged to producers, by topic and partition.
pub const MESSAGES_PRODUCED: &str = "narad_messages_produced_total";
/// Bytes of their payloads.
pub const BYTES_PRODUCED: &str = "narad_bytes_produced_total";
/// Messages that were not taken, by topic and reason: `disk_full`, `queue_full`, `wal_failed`, `shutting_down`,
/// `delayed_child`.
pub const PRODUCE_REJECTIONS: &str = "narad_produce_rejections_total";
/// Messages handed to consumers, by topic and partition; repeats included.
pub const MESSAGES_CONSUMED: &str = "narad_messages_consumed_total";
/// Bytes of their payloads.
pub const BYTES_CONSUMED: &str = "narad_bytes_consumed_total";
/// Consumes that were answered with nothing, by topic.
pub const CONSUME_EMPTY: &str = "narad_consume_empty_total";
/// Leases renewed, by topic.
pub const ACK_EXTENDED: &str = "narad_ack_extended_total";
/// Leases given back, by topic.
pub const NACK: &str = "narad_nack_total";
/// Requests answered, by route, method and status.
pub const HTTP_REQUESTS: &str = "narad_http_requests_total";
/// Requests under way.
pub const HTTP_IN_FLIGHT: &str = "narad_http_requests_in_flight";
/// Messages acknowledged and not yet in their partitions.
pub const DISPATCH_BACKLOG: &str = "narad_ingress_dispatch_backlog_records";
/// 1 while the produce WAL takes nothing.
pub const WAL_FAILED: &str = "narad_ingress_wal_failed";
/// Bytes that the file system of the data directory has left; absent while it gives no answer.
pub const DATA_DIR_AVAILABLE: &str = "narad_data_dir_available_bytes";
/// Logs closed because nobody used them.
pub const IDLE_LOGS_EVICTED: &str = "narad_idle_logs_evicted_total";
/// Closed partitions of which retention deleted something.
pub const COLD_RETENTION_SWEPT: &str = "narad_cold_retention_swept_total";
/// Visits of retention to a closed partition that panicked.
pub const COLD_RETENTION_PANICS: &str = "narad_cold_retention_panics_total";
/// Threads looking after logs that hung and were replaced.
pub const REAPER_RESTARTS: &str = "narad_reaper_restarts";
/// Failures by component and kind.
pub const ERRORS: &str = "narad_errors_total";
/// Messages of a parent that a child has not got yet, by parent, child and the parent's partition; absent where that
/// would take an open.
pub const FANOUT_LAG: &str = "narad_fanout_lag_messages";
/// For how long the first of them has been due, in whole seconds.
pub const FANOUT_DUE_LAG: &str = "narad_fanout_due_lag_seconds";
/// Messages copied, by parent and child; repeats included.
pub const FANOUT_COMMITTED: &str = "narad_fanout_committed_total";
/// Messages that a child never gets, by parent and child: retention took them first, or they could not be read.
pub const FANOUT_DROPPED: &str = "narad_fanout_child_dropped_messages";
