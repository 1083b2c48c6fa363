//! The codec `aead`, number 9: encryption at rest over another codec.
//!
//! The records of a frame go through the nested codec first and are then encrypted, each frame under a key and nonce of
//! its own, with AES-256-GCM or ChaCha20-Poly1305.
//!
//! ```
//! use std::sync::Arc;
//! use narad_codec_aead::{Aead, Cipher, KeyRing};
//! use narad_core::plugin::Codec;
//!
//! let keys = KeyRing::parse("1:c2l4dGVlbiBieXRlcywgYW5kIHNpeHRlZW4gbW9yZS4=")?;
//! let codec = Aead::new(keys, Cipher::default(), Arc::new(narad_codecs::Zstd::default()))?;
//! assert_eq!((codec.number().get(), codec.name()), (9, "aead"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it gives
//!
//! - Whoever has the files and not the keys learns nothing of the records but how many there are in a frame and how long
//!   they are together, before and after the nested codec. (Where somebody can have text of his own written beside
//!   secrets and sees these lengths, compression tells him about the secrets: use `none` underneath.)
//! - A frame that was changed, moved to another offset, partition or topic, or had its count or length changed is refused
//!   as corrupt: the log's identity (incarnation and partition, or the name of a log that stands alone), base offset,
//!   count, uncompressed length and the frame's own prefix are authenticated with it.
//! - A frame whose key is missing, or is another one of the same number, is not corrupt: the error is a
//!   [`Lacking`](narad_core::plugin::Lacking) that names the key, and no consumer is led past the record.
//!
//! - What a codec underneath keeps in its directory, such as dictionaries, is encrypted too: it is made of records.
//!
//! It does not hide headers, offsets, times of files or the watermark, and it does not notice when the newest frames, a
//! whole segment or a whole directory are replaced by an older state of themselves at the same place.
//!
//! # Keys
//!
//! A [`KeyRing`] holds keys by number; each frame names its own. To rotate, add a key with a new number at the end, let
//! every log be opened again, and keep the old ones for as long as there are frames under them: retention takes those in
//! time. Keys are wiped from memory when they are dropped, and neither `Debug` nor an error shows any of them.
//!
//! # What is stored
//!
//! | offset | size | |
//! | --- | --- | --- |
//! | 0 | 1 | cipher: 1 is AES-256-GCM, 2 is ChaCha20-Poly1305 |
//! | 1 | 4 | the key's number, big-endian |
//! | 5 | 4 | the key's fingerprint |
//! | 9 | 24 | salt |
//! | 33 | n | encrypted: the nested codec's number as a frame header has it, and what that codec stored |
//! | 33 + n | 16 | tag |
//!
//! The fingerprint tells a wrong key from a changed frame; it is derived of the key and says nothing of it. All in front of
//! the encrypted bytes is authenticated too.
//!
//! # Nonces
//!
//! Each call of `encode` draws 192 random bits from the system. HKDF-SHA-256 makes of these and the key a cipher key and a
//! nonce that this frame alone uses; the frame carries the 192 bits. So nothing is counted and nothing has to be remembered
//! over a crash: a failed commit that is tried again at the same offset draws again. Two frames of one key meet in the same
//! 192 bits with a chance of less than 2⁻⁶⁴ after 2⁶⁴ frames, over all logs together; no broker gets there, and a
//! rotation starts again from zero. A frame has at most 256 MiB, far below what either cipher bounds.

mod cipher;
mod codec;
mod error;
mod files;
mod key;
mod layout;
mod safe;
mod source;

use std::sync::Arc;

use narad_core::{
    origin,
    plugin::{Codec, PluginContext, PluginDir, PluginError, PluginFiles, Registry, RegistryError},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

pub use self::{
    cipher::Cipher,
    codec::Aead,
    error::AeadError,
    key::{KEY_BYTES, KeyRing},
    source::{DEFAULT_VARIABLE, KeyError, KeyProblem, KeySource},
};
use self::{files::SealedFiles, safe::Safe};

/// The configuration of the codec `aead`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AeadConfig {
    /// The cipher for new frames. Frames of either are read.
    pub cipher: Cipher,
    /// The codec under the encryption for new frames: its name, or an object with its name and settings. What other codecs
    /// left there is read, if they are registered and need no settings.
    pub codec: Value,
    /// Where the keys are, read when the codec is built. By default the environment variable `NARAD_AEAD_KEYS`. Where a
    /// broker's users give topics their codecs, only an admin may name another place.
    pub keys: KeySource,
    /// The number of the key for new frames: by default that of the last one.
    pub active_key: Option<u32>,
}

impl Default for AeadConfig {
    fn default() -> Self {
        Self {
            cipher: Cipher::default(),
            codec: Value::from("zstd"),
            keys: KeySource::default(),
            active_key: None,
        }
    }
}

/// Makes `aead` known. The codec under it comes from the same registry, so that one must be registered too.
///
/// # Errors
/// `Duplicate` when its name or number is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.codec(origin!(), "aead", Aead::NUMBER, build)
}

fn build(config: AeadConfig, context: &PluginContext<'_>) -> Result<Arc<dyn Codec>, PluginError> {
    if context.is_from_outside() && config.keys != KeySource::default() {
        return Err(KeyError::NotForTopics.into());
    }
    let mut keys = config.keys.read()?;
    if let Some(id) = config.active_key {
        keys = keys.with_active(id)?;
    }
    let safe = Arc::new(Safe::new(keys, config.cipher));
    let log = context.log.clone();
    let sealed = |dir: &PluginDir| Arc::new(SealedFiles::new(dir.clone(), Arc::clone(&safe), log));
    let files = context.dir().map(sealed);
    let inside = match &files {
        Some(files) => context.clone().keeping_in(Arc::clone(files) as Arc<dyn PluginFiles>),
        None => context.clone(),
    };
    let nested = inside.codec(&config.codec)?;
    Ok(Arc::new(Aead::over(safe, nested, files)?.reading(inside.readable_codecs()?)))
}
