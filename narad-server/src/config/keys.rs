//! The names of all settings, taken from the tree's own schema so that there is no second list of them; and what is
//! said of names that are none.

use std::collections::BTreeMap;

use schemars::{Schema, generate::SchemaSettings};
use serde_json::Value;

use super::Config;

/// Settings of the contract that do nothing yet: refused, so that nobody believes that they are in force.
const NOT_YET: [&str; 2] = ["telemetry.otlp_endpoint", "telemetry.otlp_protocol"];

/// What a setting's value is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text, as it stands.
    Text,
    /// Anything else, written as JSON.
    Json,
    /// A plugin: its name as it stands, or a JSON object.
    Plugin,
}

/// The schema of the tree, without references.
pub(super) fn tree_schema() -> Schema {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<Config>()
}

/// Every `section.name` with its kind.
pub(super) fn all() -> BTreeMap<String, Kind> {
    let schema = tree_schema();
    let properties =
        |value: &Value| value.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut keys = BTreeMap::new();
    for (section, body) in properties(schema.as_value()) {
        for (name, leaf) in properties(&body) {
            keys.insert(format!("{section}.{name}"), kind(&leaf));
        }
    }
    keys
}

fn kind(leaf: &Value) -> Kind {
    let is_choice = leaf.get("enum").is_some() || leaf.get("oneOf").is_some();
    match leaf.get("type") {
        Some(Value::String(name)) if name == "string" => Kind::Text,
        // One that may be absent.
        Some(Value::Array(names)) if names.iter().any(|name| name == "string") => Kind::Text,
        _ if is_choice => Kind::Text,
        Some(_) => Kind::Json,
        None if leaf.get("anyOf").is_some() => Kind::Text,
        None => Kind::Plugin,
    }
}

/// The sections of `known`, and those that a later version will have.
pub(super) fn sections(known: &BTreeMap<String, Kind>) -> Vec<&str> {
    let keys = known.keys().map(String::as_str).chain(NOT_YET);
    let mut sections: Vec<&str> = keys.filter_map(|key| key.split_once('.')).map(|(name, _)| name).collect();
    sections.dedup();
    sections
}

/// What to say of `key`, which is no setting: that it does nothing yet, that secrets do not belong into files, or which
/// of `known` was probably meant. Begins with `; ` unless it is empty.
pub(super) fn hint<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> String {
    let is_or_holds =
        |later: &&str| *later == key || later.strip_prefix(key).is_some_and(|r| r.starts_with('.'));
    if NOT_YET.iter().any(is_or_holds) {
        return "; it does nothing in this version: take it out".to_owned();
    }
    if key.contains("password") || key.contains("secret") {
        return "; secrets come from the environment alone: NARAD_ADMIN_PASSWORD".to_owned();
    }
    did_you_mean(nearest(key, known))
}

/// Where the setting `key` belongs.
pub(super) fn in_section(key: &str) -> String {
    let (section, name) = key.split_once('.').unwrap_or(("", key));
    format!("; did you mean {name} in the section {section}, which is {key}?")
}

/// The setting that `name`, which is no section, was meant to be: one that stands outside of its section.
pub(super) fn misplaced(name: &str, known: &BTreeMap<String, Kind>) -> Option<String> {
    let is_meant = |key: &&String| *key == name || key.split_once('.').is_some_and(|(_, leaf)| leaf == name);
    known.keys().find(is_meant).cloned()
}

/// A question after `name`, if there is one.
pub(super) fn did_you_mean(name: Option<String>) -> String {
    name.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// The known name that `name` is probably meant to be.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .min()
        .filter(|&(distance, candidate)| distance * 3 <= candidate.len())
        .map(|(_, candidate)| candidate.to_owned())
}

/// The setting that a later version will have under the variable `name`.
pub(super) fn not_yet(name: &str, variable_of: impl Fn(&str) -> String) -> Option<&'static str> {
    NOT_YET.into_iter().find(|key| variable_of(key) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_and_kind_is_found_in_the_schema() {
        let keys = all();
        assert_eq!(keys.get("http.addr"), Some(&Kind::Text));
        assert_eq!(keys.get("http.idle_timeout"), Some(&Kind::Text));
        assert_eq!(keys.get("http.metrics_addr"), Some(&Kind::Text));
        assert_eq!(keys.get("http.max_connections"), Some(&Kind::Json));
        assert_eq!(keys.get("storage.data_dir"), Some(&Kind::Text));
        assert_eq!(keys.get("storage.codec"), Some(&Kind::Plugin));
        assert_eq!(keys.get("log.format"), Some(&Kind::Text));
        assert_eq!(keys.get("security.enabled"), Some(&Kind::Json));
        assert_eq!(keys.get("node.id"), Some(&Kind::Text));
        let plugins: Vec<_> =
            keys.iter().filter(|(_, kind)| **kind == Kind::Plugin).map(|(key, _)| key).collect();
        assert_eq!(plugins, ["storage.codec", "storage.retention", "storage.sync", "storage.wake"]);
    }

    #[test]
    fn a_misspelt_name_is_recognised_and_a_strange_one_is_not() {
        let keys = all();
        let near = |name| nearest(name, keys.keys().map(String::as_str));
        assert_eq!(near("http.max_conections").as_deref(), Some("http.max_connections"));
        assert_eq!(near("zebra.stripes"), None);
    }

    #[test]
    fn what_does_nothing_yet_is_no_setting() {
        let keys = all();
        assert!(NOT_YET.iter().all(|key| !keys.contains_key(*key)));
        assert!(hint("telemetry", std::iter::empty()).contains("nothing in this version"));
    }
}
