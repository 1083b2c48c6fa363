//! Where telemetry goes: from the configuration and the `OTEL_` variables, for each of traces, metrics and logs.
//!
//! Decides from what it is handed and opens nothing.

use std::time::Duration;

use crate::config::{OtlpProtocol, Telemetry, unusable_collector};

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::telemetry) enum Signal {
    Traces,
    Metrics,
    Logs,
}

impl Signal {
    const fn variable(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
            Self::Logs => "LOGS",
        }
    }

    const fn path(self) -> &'static str {
        match self {
            Self::Traces => "v1/traces",
            Self::Metrics => "v1/metrics",
            Self::Logs => "v1/logs",
        }
    }

    /// The kind that a batch which could not be delivered is counted under.
    pub(super) const fn failed(self) -> &'static str {
        match self {
            Self::Traces => "export_traces",
            Self::Metrics => "export_metrics",
            Self::Logs => "export_logs",
        }
    }
}

/// Where one signal goes.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::telemetry) struct Target {
    /// A URL; for HTTP with its path.
    pub(super) endpoint: String,
    pub(super) protocol: OtlpProtocol,
    /// Names and values; they may be secrets.
    pub(super) headers: Vec<(String, String)>,
    pub(super) timeout: Duration,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Where everything goes; absent is nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::telemetry) struct Targets {
    pub(super) traces: Option<Target>,
    pub(super) metrics: Option<Target>,
    pub(super) logs: Option<Target>,
    /// How often metrics are sent.
    pub(super) interval: Duration,
}

/// A setting that cannot be used: telemetry that it concerns is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::telemetry) struct Unusable {
    pub(in crate::telemetry) name: String,
    pub(in crate::telemetry) reason: String,
}

/// Reads the settings; `variable` is the environment.
pub(in crate::telemetry) fn targets(
    settings: &Telemetry,
    variable: &dyn Fn(&str) -> Option<String>,
    unusable: &mut Vec<Unusable>,
) -> Targets {
    // A variable that is empty counts as absent: so says their specification.
    let variable =
        |name: &str| variable(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let mut reading = Reading { settings, variable: &variable, unusable };
    if variable("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        return Targets { traces: None, metrics: None, logs: None, interval: Duration::from_secs(60) };
    }
    Targets {
        traces: reading.target(Signal::Traces, true),
        metrics: reading.target(Signal::Metrics, true),
        logs: reading.target(Signal::Logs, false),
        interval: reading.millis("OTEL_METRIC_EXPORT_INTERVAL", 60_000).max(Duration::from_millis(100)),
    }
}

struct Reading<'a> {
    settings: &'a Telemetry,
    variable: &'a dyn Fn(&str) -> Option<String>,
    unusable: &'a mut Vec<Unusable>,
}

impl Reading<'_> {
    fn target(&mut self, signal: Signal, by_default: bool) -> Option<Target> {
        let exporter = format!("OTEL_{}_EXPORTER", signal.variable());
        match (self.variable)(&exporter).as_deref() {
            None if by_default => {}
            Some("otlp") => {}
            None | Some("none") => return None,
            Some(other) => return self.refuse(&exporter, format!("{other} is neither otlp nor none")),
        }
        let own = (self.variable)(&format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.variable()));
        let base =
            self.settings.otlp_endpoint.clone().or_else(|| (self.variable)("OTEL_EXPORTER_OTLP_ENDPOINT"));
        let (endpoint, is_own) = match (own, base) {
            (Some(own), _) => (own, true),
            (None, base) => (base?, false),
        };
        let protocol = self.protocol(signal)?;
        if let Some(reason) = unusable_collector(&endpoint) {
            return self.refuse(&endpoint, reason.to_owned());
        }
        let endpoint = match protocol {
            OtlpProtocol::Http if !is_own => format!("{}/{}", endpoint.trim_end_matches('/'), signal.path()),
            _ => endpoint,
        };
        let headers = self.one_of(signal, "HEADERS").map(|(_, text)| headers(&text)).unwrap_or_default();
        let timeout = match self.one_of(signal, "TIMEOUT") {
            Some((name, _)) => self.millis(&name, 10_000),
            None => Duration::from_secs(10),
        };
        Some(Target { endpoint, protocol, headers, timeout })
    }

    fn protocol(&mut self, signal: Signal) -> Option<OtlpProtocol> {
        if let Some(protocol) = self.settings.otlp_protocol {
            return Some(protocol);
        }
        match self.one_of(signal, "PROTOCOL") {
            None => Some(OtlpProtocol::Grpc),
            Some((_, text)) if text == "grpc" => Some(OtlpProtocol::Grpc),
            Some((_, text)) if text == "http/protobuf" && cfg!(feature = "otlp-http") => {
                Some(OtlpProtocol::Http)
            }
            Some((name, text)) => {
                let reason = format!("this build does not speak {text}; it speaks {}", super::PROTOCOLS);
                self.refuse(&name, reason)
            }
        }
    }

    /// A variable of the signal's own, or else the one for all signals, with its name.
    fn one_of(&self, signal: Signal, what: &str) -> Option<(String, String)> {
        let names = [
            format!("OTEL_EXPORTER_OTLP_{}_{what}", signal.variable()),
            format!("OTEL_EXPORTER_OTLP_{what}"),
        ];
        names.into_iter().find_map(|name| (self.variable)(&name).map(|text| (name, text)))
    }

    fn millis(&mut self, name: &str, default: u64) -> Duration {
        let millis = match (self.variable)(name).map(|text| text.parse::<u64>()) {
            Some(Ok(millis)) if millis > 0 => millis,
            None => default,
            Some(_) => {
                let reason = format!("not a number of milliseconds above 0; {default} is used");
                self.unusable.push(Unusable { name: name.to_owned(), reason });
                default
            }
        };
        Duration::from_millis(millis)
    }

    fn refuse<T>(&mut self, name: &str, reason: String) -> Option<T> {
        let told = Unusable { name: name.to_owned(), reason };
        if !self.unusable.contains(&told) {
            self.unusable.push(told);
        }
        None
    }
}

