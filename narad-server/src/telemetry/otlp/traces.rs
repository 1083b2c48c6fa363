//! Spans of this program's own crates, and of nobody else's: the exporter must not trace itself.

use std::time::Duration;

use opentelemetry::{Context, trace::TracerProvider as _};
use opentelemetry_proto::{
    tonic::collector::trace::v1::ExportTraceServiceRequest,
    transform::{
        common::tonic::ResourceAttributesWithSchema, trace::tonic::group_spans_by_resource_and_scope,
    },
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{SdkTracerProvider, Span, SpanData, SpanProcessor},
};
use tokio::sync::mpsc;
use tracing::{Level, Subscriber};
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

use super::{
    gate::{Gate, Gated},
    queue::Queue,
};

/// The layer that makes spans while `gate` is open, and what it has made.
pub(super) fn layer<S>(
    resource: &Resource,
    gate: Gate,
) -> (Box<dyn Layer<S> + Send + Sync>, mpsc::Receiver<SpanData>)
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let (queue, waiting) = Queue::new("spans_dropped");
    // The sampler is the SDK's own: `OTEL_TRACES_SAMPLER` says which.
    let provider = SdkTracerProvider::builder()
        .with_span_processor(Spans(queue))
        .with_resource(resource.clone())
        .build();
    let targets = Targets::new()
        .with_target("narad_server", Level::DEBUG)
        .with_target("narad_core", Level::DEBUG)
        // The steps of a commit.
        .with_target("narad_core::log", Level::TRACE)
        // What says that spans cannot be delivered must not become one.
        .with_target("narad_server::telemetry::otlp", tracing_subscriber::filter::LevelFilter::OFF);
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("narad"))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(Gated { targets, gate });
    (layer.boxed(), waiting)
}

/// A batch of spans as it is sent.
pub(super) fn request(
    batch: Vec<SpanData>,
    resource: &ResourceAttributesWithSchema,
) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest { resource_spans: group_spans_by_resource_and_scope(batch, resource) }
}

#[derive(Debug)]
struct Spans(Queue<SpanData>);

impl SpanProcessor for Spans {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() {
            self.0.offer(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn spans_are_made_while_the_gate_is_open() {
        let gate = Gate::new();
        let (layer, mut waiting) = layer(&Resource::builder_empty().build(), gate.clone());
        let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        let mut made = |is_open| {
            gate.set(is_open);
            for _ in 0..3 {
                drop(tracing::debug_span!(target: "narad_server::broker", "work"));
            }
            std::iter::from_fn(|| waiting.try_recv().ok()).count()
        };
        assert_eq!([made(true), made(false), made(false), made(true)], [3, 0, 0, 3]);
    }
}
