//! What a configuration says of the policies, and the names that they have there.

use std::sync::Arc;

use narad_core::{
    origin,
    plugin::{Registry, RegistryError},
    units::{duration, size},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Adaptive, AdaptiveLimits, EveryWrite, Never};

/// The configuration of the policy `every-write`: it has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EveryWriteConfig {}

/// The configuration of the policy `never`: it has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NeverConfig {}

/// The configuration of the policy `adaptive`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdaptiveConfig {
    /// The part of the time that may go into fsyncs, above 0 and at most 1.
    pub share: f64,
    /// A record waits at least this long for its sync, however fast the disk is, such as "10ms".
    pub min_wait: duration::WithUnits,
    /// A record waits no longer than this, however slow the disk is, such as "1s".
    pub max_wait: duration::WithUnits,
    /// So much that is unsynced is synced at once: bytes, or a size such as "8MiB".
    pub max_unsynced: size::WithUnits,
}

impl Default for AdaptiveConfig {
    fn default() -> Self {
        let AdaptiveLimits { share, min_wait, max_wait, max_unsynced } = AdaptiveLimits::default();
        Self {
            share,
            min_wait: duration::WithUnits(min_wait),
            max_wait: duration::WithUnits(max_wait),
            max_unsynced: size::WithUnits(max_unsynced),
        }
    }
}

impl From<AdaptiveConfig> for AdaptiveLimits {
    fn from(config: AdaptiveConfig) -> Self {
        Self {
            share: config.share,
            min_wait: config.min_wait.0,
            max_wait: config.max_wait.0,
            max_unsynced: config.max_unsynced.0,
        }
    }
}

/// Makes `every-write`, `adaptive` and `never` known.
///
/// # Errors
/// `Duplicate` when one of the names is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.sync(origin!(), "every-write", |EveryWriteConfig {}, _| Ok(Arc::new(EveryWrite)))?;
    registry.sync(origin!(), "adaptive", |config: AdaptiveConfig, _| {
        Ok(Arc::new(Adaptive::new(config.into())?))
    })?;
    registry.sync(origin!(), "never", |NeverConfig {}, _| Ok(Arc::new(Never)))
}
