//! `/v1/topics/{parent}/children`: attach, list, detach.

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
    params::{LinkPath, TopicPath, json_body},
    topics::TopicObject,
    up_to::UpTo,
};
use crate::{broker::MAX_DELAY_MS, security::Caller};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AttachBody {
    child: String,
    delay_ms: Option<UpTo<MAX_DELAY_MS>>,
}

pub(super) async fn attach(
    State(app): State<App>,
    caller: Caller,
    TopicPath(parent): TopicPath,
    body: Bytes,
) -> Result<Response, ApiError> {
    let parent = access::owned(&app, &caller, &parent).await?;
    let body: AttachBody = json_body(&body)?;
    let child = access::owned(&app, &caller, &body.child).await?;
    let parent = app.broker().attach(&parent, &child, body.delay_ms.map_or(0, UpTo::get)).await?;
    Ok(Json(TopicObject::new(&parent)).into_response())
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Children")]
pub(super) struct ChildList<'a> {
    parent: &'a str,
    parent_id: String,
    children: Vec<ChildObject<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Child")]
struct ChildObject<'a> {
    name: &'a str,
    delay_ms: u64,
    lag_messages: u64,
    lag_complete: bool,
}

pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    TopicPath(parent): TopicPath,
) -> Result<Response, ApiError> {
    access::visible(&app, &caller, &parent).await?;
    let (parent, children) = app.broker().children(&parent).await?;
    let children = children.iter().map(|child| ChildObject {
        name: &child.name,
        delay_ms: child.delay_ms,
        lag_messages: child.lag.messages,
        lag_complete: child.lag.complete,
    });
    let (name, parent_id) = (&*parent.name, parent.id.to_string());
    Ok(Json(ChildList { parent: name, parent_id, children: children.collect() }).into_response())
}

pub(super) async fn detach(
    State(app): State<App>,
    caller: Caller,
    LinkPath(parent, child): LinkPath,
) -> Result<StatusCode, ApiError> {
    // To own either is enough. Of a child that is not there the parent's owner learns from the parent.
    if access::owned(&app, &caller, &child).await.is_err() {
        access::owned(&app, &caller, &parent).await?;
    }
    app.broker().detach(&parent, &child).await?;
    Ok(StatusCode::NO_CONTENT)
}
