//! The bounds of every setting, checked together before anything opens.

use std::{collections::BTreeSet, fmt::Display};

use tracing_subscriber::filter::{LevelFilter, Targets};

use super::{Address, Config, Http, OtlpProtocol, Source, Storage, Telemetry, TopicDefaults};
use crate::secret::MAX_PASSWORD_BYTES;

/// The shortest retention that is not "for ever": an hour.
pub(crate) const MIN_RETENTION_MS: u64 = 3_600_000;
/// No duration of a topic is longer: ten years in milliseconds.
pub(crate) const MAX_TOPIC_MS: u64 = 10 * 365 * 24 * 3_600_000;
/// No cap of a topic is higher.
pub(crate) const MAX_CAP: u32 = 1_000_000;
/// The fewest partitions of a topic.
pub(crate) const MIN_PARTITIONS: u32 = 3;
/// The most partitions that any configuration can allow.
pub(crate) const MAX_PARTITIONS: u32 = 108;

/// Everything that lies outside its bounds or contradicts another setting: the key and the reason. What `unusable` names
/// has only its default in the tree, about which there is nothing to say.
/// `source` is where the value of a key comes from.
pub(super) fn check(
    config: &Config,
    unusable: &BTreeSet<String>,
    source: &dyn Fn(&str) -> Source,
) -> Vec<(&'static str, String)> {
    let mut check = Check { unusable, source, found: Vec::new() };
    http(&config.http, config.dev, &mut check);
    storage(&config.storage, &mut check);
    topic(&config.topic, &mut check);
    telemetry(&config.telemetry, &mut check);
    let password = config.admin_password.as_ref().map_or(0, |password| password.expose().len());
    check.require(password <= MAX_PASSWORD_BYTES, "NARAD_ADMIN_PASSWORD", || {
        format!("has {password} bytes; at most {MAX_PASSWORD_BYTES}")
    });
    check.within("fanout.max_batch_records", config.fanout.max_batch_records, 1, 65_536);
    check.within("fanout.max_batch_bytes", config.fanout.max_batch_bytes, 1024, 64 << 20);
    check.within("fanout.linger_ms", config.fanout.linger_ms, 0, 1000);
    check.require(!config.node.id.trim().is_empty(), "node.id", || "must not be empty");
    check.require(
        is_filter(&config.log.level),
        "log.level",
        || "is no level and no filter; try info, or info,narad_core=debug",
    );
    check.found
}

fn telemetry(telemetry: &Telemetry, check: &mut Check<'_>) {
    if let Some(endpoint) = &telemetry.otlp_endpoint {
        let reason = unusable_collector(endpoint);
        check.require(reason.is_none(), "telemetry.otlp_endpoint", || reason.unwrap_or_default());
        check.require(
            cfg!(feature = "otlp"),
            "telemetry.otlp_endpoint",
            || "this build sends nothing over OTLP",
        );
    }
    let speaks_http = cfg!(feature = "otlp-http") || telemetry.otlp_protocol != Some(OtlpProtocol::Http);
    check.require(
        speaks_http,
        "telemetry.otlp_protocol",
        || "this build speaks grpc; it takes the feature otlp-http",
    );
}

/// Why nothing can be sent to a collector at that address.
pub(crate) fn unusable_collector(endpoint: &str) -> Option<&'static str> {
    if endpoint.starts_with("https://") {
        return Some("https is not spoken; give the http:// address of a collector beside the broker");
    }
    let host = endpoint.strip_prefix("http://").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let is_address = !host.is_empty() && !host.starts_with(':') && !host.contains(char::is_whitespace);
    (!is_address).then_some("is no address of a collector; write http://HOST:PORT")
}

/// To the parser a word that is no level names a module: `infoo` would leave everything else unlogged.
fn is_filter(text: &str) -> bool {
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    text.parse::<Targets>().is_ok() && text.split(',').all(|part| part.contains('=') || is_level(part))
}

