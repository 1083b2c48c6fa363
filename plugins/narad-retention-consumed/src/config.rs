//! What a configuration says of the policy, and the name that it has there.

use std::{sync::Arc, time::Duration};

use narad_core::{
    origin,
    plugin::{Registry, RegistryError},
    units::duration::WithUnits,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Consumed;

/// The configuration of the policy `consumed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConsumedConfig {
    /// How long after its last write a settled segment is kept all the same, such as "1h", so that it can be replayed.
    pub keep: WithUnits,
}

impl Default for ConsumedConfig {
    fn default() -> Self {
        Self { keep: WithUnits(Duration::ZERO) }
    }
}

/// Makes `consumed` known.
///
/// # Errors
/// `Duplicate` when the name is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.retention(origin!(), "consumed", |config: ConsumedConfig, _| {
        Ok(Arc::new(Consumed::new(config.keep.0)))
    })
}
