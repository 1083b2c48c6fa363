//! `/v1/topics/{topic}/schema`: every version of a topic's schema.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{ApiError, App, access, params::TopicPath};
use crate::security::Caller;

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SchemaVersions")]
pub(super) struct Versions<'a> {
    topic: &'a str,
    /// The current one; 0 when there is none.
    version: u32,
    versions: Vec<Version>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SchemaVersion")]
struct Version {
    version: u32,
    /// As it was written.
    #[schemars(with = "serde_json::Value", extend("type" = ["object", "boolean"]))]
    schema: Box<RawValue>,
}

pub(super) async fn versions(
    State(app): State<App>,
    caller: Caller,
    TopicPath(topic): TopicPath,
) -> Result<Response, ApiError> {
    access::visible(&app, &caller, &topic).await?;
    let (topic, stored) = app.broker().schema_versions(&topic).await?;
    let mut versions = Vec::with_capacity(stored.len());
    for one in &stored {
        versions.push(Version { version: one.version, schema: raw(&one.text)? });
    }
    Ok(Json(Versions { topic: &topic.name, version: topic.schema_version, versions }).into_response())
}

/// A stored schema as a part of an answer.
pub(super) fn raw(text: &str) -> Result<Box<RawValue>, ApiError> {
    RawValue::from_string(text.to_owned()).map_err(|error| {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the stored schema cannot be read: {error}"))
    })
}
