//! Whether answers are those of the OpenAPI document: its statuses, and bodies that are valid against its schemas.

use std::sync::LazyLock;

use reqwest::Method;
use serde_json::{Value, json};

use super::Answer;

pub static DOCUMENT: LazyLock<Value> = LazyLock::new(narad_server::http::openapi);

/// What the document says of `method` and `path`, if there is such a route.
pub fn operation(method: &Method, path: &str) -> Option<&'static Value> {
    let path = path.split('?').next().unwrap();
    let (_, item) = DOCUMENT["paths"].as_object().unwrap().iter().find(|(route, _)| is_of(path, route))?;
    item.get(method.as_str().to_ascii_lowercase())
}

/// Whether `path` is one of `route`, such as `/v1/topics/orders` of `/v1/topics/{topic}`.
pub fn is_of(path: &str, route: &str) -> bool {
    let (mut path, mut route) = (path.split('/'), route.split('/'));
    loop {
        match (path.next(), route.next()) {
            (None, None) => return true,
            (Some(segment), Some(name))
                if !segment.is_empty() && name.starts_with('{') || segment == name => {}
            _ => return false,
        }
    }
}

/// Checks an answer of a route that the document has.
#[track_caller]
pub fn check(method: &Method, path: &str, answer: &Answer) {
    let Some(operation) = operation(method, path) else { return };
    let status = answer.status.as_str();
    let Some(described) = operation["responses"].get(status) else {
        panic!("{method} {path} is not documented to answer {status}: {answer:?}");
    };
    let Some(content) = described.get("content").and_then(Value::as_object) else {
        assert_eq!(answer.text, "", "{method} {path} is documented to answer {status} without a body");
        return;
    };
    let said = answer.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let said = said.split(';').next().unwrap();
    assert!(content.contains_key(said), "{method} {path}: {status} of type {said:?} is not documented");
    if said == "application/json" {
        let mut schema = json!({"allOf": [content[said]["schema"]]});
        schema["components"] = DOCUMENT["components"].clone();
        let validator = jsonschema::validator_for(&schema).unwrap();
        if let Err(error) = validator.validate(&answer.json()) {
            panic!("{method} {path}: {status} is not as documented: {error} in {}", answer.text);
        }
    }
}
