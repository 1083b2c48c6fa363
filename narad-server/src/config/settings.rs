//! Settings as they are in force, and where each of them comes from.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Config, Source, keys};

/// What stands for a secret.
const MASK: &str = "********";

/// The settings of a process.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The tree.
    pub config: Config,
    /// The names of `NARAD_` variables that nobody here reads.
    pub strangers: Vec<String>,
    /// Where what is not a default comes from, by key.
    pub(super) sources: BTreeMap<String, Source>,
    /// The secret variables that are set.
    pub(super) secrets: Vec<&'static str>,
}

/// One setting in force.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Setting {
    /// `section.name`; for a secret, which has no key, its variable.
    pub key: String,
    /// The value as a file would have it; secrets are masked.
    pub value: Value,
    /// Where it comes from.
    pub source: Source,
}

impl Settings {
    /// Every setting, by key, then the secrets that are set.
    pub fn in_force(&self) -> Vec<Setting> {
        // A tree of texts, numbers and plugins' objects always has its JSON.
        let tree = serde_json::to_value(&self.config).unwrap_or_default();
        let of = |key: &str| {
            let (section, name) = key.split_once('.')?;
            tree.get(section)?.get(name).cloned()
        };
        let plain = keys::all().into_keys().map(|key| Setting {
            value: mask(of(&key).unwrap_or_default()),
            source: self.sources.get(&key).cloned().unwrap_or(Source::Default),
            key,
        });
        let secret = self.secrets.iter().map(|name| Setting {
            key: (*name).to_owned(),
            value: Value::from(MASK),
            source: Source::Environment((*name).to_owned()),
        });
        plain.chain(secret).collect()
    }
}

/// A plugin's configuration may hold what nobody should read.
fn mask(value: Value) -> Value {
    let is_secret = |key: &str| ["password", "secret", "token"].iter().any(|word| key.contains(word));
    match value {
        Value::Object(keys) => Value::Object(
            keys.into_iter()
                .map(
                    |(key, value)| {
                        if is_secret(&key) { (key, Value::from(MASK)) } else { (key, mask(value)) }
                    },
                )
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(mask).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_plugin_calls_a_secret_is_not_shown() {
        let shown = mask(json!({"name": "x", "api_token": "abc", "at": {"password": "p", "user": "u"}}));
        assert_eq!(shown, json!({"name": "x", "api_token": MASK, "at": {"password": MASK, "user": "u"}}));
        let nested = mask(json!({"name": "all", "of": ["x", {"secret": "abc"}]}));
        assert_eq!(nested, json!({"name": "all", "of": ["x", {"secret": MASK}]}));
    }
}
