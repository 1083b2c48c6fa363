//! The registry: from a name and a configuration to a plugin.

use std::{
    collections::BTreeMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Codec, CodecSet, Origin, PluginContext, PluginError, PluginKind, RegistryError, RetentionPolicy,
    SyncPolicy, WakeNotifier, context::Nursery, unbuilt::Unbuilt,
};
use crate::format::CodecNumber;

type Build<P> = Box<dyn Fn(Value, &PluginContext<'_>) -> Result<Arc<P>, BuildError> + Send + Sync>;

enum BuildError {
    Config(String),
    Plugin(PluginError),
}

impl BuildError {
    fn of(self, kind: PluginKind, name: String) -> RegistryError {
        match self {
            Self::Config(reason) => RegistryError::Config { kind, name, reason },
            Self::Plugin(source) => RegistryError::Build { kind, name, source },
        }
    }
}

struct Entry<P: ?Sized> {
    build: Build<P>,
    schema: Schema,
    origin: Origin,
    /// A codec's.
    number: Option<CodecNumber>,
}

type Entries<P> = BTreeMap<String, Entry<P>>;

/// The configuration of a plugin that has none: any key is refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoConfig {}

/// A plugin that is registered.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct PluginInfo<'a> {
    /// Its kind.
    pub kind: PluginKind,
    /// Its name in a configuration.
    pub name: &'a str,
    /// The crate that provides it.
    pub origin: Origin,
    /// A codec's number on disk.
    pub number: Option<CodecNumber>,
    /// The JSON Schema of its configuration, without the `name`.
    pub schema: &'a Schema,
}

/// Builds plugins from what a configuration says: a name, or an object with a `name` and the plugin's own keys.
///
/// A configuration's type should carry `#[serde(deny_unknown_fields)]`, so that a misspelt key is refused with the
/// list of those known. A name is 1 to 64 of `a-z 0-9 - _`, and begins with a letter or digit.
#[derive(Default)]
pub struct Registry {
    codecs: Entries<dyn Codec>,
    retentions: Entries<dyn RetentionPolicy>,
    syncs: Entries<dyn SyncPolicy>,
    wakes: Entries<dyn WakeNotifier>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("codecs", &self.codecs.keys())
            .field("retentions", &self.retentions.keys())
            .field("syncs", &self.syncs.keys())
            .field("wakes", &self.wakes.keys())
            .finish()
    }
}

impl Registry {
    /// A registry that knows no plugin.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a codec known under `name`; `build` gets its typed configuration. What it builds has that `number`, or is
    /// refused. `origin` is the crate that provides it, [`origin!()`](crate::origin).
    ///
    /// # Errors
    /// `Duplicate` when the name or the number is taken, `Name` for one that no plugin can have.
    pub fn codec<C, F>(
        &mut self,
        origin: Origin,
        name: &str,
        number: CodecNumber,
        build: F,
    ) -> Result<(), RegistryError>
    where
        C: DeserializeOwned + JsonSchema,
        F: Fn(C, &PluginContext<'_>) -> Result<Arc<dyn Codec>, PluginError> + Send + Sync + 'static,
    {
        let kind = PluginKind::Codec;
        if let Some((other, entry)) = self.codecs.iter().find(|(_, entry)| entry.number == Some(number))
            && other != name
        {
            let (first, second) =
                (format!("\"{other}\" ({})", entry.origin), format!("\"{name}\" ({origin})"));
            return Err(RegistryError::Duplicate { kind, what: format!("number {number}"), first, second });
        }
        let build = move |config: C, context: &PluginContext<'_>| {
            let codec = build(config, context)?;
            match codec.number() {
                actual if actual == number => Ok(codec),
                actual => Err(format!("it has number {actual}, and was registered with {number}").into()),
            }
        };
        register(&mut self.codecs, kind, origin, name, Some(number), build)
    }

