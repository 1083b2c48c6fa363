//! The environment's layer: which `NARAD_` variable sets which key, and what becomes of the others.

use figment::value::{Dict, Value};

use super::{
    ConfigError,
    dict::insert,
    keys::{self, Kind},
};

/// Variables that others of our programs or later versions read.
const NOT_SETTINGS: [&str; 2] = ["NARAD_ADDR", "NARAD_ADMIN_PASSWORD"];

/// Keys whose variable does not follow from their name.
const NAMED: [(&str, &str); 1] = [("storage.data_dir", "NARAD_DATA_DIR")];

/// The settings that `variables` hold, and the names of those under `NARAD_` that mean nothing to us.
///
/// # Errors
/// A variable under a section's prefix that is no setting, or a value that cannot be read.
pub(super) fn layer(
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<(Dict, Vec<String>), ConfigError> {
    let known = keys::all();
    let by_rule = |key: &str| format!("NARAD_{}", key.replace('.', "_").to_uppercase());
    let variable_of = |key: &str| match NAMED.iter().find(|(named, _)| *named == key) {
        Some((_, variable)) => (*variable).to_owned(),
        None => by_rule(key),
    };
    let by_variable: Vec<(String, &String, Kind)> =
        known.iter().map(|(key, kind)| (variable_of(key), key, *kind)).collect();
    let in_section = |name: &str| {
        known.keys().filter_map(|key| key.split_once('.')).any(|(section, _)| {
            name.strip_prefix("NARAD_")
                .and_then(|rest| rest.strip_prefix(&section.to_uppercase()))
                .is_some_and(|rest| rest.starts_with('_'))
        })
    };

    let (mut dict, mut strangers) = (Dict::new(), Vec::new());
    for (name, text) in variables {
        if !name.starts_with("NARAD_") || NOT_SETTINGS.contains(&name.as_str()) {
            continue;
        }
        match by_variable.iter().find(|(variable, ..)| *variable == name) {
            Some((_, key, kind)) => insert(&mut dict, key, value(&name, &text, *kind)?),
            None if in_section(&name) => {
                let named = NAMED.iter().find(|(key, _)| by_rule(key) == name);
                let nearest = named.map(|(_, variable)| (*variable).to_owned()).or_else(|| {
                    keys::nearest(&name, by_variable.iter().map(|(variable, ..)| variable.as_str()))
                });
                return Err(ConfigError::UnknownVariable { name, nearest });
            }
            None => strangers.push(name),
        }
    }
    Ok((dict, strangers))
}

fn value(name: &str, text: &str, kind: Kind) -> Result<Value, ConfigError> {
    let plain = kind == Kind::Text || (kind == Kind::Plugin && !text.trim_start().starts_with('{'));
    if plain {
        return Ok(Value::from(text));
    }
    serde_json::from_str::<serde_json::Value>(text)
        .ok()
        .and_then(|json| Value::serialize(json).ok())
        .ok_or_else(|| ConfigError::Variable { name: name.to_owned(), value: text.to_owned() })
}
