//! The default codecs of narad: `none` and `zstd`.
//!
//! | name | number on disk | configuration |
//! | --- | --- | --- |
//! | `none` | 0 | |
//! | `zstd` | 1 | `level`: 1 (fastest, the default) to 22 (smallest) |
//!
//! A log can hold frames of both: a frame's header says which wrote it. [`register`] makes them known to a
//! [`Registry`] under their names:
//!
//! ```
//! use narad_core::plugin::{LogIdentity, PluginContext, Registry};
//! use serde_json::json;
//!
//! let mut registry = Registry::new();
//! narad_codecs::register(&mut registry)?;
//! let context = PluginContext::new(LogIdentity::named("orders"));
//! let codec = registry.build_codec(&json!({ "name": "zstd", "level": 3 }), &context)?;
//! assert_eq!(codec.number().get(), 1);
//! assert!(registry.build_codec(&json!({ "name": "zstd", "level": 23 }), &context).is_err());
//! # Ok::<(), narad_core::plugin::RegistryError>(())
//! ```
//!
//! Without a registry, `Arc::new(Zstd::default())` and `Arc::new(None)` are codecs as they stand.
//!
//! # Which one
//!
//! `zstd` at level 1 compresses faster than most disks write, and all records of a frame together, so small messages
//! of one kind gain from each other. Levels from about 10 on cost many times the processor time and, for large frames,
//! tens of megabytes while a frame is encoded. `none` is for payloads that are compressed or encrypted already.
//! Changing the codec, or its level, concerns new frames alone.
//!
//! # What `zstd` guards against
//!
//! A frame's CRC says that its bytes are those that were written, not who wrote them. So decoding believes nothing:
//! it never yields or allocates more than the frame header states, refuses a second zstd frame, skippable frames
//! and trailing bytes, a window above 256 MiB, and any length other than the stated one.
//!
//! Compression and decompression contexts are kept between frames in a small pool that all logs of the process share.

mod none;
mod zstd;

use std::sync::Arc;

use narad_core::{
    origin,
    plugin::{Registry, RegistryError},
};
use schemars::JsonSchema;
use serde::Deserialize;

pub use self::{
    none::None,
    zstd::{InvalidLevel, Zstd, ZstdError},
};

/// The configuration of the codec `none`: it has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoneConfig {}

/// The configuration of the codec `zstd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ZstdConfig {
    /// How hard to compress: 1 is the fastest, 22 the smallest.
    #[schemars(range(min = 1, max = 22))]
    pub level: i32,
}

impl Default for ZstdConfig {
    fn default() -> Self {
        Self { level: Zstd::DEFAULT_LEVEL }
    }
}

/// Makes `none` and `zstd` known.
///
/// # Errors
/// `Duplicate` when one of the names or numbers is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.codec(origin!(), "none", None::NUMBER, |NoneConfig {}, _| Ok(Arc::new(None)))?;
    registry.codec(origin!(), "zstd", Zstd::NUMBER, |config: ZstdConfig, _| {
        Ok(Arc::new(Zstd::new(config.level)?))
    })
}
