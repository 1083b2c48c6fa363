//! `/ack`: acknowledge, renew or give back, one lease or up to a hundred.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ApiError, App, access,
    params::{Query, TopicPath, json_body},
};
use crate::{
    meta::Action,
    queue::{Receipt, Settle},
    security::Caller,
};

/// Handles of one request, at most.
const MAX_HANDLES: usize = 100;

#[derive(Deserialize, Default, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AckBody {
    #[schemars(length(min = 1, max = MAX_HANDLES))]
    receipt_handles: Option<Vec<String>>,
}

/// What became of one handle of a batch.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AckOutcome")]
struct Outcome {
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What became of the handles, in their order.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AckResults")]
pub(super) struct Results {
    results: Vec<Outcome>,
}

pub(super) async fn settle(
    State(app): State<App>,
    caller: Caller,
    TopicPath(topic): TopicPath,
    query: Query,
    body: Bytes,
) -> Result<Response, ApiError> {
    access::granted(&caller, Action::Consume, &topic)?;
    let how = match query.text("extend")? {
        None | Some("false") => Settle::Ack,
        Some("true" | "1") => Settle::Extend,
        Some("0") => Settle::Release,
        Some(other) => {
            let message = format!("extend: \"{other}\" is neither true, 1 (renew), 0 (give back) nor false");
            return Err(ApiError::bad_request(message));
        }
    };
    let body: AckBody = if body.is_empty() { AckBody::default() } else { json_body(&body)? };
    match (query.text("receipt_handle")?, body.receipt_handles) {
        (Some(_), Some(_)) => Err(ApiError::bad_request("receipt_handle: not together with receipt_handles")),
        (None, None) => Err(ApiError::bad_request("receipt_handle: missing")),
        (Some(handle), None) => {
            one(&app, &topic, handle, how).await?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        (None, Some(handles)) => {
            if !(1..=MAX_HANDLES).contains(&handles.len()) {
                let message = format!("receipt_handles: 1 to {MAX_HANDLES}, not {}", handles.len());
                return Err(ApiError::bad_request(message));
            }
            // A topic that is not there is the request's error and not each handle's.
            app.broker().topic(&topic).await?;
            let mut results = Vec::with_capacity(handles.len());
            for handle in &handles {
                results.push(match one(&app, &topic, handle, how).await {
                    Ok(()) => Outcome { status: StatusCode::NO_CONTENT.as_u16(), error: None },
                    Err(error) => Outcome { status: error.status.as_u16(), error: Some(error.message) },
                });
            }
            Ok(Json(Results { results }).into_response())
        }
    }
}

async fn one(app: &App, topic: &str, handle: &str, how: Settle) -> Result<(), ApiError> {
    let receipt: Receipt = handle.parse().map_err(|_| {
        ApiError::bad_request(format!("receipt_handle: \"{handle}\" is not partition:offset:nonce"))
    })?;
    Ok(app.broker().settle(topic, receipt, how).await?)
}
