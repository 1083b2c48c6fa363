//! Settings by their dotted keys, before they are typed.

use figment::value::{Dict, Value};

/// Puts `value` at `section.name`.
pub(super) fn insert(dict: &mut Dict, key: &str, value: Value) {
    let (section, name) = key.split_once('.').unwrap_or((key, ""));
    let body = dict.entry(section.to_owned()).or_insert_with(|| Value::from(Dict::new()));
    if let Value::Dict(_, body) = body {
        body.insert(name.to_owned(), value);
    }
}
