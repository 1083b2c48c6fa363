//! The plugins of the configuration, built for each topic.

use std::{sync::Arc, time::Duration};

use narad_core::{
    origin,
    plugin::{
        BatchedSync, Codec, CodecSet, Incarnation, LogIdentity, PartitionId, PluginContext, PluginKind,
        Registry, RegistryError, RetentionPolicy, SilentWake, WakeNotifier,
    },
    store::TopicSpec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    config::{PluginProblems, Storage},
    meta::{Topic, TopicName},
};

/// The policy whose argument is a topic's `retention_ms`.
const AGE: &str = "age";

/// The configuration of the sync policy `batched`.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct BatchedConfig {
    /// How long a written record may stay unsynced, in milliseconds.
    interval_ms: u64,
    /// How many bytes may stay unsynced.
    max_bytes: u64,
}

impl Default for BatchedConfig {
    fn default() -> Self {
        Self { interval_ms: 1000, max_bytes: 8 << 20 }
    }
}

/// The plugins that a broker knows without being told: those of the crates beside this one, and `batched`.
///
/// # Errors
/// Two plugins claim one name.
pub fn default_plugins() -> Result<Registry, RegistryError> {
    let mut registry = Registry::new();
    narad_codecs::register(&mut registry)?;
    narad_retention::register(&mut registry)?;
    registry.sync(origin!(), "batched", |config: BatchedConfig, _| {
        let interval = Duration::from_millis(config.interval_ms);
        Ok(Arc::new(BatchedSync::new(interval, config.max_bytes)))
    })?;
    Ok(registry)
}

pub(super) struct Plugins {
    registry: Registry,
    settings: Storage,
    wake: Arc<dyn WakeNotifier>,
}

impl Plugins {
    /// Keeps `settings` once a topic could be built by them. Touches no file; nobody is woken yet.
    ///
    /// # Errors
    /// An unknown plugin, or a configuration that does not fit it.
    pub(super) fn new(registry: Registry, settings: Storage) -> Result<Self, RegistryError> {
        let plugins = Self { registry, settings, wake: Arc::new(SilentWake) };
        if let Ok(name) = TopicName::new("probe") {
            plugins.spec(&Topic::new(name, Incarnation::new(0), 1, 0))?;
        }
        Ok(plugins)
    }

    /// The same, with `wake` told of what the topics' logs announce.
    pub(super) fn waking(self, wake: Arc<dyn WakeNotifier>) -> Self {
        Self { wake, ..self }
    }

    /// What the store is to know of `topic`.
    pub(super) fn spec(&self, topic: &Topic) -> Result<TopicSpec, RegistryError> {
        let log = LogIdentity::partition(Arc::clone(&topic.name), topic.id, PartitionId(0));
        let context = PluginContext::new(log);
        let codec = self.registry.build_codec(&self.settings.codec, &context)?;
        let mut spec =
            TopicSpec::new(Arc::clone(&topic.name), topic.id, topic.partitions, Arc::clone(&codec));
        spec.readable = self.readable(&codec, &context)?;
        spec.retention = retention(&self.registry, &self.settings, topic.retention_ms, &context)?;
        spec.sync = self.registry.build_sync(&self.settings.sync, &context)?;
        spec.wake = Arc::clone(&self.wake);
        spec.prepare_segments = self.settings.prepare_segments;
        Ok(spec)
    }

    /// Every codec that needs no configuration, and the configured one.
    fn readable(
        &self,
        codec: &Arc<dyn Codec>,
        context: &PluginContext<'_>,
    ) -> Result<CodecSet, RegistryError> {
        let mut set = self.registry.readable_codecs(context)?;
        set.insert(Arc::clone(codec)).map_err(|error| RegistryError::Build {
            kind: PluginKind::Codec,
            name: codec.name().to_owned(),
            source: error.into(),
        })?;
        Ok(set)
    }
}

fn retention(
    registry: &Registry,
    settings: &Storage,
    retention_ms: u64,
    context: &PluginContext<'_>,
) -> Result<Arc<dyn RetentionPolicy>, RegistryError> {
    let mut keys = match &settings.retention {
        Value::String(name) if name == AGE => Map::from_iter([("name".to_owned(), Value::from(AGE))]),
        Value::Object(keys) if keys.get("name").and_then(Value::as_str) == Some(AGE) => keys.clone(),
        other => return registry.build_retention(other, context),
    };
    keys.insert("retention_ms".to_owned(), Value::from(retention_ms));
    registry.build_retention(&Value::Object(keys), context)
}

/// What is wrong with the plugins that `settings` name: the setting and the reason, for each. Touches no file.
pub fn check_plugins(registry: &Registry, settings: &Storage) -> PluginProblems {
    let log = LogIdentity::partition("probe", Incarnation::new(0), PartitionId(0));
    let context = PluginContext::new(log);
    [
        ("storage.codec", registry.build_codec(&settings.codec, &context).err()),
        ("storage.retention", retention(registry, settings, 0, &context).err()),
        ("storage.sync", registry.build_sync(&settings.sync, &context).err()),
    ]
    .into_iter()
    .filter_map(|(key, error)| error.map(|error| (key, error.to_string())))
    .collect()
}
