//! `/v1/directories`: directories of data that no topic has, and making topics of them.

use axum::{
    Json,
    extract::{FromRequestParts, Path, State},
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    ApiError, App, access,
    params::json_body,
    topics::{PluginSpec, TopicObject},
    up_to::{Cap, Milliseconds, Partitions, UpTo},
};
use crate::{broker::NewTopic, config::MIN_RETENTION_MS, security::Caller};

/// A directory, as clients see it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Directory")]
struct DirectoryObject {
    directory: String,
    topic: String,
    /// Absent for one that does not say whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    partitions: u32,
    quarantined: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Directories {
    directories: Vec<DirectoryObject>,
}

pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Response, ApiError> {
    access::admin(&caller)?;
    let directories = app.broker().directories().await?.into_iter().map(|found| DirectoryObject {
        directory: found.entry,
        topic: found.topic.as_ref().to_owned(),
        id: found.incarnation.map(|id| id.to_string()),
        partitions: found.partitions,
        quarantined: found.quarantined,
    });
    Ok(Json(Directories { directories: directories.collect() }).into_response())
}

/// The directory that the path names, decoded.
pub(super) struct DirectoryPath(String);

impl<S: Send + Sync> FromRequestParts<S> for DirectoryPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(directory)) => Ok(Self(directory)),
            Err(_) => Err(ApiError::bad_request("the path does not name a directory")),
        }
    }
}

#[derive(Deserialize, Default, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AdoptBody {
    /// 0 means those in the directory.
    #[schemars(extend("not" = {"enum": [1, 2]}))]
    partitions: Option<Partitions>,
    /// 0 keeps for ever.
    #[schemars(extend("not" = {"exclusiveMinimum": 0, "exclusiveMaximum": MIN_RETENTION_MS}))]
    retention_ms: Option<Milliseconds>,
    /// A retention policy instead of `retention_ms`.
    #[schemars(with = "Option<PluginSpec>")]
    retention: Option<Value>,
    /// The codec for new frames instead of the server's.
    #[schemars(with = "Option<PluginSpec>")]
    codec: Option<Value>,
    /// 0 means the default.
    visibility_timeout_ms: Option<Milliseconds>,
    /// 0 means the default.
    max_in_flight_per_partition: Option<Cap>,
    /// 0 means the default.
    max_acked_ahead_per_partition: Option<Cap>,
}

pub(super) async fn adopt(
    State(app): State<App>,
    caller: Caller,
    DirectoryPath(directory): DirectoryPath,
    body: Bytes,
) -> Result<Response, ApiError> {
    access::admin(&caller)?;
    let body: AdoptBody = if body.is_empty() { AdoptBody::default() } else { json_body(&body)? };
    let settings = NewTopic {
        // The directory's.
        name: String::new(),
        partitions: body.partitions.map(UpTo::get_u32),
        retention_ms: body.retention_ms.map(UpTo::get),
        retention: body.retention,
        codec: body.codec,
        visibility_timeout_ms: body.visibility_timeout_ms.map(UpTo::get),
        max_in_flight_per_partition: body.max_in_flight_per_partition.map(UpTo::get_u32),
        max_acked_ahead_per_partition: body.max_acked_ahead_per_partition.map(UpTo::get_u32),
        schema: None,
        from_outside: false,
        owner: caller.name().cloned(),
        parent: None,
    };
    let topic = app.broker().adopt_topic(&directory, settings).await?;
    Ok((StatusCode::CREATED, Json(TopicObject::new(&topic))).into_response())
}
