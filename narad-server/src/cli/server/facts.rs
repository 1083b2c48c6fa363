//! What is gathered for a report. Asks for nothing that a message is in.

use std::collections::BTreeMap;

use reqwest::StatusCode;
use serde::Serialize;

use crate::cli::{
    client::{Client, model::Topic},
    error::CliError,
};

/// Whether something could be asked for.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Known {
    /// It could.
    Yes,
    /// It could not, for that reason.
    Not(String),
}

/// What a broker tells of itself.
#[derive(Debug, Serialize)]
pub(super) struct Facts {
    pub(super) command_version: &'static str,
    pub(super) server_version: Option<String>,
    pub(super) node: Option<String>,
    pub(super) alive: bool,
    /// `ready`, or why not.
    pub(super) ready: String,
    #[serde(skip)]
    is_ready: bool,
    pub(super) degraded: Vec<String>,
    pub(super) partitions: u64,
    pub(super) topic_bytes: u64,
    /// Messages that no consumer has acked; unknown when no partition tells.
    pub(super) lag_messages: Option<u64>,
    /// Whether what follows is known.
    pub(super) metrics: Known,
    pub(super) available_bytes: Option<u64>,
    pub(super) backlog_records: Option<u64>,
    pub(super) wal_failed: Option<bool>,
    pub(super) requests_in_flight: Option<u64>,
    /// Failures since the start by component and kind.
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) topics: Vec<TopicFacts>,
}

/// What is told of a topic.
#[derive(Debug, Serialize)]
pub(super) struct TopicFacts {
    pub(super) name: String,
    pub(super) partitions: u32,
    pub(super) retention_ms: u64,
    pub(super) segments: u64,
    /// Kept, whether consumed or not.
    pub(super) messages: u64,
    pub(super) lag_messages: Option<u64>,
    pub(super) size_bytes: u64,
    /// Partitions that are not ok, and how they are.
    pub(super) not_ok: Vec<String>,
}

impl Facts {
    /// Asks the broker.
    ///
    /// # Errors
    /// It cannot be reached. What it refuses is unknown and no error.
    pub(super) async fn gather(client: &Client) -> Result<Self, CliError> {
        let alive = client.is_alive().await?;
        let (ready, is_ready, degraded) = match client.readiness().await {
            Ok(readiness) => (readiness.status, true, readiness.degraded),
            Err(error) => (error.to_string(), false, Vec::new()),
        };
        let member = client.members().await.ok().and_then(|members| members.members.into_iter().next());
        let (server_version, node) = member.map_or((None, None), |one| (one.version, Some(one.id)));
        let mut topics = Vec::new();
        for topic in client.all_topics().await? {
            match client.topic(&topic.name, None).await {
                Ok(described) => topics.push(TopicFacts::new(described)),
                // It was deleted meanwhile.
                Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => {}
                Err(error) => {
                    let mut listed = TopicFacts::new(topic);
                    listed.not_ok.push(error.to_string());
                    topics.push(listed);
                }
            }
        }
        let (metrics, text) = match client.metrics().await {
            Ok(text) => (Known::Yes, text),
            Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => {
                let elsewhere = "served elsewhere: see http.metrics_addr of the broker".to_owned();
                (Known::Not(elsewhere), String::new())
            }
            Err(error) => (Known::Not(error.to_string()), String::new()),
        };
        Ok(Self {
            command_version: env!("CARGO_PKG_VERSION"),
            server_version,
            node,
            alive,
            ready,
            is_ready,
            degraded,
            partitions: topics.iter().map(|topic| u64::from(topic.partitions)).sum(),
            topic_bytes: topics.iter().map(|topic| topic.size_bytes).sum(),
            lag_messages: sum(topics.iter().map(|topic| topic.lag_messages)),
            metrics,
            available_bytes: gauge(&text, "narad_data_dir_available_bytes"),
            backlog_records: gauge(&text, "narad_ingress_dispatch_backlog_records"),
            wal_failed: gauge(&text, "narad_ingress_wal_failed").map(|failed| failed != 0),
            requests_in_flight: gauge(&text, "narad_http_requests_in_flight"),
            errors: errors(&text),
            topics,
        })
    }

    /// Whether it works, all of it.
    pub(super) fn is_well(&self) -> bool {
        self.alive && self.is_ready && self.degraded.is_empty()
    }
}

impl TopicFacts {
    fn new(topic: Topic) -> Self {
        let stats = &topic.partition_stats;
        let messages = stats
            .iter()
            .map(|one| one.high_watermark.unwrap_or(0).saturating_sub(one.oldest_offset.unwrap_or(0)));
        let not_ok = stats.iter().filter_map(|one| {
            let status = one.status.as_deref().filter(|status| *status != "ok")?;
            Some(format!("{} {status}", one.index))
        });
        Self {
            partitions: topic.partitions,
            retention_ms: topic.retention_ms,
            segments: stats.iter().map(|one| one.segments).sum(),
            messages: messages.sum(),
            lag_messages: sum(stats.iter().map(|one| one.lag_messages)),
            size_bytes: stats.iter().map(|one| one.size_bytes).sum(),
            not_ok: not_ok.collect(),
            name: topic.name,
        }
    }
}

/// The sum of what is known; unknown when nothing is, and there is something.
fn sum(numbers: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let numbers: Vec<Option<u64>> = numbers.collect();
    (numbers.is_empty() || numbers.iter().any(Option::is_some)).then(|| numbers.into_iter().flatten().sum())
}

/// The value of a metric without labels.
fn gauge(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    value.trim().parse::<f64>().ok().map(|value| value as u64)
}

/// `component kind` and how often, from lines such as `narad_errors_total{component="storage",kind="open"} 3`.
fn errors(text: &str) -> BTreeMap<String, u64> {
    let mut errors = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("narad_errors_total{")) {
        let Some((labels, count)) = line.rsplit_once("} ") else { continue };
        let values: Vec<&str> = labels.split('"').skip(1).step_by(2).collect();
        if let Ok(count) = count.trim().parse() {
            errors.insert(values.join(" "), count);
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_the_metrics() {
        let text = "# TYPE narad_up gauge\nnarad_up_total 3\nnarad_up 7\nnarad_big 1e3\n\
                    narad_errors_total{component=\"storage\",kind=\"open\"} 3\n";
        assert_eq!(
            (gauge(text, "narad_up"), gauge(text, "narad_big"), gauge(text, "narad_no")),
            (Some(7), Some(1000), None)
        );
        assert_eq!(errors(text), BTreeMap::from([("storage open".to_owned(), 3)]));
    }

    #[test]
    fn what_nobody_tells_is_unknown_and_not_nothing() {
        assert_eq!(sum([Some(2), None, Some(3)].into_iter()), Some(5));
        assert_eq!(sum([None, None].into_iter()), None);
        assert_eq!(sum(std::iter::empty()), Some(0));
    }
}
