//! Retention by size: a partition of a narad log keeps so many bytes, the newest ones.
//!
//! | name | deletes | configuration |
//! | --- | --- | --- |
//! | `size` | the oldest segments, while the partition holds more than `max` | `max`: bytes, or a size such as `"10GiB"` |
//!
//! ```
//! use narad_core::plugin::{LogIdentity, PluginContext, Registry};
//! use serde_json::json;
//!
//! let mut registry = Registry::new();
//! narad_retention_size::register(&mut registry)?;
//! let context = PluginContext::new(LogIdentity::named("orders"));
//! let policy = registry.build_retention(&json!({ "name": "size", "max": "10GiB" }), &context)?;
//! assert_eq!(policy.name(), "size");
//! # Ok::<(), narad_core::plugin::RegistryError>(())
//! ```
//!
//! See [`Size`] for what exactly is kept.

mod config;
mod policy;

pub use config::{SizeConfig, register};
pub use policy::Size;
