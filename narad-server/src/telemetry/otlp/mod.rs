//! OTLP: spans, series and, when asked for, the log go to a collector.
//!
//! A collector that is dead, slow, refuses or hangs costs a counter and nothing else: queues are bounded, spans that nobody
//! takes are not made, whoever measures never waits, and an end waits no longer than it is told to.

mod gate;
mod logs;
mod queue;
mod series;
mod settings;
mod traces;
mod transport;

use std::{sync::Arc, time::Duration};

use opentelemetry::KeyValue;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_sdk::{Resource, resource::EnvResourceDetector};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval_at, timeout_at},
};
use tracing::Subscriber;
use tracing_subscriber::{Layer, registry::LookupSpan};

pub(in crate::telemetry) use self::settings::{Targets, Unusable, targets};
use self::{
    gate::Gate,
    queue::{delivered, ended},
    series::Writer,
    settings::{Signal, Target},
    transport::Transport,
};
use super::Source;

/// What this build speaks.
const PROTOCOLS: &str = if cfg!(feature = "otlp-http") { "grpc and http/protobuf" } else { "grpc" };

/// The tasks that send. Left alone they end with the process; [`shutdown`](Self::shutdown) has them send what waits.
#[derive(Debug)]
pub(super) struct Otlp {
    resource: Resource,
    metrics: Option<Target>,
    interval: Duration,
    ending: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

/// Layers of a subscriber.
pub(super) type Layers<S> = Vec<Box<dyn Layer<S> + Send + Sync>>;

impl Otlp {
    /// Starts to send what the layers see. Must be called within a tokio runtime.
    pub(super) fn start<S>(targets: Targets, node: &str, unusable: &mut Vec<Unusable>) -> (Self, Layers<S>)
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let resource = resource(node);
        let mut otlp = Self {
            resource,
            metrics: targets.metrics,
            interval: targets.interval,
            ending: watch::Sender::new(false),
            tasks: Vec::new(),
        };
        let mut layers: Layers<S> = Vec::new();
        if let Some(target) = &targets.traces {
            match Transport::new(target) {
                Ok(transport) => layers.push(otlp.trace(transport, target.timeout)),
                Err(reason) => unusable.push(Unusable { name: "traces over OTLP".to_owned(), reason }),
            }
        }
        if let Some(target) = &targets.logs {
            match Transport::new(target) {
                Ok(transport) => layers.push(otlp.log(transport, target.timeout)),
                Err(reason) => unusable.push(Unusable { name: "logs over OTLP".to_owned(), reason }),
            }
        }
        (otlp, layers)
    }

    fn trace<S>(&mut self, transport: Transport, within: Duration) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let gate = Gate::new();
        let (layer, spans) = traces::layer(&self.resource, gate.clone());
        let resource = self.attributes();
        let want = move |more| gate.set(more);
        self.tasks.push(tokio::spawn(queue::send_all(spans, self.ending.subscribe(), want, move |batch| {
            let (transport, request) = (transport.clone(), traces::request(batch, &resource));
            async move { delivered(Signal::Traces.failed(), within, transport.traces(request)).await }
        })));
        layer
    }

    fn log<S>(&mut self, transport: Transport, within: Duration) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let (layer, events) = logs::layer(&self.resource);
        let resource = self.attributes();
        self.tasks.push(tokio::spawn(queue::send_all(
            events,
            self.ending.subscribe(),
            |_| {},
            move |batch| {
                let (transport, request) = (transport.clone(), logs::request(&batch, &resource));
                async move { delivered(Signal::Logs.failed(), within, transport.logs(request)).await }
            },
        )));
        layer
    }

    /// Sends the series of `source` from time to time, and at the end.
    pub(super) fn send_series(&mut self, source: Arc<dyn Source>) {
        let Some(target) = self.metrics.take() else { return };
        let transport = match Transport::new(&target) {
            Ok(transport) => transport,
            Err(reason) => return tell(&[Unusable { name: "metrics over OTLP".to_owned(), reason }]),
        };
        let writer = Writer::new(of_series(self.attributes()));
        let (mut ending, every) = (self.ending.subscribe(), self.interval);
        self.tasks.push(tokio::spawn(async move {
            let mut ticks = interval_at(Instant::now() + every, every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                let last = tokio::select! {
                    _ = ticks.tick() => false,
                    () = ended(&mut ending) => true,
                };
                for request in writer.requests(&source.collect().await) {
                    // A collector that does not answer gets the next ones when it does.
                    if !delivered(Signal::Metrics.failed(), target.timeout, transport.metrics(request)).await
                    {
                        break;
                    }
                }
                if last {
                    return;
                }
            }
        }));
    }

    /// Sends what waits, until `deadline` at most.
    pub(super) async fn shutdown(self, deadline: Instant) {
        self.ending.send_replace(true);
        for mut task in self.tasks {
            if timeout_at(deadline, &mut task).await.is_err() {
                task.abort();
            }
        }
    }

    fn attributes(&self) -> ResourceAttributesWithSchema {
        (&self.resource).into()
    }
}

/// The resource's form in requests of series.
fn of_series(attributes: ResourceAttributesWithSchema) -> opentelemetry_proto::tonic::resource::v1::Resource {
    opentelemetry_proto::tonic::resource::v1::Resource {
        attributes: attributes.attributes.0,
        ..Default::default()
    }
}

/// Says which settings cannot be used; what they concern is not sent.
pub(super) fn tell(unusable: &[Unusable]) {
    for Unusable { name, reason } in unusable {
        tracing::error!(path = %name, %reason, "this setting of telemetry cannot be used");
    }
}

/// Who sends. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win.
fn resource(node: &str) -> Resource {
    let ours = [
        KeyValue::new("service.name", "narad"),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", node.to_owned()),
        KeyValue::new("telemetry.sdk.name", "opentelemetry"),
        KeyValue::new("telemetry.sdk.language", "rust"),
    ];
    let resource =
        Resource::builder_empty().with_attributes(ours).with_detector(Box::new(EnvResourceDetector::new()));
    match std::env::var("OTEL_SERVICE_NAME") {
        Ok(name) if !name.is_empty() => resource.with_service_name(name).build(),
        _ => resource.build(),
    }
}
