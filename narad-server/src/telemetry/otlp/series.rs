//! Series as OTLP has them: sums and histograms since the start of the process, and gauges.

use std::time::{SystemTime, UNIX_EPOCH};

use narad_core::metrics::HistogramSnapshot;
use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
    metrics::v1::{
        AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
        ResourceMetrics, ScopeMetrics, Sum, metric::Data, number_data_point,
    },
    resource::v1::Resource,
};

use crate::telemetry::{
    exposition::seconds,
    families::{Families, Labels, Sample, Value},
    names::{self, Kind},
};

/// Points of one request, at most: collectors take four megabytes unless told otherwise.
const POINTS: usize = 2000;

/// Makes requests of series.
#[derive(Debug)]
pub(super) struct Writer {
    resource: Resource,
    /// Since when sums are summed up.
    start: u64,
}

impl Writer {
    pub(super) fn new(resource: Resource) -> Self {
        Self { resource, start: unix_nanos() }
    }

    /// All series, in as many requests as it takes.
    pub(super) fn requests(&self, families: &Families) -> Vec<ExportMetricsServiceRequest> {
        let (mut requests, mut metrics, mut points) = (Vec::new(), Vec::new(), 0);
        let now = unix_nanos();
        for (metric, samples) in families.iter() {
            let mut rest = samples;
            while !rest.is_empty() {
                let (part, later) = rest.split_at(rest.len().min(POINTS - points));
                metrics.push(self.metric(metric, part, now));
                (points, rest) = (points + part.len(), later);
                if points >= POINTS {
                    requests.push(self.request(std::mem::take(&mut metrics)));
                    points = 0;
                }
            }
        }
        if !metrics.is_empty() {
            requests.push(self.request(metrics));
        }
        requests
    }

    fn request(&self, metrics: Vec<Metric>) -> ExportMetricsServiceRequest {
        let scope = InstrumentationScope {
            name: "narad".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
        let resource = Some(self.resource.clone());
        let of_resource = ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() };
        ExportMetricsServiceRequest { resource_metrics: vec![of_resource] }
    }

    fn metric(&self, metric: names::Metric, samples: &[Sample], now: u64) -> Metric {
        let cumulative = AggregationTemporality::Cumulative as i32;
        let numbers = |start| samples.iter().filter_map(|sample| number(sample, start, now)).collect();
        let data = match metric.kind {
            Kind::Gauge => Data::Gauge(Gauge { data_points: numbers(0) }),
            Kind::Counter => Data::Sum(Sum {
                data_points: numbers(self.start),
                aggregation_temporality: cumulative,
                is_monotonic: true,
            }),
            Kind::Histogram => Data::Histogram(Histogram {
                data_points: samples.iter().filter_map(|sample| self.durations(sample, now)).collect(),
                aggregation_temporality: cumulative,
            }),
        };
        Metric {
            name: metric.name.to_owned(),
            description: metric.help.to_owned(),
            unit: unit(metric.name).to_owned(),
            data: Some(data),
            ..Metric::default()
        }
    }

    fn durations(&self, sample: &Sample, now: u64) -> Option<HistogramDataPoint> {
        let Value::Histogram(durations) = &sample.value else { return None };
        let HistogramSnapshot { bounds, counts, sum_nanos, .. } = durations;
        Some(HistogramDataPoint {
            attributes: attributes(&sample.labels),
            start_time_unix_nano: self.start,
            time_unix_nano: now,
            count: durations.count(),
            sum: Some(seconds(*sum_nanos)),
            bucket_counts: counts.clone(),
            explicit_bounds: bounds.iter().map(|bound| seconds(*bound)).collect(),
            ..HistogramDataPoint::default()
        })
    }
}

fn number(sample: &Sample, start: u64, now: u64) -> Option<NumberDataPoint> {
    let value = match &sample.value {
        Value::Integer(number) => number_data_point::Value::AsInt(i64::try_from(*number).unwrap_or(i64::MAX)),
        Value::Float(number) => number_data_point::Value::AsDouble(*number),
        Value::Histogram(_) => return None,
    };
    Some(NumberDataPoint {
        attributes: attributes(&sample.labels),
        start_time_unix_nano: start,
        time_unix_nano: now,
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn attributes(labels: &Labels) -> Vec<KeyValue> {
    labels
        .iter()
        .map(|(label, text)| KeyValue {
            key: label.to_owned(),
            value: Some(AnyValue { value: Some(any_value::Value::StringValue(text.to_owned())) }),
            ..KeyValue::default()
        })
        .collect()
}

/// The unit that a metric's name states.
fn unit(name: &str) -> &'static str {
    match name.trim_end_matches("_total").rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ if name.contains("_bytes_") => "By",
        _ => "1",
    }
}

fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn many_series_go_in_several_requests_and_none_is_lost() {
        let mut families = Families::default();
        for topic in 0..POINTS * 2 + 7 {
            families.add(names::TOPIC_BYTES, &Labels::new([("topic", &topic.to_string())]), topic);
        }
        families.add(names::BOOT_DURATION, &Labels::none(), Duration::from_secs(2));
        let requests = Writer::new(Resource::default()).requests(&families);
        assert_eq!(requests.len(), 3);
        let points: usize = requests
            .iter()
            .flat_map(|request| &request.resource_metrics[0].scope_metrics[0].metrics)
            .map(|metric| match metric.data.as_ref().unwrap() {
                Data::Gauge(gauge) => gauge.data_points.len(),
                other => panic!("{other:?}"),
            })
            .sum();
        assert_eq!(points, POINTS * 2 + 8);
    }

    #[test]
    fn units_follow_from_names() {
        let unit_of = |metric: names::Metric| unit(metric.name);
        assert_eq!(unit_of(names::FSYNC), "s");
        assert_eq!(unit_of(names::BYTES_PRODUCED), "By");
        assert_eq!(unit_of(names::RETENTION_BYTES), "By");
        assert_eq!(unit_of(names::TOPICS), "1");
    }
}
