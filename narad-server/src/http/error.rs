//! Errors as responses. The one place where a failure gets its status.

use axum::{
    Json,
    http::{HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    broker::BrokerError,
    meta::{LinkRefusal, MetaError},
};

/// An error, as the client sees it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(super) struct ErrorObject {
    /// What is wrong, and with which.
    error: String,
}

/// A failure, as the client sees it: `{"error": "<what and which>"}`.
#[derive(Debug)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    pub(super) message: String,
    /// Seconds, as `Retry-After`.
    pub(super) retry_after: Option<u32>,
    /// Whether the connection is of no use any more.
    pub(super) close: bool,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), retry_after: None, close: false }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    pub(super) fn closing(self) -> Self {
        Self { close: true, ..self }
    }
}

impl From<BrokerError> for ApiError {
    fn from(error: BrokerError) -> Self {
        let (status, retry_after) = status_of(&error);
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(%error, "a request failed");
        }
        Self { status, message: error.to_string(), retry_after, close: false }
    }
}

fn status_of(error: &BrokerError) -> (StatusCode, Option<u32>) {
    match error {
        BrokerError::NoTopic(_)
        | BrokerError::NoDirectory(_)
        | BrokerError::NoUser(_)
        | BrokerError::NoChild { .. } => (StatusCode::NOT_FOUND, None),
        BrokerError::Forbidden(_) => (StatusCode::FORBIDDEN, None),
        BrokerError::TopicName(_)
        | BrokerError::Invalid { .. }
        | BrokerError::Link(LinkRefusal::Itself(_)) => (StatusCode::BAD_REQUEST, None),
        BrokerError::TopicExists { .. }
        | BrokerError::TopicExistsInOtherCase { .. }
        | BrokerError::NameTaken { .. }
        | BrokerError::SchemaConflict(_)
        | BrokerError::Meta(MetaError::SchemaMoved { .. })
        | BrokerError::UserExists(_)
        | BrokerError::UserChanged(_)
        | BrokerError::Link(_)
        | BrokerError::DelayedChild { .. } => (StatusCode::CONFLICT, None),
        BrokerError::Throttled { retry_after, .. } => {
            (StatusCode::TOO_MANY_REQUESTS, Some(u32::try_from(*retry_after).unwrap_or(u32::MAX)))
        }
        BrokerError::MessageTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, None),
        BrokerError::Message { source, .. } => status_of(source),
        BrokerError::LeaseGone | BrokerError::Expired { .. } | BrokerError::Unreadable { .. } => {
            (StatusCode::GONE, None)
        }
        BrokerError::Overloaded | BrokerError::ShuttingDown | BrokerError::TooManyLogins => {
            (StatusCode::SERVICE_UNAVAILABLE, Some(1))
        }
        BrokerError::Meta(MetaError::Unavailable { .. } | MetaError::CannotOpen { .. }) => {
            (StatusCode::SERVICE_UNAVAILABLE, Some(1))
        }
        BrokerError::Unserved { .. } => (StatusCode::SERVICE_UNAVAILABLE, Some(60)),
        BrokerError::DiskFull => (StatusCode::SERVICE_UNAVAILABLE, Some(5)),
        // Nothing is broken: descriptors come back as connections end and idle logs give theirs up.
        BrokerError::Ingress(error) | BrokerError::Storage(error) if error.is_out_of_descriptors() => {
            (StatusCode::SERVICE_UNAVAILABLE, Some(1))
        }
        BrokerError::Ingress(_)
        | BrokerError::Storage(_)
        | BrokerError::Meta(_)
        | BrokerError::Plugin(_)
        | BrokerError::Stopped => (StatusCode::INTERNAL_SERVER_ERROR, None),
    }
}

/// As the routes of `/v1` answer it, for handlers beside them: `{"error": "<what and which>"}` with its status.
impl IntoResponse for BrokerError {
    fn into_response(self) -> Response {
        ApiError::from(self).into_response()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(ErrorObject { error: self.message })).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.close {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// 404 for a path that is no route.
pub(super) async fn not_found(uri: Uri) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, format!("there is no {}", uri.path()))
}

/// 405 for a route that does not take the method.
pub(super) async fn method_not_allowed(method: Method, uri: Uri) -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, format!("{} does not take {method}", uri.path()))
}

/// 405 for whatever is no GET of the route that leases, HEAD included.
pub(super) async fn get_alone(method: Method, uri: Uri) -> Response {
    let mut response = method_not_allowed(method, uri).await.into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
    response
}

#[cfg(test)]
mod tests {
    use narad_core::Error;
    use rustix::io::Errno;

    use super::*;
    use crate::{ingress::IngressError, queue::QueueError};

    fn answer(error: impl Into<BrokerError>) -> (u16, Option<u32>) {
        let error = ApiError::from(error.into());
        (error.status.as_u16(), error.retry_after)
    }

    #[test]
    fn what_passes_is_503_with_a_time_to_retry_wherever_it_comes_from() {
        let failed = |errno: Errno| Error::io("open", "/data/00000000000000000000.log", errno.into());
        let cases = [(Errno::MFILE, Some(1)), (Errno::NFILE, Some(1)), (Errno::NOSPC, Some(5))];
        for (errno, retry) in cases {
            assert_eq!(answer(failed(errno)), (503, retry), "{errno:?}");
            assert_eq!(answer(QueueError::Storage(failed(errno))), (503, retry), "{errno:?} of a queue");
        }
        assert_eq!(answer(IngressError::Failed(failed(Errno::MFILE))), (503, Some(1)));
        let poisoned = Error::Poisoned { source: std::sync::Arc::new(failed(Errno::MFILE)) };
        assert_eq!(answer(poisoned), (503, Some(1)));
        assert_eq!(answer(failed(Errno::IO)), (500, None), "a disk that fails does not pass");
        assert_eq!(answer(IngressError::Failed(failed(Errno::IO))), (500, None));
    }
}
