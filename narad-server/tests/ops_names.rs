//! The dashboard, the alert rules and the documents name series that exist.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

use std::{collections::BTreeSet, path::Path};

use narad_server::telemetry::names::{self, Kind};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every name of a series in `text`.
fn names_in(text: &str) -> BTreeSet<&str> {
    let words =
        text.split(|letter: char| !(letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_'));
    let others = ["narad_core", "narad_server"];
    words.filter(|word| word.starts_with("narad_") && !others.contains(word)).collect()
}

fn exists(series: &str) -> bool {
    names::ALL.iter().any(|metric| match metric.kind {
        Kind::Histogram => {
            let suffix = series.strip_prefix(metric.name);
            suffix.is_some_and(|suffix| ["", "_bucket", "_sum", "_count"].contains(&suffix))
        }
        Kind::Counter | Kind::Gauge => metric.name == series,
    })
}

#[test]
fn every_series_that_is_named_exists() {
    for file in
        ["ops/alerts.yml", "ops/grafana-dashboard.json", "docs/observability.md", "docs/operations.md"]
    {
        let text = read(file);
        let unknown: Vec<_> = names_in(&text).into_iter().filter(|series| !exists(series)).collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}");
    }
}

#[test]
fn every_series_is_documented_and_shown() {
    let (docs, dashboard) = (read("docs/observability.md"), read("ops/grafana-dashboard.json"));
    let in_dashboard = names_in(&dashboard);
    for metric in names::ALL {
        assert!(names_in(&docs).contains(metric.name), "docs/observability.md does not name {}", metric.name);
        let shown = in_dashboard.iter().any(|series| {
            series
                .strip_prefix(metric.name)
                .is_some_and(|rest| ["", "_bucket", "_sum", "_count"].contains(&rest))
        });
        // What belongs to one start is in the document alone.
        assert!(
            shown || metric.name == names::RECOVERY_SCANNED.name,
            "the dashboard does not show {}",
            metric.name
        );
    }
}