    /// Makes a retention policy known under `name`.
    ///
    /// # Errors
    /// `Duplicate` when the name is taken, `Name` for one that no plugin can have.
    pub fn retention<C, F>(&mut self, origin: Origin, name: &str, build: F) -> Result<(), RegistryError>
    where
        C: DeserializeOwned + JsonSchema,
        F: Fn(C, &PluginContext<'_>) -> Result<Arc<dyn RetentionPolicy>, PluginError> + Send + Sync + 'static,
    {
        register(&mut self.retentions, PluginKind::Retention, origin, name, None, build)
    }

    /// Makes a sync policy known under `name`.
    ///
    /// # Errors
    /// As [`retention`](Self::retention).
    pub fn sync<C, F>(&mut self, origin: Origin, name: &str, build: F) -> Result<(), RegistryError>
    where
        C: DeserializeOwned + JsonSchema,
        F: Fn(C, &PluginContext<'_>) -> Result<Arc<dyn SyncPolicy>, PluginError> + Send + Sync + 'static,
    {
        register(&mut self.syncs, PluginKind::Sync, origin, name, None, build)
    }

    /// Makes a wake notifier known under `name`.
    ///
    /// # Errors
    /// As [`retention`](Self::retention).
    pub fn wake<C, F>(&mut self, origin: Origin, name: &str, build: F) -> Result<(), RegistryError>
    where
        C: DeserializeOwned + JsonSchema,
        F: Fn(C, &PluginContext<'_>) -> Result<Arc<dyn WakeNotifier>, PluginError> + Send + Sync + 'static,
    {
        register(&mut self.wakes, PluginKind::Wake, origin, name, None, build)
    }

    /// The codec that `spec` asks for.
    ///
    /// # Errors
    /// An unknown name (with the known ones), a configuration that does not fit, or what the plugin said.
    pub fn build_codec(
        &self,
        spec: &Value,
        context: &PluginContext<'_>,
    ) -> Result<Arc<dyn Codec>, RegistryError> {
        self.build(&self.codecs, PluginKind::Codec, spec, context)
    }

    /// The retention policy that `spec` asks for.
    ///
    /// # Errors
    /// As [`build_codec`](Self::build_codec).
    pub fn build_retention(
        &self,
        spec: &Value,
        context: &PluginContext<'_>,
    ) -> Result<Arc<dyn RetentionPolicy>, RegistryError> {
        self.build(&self.retentions, PluginKind::Retention, spec, context)
    }

    /// The sync policy that `spec` asks for.
    ///
    /// # Errors
    /// As [`build_codec`](Self::build_codec).
    pub fn build_sync(
        &self,
        spec: &Value,
        context: &PluginContext<'_>,
    ) -> Result<Arc<dyn SyncPolicy>, RegistryError> {
        self.build(&self.syncs, PluginKind::Sync, spec, context)
    }

    /// The wake notifier that `spec` asks for.
    ///
    /// # Errors
    /// As [`build_codec`](Self::build_codec).
    pub fn build_wake(
        &self,
        spec: &Value,
        context: &PluginContext<'_>,
    ) -> Result<Arc<dyn WakeNotifier>, RegistryError> {
        self.build(&self.wakes, PluginKind::Wake, spec, context)
    }

    /// Every codec that can be built without configuration, so that a log can read what any of them wrote. The codec that
    /// a log is configured to write with goes over these ([`CodecSet::insert`]), so that it reads its own frames. For one
    /// that cannot be built the set says of each of its frames that it is [`Lacking`](super::Lacking), and why.
    ///
    /// # Errors
    /// Never for what [`codec`](Self::codec) has taken.
    pub fn readable_codecs(&self, context: &PluginContext<'_>) -> Result<CodecSet, RegistryError> {
        let (mut set, context) = (CodecSet::new(), context.for_readable());
        for (name, entry) in &self.codecs {
            let codec = match self.call(entry, name, Value::Object(serde_json::Map::new()), &context) {
                Ok(codec) => codec,
                Err(error) => {
                    if let Some(number) = entry.number {
                        let reason = error.of(PluginKind::Codec, name.clone());
                        set.insert_stand_in(Arc::new(Unbuilt::new(number, name, reason)));
                    }
                    continue;
                }
            };
            set.insert(codec).map_err(|error| RegistryError::Build {
                kind: PluginKind::Codec,
                name: name.clone(),
                source: error.into(),
            })?;
        }
        Ok(set)
    }

    /// Everything that is registered, by kind and name.
    pub fn plugins(&self) -> impl Iterator<Item = PluginInfo<'_>> {
        fn of<P: ?Sized>(kind: PluginKind, entries: &Entries<P>) -> impl Iterator<Item = PluginInfo<'_>> {
            entries.iter().map(move |(name, entry)| {
                let Entry { schema, origin, number, .. } = entry;
                PluginInfo { kind, name, origin: *origin, number: *number, schema }
            })
        }
        of(PluginKind::Codec, &self.codecs)
            .chain(of(PluginKind::Retention, &self.retentions))
            .chain(of(PluginKind::Sync, &self.syncs))
            .chain(of(PluginKind::Wake, &self.wakes))
    }

    fn build<P: ?Sized>(
        &self,
        entries: &Entries<P>,
        kind: PluginKind,
        spec: &Value,
        context: &PluginContext<'_>,
    ) -> Result<Arc<P>, RegistryError> {
        let malformed = || RegistryError::Malformed { kind, spec: spec.to_string() };
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
        self.call(entry, &name, Value::Object(config), context).map_err(|error| error.of(kind, name))
    }

    /// A constructor is a stranger's: its panic is its error.
    fn call<P: ?Sized>(
        &self,
        entry: &Entry<P>,
        name: &str,
        config: Value,
        context: &PluginContext<'_>,
    ) -> Result<Arc<P>, BuildError> {
        let context = context.for_plugin(name, self);
        catch_unwind(AssertUnwindSafe(|| (entry.build)(config, &context)))
            .unwrap_or_else(|_| Err(BuildError::Plugin("its constructor panicked".into())))
    }
}

impl Nursery for Registry {
    fn codec(&self, spec: &Value, context: &PluginContext<'_>) -> Result<Arc<dyn Codec>, RegistryError> {
        self.build_codec(spec, context)
    }

