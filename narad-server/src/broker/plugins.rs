//! The plugins that every broker knows, and whether those of a configuration fit.

use std::{sync::Arc, time::Duration};

use narad_core::{
    origin,
    plugin::{
        BatchedSync, Incarnation, LogIdentity, NoConfig, PartitionId, PluginContext, Registry, RegistryError,
        RetentionPolicy, SilentWake,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::config::{PluginProblems, Storage};

/// The policy whose argument is a topic's `retention_ms`.
pub(super) const AGE: &str = "age";
/// The wake notifier that tells nobody.
const SILENT: &str = "silent";

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

/// The plugins that a broker knows without being told: those of the crates beside this one and of `plugins/`, as far as its
/// features go, and `batched` and `silent`, which stand beside their traits.
///
/// # Errors
/// Two plugins claim one name or one codec number.
pub fn default_plugins() -> Result<Registry, RegistryError> {
    let mut registry = Registry::new();
    narad_codecs::register(&mut registry)?;
    narad_codec_lz4::register(&mut registry)?;
    narad_codec_zstd_dict::register(&mut registry)?;
    #[cfg(feature = "codec-aead")]
    narad_codec_aead::register(&mut registry)?;
    narad_retention::register(&mut registry)?;
    narad_retention_consumed::register(&mut registry)?;
    narad_retention_size::register(&mut registry)?;
    narad_sync_policies::register(&mut registry)?;
    #[cfg(feature = "wake-http")]
    narad_wake_http::register(&mut registry)?;
    registry.sync(origin!(), "batched", |config: BatchedConfig, _| {
        let interval = Duration::from_millis(config.interval_ms);
        Ok(Arc::new(BatchedSync::new(interval, config.max_bytes)))
    })?;
    registry.wake(origin!(), SILENT, |NoConfig {}, _| Ok(Arc::new(SilentWake)))?;
    Ok(registry)
}

/// The retention of a topic that has no policy of its own: with `age` that of its `retention_ms`.
pub(super) fn retention_of(
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
        ("storage.retention", retention_of(registry, settings, 0, &context).err()),
        ("storage.sync", registry.build_sync(&settings.sync, &context).err()),
        ("storage.wake", registry.build_wake(&settings.wake, &context).err()),
    ]
    .into_iter()
    .filter_map(|(key, error)| error.map(|error| (key, error.to_string())))
    .collect()
}
