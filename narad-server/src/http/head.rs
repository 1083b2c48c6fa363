//! The size of a request's head. hyper refuses one that does not fit its buffer, and takes a larger one that happens
//! to arrive in one piece; here the bound is exact.

use axum::{extract::Request, http::StatusCode};

use super::{ApiError, App};

/// ` ` twice, `HTTP/1.1` and two line ends.
const REQUEST_LINE_REST: usize = 14;
/// `: ` and a line end.
const HEADER_REST: usize = 4;

/// Refuses a head larger than the configuration allows.
pub(super) fn check<B>(app: &App, request: &Request<B>) -> Result<(), ApiError> {
    let limit = app.0.settings.max_header_bytes as usize;
    if size(request) > limit {
        let message = format!("the head has more than {limit} bytes");
        return Err(ApiError::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, message).closing());
    }
    Ok(())
}

/// The head's bytes as they were sent, but for white space that the parser took away.
fn size<B>(request: &Request<B>) -> usize {
    let target = request.uri().path_and_query().map_or(1, |target| target.as_str().len());
    let headers =
        request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_REST);
    request.method().as_str().len() + target + REQUEST_LINE_REST + headers.sum::<usize>()
}
