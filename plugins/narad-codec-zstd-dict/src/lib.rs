//! The codec `zstd-dict`, number 8: zstd with dictionaries that are trained from a topic's own records.
//!
//! Records of one topic look like each other. Plain zstd sees that within a frame alone, so a frame of one small record
//! hardly gets smaller. A dictionary knows beforehand what the records have in common.
//!
//! ```
//! use std::sync::Arc;
//! use narad_core::{
//!     disk::OsDisk,
//!     plugin::{LogIdentity, PluginContext, Registry},
//! };
//!
//! let mut registry = Registry::new();
//! narad_codec_zstd_dict::register(&mut registry)?;
//! let context = PluginContext::new(LogIdentity::named("orders")).in_dir(Arc::new(OsDisk), "orders-plugins");
//! let codec = registry.build_codec(&serde_json::json!({ "name": "zstd-dict", "level": 3 }), &context)?;
//! assert_eq!((codec.number().get(), codec.wants_sample()), (8, false));
//! # Ok::<(), narad_core::plugin::RegistryError>(())
//! ```
//!
//! # How it goes
//!
//! - Until there is a dictionary, frames are plain zstd.
//! - Once 16 KiB of records have been written, the codec asks the engine for a sample of recent records. It trains a
//!   dictionary on one half of it and measures on the other. One that saves a tenth or more is kept; it is durable in the
//!   topic's plugin directory before the first frame is written with it. After twice as much has been written (at last every
//!   64 MiB) it looks again, and a new dictionary takes over if it saves another tenth.
//! - Dictionaries are never changed and never deleted while the topic is there: every frame names its own, and is read with
//!   it. There are at most `max_dictionaries` of at most `dictionary_bytes` each; at that bound the last one stays in use.
//!
//! # What is stored
//!
//! A frame is one standard zstd frame, with the dictionary's number in its header, or none. A dictionary is a file
//! `<number>.dict`, as `zstd -D` takes it, its number in hexadecimal; `current` holds the number of the one in use. The
//! number comes from the dictionary's content, so another dictionary never passes for the one that a frame needs, also
//! where directories were copied or restored in part.
//!
//! A frame whose dictionary is not there, or is damaged, is not corrupt: the error is a
//! [`Lacking`](narad_core::plugin::Lacking) that names the dictionary, and no consumer is led past the record. So a topic's
//! backup includes its `plugins` directory.
//!
//! # What it guards against
//!
//! As `zstd` of `narad-codecs`: decoding never yields or allocates more than the frame header states, and refuses a second
//! zstd frame, skippable frames, trailing bytes, a window above 256 MiB, and any length other than the stated one.
//! Compression and decompression contexts are kept between frames.

mod codec;
mod dictionary;
mod error;
mod frame;
mod shelf;
mod train;

use std::sync::Arc;

use narad_core::{
    origin,
    plugin::{Registry, RegistryError},
    units::size::WithUnits,
};
use schemars::JsonSchema;
use serde::Deserialize;

pub use self::{codec::ZstdDict, error::ZstdDictError};

/// The configuration of the codec `zstd-dict`. Changing it concerns new frames and new dictionaries alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ZstdDictConfig {
    /// How hard to compress: 1 is the fastest, 22 the smallest.
    #[schemars(range(min = 1, max = 22))]
    pub level: i32,
    /// The largest dictionary: 1KiB to 1MiB.
    pub dictionary_bytes: WithUnits,
    /// How many dictionaries a topic keeps at most: 1 to 128.
    #[schemars(range(min = 1, max = 128))]
    pub max_dictionaries: u32,
}

impl Default for ZstdDictConfig {
    fn default() -> Self {
        Self { level: 3, dictionary_bytes: WithUnits(32 << 10), max_dictionaries: 16 }
    }
}

/// Makes `zstd-dict` known.
///
/// # Errors
/// `Duplicate` when its name or number is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.codec(origin!(), "zstd-dict", ZstdDict::NUMBER, |config: ZstdDictConfig, context| {
        Ok(Arc::new(ZstdDict::new(config, context.dir().cloned())?))
    })
}
