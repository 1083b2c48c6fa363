//! The settings themselves: their names, types and defaults.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Address;
use crate::{duration::WithUnits, secret::Secret};

/// All settings. Keys that end in `_ms` or `_bytes` are integers of that unit; other durations carry their unit.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// The API's listener and its limits.
    pub http: Http,
    /// The data directory and the plugins of its logs.
    pub storage: Storage,
    /// What a topic gets that does not say otherwise.
    pub topic: TopicDefaults,
    /// Copying from parents to children.
    pub fanout: Fanout,
    /// The program's own log.
    pub log: Log,
    /// Where spans, series and log go.
    pub telemetry: Telemetry,
    /// Who may do what.
    pub security: Security,
    /// This process among others.
    pub node: Node,
    /// Whether `--dev` was given; no file and no variable can.
    #[serde(skip)]
    pub dev: bool,
    /// `NARAD_ADMIN_PASSWORD`: the password of the first user, made at the first start. Of the environment alone, and shown
    /// nowhere.
    #[serde(skip)]
    pub admin_password: Option<Secret>,
}

/// The API's listener and its limits.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Http {
    /// Where to listen: `HOST:PORT`, or `:PORT` for every interface; port 0 picks one.
    pub addr: Address,
    /// A request's headers must be complete within this time of its first byte, or of the connection's start.
    pub read_header_timeout: WithUnits,
    /// A request's body must be complete within this time.
    pub read_timeout: WithUnits,
    /// A connection without a request is closed after this time.
    pub idle_timeout: WithUnits,
    /// How long a shutdown may take. At least `max_consume_wait`.
    pub shutdown_grace: WithUnits,
    /// The longest `wait` of a consume; longer ones are clamped to it.
    pub max_consume_wait: WithUnits,
    /// Bytes of a request's head, at most. At least 8192.
    pub max_header_bytes: u32,
    /// Connections open at once, at most.
    pub max_connections: u32,
    /// Consumes in flight for one user, or for one client address while security is off; 0 is no bound.
    pub max_consume_in_flight_per_identity: u32,
    /// The same for produces; 0 is no bound.
    pub max_produce_in_flight_per_identity: u32,
    /// Where `/metrics` is served instead, without a password; absent is the API's listener.
    pub metrics_addr: Option<Address>,
    /// Whether `/metrics` needs no password on the API's listener.
    pub metrics_unauthenticated: bool,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            addr: Address::any_interface(7942),
            read_header_timeout: WithUnits::seconds(10),
            read_timeout: WithUnits::seconds(30),
            idle_timeout: WithUnits::seconds(60),
            shutdown_grace: WithUnits::seconds(10),
            max_consume_wait: WithUnits::seconds(10),
            max_header_bytes: 65_536,
            max_connections: 4096,
            max_consume_in_flight_per_identity: 1024,
            max_produce_in_flight_per_identity: 0,
            metrics_addr: None,
            metrics_unauthenticated: false,
        }
    }
}

/// The data directory and the plugins of its logs. A plugin is a name, or an object with `name` and the plugin's keys.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Storage {
    /// The data directory; one process at a time.
    pub data_dir: PathBuf,
    /// The codec for new frames.
    pub codec: Value,
    /// Which segments may go. `age` goes by each topic's `retention_ms`.
    pub retention: Value,
    /// When records are synced that nobody has committed.
    pub sync: Value,
    /// Who is told, beside the broker itself, that a log has messages.
    pub wake: Value,
    /// An idle log is closed after this time; 0 turns it off, else at least 60000.
    pub idle_log_eviction_ms: u64,
    /// How often retention looks at closed logs; 0 turns it off, else at least 60000.
    pub cold_retention_walk_ms: u64,
    /// How often consumer positions are synced: 10 to 60000.
    pub consumer_offset_commit_interval_ms: u64,
    /// Whether the segments of busy partitions and of the produce log are filled with zeros ahead of their messages,
    /// which makes small commits faster: at most 256 KiB each, given back when they are full, idle or closed.
    pub prepare_segments: bool,
    /// Whether a message that comes alone, on a broker that has nothing else to do, and a request with 64 KiB to 2 MiB of
    /// payload for one partition are committed to the partition without the produce log before it: one fsync instead of two
    /// until a consumer has it, and each byte written once.
    pub direct_produce: bool,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("data"),
            codec: Value::from("none"),
            retention: Value::from("age"),
            sync: Value::from("batched"),
            wake: Value::from("silent"),
            idle_log_eviction_ms: 1_800_000,
            cold_retention_walk_ms: 300_000,
            consumer_offset_commit_interval_ms: 1000,
            prepare_segments: true,
            direct_produce: true,
        }
    }
}

