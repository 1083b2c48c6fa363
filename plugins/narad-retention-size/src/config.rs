//! What a configuration says of the policy, and the name that it has there.

use std::{num::NonZeroU64, sync::Arc};

use narad_core::{
    origin,
    plugin::{Registry, RegistryError},
    units::size::WithUnits,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Size;

/// The configuration of the policy `size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeConfig {
    /// How much a partition holds at most: bytes, or a size such as "10GiB". Its newest segment is kept in any case.
    pub max: WithUnits,
}

/// Makes `size` known.
///
/// # Errors
/// `Duplicate` when the name is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.retention(origin!(), "size", |config: SizeConfig, _| {
        let max = NonZeroU64::new(config.max.0)
            .ok_or("max is 0; \"forever\" is the policy that keeps everything")?;
        Ok(Arc::new(Size::new(max)))
    })
}
