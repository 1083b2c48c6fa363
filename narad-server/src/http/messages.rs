//! Produce one message; consume by lease.

use std::time::Duration;

use axum::{
    extract::State,
    http::{HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use bytes::Bytes;

use super::{
    ApiError, App, Link, access,
    identity::Identity,
    message_json,
    params::{Query, TopicPath},
    replay,
};
use crate::{
    broker::Message,
    duration::{self, DurationError, WithUnits},
    meta::Action,
    queue::{Consume, Delivery, Settle},
    security::Caller,
};

const WAIT_CLAMPED: HeaderName = HeaderName::from_static("x-narad-wait-clamped");
/// Messages of one consume, at most.
const MAX_MESSAGES: u64 = 100;
/// Keys and payloads of one consume, in bytes.
const MAX_CONSUME_BYTES: usize = 4 << 20;
/// The body of an answer, in bytes.
const MAX_BODY_BYTES: usize = 8 << 20;

pub(super) async fn produce(
    State(app): State<App>,
    caller: Caller,
    identity: Identity,
    TopicPath(topic): TopicPath,
    query: Query,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    access::granted(&caller, Action::Produce, &topic)?;
    let key = query.bytes("key")?.map(Bytes::copy_from_slice).unwrap_or_default();
    let message = Message { key, payload: body, partition: query.partition()? };
    let _slot = app.0.produces.take(identity)?;
    app.broker().produce(&topic, message).await?;
    Ok(StatusCode::ACCEPTED)
}

pub(super) async fn consume(
    State(app): State<App>,
    caller: Caller,
    identity: Identity,
    link: Link,
    TopicPath(topic): TopicPath,
    query: Query,
) -> Result<Response, ApiError> {
    access::granted(&caller, Action::Consume, &topic)?;
    if query.bytes("offset")?.is_some() {
        return replay::read(&app, &topic, &query).await;
    }
    let max = query.number_from("max", 1, MAX_MESSAGES)?;
    let (wait, clamped) = wait(&query, app.0.settings.max_consume_wait.0)?;
    let request = Consume {
        wait,
        partition: query.partition()?,
        max: max.and_then(|max| usize::try_from(max).ok()).unwrap_or(1),
        max_bytes: MAX_CONSUME_BYTES,
    };
    let deliveries = {
        let _slot = app.0.consumes.take(identity)?;
        tokio::select! {
            deliveries = app.broker().consume(&topic, request) => deliveries?,
            // It may wait for its answer all the same: that is what is there now.
            () = link.left() => app.broker().consume(&topic, Consume { wait: Duration::ZERO, ..request }).await?,
        }
    };
    give_back_if_it_breaks(&link, &app, &topic, &deliveries);
    let mut response = match (deliveries.first(), max) {
        (None, _) => StatusCode::NO_CONTENT.into_response(),
        (Some(only), None) => message_json::response(encode(&topic, only)?),
        (Some(_), Some(_)) => batch(&app, &topic, &deliveries).await?,
    };
    if let Some(limit) = clamped
        && let Ok(value) = HeaderValue::try_from(WithUnits(limit).to_string())
    {
        response.headers_mut().insert(WAIT_CLAMPED, value);
    }
    Ok(response)
}

/// When it turns out that the client was gone before the answer came, the next one gets the messages.
fn give_back_if_it_breaks(link: &Link, app: &App, topic: &str, deliveries: &[Delivery]) {
    if deliveries.is_empty() {
        return;
    }
    let receipts: Vec<_> = deliveries.iter().map(|delivery| delivery.nonce).collect();
    let (app, topic) = (app.clone(), topic.to_owned());
    link.hand_over(move || {
        tokio::spawn(async move {
            for receipt in receipts {
                // Settled already, or given back for want of room in the answer.
                let _ = app.broker().settle(&topic, receipt, Settle::Release).await;
            }
        });
    });
}

/// How long to wait, and the limit when that is why.
fn wait(query: &Query, limit: Duration) -> Result<(Duration, Option<Duration>), ApiError> {
    let asked = match query.text("wait")?.map(duration::parse) {
        None | Some(Err(DurationError::Negative)) => Duration::ZERO,
        Some(Ok(asked)) => asked,
        Some(Err(error)) => return Err(ApiError::bad_request(format!("wait: {error}"))),
    };
    Ok(if asked > limit { (limit, Some(limit)) } else { (asked, None) })
}

/// The deliveries that fit in an answer. A text can take six times its size as JSON; what does not fit is given back.
async fn batch(app: &App, topic: &str, deliveries: &[Delivery]) -> Result<Response, ApiError> {
    let (mut body, mut taken) = (b"{\"messages\":[".to_vec(), 0);
    for delivery in deliveries {
        let object = encode(topic, delivery)?;
        if taken > 0 && body.len() + object.len() + 3 > MAX_BODY_BYTES {
            break;
        }
        if taken > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&object);
        taken += 1;
    }
    body.extend_from_slice(b"]}");
    for delivery in deliveries.iter().skip(taken) {
        // A lease that is gone already needs no giving back.
        let _ = app.broker().settle(topic, delivery.nonce, Settle::Release).await;
    }
    Ok(message_json::response(body))
}

fn encode(topic: &str, delivery: &Delivery) -> Result<Vec<u8>, ApiError> {
    message_json::encode(topic, delivery.partition, &delivery.record, Some(delivery.nonce))
}
