//! The layers, laid over one another: defaults, the file, the environment, the command line.

use std::path::{Path, PathBuf};

use figment::{
    Figment, Profile, Provider,
    providers::{Format, Json, Serialized, Toml},
    value::{Dict, Value},
};

use super::{Address, Config, ConfigError, Overrides, dict::insert, env, keys, validate};

/// The settings, and the names of `NARAD_` variables that nobody here reads (worth a warning: an orchestrator injects
/// such). `environment` is the process's, handed in.
///
/// # Errors
/// The first thing found wrong, named with its key or variable.
pub fn load(
    overrides: &Overrides,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<(Config, Vec<String>), ConfigError> {
    let (mut home, mut ours) = (None, Vec::new());
    for (name, value) in environment {
        if name == "HOME" && !value.is_empty() {
            home = Some(PathBuf::from(value));
        } else if name.starts_with("NARAD_") {
            ours.push((name, value));
        }
    }

    let mut told = if overrides.dev { dev_defaults(home) } else { Dict::new() };
    if let Some(path) = &overrides.config {
        overlay(&mut told, file(path)?);
    }
    let (variables, strangers) = env::layer(ours)?;
    overlay(&mut told, variables);
    overlay(&mut told, flags(overrides)?);

    let figment = Figment::from(Serialized::defaults(Config::default())).merge(Serialized::defaults(told));
    let mut config: Config = figment
        .extract()
        .map_err(|error| ConfigError::Value { key: error.path.join("."), reason: error.kind.to_string() })?;
    config.dev = overrides.dev;
    validate::check(&config)?;
    Ok((config, strangers))
}

/// What `--dev` changes in the defaults. Without a home directory the data must be named.
fn dev_defaults(home: Option<PathBuf>) -> Dict {
    let data = home.map(|home| home.join(".narad").join("data")).unwrap_or_default();
    let mut dict = Dict::new();
    insert(&mut dict, "http.addr", Value::from(Address::loopback(7942).to_string()));
    insert(&mut dict, "storage.data_dir", Value::from(data.to_string_lossy().into_owned()));
    insert(&mut dict, "log.format", Value::from("text"));
    dict
}

/// What the command line says.
fn flags(overrides: &Overrides) -> Result<Dict, ConfigError> {
    let mut dict = Dict::new();
    if overrides.dev {
        insert(&mut dict, "security.enabled", Value::from(false));
    }
    if let Some(addr) = &overrides.addr {
        insert(&mut dict, "http.addr", Value::from(addr.parse::<Address>()?.to_string()));
    }
    if let Some(dir) = &overrides.data_dir {
        insert(&mut dict, "storage.data_dir", Value::from(dir.to_string_lossy().into_owned()));
    }
    Ok(dict)
}

/// What the file says, each key of it known.
fn file(path: &Path) -> Result<Dict, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    let data = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => Toml::string(&text).data(),
        Some("json") => Json::string(&text).data(),
        _ => return Err(ConfigError::Extension(path.to_owned())),
    };
    let mut profiles = data
        .map_err(|error| ConfigError::Malformed { path: path.to_owned(), reason: error.kind.to_string() })?;
    let dict = profiles.remove(&Profile::Default).unwrap_or_default();
    refuse_unknown_keys(&dict, path)?;
    Ok(dict)
}

fn refuse_unknown_keys(dict: &Dict, path: &Path) -> Result<(), ConfigError> {
    let known = keys::all();
    let sections: Vec<&str> =
        known.keys().filter_map(|key| key.split_once('.')).map(|(name, _)| name).collect();
    let unknown = |key: String, nearest| Err(ConfigError::UnknownKey { key, path: path.to_owned(), nearest });
    for (section, body) in dict {
        if !sections.contains(&section.as_str()) {
            return unknown(section.clone(), keys::nearest(section, sections.iter().copied()));
        }
        for name in body.as_dict().into_iter().flat_map(Dict::keys) {
            let key = format!("{section}.{name}");
            if !known.contains_key(&key) {
                let nearest = keys::nearest(&key, known.keys().map(String::as_str));
                return unknown(key, nearest);
            }
        }
    }
    Ok(())
}

/// Puts each setting of `layer` over that of `below`, whole: a plugin that is named anew keeps no key of the old one.
fn overlay(below: &mut Dict, layer: Dict) {
    for (section, body) in layer {
        match body.into_dict() {
            Some(settings) => settings
                .into_iter()
                .for_each(|(name, value)| insert(below, &format!("{section}.{name}"), value)),
            // Not a section: refused by the tree, by its name.
            None => drop(below.insert(section, Value::from(false))),
        }
    }
}
