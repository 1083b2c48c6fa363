//! A consumed message: from the JSON of `/v1` back to the very bytes that were produced, and out again.
//!
//! A JSON payload is never parsed and written anew, since that would lose white space and number forms.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Number, value::RawValue};

/// What a payload is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PayloadType {
    /// Valid JSON.
    Json,
    /// Other UTF-8 text.
    Text,
    /// Anything else.
    Binary,
}

/// A message as it was produced.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    /// The topic.
    pub(crate) topic: String,
    /// The partition.
    pub(crate) partition: u32,
    /// Its place there.
    pub(crate) offset: u64,
    /// The key; empty when there is none.
    pub(crate) key: Vec<u8>,
    /// The message, byte for byte.
    pub(crate) payload: Vec<u8>,
    /// What the payload is made of.
    pub(crate) payload_type: PayloadType,
    /// When it was committed: Unix seconds.
    pub(crate) timestamp: Number,
    /// Settles the lease; absent on replay.
    pub(crate) receipt: Option<String>,
}

/// The message object of `/v1`.
#[derive(Deserialize)]
struct Wire<'a> {
    topic: String,
    partition: u32,
    offset: u64,
    #[serde(default)]
    key: String,
    key_encoding: Option<String>,
    #[serde(borrow)]
    payload: &'a RawValue,
    payload_encoding: Option<String>,
    payload_type: Option<PayloadType>,
    timestamp: Number,
    receipt_handle: Option<String>,
}

#[derive(Deserialize)]
struct WireBatch<'a> {
    #[serde(borrow)]
    messages: Vec<Wire<'a>>,
}

/// The message in an answer to a replay. The error says what is wrong with the answer.
pub(crate) fn parse_single(body: &str) -> Result<Message, String> {
    let wire: Wire<'_> = serde_json::from_str(body).map_err(|error| error.to_string())?;
    decode(body, wire)
}

/// The messages in an answer to a batch consume. The error says what is wrong with the answer.
pub(crate) fn parse_batch(body: &str) -> Result<Vec<Message>, String> {
    let batch: WireBatch<'_> = serde_json::from_str(body).map_err(|error| error.to_string())?;
    batch.messages.into_iter().map(|wire| decode(body, wire)).collect()
}

fn decode(body: &str, wire: Wire<'_>) -> Result<Message, String> {
    let binary = |encoding: &Option<String>| match encoding.as_deref() {
        None => Ok(false),
        Some("base64") => Ok(true),
        Some(other) => Err(format!("unknown encoding {other:?}")),
    };
    let from_base64 = |text: &str| BASE64_STANDARD.decode(text).map_err(|error| error.to_string());
    let string = || serde_json::from_str::<String>(wire.payload.get()).map_err(|error| error.to_string());

    let payload_type = match wire.payload_type {
        Some(stated) => stated,
        None if binary(&wire.payload_encoding)? => PayloadType::Binary,
        None if wire.payload.get().starts_with('"') => PayloadType::Text,
        None => PayloadType::Json,
    };
    let payload = match payload_type {
        PayloadType::Json => with_white_space(body, wire.payload.get()).as_bytes().to_vec(),
        PayloadType::Text => string()?.into_bytes(),
        PayloadType::Binary => from_base64(&string()?)?,
    };
    let key = if binary(&wire.key_encoding)? { from_base64(&wire.key)? } else { wire.key.into_bytes() };
    Ok(Message {
        topic: wire.topic,
        partition: wire.partition,
        offset: wire.offset,
        key,
        payload,
        payload_type,
        timestamp: wire.timestamp,
        receipt: wire.receipt_handle,
    })
}

/// `value`, a slice of `body`, with the white space around it.
///
/// The server puts a JSON payload into its answer verbatim and writes no white space of its own there, so what
/// surrounds the value was produced with it.
fn with_white_space<'a>(body: &'a str, value: &'a str) -> &'a str {
    let blank = |character: char| matches!(character, ' ' | '\t' | '\n' | '\r');
    let around = || {
        let start = (value.as_ptr() as usize).checked_sub(body.as_ptr() as usize)?;
        let (before, after) = (body.get(..start)?, body.get(start.checked_add(value.len())?..)?);
        let lead = before.len() - before.trim_end_matches(blank).len();
        let trail = after.len() - after.trim_start_matches(blank).len();
        body.get(start - lead..start + value.len() + trail)
    };
    around().unwrap_or(value)
}

