//! The program's log, for a collector that is to have it as well. Steady faults are as few as on standard error.

use std::{sync::Arc, time::Duration, time::Instant};

use opentelemetry::InstrumentationScope;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_proto::{
    tonic::collector::logs::v1::ExportLogsServiceRequest,
    transform::{common::tonic::ResourceAttributesWithSchema, logs::tonic::group_logs_by_resource_and_scope},
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    logs::{LogBatch, LogProcessor, SdkLogRecord, SdkLoggerProvider},
};
use tokio::sync::mpsc;
use tracing::{Event, Level, Metadata, Subscriber, subscriber::Interest};
use tracing_subscriber::{
    Layer,
    filter::LevelFilter,
    layer::{Context, Filter},
    registry::LookupSpan,
};

use super::queue::Queue;
use crate::telemetry::logging::steady::{Steady, Verdict};

/// An event, and who has told it.
pub(super) type Record = (SdkLogRecord, InstrumentationScope);

/// The layer that takes events, and what it has taken.
pub(super) fn layer<S>(resource: &Resource) -> (Box<dyn Layer<S> + Send + Sync>, mpsc::Receiver<Record>)
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let (queue, waiting) = Queue::new("logs_dropped");
    let provider = SdkLoggerProvider::builder()
        .with_log_processor(Events(queue))
        .with_resource(resource.clone())
        .build();
    let bridge = OpenTelemetryTracingBridge::new(&provider);
    (bridge.with_filter(Ours(Arc::default())).boxed(), waiting)
}

/// A batch of events as it is sent.
pub(super) fn request(batch: &[Record], resource: &ResourceAttributesWithSchema) -> ExportLogsServiceRequest {
    let batch: Vec<_> = batch.iter().map(|(record, scope)| (record, scope)).collect();
    ExportLogsServiceRequest {
        resource_logs: group_logs_by_resource_and_scope(&LogBatch::new(&batch), resource),
    }
}

/// Events of our own crates from INFO on, but for those about telemetry itself.
struct Ours(Arc<Steady>);

impl Ours {
    fn takes(metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        metadata.is_event()
            && *metadata.level() <= Level::INFO
            && target.starts_with("narad_")
            && !target.starts_with("narad_server::telemetry")
    }
}

impl<S> Filter<S> for Ours {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        Self::takes(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if Self::takes(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        self.0.judge(event, Instant::now()) != Verdict::LeaveOut
    }
}

#[derive(Debug)]
struct Events(Queue<Record>);

impl LogProcessor for Events {
    fn emit(&self, record: &mut SdkLogRecord, scope: &InstrumentationScope) {
        self.0.offer((record.clone(), scope.clone()));
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}
