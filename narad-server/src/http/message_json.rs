//! The message object. A payload that is JSON is handed on byte for byte, so the object is written by hand around it.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use narad_core::{format::Record, plugin::PartitionId};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::value::RawValue;

use super::ApiError;
use crate::queue::Receipt;

/// Everything but the payload. At least one field stands before it, so the payload can follow a comma.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Message", transform = with_payload)]
struct Head<'a> {
    topic: &'a str,
    partition: u32,
    offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_encoding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_encoding: Option<&'static str>,
    #[schemars(extend("enum" = ["json", "text", "binary"]))]
    payload_type: &'static str,
    timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt_handle: Option<String>,
}

fn with_payload(head: &mut Schema) {
    let object = head.ensure_object();
    if let Some(serde_json::Value::Object(fields)) = object.get_mut("properties") {
        fields.insert("payload".to_owned(), serde_json::json!({"description": "Any JSON value"}));
    }
    if let Some(serde_json::Value::Array(required)) = object.get_mut("required") {
        required.push("payload".into());
    }
}

/// What a consume answers: a message or a list of them.
pub(super) fn delivered(answers: &mut SchemaGenerator) -> Schema {
    let message = answers.subschema_for::<Head<'_>>();
    let list = schemars::json_schema!({
        "type": "object",
        "properties": {"messages": {"type": "array", "items": message}},
        "required": ["messages"],
    });
    schemars::json_schema!({"oneOf": [message, list]})
}

/// The message object of `record`; without a receipt it is a replay's.
pub(super) fn encode(
    topic: &str,
    partition: PartitionId,
    record: &Record,
    receipt: Option<Receipt>,
) -> Result<Vec<u8>, ApiError> {
    write(topic, partition, record, receipt).map_err(|error| {
        let message = format!("the message could not be written: {error}");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    })
}

/// What was [encoded](encode), as an answer.
pub(super) fn response(body: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn write(
    topic: &str,
    partition: PartitionId,
    record: &Record,
    receipt: Option<Receipt>,
) -> Result<Vec<u8>, serde_json::Error> {
    let (payload_type, payload) = classify(&record.payload)?;
    let (key, key_encoding) = match std::str::from_utf8(&record.key) {
        Ok("") => (None, None),
        Ok(key) => (Some(key.to_owned()), None),
        Err(_) => (Some(STANDARD.encode(&record.key)), Some("base64")),
    };
    let mut object = serde_json::to_vec(&Head {
        topic,
        partition: partition.0,
        offset: record.offset.get(),
        key,
        key_encoding,
        payload_encoding: (payload_type == "binary").then_some("base64"),
        payload_type,
        timestamp: record.committed_at_ms.div_euclid(1000),
        receipt_handle: receipt.map(|receipt| receipt.to_string()),
    })?;
    object.pop();
    object.extend_from_slice(b",\"payload\":");
    object.extend_from_slice(payload.as_deref().unwrap_or(&record.payload));
    object.push(b'}');
    Ok(object)
}

/// The payload's type, and its JSON form where that is not the payload itself.
fn classify(payload: &[u8]) -> Result<(&'static str, Option<Vec<u8>>), serde_json::Error> {
    let Ok(text) = std::str::from_utf8(payload) else {
        return Ok(("binary", Some(serde_json::to_vec(&STANDARD.encode(payload))?)));
    };
    // The parser checks the grammar alone and builds nothing, at any depth.
    if serde_json::from_str::<&RawValue>(text).is_ok() {
        return Ok(("json", None));
    }
    Ok(("text", Some(serde_json::to_vec(text)?)))
}

#[cfg(test)]
mod tests {
    use narad_core::format::{Batch, Offset};
    use serde_json::{Value, json};

    use super::*;

    fn object(key: &[u8], payload: &[u8]) -> String {
        let mut batch = Batch::of(key, payload);
        batch.stamp(1_700_000_000_999);
        let raw = bytes::Bytes::copy_from_slice(&batch.as_bytes()[4..]);
        let record = Record::decode(Offset::from(7), &raw).unwrap();
        let receipt = Receipt { partition: PartitionId(2), offset: record.offset, nonce: 5 };
        String::from_utf8(encode("t", PartitionId(2), &record, Some(receipt)).unwrap()).unwrap()
    }

    #[test]
    fn json_comes_back_byte_for_byte() {
        for payload in
            ["{ \"a\" :\t1.0e2 }\n", " null", "\"\\u0041\"", "[1,\r\n2]", "123456789012345678901234567890"]
        {
            let object = object(b"", payload.as_bytes());
            assert!(object.ends_with(&format!(",\"payload\":{payload}}}")), "{object}");
            let value: Value = serde_json::from_str(&object).unwrap();
            assert_eq!(value["payload_type"], "json");
        }
    }

    #[test]
    fn other_payloads_and_keys_say_what_they_are() {
        let value: Value = serde_json::from_str(&object(b"k", b"hello\n")).unwrap();
        assert_eq!(
            value,
            json!({"topic": "t", "partition": 2, "offset": 7, "key": "k", "payload": "hello\n", "payload_type": "text",
                   "timestamp": 1_700_000_000, "receipt_handle": "2:7:5"})
        );
        let value: Value = serde_json::from_str(&object(b"\xff", b"\xfe{}")).unwrap();
        assert_eq!(
            (&value["key"], &value["key_encoding"], &value["payload"], &value["payload_encoding"]),
            (&json!("/w=="), &json!("base64"), &json!("/nt9"), &json!("base64"))
        );
        let value: Value = serde_json::from_str(&object(b"", b"")).unwrap();
        assert_eq!(
            (&value["payload"], &value["payload_type"], value.get("key")),
            (&json!(""), &json!("text"), None)
        );
    }

    #[test]
    fn what_only_looks_like_json_is_text() {
        for payload in ["{", "1 2", "\u{feff}{}", "NaN", "{'a':1}", "01", "\"a\nb\""] {
            let value: Value = serde_json::from_str(&object(b"", payload.as_bytes())).unwrap();
            assert_eq!((&value["payload"], &value["payload_type"]), (&json!(payload), &json!("text")));
        }
    }

    #[test]
    fn deep_nesting_is_checked_without_recursion() {
        let deep = [vec![b'['; 200_000], vec![b']'; 200_000]].concat();
        assert!(object(b"", &deep).contains("\"payload_type\":\"json\""));
    }
}