fn http(http: &Http, dev: bool, check: &mut Check<'_>) {
    check.require(!dev || http.addr.is_loopback(), "http.addr", || {
        format!("{} can be reached from elsewhere, and --dev has no security: listen on 127.0.0.1", http.addr)
    });
    let metrics_loopback = http.metrics_addr.as_ref().is_none_or(Address::is_loopback);
    check.require(
        !dev || metrics_loopback,
        "http.metrics_addr",
        || "can be reached from elsewhere, and --dev has no security: listen on 127.0.0.1",
    );
    let is_shared = http.metrics_addr.as_ref() == Some(&http.addr) && http.addr.port() != 0;
    check.require(
        !is_shared,
        "http.metrics_addr",
        || "is http.addr: leave it out, and the metrics are with the API",
    );
    for (key, value) in [
        ("http.read_header_timeout", http.read_header_timeout),
        ("http.read_timeout", http.read_timeout),
        ("http.idle_timeout", http.idle_timeout),
    ] {
        check.require(!value.0.is_zero(), key, || "must not be 0");
    }
    if check.usable("http.max_consume_wait") {
        let (grace, wait) = (http.shutdown_grace, http.max_consume_wait);
        let from = |key| (check.source)(key);
        // Who gave one of the two is told of that one, and not of a default.
        if from("http.shutdown_grace").layer() == "default" {
            let from = from("http.shutdown_grace");
            check.require(grace >= wait, "http.max_consume_wait", || {
                format!(
                    "is {wait}, and must be at most http.shutdown_grace, which is {grace} ({from}): raise \
                     http.shutdown_grace too"
                )
            });
        } else {
            let from = from("http.max_consume_wait");
            check.require(grace >= wait, "http.shutdown_grace", || {
                format!("is {grace}, and must be at least http.max_consume_wait, which is {wait} ({from})")
            });
        }
    }
    // Below this a browser's ordinary request does not fit, and hyper takes no less.
    check.within("http.max_header_bytes", http.max_header_bytes, 8192, 16 << 20);
    check.within("http.max_connections", http.max_connections, 1, 1 << 20);
}

fn storage(storage: &Storage, check: &mut Check<'_>) {
    let is_devs = (check.source)("storage.data_dir") == Source::Dev;
    check.require(!storage.data_dir.as_os_str().is_empty(), "storage.data_dir", || {
        if is_devs {
            "is not given, and without HOME there is no ~/.narad/data: give --data-dir"
        } else {
            "must not be empty"
        }
    });
    for (key, ms) in [
        ("storage.idle_log_eviction_ms", storage.idle_log_eviction_ms),
        ("storage.cold_retention_walk_ms", storage.cold_retention_walk_ms),
    ] {
        check.require(ms == 0 || (60_000..=u64::from(u32::MAX)).contains(&ms), key, || {
            format!("is {ms}, and must be 0 (never), or lie between 60000 and {}", u32::MAX)
        });
    }
    let interval = storage.consumer_offset_commit_interval_ms;
    check.within("storage.consumer_offset_commit_interval_ms", interval, 10, 60_000);
}

fn topic(topic: &TopicDefaults, check: &mut Check<'_>) {
    check.within("topic.max_partitions", topic.max_partitions, MIN_PARTITIONS, MAX_PARTITIONS);
    let most = topic.max_partitions.clamp(MIN_PARTITIONS, MAX_PARTITIONS);
    check.within("topic.default_partitions", topic.default_partitions, MIN_PARTITIONS, most);
    let retention = topic.default_retention_age_ms;
    // What a topic may not have cannot be what it gets by default: no topic could be created.
    check.require(
        retention == 0 || (MIN_RETENTION_MS..=MAX_TOPIC_MS).contains(&retention),
        "topic.default_retention_age_ms",
        || format!("must be 0 (for ever), or lie between {MIN_RETENTION_MS} and {MAX_TOPIC_MS}"),
    );
    let visibility = topic.default_visibility_timeout_ms;
    check.within("topic.default_visibility_timeout_ms", visibility, 1, MAX_TOPIC_MS);
    let (in_flight, ahead) =
        (topic.default_max_in_flight_per_partition, topic.default_max_acked_ahead_per_partition);
    check.within("topic.default_max_in_flight_per_partition", in_flight, 1, MAX_CAP);
    check.within("topic.default_max_acked_ahead_per_partition", ahead, 1, MAX_CAP);
}

struct Check<'a> {
    unusable: &'a BTreeSet<String>,
    source: &'a dyn Fn(&str) -> Source,
    found: Vec<(&'static str, String)>,
}

impl Check<'_> {
    fn usable(&self, key: &str) -> bool {
        !self.unusable.contains(key)
    }

    fn require<R: ToString>(&mut self, holds: bool, key: &'static str, reason: impl FnOnce() -> R) {
        if !holds && self.usable(key) {
            self.found.push((key, reason().to_string()));
        }
    }

    fn within<T: PartialOrd + Display>(&mut self, key: &'static str, value: T, low: T, high: T) {
        self.require(value >= low && value <= high, key, || {
            format!("is {value}, and must lie between {low} and {high}")
        });
    }
}
