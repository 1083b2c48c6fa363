//! The text format that Prometheus reads.

use std::{collections::BTreeMap, fmt::Write as _};

/// Collects samples, which may come in any order, into one text in which each metric stands in one piece.
#[derive(Debug, Default)]
pub struct Exposition {
    metrics: BTreeMap<&'static str, (&'static str, String)>,
}

impl Exposition {
    /// A number that only grows.
    pub fn counter(&mut self, name: &'static str, labels: &[(&str, &str)], value: u64) {
        self.sample(name, "counter", labels, value);
    }

    /// A number that goes up and down.
    pub fn gauge(&mut self, name: &'static str, labels: &[(&str, &str)], value: u64) {
        self.sample(name, "gauge", labels, value);
    }

    fn sample(&mut self, name: &'static str, kind: &'static str, labels: &[(&str, &str)], value: u64) {
        let (_, samples) = self.metrics.entry(name).or_insert_with(|| (kind, String::new()));
        samples.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            samples.push(if index == 0 { '{' } else { ',' });
            samples.push_str(label);
            samples.push_str("=\"");
            for letter in text.chars() {
                match letter {
                    '\\' => samples.push_str("\\\\"),
                    '"' => samples.push_str("\\\""),
                    '\n' => samples.push_str("\\n"),
                    other => samples.push(other),
                }
            }
            samples.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        // Writing to a string does not fail.
        let _ = writeln!(samples, "{end} {value}");
    }

    /// The text.
    pub fn finish(self) -> String {
        let mut out = String::new();
        for (name, (kind, samples)) in self.metrics {
            let _ = write!(out, "# TYPE {name} {kind}\n{samples}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_metric_stand_together_and_labels_are_escaped() {
        let mut out = Exposition::default();
        out.counter("b_total", &[("topic", "x"), ("partition", "0")], 1);
        out.gauge("a", &[], 2);
        out.counter("b_total", &[("topic", "q\"\\\n")], 3);
        assert_eq!(
            out.finish(),
            "# TYPE a gauge\na 2\n# TYPE b_total counter\nb_total{topic=\"x\",partition=\"0\"} 1\nb_total{topic=\"q\\\"\\\\\\n\"} 3\n"
        );
    }
}
