//! The environment's layer: which `NARAD_` variable sets which key, and what becomes of the others.

use figment::value::Value;

use super::{
    ConfigError, Source,
    keys::{self, Kind},
    source::Layer,
};

/// The variable with the first admin's password; read where users are made.
pub(super) const ADMIN_PASSWORD: &str = "NARAD_ADMIN_PASSWORD";

/// Variables that others of our programs read, and plugins.
const NOT_SETTINGS: [&str; 6] =
    ["NARAD_ADDR", ADMIN_PASSWORD, "NARAD_AEAD_KEYS", "NARAD_CONTEXT", "NARAD_PASS", "NARAD_USER"];

/// Keys whose variable does not follow from their name.
const NAMED: [(&str, &str); 1] = [("storage.data_dir", "NARAD_DATA_DIR")];

/// The settings that `variables` hold, and the names of those under `NARAD_` that mean nothing to us. A variable under a
/// section's prefix that is no setting is put into `errors`.
pub(super) fn layer(
    variables: impl IntoIterator<Item = (String, String)>,
    errors: &mut Vec<ConfigError>,
) -> (Layer, Vec<String>) {
    let known = keys::all();
    let by_variable: Vec<(String, &String, Kind)> =
        known.iter().map(|(key, kind)| (variable_of(key), key, *kind)).collect();
    let sections = keys::sections(&known);
    let in_section = |name: &str| {
        let rest = name.strip_prefix("NARAD_").unwrap_or_default();
        sections.iter().any(|section| {
            rest.strip_prefix(&section.to_uppercase()).is_some_and(|rest| rest.starts_with('_'))
        })
    };

    let (mut layer, mut strangers) = (Layer::new(), Vec::new());
    for (name, text) in variables {
        if !name.starts_with("NARAD_") || NOT_SETTINGS.contains(&name.as_str()) {
            continue;
        }
        match by_variable.iter().find(|(variable, ..)| *variable == name) {
            Some((_, key, kind)) => {
                layer.insert((*key).clone(), (value(&text, *kind), Source::Environment(name)));
            }
            None if in_section(&name) => {
                let hint = unknown(&name, &by_variable);
                errors.push(ConfigError::UnknownVariable { name, hint });
            }
            None => strangers.push(name),
        }
    }
    (layer, strangers)
}

/// The variable of a key.
pub(super) fn variable_of(key: &str) -> String {
    match NAMED.iter().find(|(named, _)| *named == key) {
        Some((_, variable)) => (*variable).to_owned(),
        None => by_rule(key),
    }
}

fn by_rule(key: &str) -> String {
    format!("NARAD_{}", key.replace('.', "_").to_uppercase())
}

fn unknown(name: &str, by_variable: &[(String, &String, Kind)]) -> String {
    let named =
        NAMED.iter().find(|(key, _)| by_rule(key) == name).map(|(_, variable)| (*variable).to_owned());
    let upper = name.to_uppercase();
    let nearest = || keys::nearest(&upper, by_variable.iter().map(|(variable, ..)| variable.as_str()));
    keys::did_you_mean(named.or_else(nearest))
}

/// What cannot be read as JSON stays text, and is refused by its setting's type.
fn value(text: &str, kind: Kind) -> Value {
    let is_json = kind == Kind::Json || (kind == Kind::Plugin && text.trim_start().starts_with('{'));
    let json = if is_json { serde_json::from_str::<serde_json::Value>(text).ok() } else { None };
    json.and_then(|json| Value::serialize(json).ok()).unwrap_or_else(|| Value::from(text))
}