/// `name=value,name=value`, percent-encoded.
fn headers(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_ascii_lowercase(), decoded(value.trim()))).collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = || u8::from_str_radix(std::str::from_utf8(after.get(..2)?).ok()?, 16).ok();
        match (byte == b'%').then(escaped).flatten() {
            Some(escaped) => {
                bytes.push(escaped);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(settings: &Telemetry, variables: &[(&str, &str)]) -> (Targets, Vec<Unusable>) {
        let mut unusable = Vec::new();
        let find = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
        };
        let targets = targets(settings, &find, &mut unusable);
        (targets, unusable)
    }

    fn of(endpoint: &str) -> Telemetry {
        Telemetry { otlp_endpoint: Some(endpoint.to_owned()), ..Telemetry::default() }
    }

    #[test]
    fn nothing_is_sent_unless_an_endpoint_is_given_and_logs_only_when_asked_for() {
        let (targets, unusable) = read(&Telemetry::default(), &[]);
        assert!(targets.traces.is_none() && targets.metrics.is_none() && targets.logs.is_none());
        let (targets, _) = read(&of("http://collector:4317"), &[]);
        assert_eq!(targets.traces.as_ref().unwrap().endpoint, "http://collector:4317");
        assert_eq!(targets.traces, targets.metrics);
        assert_eq!((targets.logs, targets.interval), (None, Duration::from_secs(60)));
        assert_eq!(unusable, []);
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"),
            ("OTEL_LOGS_EXPORTER", "otlp"),
            ("OTEL_TRACES_EXPORTER", "none"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "5000"),
        ];
        let (targets, _) = read(&Telemetry::default(), &variables);
        assert_eq!(targets.logs, targets.metrics);
        assert_eq!((targets.traces, targets.interval), (None, Duration::from_secs(5)));
        let (targets, _) = read(&of("http://c:1"), &[("OTEL_SDK_DISABLED", "TRUE")]);
        assert_eq!(targets.metrics, None);
    }

    #[test]
    fn a_signal_of_its_own_wins_over_the_setting_and_the_setting_over_the_variable() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://variable:4317"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:4317"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20abc, x = 1"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "250"),
        ];
        let (targets, _) = read(&of("http://setting:4317"), &variables);
        let (traces, metrics) = (targets.traces.unwrap(), targets.metrics.unwrap());
        assert_eq!(
            (traces.endpoint.as_str(), traces.timeout),
            ("http://traces:4317", Duration::from_secs(10))
        );
        assert_eq!(
            (metrics.endpoint.as_str(), metrics.timeout),
            ("http://setting:4317", Duration::from_millis(250))
        );
        let headers = [("authorization", "Basic abc"), ("x", "1")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(metrics.headers, headers);
        assert!(!format!("{metrics:?}").contains("abc"), "headers may be secrets");
    }

    #[test]
    fn what_cannot_be_used_is_told_once_and_costs_no_more_than_itself() {
        let (targets, unusable) = read(&of("https://collector:4317"), &[]);
        assert_eq!((targets.traces, unusable.len()), (None, 1));
        let variables = [("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_METRIC_EXPORT_INTERVAL", "soon")];
        let (targets, unusable) = read(&of("http://collector:4317"), &variables);
        assert!(targets.traces.is_none() && targets.metrics.is_some());
        assert_eq!(unusable.len(), 2, "{unusable:?}");
        for endpoint in ["collector:4317", "ftp://c", "http://", ""] {
            assert!(unusable_collector(endpoint).is_some(), "{endpoint}");
        }
    }
}
