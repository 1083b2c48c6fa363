//! Why a frame cannot be encrypted or decrypted, and which of it the engine may take for damage.

use narad_core::{
    format::CodecNumber,
    plugin::{Lacking, PluginError},
};

/// Why a frame cannot be encrypted or decrypted.
///
/// Those that a key or a codec would cure come wrapped in [`Lacking`], so that the engine does not take them for damage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AeadError {
    /// The key that the frame was encrypted with is not there. Wrapped in `Lacking`.
    #[error("the frame is encrypted with key {id}, which is not there; there are {known:?}")]
    UnknownKey {
        /// The number of the key that is needed.
        id: u32,
        /// The numbers of the keys that are there.
        known: Vec<u32>,
    },
    /// The key of that number is another one than the frame was encrypted with. Wrapped in `Lacking`.
    #[error("the frame is encrypted with another key {id} than the one that is there")]
    OtherKey {
        /// The number of both.
        id: u32,
    },
    /// A later version of this codec wrote the frame. Wrapped in `Lacking`.
    #[error("the frame is encrypted with cipher {number}, which this version does not know")]
    UnknownCipher {
        /// The cipher's number.
        number: u8,
    },
    /// The codec under the encryption is not there. Wrapped in `Lacking`.
    #[error("under its encryption the frame needs codec {number}, which is not there")]
    UnknownNested {
        /// That codec's number.
        number: CodecNumber,
    },
    /// The bytes are too few to be a frame of this codec.
    #[error("too short for an encrypted frame")]
    TooShort,
    /// The tag does not hold: the frame was changed, or it stands in another place or another log than it was written for.
    #[error("the frame was changed, or is not of this place in this log (key {key_id})")]
    Forged {
        /// The key that it claims, which is there.
        key_id: u32,
    },
    /// The nested codec's number, inside what was authenticated, is none: a defect of what wrote it.
    #[error("the encrypted content does not begin with the number of a codec")]
    NoNested,
    /// Encryption over encryption is a mistake.
    #[error("aead cannot stand under aead")]
    OverItself,
    /// The nested codec left less than was there before it.
    #[error("the codec under the encryption took away what was not its own")]
    NestedBroke,
    /// The system gave no random numbers.
    #[error("no random numbers: {0}")]
    Random(String),
    /// The cipher takes no frame of that length.
    #[error("the cipher refused")]
    Refused,
}

impl AeadError {
    /// As the engine is told: what a key or a codec would cure is no damage.
    pub(crate) fn told(self) -> PluginError {
        match self {
            Self::UnknownKey { .. }
            | Self::OtherKey { .. }
            | Self::UnknownCipher { .. }
            | Self::UnknownNested { .. } => Lacking::new(self).into(),
            _ => self.into(),
        }
    }
}
