//! JSON Schemas: which ones a topic may have, whether a new version takes what the current one takes, and whether a
//! payload is what a schema asks for.
//!
//! Pure computation. Never fetches anything, never runs an expression that backtracks, and takes no schema with which
//! a document could keep a thread busy for long. Knows no topics and no HTTP.

mod compat;
mod cost;
mod nesting;
mod payload;
mod walk;

use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

pub use self::{
    compat::Incompatible,
    payload::{Checker, Refusal},
};
use self::{cost::Cost, nesting::parse};

/// Bytes of a schema's text, at most.
pub const MAX_SCHEMA_BYTES: usize = 64 << 10;
/// Levels of objects and arrays within each other, in a schema and in a payload that is checked, at most.
pub const MAX_DEPTH: usize = 256;
/// Regular expressions of a schema, at most.
const MAX_PATTERNS: usize = 64;
/// Bytes of a compiled expression, and of what it remembers while it runs, at most.
const MAX_PATTERN_BYTES: usize = 256 << 10;
/// Bytes of a message's text that may be quoted in an error.
const MAX_QUOTE: usize = 300;

/// A schema that a topic may have.
#[derive(Debug, Clone)]
pub struct Schema {
    text: Arc<str>,
    value: Arc<Value>,
    draft: Draft,
    cost: Cost,
}

/// Why a text is no schema for a topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(String);

impl SchemaError {
    fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl Schema {
    /// The schema that `text` is. Takes milliseconds for a large one: not for an async thread.
    ///
    /// # Errors
    /// It is not JSON, not a schema of a draft that is known, refers to something outside of itself, has an
    /// expression that could backtrack, or is beyond one of the bounds.
    pub fn new(text: &str) -> Result<Self, SchemaError> {
        if text.len() > MAX_SCHEMA_BYTES {
            let reason = format!("{} bytes; at most {MAX_SCHEMA_BYTES} are taken", text.len());
            return Err(SchemaError(reason));
        }
        let (value, _) = parse(text.as_bytes(), MAX_DEPTH).map_err(SchemaError)?;
        if !matches!(value, Value::Object(_) | Value::Bool(_)) {
            return Err(SchemaError::new("a JSON Schema is an object, true or false"));
        }
        let draft = draft_of(&value)?;
        let cost = Cost::of(&value, draft)?;
        let schema = Self { text: text.into(), value: Arc::new(value), draft, cost };
        schema.compiled()?;
        Ok(schema)
    }

    /// The text that [`new`](Self::new) was given.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Whether both say the same, whatever the white space and the order of their fields.
    pub fn is_same(&self, other: &Self) -> bool {
        self.value == other.value
    }

    /// Checks that this schema takes every document that `current` takes, as `docs/http-api.md` says it.
    ///
    /// # Errors
    /// The first place in this schema that takes less, or of which that cannot be told.
    pub fn check_successor_of(&self, current: &Self) -> Result<(), Incompatible> {
        compat::check(current, self)
    }

    fn compiled(&self) -> Result<Validator, SchemaError> {
        compile(&self.value, self.draft)
    }
}

fn draft_of(value: &Value) -> Result<Draft, SchemaError> {
    let Some(named) = value.get("$schema") else { return Ok(Draft::Draft202012) };
    let known = named.as_str().map(|uri| match uri.trim_end_matches('#') {
        "http://json-schema.org/draft-04/schema" => Some(Draft::Draft4),
        "http://json-schema.org/draft-06/schema" => Some(Draft::Draft6),
        "http://json-schema.org/draft-07/schema" => Some(Draft::Draft7),
        "https://json-schema.org/draft/2019-09/schema" => Some(Draft::Draft201909),
        "https://json-schema.org/draft/2020-12/schema" => Some(Draft::Draft202012),
        _ => None,
    });
    known.flatten().ok_or_else(|| {
        let reason = "$schema: draft 4, 6, 7, 2019-09 or 2020-12 of json-schema.org is expected, not";
        SchemaError(format!("{reason} {}", quoted(&named.to_string())))
    })
}

fn compile(value: &Value, draft: Draft) -> Result<Validator, SchemaError> {
    let expressions = PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
    let built =
        jsonschema::options().offline().with_draft(draft).with_pattern_options(expressions).build(value);
    built.map_err(|error| {
        let (place, reason) = (error.instance_path().to_string(), error.to_string());
        SchemaError(if place.is_empty() { quoted(&reason) } else { format!("{place}: {}", quoted(&reason)) })
    })
}

/// The beginning of `text`, if it is long: what a client sent may be.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTE) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_of_every_draft_are_taken() {
        for text in [
            "true",
            "{}",
            r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"type":"integer"}}}"##,
            r#"{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}"#,
            r##"{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{}},"$ref":"#/definitions/a"}"##,
            r#"{"$id":"https://example.org/a","$ref":"https://example.org/a#/$defs/x","$defs":{"x":true}}"#,
            r##"{"properties":{"left":{"$ref":"#"},"right":{"$ref":"#"},"$ref":{"type":"string"}}}"##,
        ] {
            assert!(Schema::new(text).is_ok(), "{text}: {:?}", Schema::new(text).err());
        }
    }

    #[test]
    fn what_is_no_schema_for_a_topic_is_named() {
        let deep = format!("{}true{}", r#"{"not":"#.repeat(300), "}".repeat(300));
        let long = format!(r#"{{"title":"{}"}}"#, "x".repeat(MAX_SCHEMA_BYTES));
        let patterns: Vec<_> =
            (0..=MAX_PATTERNS).map(|number| format!(r#"{{"pattern":"{number}"}}"#)).collect();
        let patterns = format!(r#"{{"anyOf":[{}]}}"#, patterns.join(","));
        for (text, name) in [
            ("\"{}\"", "object"),
            ("{", "JSON"),
            (r#"{"type":"strin"}"#, "/type"),
            (r#"{"properties":{"a":{"minimum":"1"}}}"#, "/properties/a/minimum"),
            (r#"{"$ref":"http://example.org/x.json"}"#, "http://example.org/x.json"),
            (r#"{"$defs":{"unused":{"$ref":"file:///etc/passwd"}}}"#, "/etc/passwd"),
            (r#"{"items":{"$ref":"other.json#/a"}}"#, "other.json#/a"),
            (r##"{"$ref":"#/$defs/none"}"##, "/$defs/none"),
            (r##"{"$ref":"#"}"##, "itself"),
            (r##"{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}"##, "itself"),
            (r##"{"$defs":{"x":{"$anchor":"x"}},"$ref":"#x"}"##, "pointer"),
            (r##"{"$dynamicRef":"#x"}"##, "$dynamicRef"),
            (r#"{"items":{"$id":"https://example.org/b"}}"#, "$id"),
            (r#"{"$schema":"http://example.org/meta"}"#, "http://example.org/meta"),
            (r#"{"pattern":"(?=a)"}"#, "/pattern"),
            (r#"{"pattern":"(a{1000}){1000}"}"#, "/pattern"),
            (&deep, "256"),
            (&long, "65536"),
            (&patterns, "64"),
        ] {
            let error = Schema::new(text).unwrap_err().to_string();
            assert!(error.contains(name), "{text:.80}: {error}");
            assert!(error.len() < 1000, "{error}");
        }
    }
}
