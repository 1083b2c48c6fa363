//! Produce up to a thousand messages, all or none.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use narad_core::plugin::PartitionId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    ApiError, App, access,
    body::MAX_BATCH_BYTES,
    encoding::Encoding,
    identity::Identity,
    params::{TopicPath, is_object, json_body, strict},
    up_to::Ordinal,
};
use crate::{
    broker::{MAX_BATCH_MESSAGES, Message},
    meta::Action,
    security::Caller,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchBody {
    messages: Vec<Box<RawValue>>,
}

/// What a batch is: that its messages are these is found out one by one, so that an error can name the first.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "its schema is what counts")]
pub(super) struct Batch<'a> {
    #[schemars(length(min = 1, max = MAX_BATCH_MESSAGES))]
    messages: Vec<MessageBody<'a>>,
}

/// How many were taken.
#[derive(Serialize, JsonSchema)]
pub(super) struct Accepted {
    accepted: usize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MessageBody<'a> {
    /// As it was written: a string keeps its quotes.
    #[serde(borrow)]
    #[schemars(with = "serde_json::Value", required)]
    payload: &'a RawValue,
    #[schemars(extend("enum" = ["base64", "", null]))]
    payload_encoding: Option<String>,
    key: Option<String>,
    #[schemars(extend("enum" = ["base64", "", null]))]
    key_encoding: Option<String>,
    partition: Option<Ordinal>,
}

pub(super) async fn produce(
    State(app): State<App>,
    caller: Caller,
    identity: Identity,
    TopicPath(topic): TopicPath,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    access::granted(&caller, Action::Produce, &topic)?;
    let encoding = Encoding::of(&headers)?;
    let _slot = app.0.produces.take(identity)?;
    let messages = app.0.decoders.read(encoding, body, MAX_BATCH_BYTES, parse).await?;
    let accepted = app.broker().produce_batch(&topic, messages).await?;
    Ok((StatusCode::ACCEPTED, Json(Accepted { accepted })).into_response())
}

/// The messages of a body, as they stand in it.
fn parse(body: &[u8]) -> Result<Vec<Message>, ApiError> {
    let BatchBody { messages } = json_body(body)?;
    if messages.len() > MAX_BATCH_MESSAGES {
        let message = format!("messages: 1 to {MAX_BATCH_MESSAGES}, not {}", messages.len());
        return Err(ApiError::bad_request(message));
    }
    let messages = messages.iter().enumerate().map(|(index, raw)| {
        message(raw.get()).map_err(|reason| ApiError::bad_request(format!("message {index}: {reason}")))
    });
    messages.collect()
}

fn message(raw: &str) -> Result<Message, String> {
    if !is_object(raw.as_bytes()) {
        return Err("a JSON object is expected".to_owned());
    }
    let body: MessageBody<'_> = strict(raw.as_bytes())?;
    let payload = if is_base64("payload_encoding", body.payload_encoding.as_deref())? {
        let text: String = serde_json::from_str(body.payload.get())
            .map_err(|_| "payload: base64 needs a string".to_owned())?;
        decode("payload", &text)?
    } else {
        Bytes::copy_from_slice(body.payload.get().as_bytes())
    };
    let key = body.key.unwrap_or_default();
    let key = if is_base64("key_encoding", body.key_encoding.as_deref())? {
        decode("key", &key)?
    } else {
        Bytes::from(key)
    };
    Ok(Message { key, payload, partition: body.partition.map(|partition| PartitionId(partition.get_u32())) })
}

fn is_base64(name: &str, encoding: Option<&str>) -> Result<bool, String> {
    match encoding {
        None | Some("") => Ok(false),
        Some("base64") => Ok(true),
        Some(other) => Err(format!("{name}: \"{other}\" is not base64")),
    }
}

fn decode(name: &str, text: &str) -> Result<Bytes, String> {
    STANDARD.decode(text).map(Bytes::from).map_err(|error| format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_stored_as_they_were_written() {
        let payload = |raw: &str| message(raw).map(|message| message.payload);
        assert_eq!(payload(r#"{"payload":"a\u0041"}"#).unwrap(), r#""a\u0041""#);
        assert_eq!(payload(r#"{"payload":null}"#).unwrap(), "null");
        assert_eq!(payload(r#"{"payload":{ "a": 1.0 }}"#).unwrap(), r#"{ "a": 1.0 }"#);
        assert_eq!(payload(r#"{"payload":"/w==","payload_encoding":"base64"}"#).unwrap(), &b"\xff"[..]);
        let keyed = message(r#"{"payload":1,"key":"/w==","key_encoding":"base64","partition":2}"#).unwrap();
        assert_eq!((&keyed.key[..], keyed.partition), (&b"\xff"[..], Some(PartitionId(2))));
    }

    #[test]
    fn what_is_wrong_with_a_message_is_named() {
        for (raw, name) in [
            ("{}", "payload"),
            ("[1,null,null,null,null]", "object"),
            (r#"{"payload":1,"paylod":2}"#, "paylod"),
            (r#"{"payload":1,"payload_encoding":"hex"}"#, "payload_encoding"),
            (r#"{"payload":1,"payload_encoding":"base64"}"#, "string"),
            (r#"{"payload":"?","payload_encoding":"base64"}"#, "payload"),
            (r#"{"payload":1,"partition":-1}"#, "-1"),
        ] {
            let error = message(raw).unwrap_err();
            assert!(error.contains(name), "{raw}: {error}");
        }
    }
}