/// For programs: the message object again, on one line. A line break between the tokens of a JSON payload becomes
/// a blank, which leaves the value as it is.
impl Serialize for Message {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Line<'a> {
            topic: &'a str,
            partition: u32,
            offset: u64,
            #[serde(skip_serializing_if = "str::is_empty")]
            key: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            key_encoding: Option<&'a str>,
            payload: Box<RawValue>,
            #[serde(skip_serializing_if = "Option::is_none")]
            payload_encoding: Option<&'a str>,
            payload_type: PayloadType,
            timestamp: &'a Number,
            #[serde(skip_serializing_if = "Option::is_none")]
            receipt_handle: Option<&'a str>,
        }
        let base64 = Some("base64");
        let encoded_key;
        let (key, key_encoding) = match std::str::from_utf8(&self.key) {
            Ok(text) => (text, None),
            Err(_) => {
                encoded_key = BASE64_STANDARD.encode(&self.key);
                (encoded_key.as_str(), base64)
            }
        };
        let text = String::from_utf8_lossy(&self.payload);
        let (payload, payload_encoding) = match self.payload_type {
            PayloadType::Json => (RawValue::from_string(text.replace(['\n', '\r'], " ")), None),
            PayloadType::Text => (serde_json::value::to_raw_value(&text), None),
            PayloadType::Binary => {
                (serde_json::value::to_raw_value(&BASE64_STANDARD.encode(&self.payload)), base64)
            }
        };
        Line {
            topic: &self.topic,
            partition: self.partition,
            offset: self.offset,
            key,
            key_encoding,
            payload: payload.map_err(serde::ser::Error::custom)?,
            payload_encoding,
            payload_type: self.payload_type,
            timestamp: &self.timestamp,
            receipt_handle: self.receipt.as_deref(),
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(rest: &str) -> String {
        format!(r#"{{"topic":"t","partition":1,"offset":7,{rest},"timestamp":1700000000}}"#)
    }

    fn payload(rest: &str) -> Vec<u8> {
        parse_single(&answer(rest)).unwrap().payload
    }

    #[test]
    fn a_json_payload_comes_back_byte_for_byte() {
        for json in
            ["{\"b\": 1.0,\n \"a\":1e3}", " [1 , 2]\t", "\"hello\"", "null", "1.000", "{\"a\":1,\"a\":2}"]
        {
            let rest = format!(r#""payload":{json},"payload_type":"json""#);
            assert_eq!(String::from_utf8(payload(&rest)).unwrap(), json);
            let last = format!(
                r#"{{"topic":"t","partition":1,"offset":7,"timestamp":1,"payload_type":"json","payload":{json}}}"#
            );
            let batch = parse_batch(&format!(r#"{{"messages":[{last},{last}]}}"#)).unwrap();
            assert!(
                batch.iter().all(|message| message.payload == json.as_bytes()),
                "{json:?} at an object's end"
            );
        }
    }

    #[test]
    fn text_and_binary_are_unwrapped() {
        assert_eq!(payload(r#""payload":"a\n\u00fc\"","payload_type":"text""#), "a\nü\"".as_bytes());
        assert_eq!(
            payload(r#""payload":"/wA=","payload_encoding":"base64","payload_type":"binary""#),
            [0xFF, 0]
        );
        assert_eq!(payload(r#""payload":"/wA=","payload_encoding":"base64""#), [0xFF, 0]);
        assert_eq!(payload(r#""payload":"hello""#), b"hello");
    }

    #[test]
    fn what_cannot_be_decoded_is_an_error() {
        assert!(parse_single(&answer(r#""payload":"x","payload_encoding":"rot13""#)).is_err());
        assert!(parse_single(&answer(r#""payload":"!","payload_type":"binary""#)).is_err());
        assert!(parse_single(&answer(r#""payload":"x","key":"!","key_encoding":"base64""#)).is_err());
        assert!(parse_batch("{}").is_err());
    }

    #[test]
    fn a_program_gets_one_line_that_parses_back() {
        for rest in [
            r#""payload":{"a":1},"payload_type":"json","key":"k","receipt_handle":"1:7:9""#,
            r#""payload":"line\nbreak","payload_type":"text""#,
            r#""payload":"/w==","payload_encoding":"base64","payload_type":"binary","key":"/w==","key_encoding":"base64""#,
        ] {
            let message = parse_single(&answer(rest)).unwrap();
            let line = serde_json::to_string(&message).unwrap();
            assert_eq!(parse_single(&line).unwrap(), message);
        }
        let spread = parse_single(&answer("\"payload\":{\"a\":\n1},\"payload_type\":\"json\"")).unwrap();
        assert!(!serde_json::to_string(&spread).unwrap().contains('\n'));
    }
}
