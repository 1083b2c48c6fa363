//! The registry: from a name and a configuration to a plugin.

use std::{collections::BTreeMap, fmt, sync::Arc};

use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Codec, CodecSet, LogIdentity, PluginError, RetentionPolicy, SyncPolicy};

/// What a plugin is built for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PluginContext {
    /// The log, or the topic's name where the plugin serves all of its partitions.
    pub log: LogIdentity,
}

impl PluginContext {
    /// The context for a log.
    pub fn new(log: LogIdentity) -> Self {
        Self { log }
    }
}

/// The kinds of plugin that a configuration can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PluginKind {
    /// A [`Codec`].
    Codec,
    /// A [`RetentionPolicy`].
    Retention,
    /// A [`SyncPolicy`].
    Sync,
}

impl fmt::Display for PluginKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Codec => "codec",
            Self::Retention => "retention policy",
            Self::Sync => "sync policy",
        })
    }
}

/// Why the registry could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// No plugin has that name.
    #[error("unknown {kind} \"{name}\"; known are {}", known.join(", "))]
    Unknown {
        /// What was looked for.
        kind: PluginKind,
        /// The name that was given.
        name: String,
        /// The names that are registered.
        known: Vec<String>,
    },
    /// Two plugins claim one name or one codec number.
    #[error("two plugins claim the {kind} {what}")]
    Duplicate {
        /// Their kind.
        kind: PluginKind,
        /// The name or number.
        what: String,
    },
    /// The configuration does not fit the plugin.
    #[error("{kind} \"{name}\": {reason}")]
    Config {
        /// The plugin's kind.
        kind: PluginKind,
        /// The plugin's name, or what stood in its place.
        name: String,
        /// What does not fit.
        reason: String,
    },
    /// The plugin could not be built.
    #[error("{kind} \"{name}\" could not be built: {source}")]
    Build {
        /// The plugin's kind.
        kind: PluginKind,
        /// The plugin's name.
        name: String,
        /// What it said.
        source: PluginError,
    },
}

type Build<P> = Box<dyn Fn(Value, &PluginContext) -> Result<Arc<P>, BuildError> + Send + Sync>;

enum BuildError {
    Config(String),
    Plugin(PluginError),
}

struct Entry<P: ?Sized> {
    build: Build<P>,
    schema: Schema,
}

type Entries<P> = BTreeMap<String, Entry<P>>;

/// Builds plugins from what a configuration says: a name, or an object with a `name` and the plugin's own keys.
///
/// A configuration's type should carry `#[serde(deny_unknown_fields)]`, so that a misspelt key is refused with the
/// list of those known.
#[derive(Default)]
pub struct Registry {
    codecs: Entries<dyn Codec>,
    retentions: Entries<dyn RetentionPolicy>,
    syncs: Entries<dyn SyncPolicy>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("codecs", &self.codecs.keys())
            .field("retentions", &self.retentions.keys())
            .field("syncs", &self.syncs.keys())
            .finish()
    }
}

impl Registry {
    /// A registry that knows no plugin.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a codec known under `name`; `build` gets its typed configuration.
    ///
    /// # Errors
    /// `Duplicate` when the name is taken.
    pub fn codec<C, F>(&mut self, name: &str, build: F) -> Result<(), RegistryError>
    where
        C: DeserializeOwned + JsonSchema,
        F: Fn(C, &PluginContext) -> Result<Arc<dyn Codec>, PluginError> + Send + Sync + 'static,
    {
        register(&mut self.codecs, PluginKind::Codec, name, build)
    }

    /// Makes a retention policy known under `name`.
    ///
    /// # Errors
    /// `Duplicate` when the name is taken.
    pub fn retention<C, F>(&mut self, name: &str, build: F) -> Result<(), RegistryError>
    where
        C: DeserializeOwned + JsonSchema,
        F: Fn(C, &PluginContext) -> Result<Arc<dyn RetentionPolicy>, PluginError> + Send + Sync + 'static,
    {
        register(&mut self.retentions, PluginKind::Retention, name, build)
    }

    /// Makes a sync policy known under `name`.
    ///
    /// # Errors
    /// `Duplicate` when the name is taken.
    pub fn sync<C, F>(&mut self, name: &str, build: F) -> Result<(), RegistryError>
    where
        C: DeserializeOwned + JsonSchema,
        F: Fn(C, &PluginContext) -> Result<Arc<dyn SyncPolicy>, PluginError> + Send + Sync + 'static,
    {
        register(&mut self.syncs, PluginKind::Sync, name, build)
    }

