//! From records to an encrypted frame and back: the nested codec first, then the cipher. What is decrypted is handed to
//! the nested codec only when its tag holds.

use std::sync::Arc;

use narad_core::{
    format::{CodecNumber, EXTENDED_CODEC, read_extended_codec, write_extended_codec},
    plugin::{Codec, CodecSet, FrameContext, Lacking, PluginError, Sample},
};
use zeroize::Zeroize;

use crate::{cipher::Cipher, files::SealedFiles, key::KeyRing, layout::bound_to, safe::Safe};

/// Encrypts the output of another codec, and binds each frame to its log and its place in it.
#[derive(Debug, Clone)]
pub struct Aead {
    safe: Arc<Safe>,
    nested: Arc<dyn Codec>,
    readable: CodecSet,
    /// What the codecs underneath keep.
    files: Option<Arc<SealedFiles>>,
}

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

impl Aead {
    /// Its number on disk.
    pub const NUMBER: CodecNumber = CodecNumber::new(9).unwrap();
    /// Bytes that a frame has beyond those of the nested codec, where that one's number is below 7.
    pub const OVERHEAD: usize = 50;

    /// Encrypts what `nested` makes of a frame, with the active one of `keys`. It reads frames of every key of `keys` and
    /// of both ciphers.
    ///
    /// What `nested` keeps in a [`PluginDir`](narad_core::plugin::PluginDir) of its own is not encrypted; what it keeps as
    /// a part of a configured `aead` is.
    ///
    /// # Errors
    /// `OverItself` for a nested codec that encrypts with this one.
    pub fn new(keys: KeyRing, cipher: Cipher, nested: Arc<dyn Codec>) -> Result<Self, AeadError> {
        Self::over(Arc::new(Safe::new(keys, cipher)), nested, None)
    }

    /// The same, over a codec that keeps its files in `files`.
    pub(crate) fn over(
        safe: Arc<Safe>,
        nested: Arc<dyn Codec>,
        files: Option<Arc<SealedFiles>>,
    ) -> Result<Self, AeadError> {
        if nested.number() == Self::NUMBER {
            return Err(AeadError::OverItself);
        }
        Ok(Self { safe, nested, readable: CodecSet::new(), files })
    }

    /// The same, reading also what other codecs than the nested one left under the encryption: those that it was over
    /// before.
    #[must_use]
    pub fn reading(self, readable: CodecSet) -> Self {
        Self { readable, ..self }
    }

    fn nested(&self, number: CodecNumber) -> Option<&dyn Codec> {
        if number == self.nested.number() {
            return Some(&*self.nested);
        }
        self.readable.get(number).filter(|codec| codec.number() != Self::NUMBER).map(|codec| &**codec)
    }

    fn files_to_renew(&self) -> Option<&SealedFiles> {
        self.files.as_deref().filter(|files| files.wants_renewal())
    }
}

impl Codec for Aead {
    fn number(&self) -> CodecNumber {
        Self::NUMBER
    }

    fn name(&self) -> &str {
        "aead"
    }

    fn encode(&self, frame: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let start = out.len();
        let sealed = self.safe.seal(
            out,
            |prefix| bound_to(prefix, frame),
            |out| {
                write_number(self.nested.number(), out);
                self.nested.encode(frame, raw, out)
            },
        );
        if sealed.is_err() {
            // It may hold what was not encrypted yet.
            if let Some(bytes) = out.get_mut(start..) {
                bytes.zeroize();
            }
            out.truncate(start);
        }
        sealed
    }

    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let clear = self.safe.open(stored, |prefix| bound_to(prefix, frame)).map_err(AeadError::told)?;
        let (number, inner) = read_number(&clear).ok_or(AeadError::NoNested)?;
        let nested = self.nested(number).ok_or_else(|| AeadError::UnknownNested { number }.told())?;
        nested.decode(frame, inner, out)
    }

    fn wants_sample(&self) -> bool {
        self.files_to_renew().is_some() || self.nested.wants_sample()
    }

    fn maintain(&self, sample: &Sample<'_>) -> Result<(), PluginError> {
        if let Some(files) = self.files_to_renew() {
            files.renew()?;
            if !self.nested.wants_sample() {
                return Ok(());
            }
        }
        self.nested.maintain(sample)
    }
}

impl AeadError {
    /// As the engine is told: what a key or a codec would cure is no damage.
    fn told(self) -> PluginError {
        match self {
            Self::UnknownKey { .. }
            | Self::OtherKey { .. }
            | Self::UnknownCipher { .. }
            | Self::UnknownNested { .. } => Lacking::new(self).into(),
            _ => self.into(),
        }
    }
}

/// A codec's number as a frame has it: what its header would hold, and behind it the number of an extended one.
fn write_number(number: CodecNumber, out: &mut Vec<u8>) {
    out.push(number.header_id());
    write_extended_codec(number, out);
}

fn read_number(bytes: &[u8]) -> Option<(CodecNumber, &[u8])> {
    match bytes.split_first()? {
        (&EXTENDED_CODEC, rest) => read_extended_codec(rest),
        (&id, rest) => {
            CodecNumber::new(id.into()).filter(|number| !number.is_extended()).map(|number| (number, rest))
        }
    }
}
