//! Retention by consumption: what every consumer of a narad log has settled may go.
//!
//! | name | deletes | configuration |
//! | --- | --- | --- |
//! | `consumed` | the oldest segments of which every consumer, and every child of the topic, is done with all records | `keep`: how long after its last write a segment is kept all the same, such as `"1h"`; `"0s"` by default |
//!
//! ```
//! use narad_core::plugin::{LogIdentity, PluginContext, Registry};
//! use serde_json::json;
//!
//! let mut registry = Registry::new();
//! narad_retention_consumed::register(&mut registry)?;
//! let context = PluginContext::new(LogIdentity::named("orders"));
//! registry.build_retention(&json!("consumed"), &context)?;
//! let policy = registry.build_retention(&json!({ "name": "consumed", "keep": "1h" }), &context)?;
//! assert_eq!(policy.name(), "consumed");
//! # Ok::<(), narad_core::plugin::RegistryError>(())
//! ```
//!
//! See [`Consumed`] for what exactly is kept.

mod config;
mod policy;

pub use config::{ConsumedConfig, register};
pub use policy::Consumed;
