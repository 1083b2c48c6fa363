//! From records to an encrypted frame and back: the nested codec first, then the cipher. What is decrypted is handed to
//! the nested codec only when its tag holds.

use std::sync::Arc;

use narad_core::{
    format::{CodecNumber, EXTENDED_CODEC, read_extended_codec, write_extended_codec},
    plugin::{Codec, CodecSet, FrameContext, Lacking, PluginError, Sample},
};
use zeroize::Zeroize;

use crate::{
    cipher::{Cipher, SALT_BYTES},
    key::{Key, KeyRing},
    layout::{Malformed, Prefix, bound_to, take_apart},
};

/// Encrypts the output of another codec, and binds each frame to its log and its place in it.
#[derive(Debug, Clone)]
pub struct Aead {
    keys: Arc<KeyRing>,
    cipher: Cipher,
    nested: Arc<dyn Codec>,
    readable: CodecSet,
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
    /// # Errors
    /// `OverItself` for a nested codec that encrypts with this one.
    pub fn new(keys: KeyRing, cipher: Cipher, nested: Arc<dyn Codec>) -> Result<Self, AeadError> {
        if nested.number() == Self::NUMBER {
            return Err(AeadError::OverItself);
        }
        Ok(Self { keys: Arc::new(keys), cipher, nested, readable: CodecSet::new() })
    }

    /// The same, reading also what other codecs than the nested one left under the encryption: those that it was over
    /// before.
    #[must_use]
    pub fn reading(self, readable: CodecSet) -> Self {
        Self { readable, ..self }
    }

    fn active(&self) -> Result<(u32, &Key), AeadError> {
        let id = self.keys.active();
        let key = self.keys.get(id).ok_or_else(|| self.unknown_key(id))?;
        Ok((id, key))
    }

    fn unknown_key(&self, id: u32) -> AeadError {
        AeadError::UnknownKey { id, known: self.keys.ids().collect() }
    }

    fn nested(&self, number: CodecNumber) -> Option<&dyn Codec> {
        if number == self.nested.number() {
            return Some(&*self.nested);
        }
        self.readable.get(number).filter(|codec| codec.number() != Self::NUMBER).map(|codec| &**codec)
    }

    fn seal(&self, frame: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let (key_id, key) = self.active()?;
        // Drawn for each call: a commit that failed and is tried again at the same offset has another key and nonce.
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(|error| AeadError::Random(error.to_string()))?;
        let prefix = Prefix { cipher: self.cipher, key_id, fingerprint: key.fingerprint(), salt };
        prefix.write(out);
        let body = out.len();
        write_number(self.nested.number(), out);
        self.nested.encode(frame, raw, out)?;
        let bytes = out.get_mut(body..).ok_or(AeadError::NestedBroke)?;
        let bound = bound_to(&prefix, frame);
        let tag = self.cipher.seal(key, &salt, &bound, bytes).map_err(|_| AeadError::Refused)?;
        out.extend_from_slice(&tag);
        Ok(())
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
        let sealed = self.seal(frame, raw, out);
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
        let parts = take_apart(stored).map_err(|malformed| match malformed {
            Malformed::TooShort => AeadError::TooShort.into(),
            Malformed::UnknownCipher(number) => lacking(AeadError::UnknownCipher { number }),
        })?;
        let key_id = parts.prefix.key_id;
        let key = self.keys.get(key_id).ok_or_else(|| lacking(self.unknown_key(key_id)))?;
        if parts.prefix.fingerprint != key.fingerprint() {
            return Err(lacking(AeadError::OtherKey { id: key_id }));
        }
        let Prefix { cipher, salt, .. } = parts.prefix;
        let mut clear = parts.encrypted.to_vec();
        cipher
            .open(key, &salt, &bound_to(&parts.prefix, frame), &mut clear, parts.tag)
            .map_err(|_| AeadError::Forged { key_id })?;
        let (number, inner) = read_number(&clear).ok_or(AeadError::NoNested)?;
        let nested = self.nested(number).ok_or_else(|| lacking(AeadError::UnknownNested { number }))?;
        nested.decode(frame, inner, out)
    }

    fn wants_sample(&self) -> bool {
        self.nested.wants_sample()
    }

    fn maintain(&self, sample: &Sample<'_>) -> Result<(), PluginError> {
        self.nested.maintain(sample)
    }
}

fn lacking(error: AeadError) -> PluginError {
    Lacking::new(error).into()
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
