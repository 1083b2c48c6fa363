//! Replay: one record by its offset, leasing nothing.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use narad_core::format::Offset;

use super::{ApiError, App, message_json, params::Query};
use crate::broker::Replayed;

/// `consume?partition=&offset=`.
pub(super) async fn read(app: &App, topic: &str, query: &Query) -> Result<Response, ApiError> {
    if query.bytes("max")?.is_some() {
        return Err(ApiError::bad_request("max: not together with offset"));
    }
    let partition =
        query.partition()?.ok_or_else(|| ApiError::bad_request("partition: needed together with offset"))?;
    let offset = query.number("offset", Offset::MAX.get())?.and_then(Offset::new).unwrap_or_default();
    match app.broker().replay(topic, partition, offset).await? {
        Replayed::Record(record) => {
            Ok(message_json::response(message_json::encode(topic, partition, &record, None)?))
        }
        Replayed::PastTheEnd => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}
