//! From settings by name to the typed tree: every value that does not fit is found, not only the first, and its error
//! says what to write instead.

use std::collections::BTreeSet;

use figment::{
    Figment,
    error::{Actual, Kind},
    providers::Serialized,
    value::{Dict, Value},
};

use super::{Config, ConfigError, Source, source::Layer};
use crate::{duration, size};

/// The defaults with `told` over them, and the keys of what could not be used, each of which is put into `errors` and
/// has its default in the tree.
pub(super) fn tree(told: &Layer, errors: &mut Vec<ConfigError>) -> (Config, BTreeSet<String>) {
    let mut unusable = BTreeSet::new();
    let whole = || told.iter().map(|(key, (value, _))| (key.as_str(), value));
    if let Ok(config) = over_defaults(whole()) {
        return (config, unusable);
    }
    for (key, (value, from)) in told {
        if let Err(error) = over_defaults([(key.as_str(), value)]) {
            unusable.insert(key.clone());
            errors.push(misfit(key, value, from, &error));
        }
    }
    let usable = whole().filter(|(key, _)| !unusable.contains(*key));
    (over_defaults(usable).unwrap_or_default(), unusable)
}

fn over_defaults<'a>(
    settings: impl IntoIterator<Item = (&'a str, &'a Value)>,
) -> Result<Config, Box<figment::Error>> {
    let mut dict = Dict::new();
    for (key, value) in settings {
        let (section, name) = key.split_once('.').unwrap_or((key, ""));
        let body = dict.entry(section.to_owned()).or_insert_with(|| Value::from(Dict::new()));
        if let Value::Dict(_, body) = body {
            body.insert(name.to_owned(), value.clone());
        }
    }
    let defaults = Figment::from(Serialized::defaults(Config::default()));
    defaults.merge(Serialized::defaults(dict)).extract().map_err(Box::new)
}

/// What does not fit, without the names that Rust has for types.
fn reason(kind: &Kind) -> String {
    match kind {
        Kind::InvalidType(found, expected) | Kind::InvalidValue(found, expected) => {
            format!("{} is not {}", plain(found), plainly_expected(expected))
        }
        Kind::UnknownVariant(found, known) => format!("\"{found}\" is none of {}", known.join(", ")),
        other => other.to_string(),
    }
}

fn plain(found: &Actual) -> String {
    match found {
        Actual::Bool(value) => value.to_string(),
        Actual::Unsigned(value) => value.to_string(),
        Actual::Signed(value) => value.to_string(),
        Actual::Float(value) => value.to_string(),
        Actual::Str(value) => format!("\"{value}\""),
        Actual::Map => "a table".to_owned(),
        Actual::Seq => "a list".to_owned(),
        other => other.to_string(),
    }
}

fn plainly_expected(expected: &str) -> &str {
    match expected {
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, 0 or more",
        "bool" | "a boolean" => "true or false",
        "a string" => "a text",
        other => other,
    }
}

fn misfit(key: &str, value: &Value, from: &Source, error: &figment::Error) -> ConfigError {
    let mut reason = reason(&error.kind);
    let (unit, number) = match value.as_str() {
        Some(text) if key.ends_with("_ms") => {
            ("milliseconds", duration::parse(text).ok().map(|duration| duration.as_millis()))
        }
        Some(text) if key.ends_with("_bytes") => ("bytes", size::parse(text).ok().map(u128::from)),
        _ => ("", None),
    };
    if let Some(number) = number {
        reason.push_str(&format!("; it is an integer of {unit}: write {number}"));
    }
    ConfigError::Invalid { key: key.to_owned(), reason, from: from.clone() }
}
