//! `/healthz`, `/readyz`, `/metrics`, and the members of the cluster: this node.

use std::sync::atomic::Ordering;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ApiError, App};
use crate::{
    broker::Readiness,
    fanout::LinkStats,
    telemetry::{exposition::Exposition, names},
};

/// The answer of `/healthz`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Alive {
    status: &'static str,
}

/// The answer of `/readyz`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Ready {
    status: &'static str,
    /// What is wrong although the server is ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    degraded: Vec<String>,
}

/// The nodes.
#[derive(Serialize, JsonSchema)]
pub(super) struct Members<'a> {
    members: [Member<'a>; 1],
}

#[derive(Serialize, JsonSchema)]
struct Member<'a> {
    id: &'a str,
    status: &'static str,
    version: &'static str,
}

/// 200 until the shutdown begins.
pub(super) async fn alive(State(app): State<App>) -> Result<Response, ApiError> {
    if app.0.shutting_down.load(Ordering::Acquire) {
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down"));
    }
    Ok(Json(Alive { status: "ok" }).into_response())
}

/// 200 once every partition was opened or found to be damaged.
pub(super) async fn ready(State(app): State<App>) -> Result<Response, ApiError> {
    match app.broker().readiness().await {
        Readiness::Starting { reason } => {
            Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}")).retry_after(1))
        }
        Readiness::Ready { degraded } => Ok(Json(Ready { status: "ready", degraded }).into_response()),
    }
}

fn links(links: &[LinkStats], out: &mut Exposition) {
    for link in links {
        let labels = [("parent", &*link.parent), ("child", &*link.child)];
        out.counter(names::FANOUT_COMMITTED, &labels, link.committed);
        out.counter(names::FANOUT_DROPPED, &labels, link.dropped);
        for lag in &link.partitions {
            let partition = lag.partition.to_string();
            let labels =
                [("parent", &*link.parent), ("child", &*link.child), ("partition", partition.as_str())];
            if let Some(messages) = lag.messages {
                out.gauge(names::FANOUT_LAG, &labels, messages);
            }
            out.gauge(names::FANOUT_DUE_LAG, &labels, lag.due_seconds);
        }
    }
}

/// The one node.
pub(super) async fn members(State(app): State<App>) -> Response {
    let version = env!("CARGO_PKG_VERSION");
    let member = Member { id: app.broker().node_id(), status: "alive", version };
    Json(Members { members: [member] }).into_response()
}

/// Prometheus text.
pub(super) async fn metrics(State(app): State<App>) -> Response {
    let (gauges, mut out) = (app.broker().gauges().await, Exposition::default());
    for topic in &gauges.topics {
        let name = &*topic.topic;
        for (partition, counts) in &topic.partitions {
            let partition = partition.to_string();
            let labels = [("topic", name), ("partition", partition.as_str())];
            out.counter(names::MESSAGES_PRODUCED, &labels, counts.produced);
            out.counter(names::BYTES_PRODUCED, &labels, counts.produced_bytes);
            out.counter(names::MESSAGES_CONSUMED, &labels, counts.consumed);
            out.counter(names::BYTES_CONSUMED, &labels, counts.consumed_bytes);
        }
        out.counter(names::CONSUME_EMPTY, &[("topic", name)], topic.empty);
        out.counter(names::ACK_EXTENDED, &[("topic", name)], topic.extended);
        out.counter(names::NACK, &[("topic", name)], topic.released);
        for (reason, count) in &topic.rejections {
            out.counter(names::PRODUCE_REJECTIONS, &[("topic", name), ("reason", reason)], *count);
        }
    }
    links(&gauges.links, &mut out);
    for ((route, method, status), count) in app.0.requests.answered() {
        let status = status.to_string();
        let labels = [("route", route.as_str()), ("method", method), ("status", status.as_str())];
        out.counter(names::HTTP_REQUESTS, &labels, count);
    }
    out.gauge(names::HTTP_IN_FLIGHT, &[], app.0.requests.in_flight());
    out.gauge(names::DISPATCH_BACKLOG, &[], gauges.backlog);
    out.gauge(names::WAL_FAILED, &[], u64::from(gauges.wal_failed));
    if let Some(bytes) = gauges.available_bytes {
        out.gauge(names::DATA_DIR_AVAILABLE, &[], bytes);
    }
    out.counter(names::IDLE_LOGS_EVICTED, &[], gauges.store.evicted);
    out.counter(names::COLD_RETENTION_SWEPT, &[], gauges.store.cold_swept);
    out.counter(names::COLD_RETENTION_PANICS, &[], gauges.store.cold_panics);
    out.gauge(names::REAPER_RESTARTS, &[], gauges.store.reaper_restarts);
    for ((component, kind), count) in gauges.errors {
        out.counter(names::ERRORS, &[("component", component), ("kind", kind)], count);
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], out.finish()).into_response()
}
