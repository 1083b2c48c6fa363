//! The names of all settings, taken from the tree's own schema so that there is no second list of them; and what is
//! said of names that are none.

use std::collections::BTreeMap;

use schemars::{Schema, generate::SchemaSettings};
use serde_json::Value;

use super::Config;

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

/// The sections of `known`.
pub(super) fn sections(known: &BTreeMap<String, Kind>) -> Vec<&str> {
    let split = known.keys().filter_map(|key| key.split_once('.'));
    let mut sections: Vec<&str> = split.map(|(name, _)| name).collect();
    sections.dedup();
    sections
}

/// What to say of `key`, which is no setting: that secrets do not belong into files, or which of `known` was probably
/// meant. Begins with `; ` unless it is empty.
pub(super) fn hint<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> String {
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
}