/// What a topic gets that does not say otherwise.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TopicDefaults {
    /// Partitions: 3 to `max_partitions`.
    pub default_partitions: u32,
    /// The most partitions a topic may have.
    pub max_partitions: u32,
    /// How long messages are kept: 0 for ever, else at least 3600000.
    pub default_retention_age_ms: u64,
    /// How long a lease lasts.
    pub default_visibility_timeout_ms: u64,
    /// Leases out at once in one partition.
    pub default_max_in_flight_per_partition: u32,
    /// Messages acked out of order in one partition before it waits for the one that holds the frontier back.
    pub default_max_acked_ahead_per_partition: u32,
}

impl Default for TopicDefaults {
    fn default() -> Self {
        Self {
            default_partitions: 3,
            max_partitions: 108,
            default_retention_age_ms: 604_800_000,
            default_visibility_timeout_ms: 30_000,
            default_max_in_flight_per_partition: 1024,
            default_max_acked_ahead_per_partition: 1024,
        }
    }
}

/// Copying from parents to children: a batch is copied when it is full, or a while after its first message.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Fanout {
    /// Messages that are copied at once, at most: 1 to 65536.
    pub max_batch_records: u32,
    /// Bytes that are copied at once, at most: 1024 to 67108864. A larger message is copied alone.
    pub max_batch_bytes: u32,
    /// How long a batch that is not full waits for more: 0 to 1000.
    pub linger_ms: u64,
}

impl Default for Fanout {
    fn default() -> Self {
        Self { max_batch_records: 4096, max_batch_bytes: 4 << 20, linger_ms: 25 }
    }
}

/// The program's own log.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Log {
    /// `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,narad_core=debug`.
    pub level: String,
    /// One JSON object a line, or text for people.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Json }
    }
}

/// How a line of the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Where spans and series go, and the log if `OTEL_LOGS_EXPORTER` is `otlp`. The other `OTEL_` variables count too.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Telemetry {
    /// An OTLP collector, as `http://HOST:PORT`; absent is what `OTEL_EXPORTER_OTLP_ENDPOINT` says, or nobody.
    pub otlp_endpoint: Option<String>,
    /// What it speaks; absent is what `OTEL_EXPORTER_OTLP_PROTOCOL` says, or gRPC.
    pub otlp_protocol: Option<OtlpProtocol>,
}

/// What a collector speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OtlpProtocol {
    /// gRPC.
    #[serde(rename = "grpc")]
    Grpc,
    /// Protobuf over HTTP; in a build with the feature `otlp-http`.
    #[serde(rename = "http/protobuf")]
    Http,
}

/// Who may do what.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Security {
    /// Whether requests must authenticate. Without it whoever reaches the API may do everything, users included. `--dev`
    /// turns it off.
    pub enabled: bool,
}

impl Default for Security {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// This process among others.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Node {
    /// Its name: the host's, unless told otherwise.
    pub id: String,
}

impl Default for Node {
    fn default() -> Self {
        let host = rustix::system::uname();
        let name = host.nodename().to_string_lossy();
        Self { id: if name.is_empty() { "narad".to_owned() } else { name.into_owned() } }
    }
}
