//! What a configuration says of the policies, and the names that they have there.

use std::{sync::Arc, time::Duration};

use narad_core::{
    origin,
    plugin::{PluginContext, Registry, RegistryError, RetentionPolicy},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{Age, All, Any, Forever};

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

/// The configuration of the policies `any` and `all`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CombinedConfig {
    /// The policies, at least one: each a name, or an object with a name and the policy's own keys.
    #[schemars(length(min = 1))]
    pub of: Vec<Value>,
}

/// The policy that a topic's `retention_ms` asks for: [`Age`], or [`Forever`] for 0.
pub fn from_retention_ms(retention_ms: u64) -> Arc<dyn RetentionPolicy> {
    match retention_ms {
        0 => Arc::new(Forever),
        ms => Arc::new(Age::new(Duration::from_millis(ms))),
    }
}

/// Makes `age`, `forever`, `any` and `all` known.
///
/// # Errors
/// `Duplicate` when one of the names is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry
        .retention(origin!(), "age", |config: AgeConfig, _| Ok(from_retention_ms(config.retention_ms)))?;
    registry.retention(origin!(), "forever", |ForeverConfig {}, _| Ok(Arc::new(Forever)))?;
    registry.retention(origin!(), "any", |config: CombinedConfig, context| {
        Ok(Arc::new(Any::new(policies(&config, context)?)?))
    })?;
    registry.retention(origin!(), "all", |config: CombinedConfig, context| {
        Ok(Arc::new(All::new(policies(&config, context)?)?))
    })
}

fn policies(
    config: &CombinedConfig,
    context: &PluginContext<'_>,
) -> Result<Vec<Arc<dyn RetentionPolicy>>, RegistryError> {
    config.of.iter().map(|policy| context.retention(policy)).collect()
}
