//! The text format that Prometheus reads.

use std::fmt::Write as _;

use narad_core::metrics::HistogramSnapshot;

use super::{
    families::{Families, Labels, Sample, Value},
    names::Kind,
};

/// What `/metrics` answers.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Every series as text, each metric in one piece.
pub fn text(families: &Families) -> String {
    let mut out = String::new();
    for (metric, samples) in families.iter() {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a string does not fail, here and below.
        let _ = writeln!(
            out,
            "# HELP {name} {help}\n# TYPE {name} {kind}",
            name = metric.name,
            help = metric.help
        );
        for Sample { labels, value } in samples {
            match value {
                Value::Integer(number) => line(&mut out, metric.name, "", labels, None, *number),
                Value::Float(number) => line(&mut out, metric.name, "", labels, None, *number),
                Value::Histogram(durations) => histogram(&mut out, metric.name, labels, durations),
            }
        }
    }
    out
}

fn histogram(out: &mut String, name: &str, labels: &Labels, durations: &HistogramSnapshot) {
    let mut so_far = 0u64;
    for (index, count) in durations.counts.iter().enumerate() {
        so_far = so_far.saturating_add(*count);
        let bound = match durations.bounds.get(index) {
            Some(bound) => seconds(*bound).to_string(),
            None => "+Inf".to_owned(),
        };
        line(out, name, "_bucket", labels, Some(&bound), so_far);
    }
    line(out, name, "_sum", labels, None, seconds(durations.sum_nanos));
    line(out, name, "_count", labels, None, so_far);
}

#[expect(clippy::cast_precision_loss, reason = "a sum of seconds is not exact to the nanosecond")]
pub(super) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn line(
    out: &mut String,
    name: &str,
    suffix: &str,
    labels: &Labels,
    bound: Option<&str>,
    value: impl std::fmt::Display,
) {
    let _ = write!(out, "{name}{suffix}");
    let mut before = '{';
    for (label, text) in labels.iter().chain(bound.map(|bound| ("le", bound))) {
        let _ = write!(out, "{before}{label}=\"");
        for letter in text.chars() {
            match letter {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                other => out.push(other),
            }
        }
        out.push('"');
        before = ',';
    }
    let end = if before == '{' { "" } else { "}" };
    let _ = writeln!(out, "{end} {value}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use narad_core::metrics::Histogram;

    use super::*;
    use crate::telemetry::names;

    #[test]
    fn samples_of_a_metric_stand_together_and_labels_are_escaped() {
        let mut families = Families::default();
        families.add(names::MESSAGES_PRODUCED, &Labels::new([("topic", "x"), ("partition", "0")]), 1u64);
        families.add(names::BOOT_DURATION, &Labels::none(), Duration::from_millis(2500));
        families.add(names::MESSAGES_PRODUCED, &Labels::new([("topic", "q\"\\\n")]), 3u64);
        let text = text(&families);
        let samples: Vec<_> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
        assert_eq!(
            samples,
            [
                "# TYPE narad_boot_duration_seconds gauge",
                "narad_boot_duration_seconds 2.5",
                "# TYPE narad_messages_produced_total counter",
                "narad_messages_produced_total{topic=\"x\",partition=\"0\"} 1",
                "narad_messages_produced_total{topic=\"q\\\"\\\\\\n\"} 3",
            ]
        );
    }

    #[test]
    fn a_histogram_adds_its_buckets_up_in_seconds() {
        let durations = Histogram::new(&[1_000_000, 2_500_000_000]);
        for millis in [1, 2, 3, 9000] {
            durations.observe(Duration::from_millis(millis));
        }
        let mut families = Families::default();
        families.add(names::CONSUME_WAIT, &Labels::new([("topic", "t")]), durations.snapshot().unwrap());
        let text = text(&families);
        let samples: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(
            samples,
            [
                "narad_consume_wait_seconds_bucket{topic=\"t\",le=\"0.001\"} 1",
                "narad_consume_wait_seconds_bucket{topic=\"t\",le=\"2.5\"} 3",
                "narad_consume_wait_seconds_bucket{topic=\"t\",le=\"+Inf\"} 4",
                "narad_consume_wait_seconds_sum{topic=\"t\"} 9.006",
                "narad_consume_wait_seconds_count{topic=\"t\"} 4",
            ]
        );
    }
}
