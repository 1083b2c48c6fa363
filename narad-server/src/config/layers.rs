//! The layers, laid over one another: defaults, the file, the environment, the command line.

use std::path::PathBuf;

use figment::value::Value;

use super::{
    Address, Config, ConfigError, ConfigErrors, Overrides, Source, Storage, env, file, settings::Settings,
    source::Layer, typed, validate,
};
use crate::secret::Secret;

/// Set for every program of a machine, so it is no reason not to start; but a build that sends nothing says so.
const OTLP_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// What is wrong with the plugins of the settings: the key and the reason, for each.
pub type PluginProblems = Vec<(&'static str, String)>;

/// The settings, and the names of `NARAD_` variables that nobody here reads (worth a warning: an orchestrator injects
/// such; or of what does nothing yet). `environment` is the process's, handed in. Plugins are not looked at: see [`read`].
///
/// # Errors
/// Everything found wrong, each named with its key and where it comes from.
pub fn load(
    overrides: &Overrides,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<(Config, Vec<String>), ConfigErrors> {
    read(overrides, environment, |_| Vec::new()).map(|settings| (settings.config, settings.strangers))
}

/// The settings with where each comes from. `plugins` says whether those of the settings can be built.
///
/// # Errors
/// As [`load`].
pub fn read(
    overrides: &Overrides,
    environment: impl IntoIterator<Item = (String, String)>,
    plugins: impl FnOnce(&Storage) -> PluginProblems,
) -> Result<Settings, ConfigErrors> {
    let (mut home, mut ours, mut not_yet) = (None, Vec::new(), Vec::new());
    for (name, value) in environment {
        if name == "HOME" && !value.is_empty() {
            home = Some(PathBuf::from(value));
        } else if name.starts_with("NARAD_") {
            ours.push((name, value));
        } else if name == OTLP_ENDPOINT && !cfg!(feature = "otlp") {
            not_yet.push(name);
        }
    }
    let admin_password = ours
        .iter()
        .find(|(name, value)| name == env::ADMIN_PASSWORD && !value.is_empty())
        .map(|(_, value)| Secret::from(value.as_str()));

    let mut errors = Vec::new();
    let mut told = if overrides.dev { dev_defaults(home) } else { Layer::new() };
    if let Some(path) = &overrides.config {
        match file::layer(path, &mut errors) {
            Ok(layer) => told.extend(layer),
            Err(error) => errors.push(error),
        }
    }
    let (variables, mut strangers) = env::layer(ours, &mut errors);
    strangers.append(&mut not_yet);
    told.extend(variables);
    told.extend(flags(overrides, &mut errors));

    let (mut config, unusable) = typed::tree(&told, &mut errors);
    config.dev = overrides.dev;
    config.admin_password = admin_password;
    let source = |key: &str| match told.get(key) {
        Some((_, from)) => from.clone(),
        // A secret is in no layer.
        None if key == env::ADMIN_PASSWORD => Source::Environment(key.to_owned()),
        None => Source::Default,
    };
    let out_of_bounds = validate::check(&config, &unusable, &source).into_iter();
    let plugins = plugins(&config.storage).into_iter().filter(|(key, _)| !unusable.contains(*key));
    errors.extend(out_of_bounds.chain(plugins).map(|(key, reason)| ConfigError::Invalid {
        key: key.to_owned(),
        reason,
        from: source(key),
    }));
    ConfigErrors::unless_none(errors)?;
    let sources = told.into_iter().map(|(key, (_, from))| (key, from)).collect();
    let secrets = if config.admin_password.is_some() { vec![env::ADMIN_PASSWORD] } else { Vec::new() };
    Ok(Settings { config, strangers, sources, secrets })
}

/// The environment of this process.
///
/// # Errors
/// A variable of ours whose value is no text: to pass over it would be to run with other settings than were given.
pub fn environment() -> Result<Vec<(String, String)>, ConfigErrors> {
    let (mut variables, mut errors) = (Vec::new(), Vec::new());
    for (name, value) in std::env::vars_os() {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => variables.push((name, value)),
            (Ok(name), Err(_)) if name.starts_with("NARAD_") => errors.push(ConfigError::NotText(name)),
            _ => {}
        }
    }
    ConfigErrors::unless_none(errors).map(|()| variables)
}

/// What `--dev` changes in the defaults. Without a home directory the data must be named.
fn dev_defaults(home: Option<PathBuf>) -> Layer {
    let data = home.map(|home| home.join(".narad").join("data")).unwrap_or_default();
    Layer::from(
        [
            ("http.addr", Address::loopback(7942).to_string()),
            ("storage.data_dir", data.to_string_lossy().into_owned()),
            ("log.format", "text".to_owned()),
        ]
        .map(|(key, value)| (key.to_owned(), (Value::from(value), Source::Dev))),
    )
}

/// What the command line says.
fn flags(overrides: &Overrides, errors: &mut Vec<ConfigError>) -> Layer {
    let dev = overrides.dev.then(|| ("security.enabled", Value::from(false), "--dev"));
    let addr = overrides.addr.as_deref().map(|addr| ("http.addr", Value::from(addr), "--addr"));
    let dir = overrides.data_dir.as_deref().map(|dir| {
        if dir.to_str().is_none() {
            // Anything near to it would be another directory.
            errors.push(ConfigError::Invalid {
                key: "storage.data_dir".to_owned(),
                reason: format!("{} is not UTF-8", dir.display()),
                from: Source::Flag("--data-dir"),
            });
        }
        ("storage.data_dir", Value::from(dir.to_string_lossy().into_owned()), "--data-dir")
    });
    let said = [dev, addr, dir].into_iter().flatten();
    said.map(|(key, value, flag)| (key.to_owned(), (value, Source::Flag(flag)))).collect()
}
