//! The names of all settings, taken from the tree's own schema so that there is no second list of them.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
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

/// Every `section.name` with its kind.
pub(super) fn all() -> BTreeMap<String, Kind> {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<Config>();
    let properties =
        |value: &Value| value.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut keys = BTreeMap::new();
    for (section, body) in properties(schema.as_value()) {
        for (name, leaf) in properties(&body) {
            let kind = match (leaf.get("type").and_then(Value::as_str), leaf.get("enum"), leaf.get("oneOf")) {
                (Some("string"), ..) | (_, Some(_), _) | (_, _, Some(_)) => Kind::Text,
                (Some(_), ..) => Kind::Json,
                (None, ..) => Kind::Plugin,
            };
            keys.insert(format!("{section}.{name}"), kind);
        }
    }
    keys
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
        assert_eq!(keys.get("http.max_connections"), Some(&Kind::Json));
        assert_eq!(keys.get("storage.data_dir"), Some(&Kind::Text));
        assert_eq!(keys.get("storage.codec"), Some(&Kind::Plugin));
        assert_eq!(keys.get("log.format"), Some(&Kind::Text));
        assert_eq!(keys.get("security.enabled"), Some(&Kind::Json));
        assert_eq!(keys.get("node.id"), Some(&Kind::Text));
        assert_eq!(keys.len(), 27, "{keys:?}");
    }

    #[test]
    fn a_misspelt_name_is_recognised_and_a_strange_one_is_not() {
        let keys = all();
        let near = |name| nearest(name, keys.keys().map(String::as_str));
        assert_eq!(near("http.max_conections").as_deref(), Some("http.max_connections"));
        assert_eq!(near("zebra.stripes"), None);
    }
}
