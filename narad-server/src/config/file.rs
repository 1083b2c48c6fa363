//! The file's layer: TOML or JSON by its extension, each key of it known.

use std::path::Path;

use figment::{
    Profile, Provider,
    providers::{Format, Json, Toml},
    value::Dict,
};

use super::{ConfigError, Source, keys, source::Layer, unique::Unique};

/// What the file says. Keys that are no settings are put into `errors`.
///
/// # Errors
/// It cannot be read at all.
pub(super) fn layer(path: &Path, errors: &mut Vec<ConfigError>) -> Result<Layer, ConfigError> {
    let known = keys::all();
    let sections = keys::sections(&known);
    let mut layer = Layer::new();
    for (section, body) in parse(path)? {
        let mut unknown = |key: &str, hint: String| {
            errors.push(ConfigError::UnknownKey { key: key.to_owned(), path: path.to_owned(), hint });
        };
        if !known.keys().any(|key| key.split_once('.').is_some_and(|(name, _)| name == section)) {
            let hint = match keys::misplaced(&section, &known) {
                Some(key) => keys::in_section(&key),
                None => keys::hint(&section, sections.iter().copied()),
            };
            unknown(&section, hint);
            continue;
        }
        let Some(settings) = body.as_dict() else {
            let reason = format!("is a section, and holds settings of its own: {section}.NAME");
            errors.push(ConfigError::Invalid { key: section, reason, from: Source::File(path.to_owned()) });
            continue;
        };
        for (name, value) in settings {
            let key = format!("{section}.{name}");
            if known.contains_key(&key) {
                layer.insert(key, (value.clone(), Source::File(path.to_owned())));
            } else {
                unknown(&key, keys::hint(&key, known.keys().map(String::as_str)));
            }
        }
    }
    Ok(layer)
}

fn parse(path: &Path) -> Result<Dict, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    let malformed = |reason: String| ConfigError::Malformed { path: path.to_owned(), reason };
    let data = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => Toml::string(&text).data(),
        Some("json") => {
            serde_json::from_str::<Unique>(&text).map_err(|error| malformed(error.to_string()))?;
            Json::string(&text).data()
        }
        _ => return Err(ConfigError::Extension(path.to_owned())),
    };
    let mut profiles = data.map_err(|error| malformed(error.kind.to_string()))?;
    Ok(profiles.remove(&Profile::Default).unwrap_or_default())
}
