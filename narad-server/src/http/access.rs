//! What a route asks of its caller. Each of these answers a topic, or the refusal that the client gets.
//!
//! A topic that is not there is 404 for everybody who may ask at all; produce, consume and create go by the name and are
//! 403 without a grant, whether there is such a topic or not.

use axum::http::StatusCode;

use super::{ApiError, App};
use crate::{
    meta::{Action, Topic},
    security::Caller,
};

/// For produce, consume and create: whether `caller` has a grant for that name.
///
/// # Errors
/// 403.
pub(super) fn granted(caller: &Caller, action: Action, topic: &str) -> Result<(), ApiError> {
    if caller.may(action, topic) { Ok(()) } else { Err(forbidden(caller.lacks(action, topic))) }
}

/// For what changes, deletes or links a topic: the topic, which `caller` owns. To attach a child, ask for both topics;
/// to detach one, [`Caller::owns`] of either is enough.
///
/// # Errors
/// 403; 400 and 404 for a name without a topic.
pub(super) async fn owned(app: &App, caller: &Caller, topic: &str) -> Result<Topic, ApiError> {
    let topic = app.broker().topic(topic).await?;
    if caller.owns(&topic) {
        return Ok(topic);
    }
    Err(forbidden(format!("topic {} belongs to another user", topic.name)))
}

/// For what looks at a topic, its schema or its children: the topic, which `caller` may see.
///
/// # Errors
/// 403; 400 and 404 for a name without a topic.
pub(super) async fn visible(app: &App, caller: &Caller, topic: &str) -> Result<Topic, ApiError> {
    let topic = app.broker().topic(topic).await?;
    if caller.may_see(&topic) {
        return Ok(topic);
    }
    Err(forbidden(format!("no grant for topic {}", topic.name)))
}

/// For what concerns the whole server.
///
/// # Errors
/// 403.
pub(super) fn admin(caller: &Caller) -> Result<(), ApiError> {
    if caller.is_admin() { Ok(()) } else { Err(forbidden("this needs the grant admin")) }
}

pub(super) fn forbidden(message: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, message)
}
