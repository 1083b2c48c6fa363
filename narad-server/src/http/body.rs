//! A request's body: read whole before the handler runs, within the route's limit and a time.
//!
//! A body beyond its limit is read on and thrown away, within a bound, so that the client, which is still sending,
//! gets to read the 413 and not a reset.

use axum::http::{Request, StatusCode, header, request::Parts};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;

use super::{ACK, ApiError, App, PRODUCE_BATCH};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// A batch of messages, as it was sent and as it is once it is decoded.
pub(super) const MAX_BATCH_BYTES: usize = 16 * MIB;
/// Bytes beyond the limit that are read and thrown away.
const DRAIN: usize = 32 * MIB;

/// What the route takes, in bytes.
fn limit(route: Option<&str>) -> usize {
    match route {
        Some(PRODUCE_BATCH) => MAX_BATCH_BYTES,
        Some(ACK) => 64 * KIB,
        _ => MIB,
    }
}

/// The request's head and the bytes of its body.
pub(super) async fn collect<B: Body<Data = Bytes> + Unpin>(
    app: &App,
    route: Option<&str>,
    request: Request<B>,
) -> Result<(Parts, Bytes), ApiError> {
    let limit = limit(route);
    let (parts, body) = request.into_parts();
    let announced = parts
        .headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let asks_first = parts.headers.contains_key(header::EXPECT);
    if asks_first && announced.is_some_and(|length| length > limit) {
        // The client waits for leave to send: it is told no, and there is nothing to drain.
        return Err(too_large(limit));
    }
    let reading = read(body, limit, announced.unwrap_or(0));
    let late = |_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time").closing();
    let body = tokio::time::timeout(app.0.settings.read_timeout.0, reading).await.map_err(late)??;
    Ok((parts, body))
}

/// Answers `error` before the body is read: what the client is still sending is thrown away first, within a bound and
/// the time of a body, so that it gets to read the answer.
pub(super) async fn refuse<B: Body<Data = Bytes> + Unpin>(
    app: &App,
    request: Request<B>,
    error: ApiError,
) -> ApiError {
    if request.headers().contains_key(header::EXPECT) {
        // The client waits for leave to send, and does not get it.
        return error.closing();
    }
    let mut body = request.into_body();
    let draining = async {
        let mut seen = 0usize;
        while let Some(frame) = body.frame().await {
            seen = seen.saturating_add(frame.ok()?.data_ref().map_or(0, Bytes::len));
            if seen > DRAIN {
                return None;
            }
        }
        Some(())
    };
    match tokio::time::timeout(app.0.settings.read_timeout.0, draining).await {
        Ok(Some(())) => error,
        _ => error.closing(),
    }
}

async fn read(
    mut body: impl Body<Data = Bytes> + Unpin,
    limit: usize,
    announced: usize,
) -> Result<Bytes, ApiError> {
    let (mut kept, mut seen) = (BytesMut::with_capacity(announced.min(limit)), 0usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::bad_request("the body ended early").closing())?;
        let Ok(data) = frame.into_data() else { continue };
        seen = seen.saturating_add(data.len());
        if seen <= limit {
            kept.extend_from_slice(&data);
        } else if seen > limit + DRAIN {
            break;
        }
    }
    if seen > limit { Err(too_large(limit)) } else { Ok(kept.freeze()) }
}

fn too_large(limit: usize) -> ApiError {
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {limit} bytes")).closing()
}
