//! The codec `lz4`, number 2: the records of a frame as one LZ4 block.
//!
//! ```
//! use narad_core::plugin::{LogIdentity, PluginContext, Registry};
//!
//! let mut registry = Registry::new();
//! narad_codec_lz4::register(&mut registry)?;
//! let context = PluginContext::new(LogIdentity::named("orders"));
//! let codec = registry.build_codec(&"lz4".into(), &context)?;
//! assert_eq!(codec.number().get(), 2);
//! # Ok::<(), narad_core::plugin::RegistryError>(())
//! ```
//!
//! Without a registry, `Arc::new(Lz4)` is the codec as it stands.
//!
//! # What is stored
//!
//! One block of the [LZ4 block format](https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md), and nothing
//! around it: the frame's header says how long the records are, and its CRC guards the bytes.
//!
//! # What it guards against
//!
//! Decoding believes nothing: it never yields more than the frame header states, refuses any other length, and
//! refuses at once, before it allocates, a length that no block of that size can have.

mod codec;

use std::sync::Arc;

use narad_core::{
    origin,
    plugin::{Registry, RegistryError},
};
use schemars::JsonSchema;
use serde::Deserialize;

pub use self::codec::{Lz4, Lz4Error};

/// The configuration of the codec `lz4`: it has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lz4Config {}

/// Makes `lz4` known.
///
/// # Errors
/// `Duplicate` when the name or the number is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.codec(origin!(), "lz4", Lz4::NUMBER, |Lz4Config {}, _| Ok(Arc::new(Lz4)))
}
