//! What a request says: parameters of the query, the topic of the path, strict JSON bodies.
//!
//! Unknown parameters are ignored; one that is known must be well formed and stand once.

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use narad_core::plugin::PartitionId;
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::ApiError;

/// The topic that the path names, decoded. Whether there is such a topic is the broker's to say.
pub(super) struct TopicPath(pub(super) String);

impl TopicPath {
    /// The topic that a path has as `segment`; `None` where that is no text.
    pub(super) fn decode(segment: &str) -> Option<Self> {
        Some(Self(percent_decode_str(segment).decode_utf8().ok()?.into_owned()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TopicPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(topic)) => Ok(Self(topic)),
            Err(_) => Err(ApiError::bad_request("the path does not name a topic")),
        }
    }
}

/// The parent and the child that the path names, decoded.
pub(super) struct LinkPath(pub(super) String, pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for LinkPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<(String, String)>::from_request_parts(parts, state).await {
            Ok(Path((parent, child))) => Ok(Self(parent, child)),
            Err(_) => Err(ApiError::bad_request("the path does not name two topics")),
        }
    }
}

/// The parameters of the query, as they were sent.
pub(super) struct Query(Vec<Pair>);

struct Pair {
    name: Vec<u8>,
    /// `None` when it is not well formed; that matters only to who asks for it.
    value: Option<Vec<u8>>,
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()))
    }
}

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Pair { name: decode(name).unwrap_or_else(|| name.as_bytes().to_vec()), value: decode(value) }
        });
        Self(pairs.collect())
    }

    /// The bytes of the parameter `name`.
    pub(super) fn bytes(&self, name: &'static str) -> Result<Option<&[u8]>, ApiError> {
        let mut values = self.0.iter().filter(|pair| pair.name == name.as_bytes());
        let Some(pair) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(ApiError::bad_request(format!("{name}: given more than once")));
        }
        match &pair.value {
            Some(value) => Ok(Some(value)),
            None => Err(ApiError::bad_request(format!("{name}: malformed percent encoding"))),
        }
    }

    /// The text of the parameter `name`.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<&str>, ApiError> {
        let text = self.bytes(name)?.map(std::str::from_utf8).transpose();
        text.map_err(|_| ApiError::bad_request(format!("{name}: not UTF-8")))
    }

    /// The number that the parameter `name` states: digits alone, at most `limit`.
    pub(super) fn number(&self, name: &'static str, limit: u64) -> Result<Option<u64>, ApiError> {
        self.number_from(name, 0, limit)
    }

    /// The same, at least `least`.
    pub(super) fn number_from(
        &self,
        name: &'static str,
        least: u64,
        limit: u64,
    ) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if digits && (least..=limit).contains(&number) => Ok(Some(number)),
            _ => Err(ApiError::bad_request(format!(
                "{name}: \"{text}\" is not a number from {least} to {limit}"
            ))),
        }
    }

    /// The partition that the query names.
    pub(super) fn partition(&self) -> Result<Option<PartitionId>, ApiError> {
        let number = self.number("partition", u64::from(u32::MAX))?;
        Ok(number.and_then(|number| u32::try_from(number).ok()).map(PartitionId))
    }
}

/// Undoes the encoding of a form: `+` is a space, `%41` is `A`. `None` for a `%` without two hexadecimal digits.
fn decode(text: &str) -> Option<Vec<u8>> {
    let (mut out, mut bytes) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            other => other,
        });
    }
    Some(out)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// The JSON body, whose type refuses unknown fields by name.
pub(super) fn json_body<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    if body.is_empty() {
        return Err(ApiError::bad_request("body: empty; a JSON object is expected"));
    }
    if !is_object(body) {
        return Err(ApiError::bad_request("body: a JSON object is expected"));
    }
    strict(body).map_err(|error| ApiError::bad_request(format!("body: {error}")))
}

/// What JSON text states, whose type refuses unknown fields by name; or what is wrong with it, and in which field.
pub(super) fn strict<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(json).map_err(|error| {
        // To know where one is costs more than to read: it is found out for an error alone.
        let again = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(json));
        match again.map(|_: T| ()) {
            Err(located) if error.is_data() && located.path().iter().len() > 0 => {
                format!("{}: {error}", located.path())
            }
            _ => error.to_string(),
        }
    })
}

/// Whether JSON text is an object, if it is anything. serde would fill a struct from an array as well, by position.
pub(super) fn is_object(json: &[u8]) -> bool {
    json.trim_ascii_start().first() == Some(&b'{')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_unknown_ones_do_no_harm() {
        let query = Query::parse("key=a+b%2B%ff&&x=%zz&partition=2&empty=");
        assert_eq!(query.bytes("key").ok().flatten(), Some(&b"a b+\xff"[..]));
        assert!(query.text("key").is_err());
        assert_eq!(query.partition().ok().flatten(), Some(PartitionId(2)));
        assert_eq!(query.text("empty").ok().flatten(), Some(""));
        assert!(query.bytes("x").is_err());
        assert!(query.bytes("absent").is_ok_and(|value| value.is_none()));
    }

    #[test]
    fn repeated_and_malformed_parameters_are_refused() {
        for query in
            ["n=1&n=1", "n=", "n", "n=-1", "n=%2B1", "n=1.0", "n=11", "n=99999999999999999999", "n=%"]
        {
            assert!(Query::parse(query).number("n", 10).is_err(), "{query}");
        }
        assert_eq!(Query::parse("n=010").number("n", 10).ok().flatten(), Some(10));
    }
}
