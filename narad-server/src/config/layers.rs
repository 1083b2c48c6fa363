//! The layers, laid over one another: defaults, the file, the environment, the command line.

use std::path::{Path, PathBuf};

use figment::{
    Figment, Profile, Provider,
    providers::{Format, Json, Serialized, Toml},
    value::{Dict, Value},
};

use super::{Address, AddressError, Config, Overrides, env, keys, validate};

/// Why the settings cannot be used. Nothing was opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file is not there or cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file of `--config`.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file's name does not say how it is written.
    #[error("{}: the name must end in .toml or .json", .0.display())]
    Extension(PathBuf),
    /// A key of the file is no setting.
    #[error("unknown key \"{key}\" in {}{}", path.display(), hint(nearest))]
    UnknownKey {
        /// The key, with its section.
        key: String,
        /// The file.
        path: PathBuf,
        /// The setting that was probably meant.
        nearest: Option<String>,
    },
    /// A variable under a section's prefix is no setting.
    #[error("unknown variable {name}{}", hint(nearest))]
    UnknownVariable {
        /// The variable.
        name: String,
        /// The variable that was probably meant.
        nearest: Option<String>,
    },
    /// A variable's value cannot be read.
    #[error("{name}: \"{value}\" is not a value for it")]
    Variable {
        /// The variable.
        name: String,
        /// Its value.
        value: String,
    },
    /// The address of the command line cannot be read.
    #[error("--addr: {0}")]
    Address(#[from] AddressError),
    /// The file is not well formed.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        reason: String,
    },
    /// A value has the wrong type.
    #[error("{key}: {reason}")]
    Value {
        /// The setting.
        key: String,
        /// What does not fit.
        reason: String,
    },
    /// A value is outside its bounds, or contradicts another.
    #[error("{key}: {reason}")]
    Invalid {
        /// The setting.
        key: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

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

/// Puts `value` at `section.name`.
pub(super) fn insert(dict: &mut Dict, key: &str, value: Value) {
    let (section, name) = key.split_once('.').unwrap_or((key, ""));
    let body = dict.entry(section.to_owned()).or_insert_with(|| Value::from(Dict::new()));
    if let Value::Dict(_, body) = body {
        body.insert(name.to_owned(), value);
    }
}
