//! The default retention policies of narad: `age` and `forever`.
//!
//! | name | deletes | configuration |
//! | --- | --- | --- |
//! | `age` | segments whose last write is older than the retention | `retention_ms`: milliseconds; 0 keeps everything |
//! | `forever` | nothing | |
//!
//! [`register`] makes them known to a [`Registry`] under their names:
//!
//! ```
//! use std::time::Duration;
//! use narad_core::plugin::{LogIdentity, PluginContext, Registry};
//! use serde_json::json;
//!
//! let mut registry = Registry::new();
//! narad_retention::register(&mut registry)?;
//! let context = PluginContext::new(LogIdentity::named("orders"));
//! let policy = registry.build_retention(&json!({ "name": "age", "retention_ms": 86_400_000 }), &context)?;
//! assert_eq!(policy.roll_age(), Some(Duration::from_secs(86_400)));
//! # Ok::<(), narad_core::plugin::RegistryError>(())
//! ```
//!
//! A policy decides from what it is handed and does nothing itself: the engine deletes, and only ever a prefix.

mod age;
mod forever;

use std::{sync::Arc, time::Duration};

use narad_core::{
    origin,
    plugin::{Registry, RegistryError, RetentionPolicy},
};
use schemars::JsonSchema;
use serde::Deserialize;

pub use age::Age;
pub use forever::Forever;

/// The configuration of the policy `age`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgeConfig {
    /// How long a segment is kept after its last write, in milliseconds. 0 keeps everything for ever.
    pub retention_ms: u64,
}

/// The configuration of the policy `forever`: it has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForeverConfig {}

/// The policy that a topic's `retention_ms` asks for: [`Age`], or [`Forever`] for 0.
pub fn from_retention_ms(retention_ms: u64) -> Arc<dyn RetentionPolicy> {
    match retention_ms {
        0 => Arc::new(Forever),
        ms => Arc::new(Age::new(Duration::from_millis(ms))),
    }
}

/// Makes `age` and `forever` known.
///
/// # Errors
/// `Duplicate` when one of the names is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry
        .retention(origin!(), "age", |config: AgeConfig, _| Ok(from_retention_ms(config.retention_ms)))?;
    registry.retention(origin!(), "forever", |ForeverConfig {}, _| Ok(Arc::new(Forever)))
}
