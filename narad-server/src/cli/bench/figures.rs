//! What a run of the benchmark measured, and how that is shown.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::cli::{
    client::ClientError,
    error::CliError,
    output::{Output, human_bytes},
};

/// Latencies are told apart up to this; a longer one counts as it.
const LONGEST: Duration = Duration::from_secs(600);
const WIDEST_BAR: u64 = 40;

/// Counts and latencies of one phase.
#[derive(Debug)]
pub(super) struct Figures {
    /// Requests that worked, by their latency in microseconds.
    latencies: Histogram<u64>,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// How often each kind of failure came, and what the first of them said.
    errors: BTreeMap<String, (u64, String)>,
}

/// A phase as programs read it.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    phase: &'static str,
    topic: &'a str,
    connections: u16,
    /// Messages in each request of a produce.
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<u16>,
    messages: u64,
    bytes: u64,
    seconds: f64,
    messages_per_second: f64,
    bytes_per_second: f64,
    latency_us: Latency,
    histogram: Vec<Bucket>,
    errors: Vec<Failures<'a>>,
    interrupted: bool,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: u64,
    p95: u64,
    p99: u64,
    max: u64,
    mean: f64,
}

/// Requests that took longer than the bucket before, and no longer than this.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Bucket {
    up_to_us: u64,
    count: u64,
}

#[derive(Debug, Serialize)]
struct Failures<'a> {
    kind: &'a str,
    count: u64,
    example: &'a str,
}

/// What the figures are about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Phase<'a> {
    /// `produce` or `consume`.
    pub(super) name: &'static str,
    /// What a latency is of.
    pub(super) request: &'static str,
    /// Messages in one, where that was asked for.
    pub(super) batch: Option<u16>,
    pub(super) topic: &'a str,
    pub(super) connections: u16,
    pub(super) took: Duration,
    pub(super) interrupted: bool,
}

impl Figures {
    /// None yet.
    ///
    /// # Errors
    /// Never, as long as the bounds are in order.
    pub(super) fn new() -> Result<Self, CliError> {
        let latencies = Histogram::new_with_bounds(1, micros(LONGEST), 3)
            .map_err(|error| CliError::Start(std::io::Error::other(error)))?;
        Ok(Self { latencies, messages: 0, bytes: 0, errors: BTreeMap::new() })
    }

    /// A request that worked.
    pub(super) fn took(&mut self, latency: Duration) {
        self.latencies.saturating_record(micros(latency).max(1));
    }

    /// A request that failed.
    pub(super) fn failed(&mut self, error: &ClientError) {
        self.note(kind(error), error.to_string());
    }

    /// A failure of that kind.
    pub(super) fn note(&mut self, kind: String, example: String) {
        self.errors.entry(kind).or_insert((0, example)).0 += 1;
    }

    /// Failures of all kinds.
    pub(super) fn errors(&self) -> u64 {
        self.errors.values().map(|(count, _)| count).sum()
    }

    /// One line on how it goes.
    pub(super) fn so_far(&self, elapsed: Duration) -> String {
        let errors = match self.errors() {
            0 => String::new(),
            errors => format!(", {errors} errors"),
        };
        format!(
            "{:.0} s: {} messages, {:.0}/s, p50 {}, p99 {}{errors}",
            elapsed.as_secs_f64(),
            self.messages,
            per_second(self.messages, elapsed),
            shown(self.latencies.value_at_quantile(0.5)),
            shown(self.latencies.value_at_quantile(0.99)),
        )
    }