    fn readable_codecs(&self, context: &PluginContext<'_>) -> Result<CodecSet, RegistryError> {
        self.readable_codecs(context)
    }

    fn retention(
        &self,
        spec: &Value,
        context: &PluginContext<'_>,
    ) -> Result<Arc<dyn RetentionPolicy>, RegistryError> {
        self.build_retention(spec, context)
    }

    fn sync(&self, spec: &Value, context: &PluginContext<'_>) -> Result<Arc<dyn SyncPolicy>, RegistryError> {
        self.build_sync(spec, context)
    }

    fn wake(
        &self,
        spec: &Value,
        context: &PluginContext<'_>,
    ) -> Result<Arc<dyn WakeNotifier>, RegistryError> {
        self.build_wake(spec, context)
    }
}

fn register<P: ?Sized + 'static, C, F>(
    entries: &mut Entries<P>,
    kind: PluginKind,
    origin: Origin,
    name: &str,
    number: Option<CodecNumber>,
    build: F,
) -> Result<(), RegistryError>
where
    C: DeserializeOwned + JsonSchema,
    F: Fn(C, &PluginContext<'_>) -> Result<Arc<P>, PluginError> + Send + Sync + 'static,
{
    if !is_plugin_name(name) {
        return Err(RegistryError::Name { kind, name: name.to_owned() });
    }
    if let Some(other) = entries.get(name) {
        let (first, second) = (other.origin.to_string(), origin.to_string());
        return Err(RegistryError::Duplicate { kind, what: format!("\"{name}\""), first, second });
    }
    let build: Build<P> =
        Box::new(move |config, context| build(typed(config)?, context).map_err(BuildError::Plugin));
    entries.insert(name.to_owned(), Entry { build, schema: schemars::schema_for!(C), origin, number });
    Ok(())
}

/// A plugin's configuration. What does not fit is named by its key: with three numbers in it, "expected u32" says little.
fn typed<C: DeserializeOwned>(config: Value) -> Result<C, BuildError> {
    serde_path_to_error::deserialize(config).map_err(|error| {
        let (path, reason) = (error.path().clone(), error.inner());
        // What concerns the configuration as a whole, such as a key that is not there, has no path.
        let whole = path.iter().len() == 0;
        BuildError::Config(if whole { reason.to_string() } else { format!("{path}: {reason}") })
    })
}

/// Whether a plugin can have this name, which becomes that of a directory and a label of metrics.
pub(crate) fn is_plugin_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
}
