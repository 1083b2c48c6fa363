//! Produce up to a thousand messages, all or none.

use std::fmt;

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
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
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
struct BatchBody<'a> {
    #[serde(borrow, deserialize_with = "messages")]
    messages: Vec<MessageBody<'a>>,
}

/// A batch of which something is refused: message by message, so that an error can name the first.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefusedBody<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

/// What a batch is.
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
fn parse(body: &Bytes) -> Result<Vec<Message>, ApiError> {
    read(body).map_or_else(|| refused(body), Ok)
}

/// The same, read in one go: views of the body where they are most of it. `None` where something is refused.
fn read(body: &Bytes) -> Option<Vec<Message>> {
    if !is_object(body) {
        return None;
    }
    let BatchBody { messages } = serde_json::from_slice(body).ok()?;
    let mut messages: Vec<Message> =
        messages.into_iter().map(|message| message_of(body, message).ok()).collect::<Option<_>>()?;
    // A view keeps all of the body: a large one is not to stand in memory for what little it says.
    let kept: usize = messages.iter().map(|message| message.payload.len()).sum();
    if kept < body.len() / 2 {
        for message in &mut messages {
            message.payload = Bytes::copy_from_slice(&message.payload);
        }
    }
    Some(messages)
}

/// The same, one by one, with an error for the first that is refused.
fn refused(body: &Bytes) -> Result<Vec<Message>, ApiError> {
    let RefusedBody { messages } = json_body(body)?;
    if messages.len() > MAX_BATCH_MESSAGES {
        let message = format!("messages: 1 to {MAX_BATCH_MESSAGES}, not {}", messages.len());
        return Err(ApiError::bad_request(message));
    }
    let messages = messages.iter().enumerate().map(|(index, raw)| {
        let refused = |reason| ApiError::bad_request(format!("message {index}: {reason}"));
        message(body, raw.get()).map_err(refused)
    });
    messages.collect()
}

fn message(within: &Bytes, raw: &str) -> Result<Message, String> {
    if !is_object(raw.as_bytes()) {
        return Err("a JSON object is expected".to_owned());
    }
    message_of(within, strict(raw.as_bytes())?)
}

/// The message that a part of `within` states.
fn message_of(within: &Bytes, body: MessageBody<'_>) -> Result<Message, String> {
    let payload = if is_base64("payload_encoding", body.payload_encoding.as_deref())? {
        let text: String = serde_json::from_str(body.payload.get())
            .map_err(|_| "payload: base64 needs a string".to_owned())?;
        decode("payload", &text)?
    } else {
        within.slice_ref(body.payload.get().as_bytes())
    };
    let key = body.key.unwrap_or_default();
    let key = if is_base64("key_encoding", body.key_encoding.as_deref())? {
        decode("key", &key)?
    } else {
        Bytes::from(key)
    };
    Ok(Message { key, payload, partition: body.partition.map(|partition| PartitionId(partition.get_u32())) })
}

/// Objects alone, and no more of them than a batch may have: the rest takes no memory.
fn messages<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<MessageBody<'de>>, D::Error> {
    struct Messages;

    impl<'de> Visitor<'de> for Messages {
        type Value = Vec<MessageBody<'de>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "1 to {MAX_BATCH_MESSAGES} messages")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut messages = Vec::new();
            while let Some(Object(message)) = seq.next_element()? {
                if messages.len() >= MAX_BATCH_MESSAGES {
                    return Err(A::Error::invalid_length(messages.len() + 1, &self));
                }
                messages.push(message);
            }
            Ok(messages)
        }
    }

    deserializer.deserialize_seq(Messages)
}

/// A message that stands as an object: serde would fill it from an array as well, by position.
struct Object<'a>(MessageBody<'a>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;

        impl<'de> Visitor<'de> for Map {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                MessageBody::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Map)
    }
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

    fn message(raw: &str) -> Result<Message, String> {
        let body = Bytes::from(format!(r#"{{"messages":[{raw}]}}"#));
        let mut messages = parse(&body).map_err(|error| error.message)?;
        Ok(messages.remove(0))
    }

    #[test]
    fn a_batch_is_as_large_as_it_may_be() {
        let batch = |count: usize| {
            Bytes::from(format!(r#"{{"messages":[{}]}}"#, vec![r#"{"payload":[1]}"#; count].join(",")))
        };
        let body = batch(MAX_BATCH_MESSAGES);
        let messages = parse(&body).unwrap();
        assert_eq!(messages.len(), MAX_BATCH_MESSAGES);
        let error = parse(&batch(MAX_BATCH_MESSAGES + 1)).unwrap_err();
        assert_eq!(error.message, "messages: 1 to 1000, not 1001");
        assert_eq!(parse(&batch(0)).unwrap(), [], "that it is too small is the broker's to say");
        for (body, name) in
            [("[[]]", "object"), (r#"{"messages":{}}"#, "messages"), (r#"{"message":[]}"#, "message")]
        {
            let error = parse(&Bytes::from(body)).unwrap_err();
            assert!(error.message.contains(name), "{body}: {}", error.message);
        }
    }

    #[test]
    fn messages_are_views_of_the_body_that_they_are_most_of_and_keep_no_other() {
        let is_view = |payload: &str| {
            let body = Bytes::from(format!(r#"{{"messages":[{{"payload":{payload}}}]}}"#));
            let messages = parse(&body).unwrap();
            body.as_ptr_range().contains(&messages[0].payload.as_ptr())
        };
        assert!(is_view(&format!("\"{}\"", "x".repeat(100))));
        assert!(!is_view("1"));
        assert!(!is_view(&format!("1{}", " ".repeat(100))));
    }

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
