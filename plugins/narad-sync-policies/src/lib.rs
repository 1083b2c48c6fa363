//! Sync policies for narad logs: when records reach the disk for good that were appended and not committed.
//!
//! A commit does not ask: it always syncs, whatever the policy. What a policy bounds is the loss of records that were only
//! appended ([`Log::append`]), in logs whose writers can do without a promise.
//!
//! | name | a crash of the process loses | a power loss, or a crash of the system, loses | configuration |
//! | --- | --- | --- | --- |
//! | `every-write` | what is not drained: 100 ms, 1,000 records or 1 MiB | the same | |
//! | `adaptive` | the same | what was written within `max_wait`, and `max_unsynced` at most; as little as the disk's speed allows | `share`, `min_wait`, `max_wait`, `max_unsynced` |
//! | `never` | the same | what was written since the last commit, roll or close: up to a segment, 64 MiB by default | |
//! | `batched` (of `narad-core`) | the same | what was written within a second, and 8 MiB at most | |
//!
//! A drain happens 100 ms after an append at the latest; until then records are in the memory of the process, and no
//! policy is asked. The system keeps what a dead process had written, so only it and the power supply can lose more.
//!
//! ```
//! use narad_core::plugin::{LogIdentity, PluginContext, Registry};
//! use serde_json::json;
//!
//! let mut registry = Registry::new();
//! narad_sync_policies::register(&mut registry)?;
//! let context = PluginContext::new(LogIdentity::named("metrics"));
//! let policy = registry.build_sync(&json!({ "name": "adaptive", "max_wait": "5s" }), &context)?;
//! assert_eq!(policy.name(), "adaptive");
//! # Ok::<(), narad_core::plugin::RegistryError>(())
//! ```
//!
//! [`Log::append`]: https://docs.rs/narad-core/latest/narad_core/log/struct.Log.html#method.append

mod adaptive;
mod config;
mod every_write;
mod never;

pub use adaptive::{Adaptive, AdaptiveLimits, LimitsError};
pub use config::{AdaptiveConfig, EveryWriteConfig, NeverConfig, register};
pub use every_write::EveryWrite;
pub use never::Never;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
