//! The default retention policies of narad: `age` and `forever`, and `any` and `all`, which combine policies.
//!
//! | name | deletes | configuration |
//! | --- | --- | --- |
//! | `age` | segments whose last write is older than the retention | `retention_ms`: milliseconds; 0 keeps everything |
//! | `forever` | nothing | |
//! | `any` | what any of some policies would delete | `of`: the policies, each a name or an object with a `name` |
//! | `all` | what all of them would delete | the same |
//!
//! [`register`] makes them known to a [`Registry`](narad_core::plugin::Registry) under their names:
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
//!
//! // `any` and `all` take whatever the same registry knows, one another included.
//! let spec = json!({ "name": "all", "of": [{ "name": "age", "retention_ms": 86_400_000 }, "forever"] });
//! assert_eq!(registry.build_retention(&spec, &context)?.name(), "all");
//! # Ok::<(), narad_core::plugin::RegistryError>(())
//! ```
//!
//! A policy decides from what it is handed and does nothing itself: the engine deletes, and only ever a prefix.

mod age;
mod combined;
mod config;
mod forever;

pub use age::Age;
pub use combined::{All, Any, NoPolicies};
pub use config::{AgeConfig, CombinedConfig, ForeverConfig, from_retention_ms, register};
pub use forever::Forever;
