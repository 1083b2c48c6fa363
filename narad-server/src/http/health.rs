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
    telemetry::{Source, exposition},
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

/// The one node.
pub(super) async fn members(State(app): State<App>) -> Response {
    let version = env!("CARGO_PKG_VERSION");
    let member = Member { id: app.broker().node_id(), status: "alive", version };
    Json(Members { members: [member] }).into_response()
}

/// Prometheus text.
pub(super) async fn metrics(State(app): State<App>) -> Response {
    let text = exposition::text(&app.collect().await);
    ([(header::CONTENT_TYPE, exposition::CONTENT_TYPE)], text).into_response()
}