    /// Writes everything.
    pub(super) fn report(&self, phase: Phase<'_>, out: &mut Output) -> Result<(), CliError> {
        let summary = self.summary(phase);
        if out.is_json() {
            return Ok(out.object(&summary)?);
        }
        let batches = match phase.batch {
            Some(messages @ 2..) => format!(" in batches of {messages}"),
            _ => String::new(),
        };
        let ended = if phase.interrupted { " (interrupted)" } else { "" };
        out.line(format_args!(
            "{}: {} messages in {:.2} s over {} connections{batches}: {:.0}/s, {}/s{ended}",
            phase.name,
            self.messages,
            summary.seconds,
            phase.connections,
            summary.messages_per_second,
            human_bytes(summary.bytes_per_second as u64),
        ))?;
        if !self.latencies.is_empty() {
            let latency = &summary.latency_us;
            out.line(format_args!(
                "latency of a {}: p50 {}, p95 {}, p99 {}, max {}",
                phase.request,
                shown(latency.p50),
                shown(latency.p95),
                shown(latency.p99),
                shown(latency.max)
            ))?;
            let most = summary.histogram.iter().map(|bucket| bucket.count).max().unwrap_or(1).max(1);
            for Bucket { up_to_us, count } in &summary.histogram {
                let width = usize::try_from((count * WIDEST_BAR).div_ceil(most)).unwrap_or(0);
                let line = format!("  up to {:>9}  {count:>10}  {}", shown(*up_to_us), "#".repeat(width));
                out.line(line.trim_end())?;
            }
        }
        for Failures { kind, count, example } in &summary.errors {
            out.complain(format_args!("{count} x {kind}, the first: {example}"));
        }
        Ok(())
    }

    fn summary<'a>(&'a self, phase: Phase<'a>) -> Summary<'a> {
        let quantile = |quantile| self.latencies.value_at_quantile(quantile);
        let errors = self.errors.iter();
        Summary {
            phase: phase.name,
            topic: phase.topic,
            connections: phase.connections,
            batch: phase.batch,
            messages: self.messages,
            bytes: self.bytes,
            seconds: phase.took.as_secs_f64(),
            messages_per_second: per_second(self.messages, phase.took),
            bytes_per_second: per_second(self.bytes, phase.took),
            latency_us: Latency {
                p50: quantile(0.5),
                p95: quantile(0.95),
                p99: quantile(0.99),
                max: self.latencies.max(),
                mean: self.latencies.mean(),
            },
            histogram: self.buckets(),
            errors: errors
                .map(|(kind, (count, example))| Failures { kind, count: *count, example })
                .collect(),
            interrupted: phase.interrupted,
        }
    }

    /// Each twice as wide as the one before, from the first to the last that is not empty.
    fn buckets(&self) -> Vec<Bucket> {
        let (mut buckets, mut below, mut counted) = (Vec::new(), 0, 0);
        let mut up_to = 64u64;
        while counted < self.latencies.len() {
            // What the histogram counts as equal belongs together.
            let edge = self.latencies.highest_equivalent(up_to);
            let count = self.latencies.count_between(below, edge);
            if count > 0 || !buckets.is_empty() {
                buckets.push(Bucket { up_to_us: up_to, count });
            }
            counted += count;
            (below, up_to) = (edge.saturating_add(1), up_to.saturating_mul(2));
            if up_to == u64::MAX {
                break;
            }
        }
        buckets
    }
}

/// What kind of failure it is, without what differs from one to the next.
fn kind(error: &ClientError) -> String {
    match error.status() {
        Some(status) => format!("status {status}"),
        None if error.is_unreachable() => "no connection".to_owned(),
        None if error.is_lost() => "no answer".to_owned(),
        None => "an answer that makes no sense".to_owned(),
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(1e-9)
}

/// Microseconds for people: `640 us`, `1.28 ms`, `2.50 s`.
fn shown(micros: u64) -> String {
    match micros {
        ..1000 => format!("{micros} us"),
        1000..1_000_000 => format!("{:.2} ms", micros as f64 / 1e3),
        _ => format!("{:.2} s", micros as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_is_in_one_bucket() {
        let mut figures = Figures::new().unwrap();
        for micros in [1, 70, 100, 128, 129, 5_000, 2_000_000, 900_000_000] {
            figures.took(Duration::from_micros(micros));
        }
        let buckets = figures.buckets();
        assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 8);
        assert_eq!(buckets.first(), Some(&Bucket { up_to_us: 64, count: 1 }));
        assert_eq!(buckets.get(1), Some(&Bucket { up_to_us: 128, count: 3 }));
        assert!(Figures::new().unwrap().buckets().is_empty());
    }

    #[test]
    fn durations_are_for_people() {
        assert_eq!(
            (shown(640), shown(1280), shown(2_500_000)),
            ("640 us".into(), "1.28 ms".into(), "2.50 s".into())
        );
    }
}