    /// The codec that `spec` asks for.
    ///
    /// # Errors
    /// An unknown name (with the known ones), a configuration that does not fit, or what the plugin said.
    pub fn build_codec(
        &self,
        spec: &Value,
        context: &PluginContext,
    ) -> Result<Arc<dyn Codec>, RegistryError> {
        build(&self.codecs, PluginKind::Codec, spec, context)
    }

    /// The retention policy that `spec` asks for.
    ///
    /// # Errors
    /// As [`build_codec`](Self::build_codec).
    pub fn build_retention(
        &self,
        spec: &Value,
        context: &PluginContext,
    ) -> Result<Arc<dyn RetentionPolicy>, RegistryError> {
        build(&self.retentions, PluginKind::Retention, spec, context)
    }

    /// The sync policy that `spec` asks for.
    ///
    /// # Errors
    /// As [`build_codec`](Self::build_codec).
    pub fn build_sync(
        &self,
        spec: &Value,
        context: &PluginContext,
    ) -> Result<Arc<dyn SyncPolicy>, RegistryError> {
        build(&self.syncs, PluginKind::Sync, spec, context)
    }

    /// Every codec that can be built without configuration, so that a log can read what any of them wrote.
    ///
    /// # Errors
    /// `Duplicate` when two of them have one number.
    pub fn readable_codecs(&self, context: &PluginContext) -> Result<CodecSet, RegistryError> {
        let mut set = CodecSet::new();
        for entry in self.codecs.values() {
            let Ok(codec) = (entry.build)(Value::Object(serde_json::Map::new()), context) else { continue };
            let what = format!("number {}", codec.number());
            set.insert(codec).map_err(|_| RegistryError::Duplicate { kind: PluginKind::Codec, what })?;
        }
        Ok(set)
    }

    /// The JSON Schema of each plugin's configuration.
    pub fn schemas(&self) -> impl Iterator<Item = (PluginKind, &str, &Schema)> {
        fn of<P: ?Sized>(
            kind: PluginKind,
            entries: &Entries<P>,
        ) -> impl Iterator<Item = (PluginKind, &str, &Schema)> {
            entries.iter().map(move |(name, entry)| (kind, name.as_str(), &entry.schema))
        }
        of(PluginKind::Codec, &self.codecs)
            .chain(of(PluginKind::Retention, &self.retentions))
            .chain(of(PluginKind::Sync, &self.syncs))
    }
}

fn register<P: ?Sized + 'static, C, F>(
    entries: &mut Entries<P>,
    kind: PluginKind,
    name: &str,
    build: F,
) -> Result<(), RegistryError>
where
    C: DeserializeOwned + JsonSchema,
    F: Fn(C, &PluginContext) -> Result<Arc<P>, PluginError> + Send + Sync + 'static,
{
    if entries.contains_key(name) {
        return Err(RegistryError::Duplicate { kind, what: format!("name \"{name}\"") });
    }
    let build: Build<P> = Box::new(move |config, context| {
        let config = serde_json::from_value(config).map_err(|error| BuildError::Config(error.to_string()))?;
        build(config, context).map_err(BuildError::Plugin)
    });
    entries.insert(name.to_owned(), Entry { build, schema: schemars::schema_for!(C) });
    Ok(())
}

fn build<P: ?Sized>(
    entries: &Entries<P>,
    kind: PluginKind,
    spec: &Value,
    context: &PluginContext,
) -> Result<Arc<P>, RegistryError> {
    let malformed = || RegistryError::Config {
        kind,
        name: spec.to_string(),
        reason: "expected a name, or an object with a \"name\"".to_owned(),
    };
    let (name, config) = match spec {
        Value::String(name) => (name.clone(), serde_json::Map::new()),
        Value::Object(keys) => {
            let mut config = keys.clone();
            match config.remove("name") {
                Some(Value::String(name)) => (name, config),
                _ => return Err(malformed()),
            }
        }
        _ => return Err(malformed()),
    };
    let Some(entry) = entries.get(&name) else {
        return Err(RegistryError::Unknown { kind, name, known: entries.keys().cloned().collect() });
    };
    (entry.build)(Value::Object(config), context).map_err(|error| match error {
        BuildError::Config(reason) => RegistryError::Config { kind, name, reason },
        BuildError::Plugin(source) => RegistryError::Build { kind, name, source },
    })
}
