//! From records to an encrypted frame and back: the nested codec first, then the cipher. What is decrypted is handed to
//! the nested codec only when its tag holds.

use std::sync::Arc;

use narad_core::{
    format::{CodecNumber, EXTENDED_CODEC, read_extended_codec, write_extended_codec},
    plugin::{Codec, CodecSet, FrameContext, PluginError, Sample},
};
use zeroize::Zeroize;

use crate::{
    cipher::Cipher, error::AeadError, files::SealedFiles, key::KeyRing, layout::bound_to, safe::Safe,
};

/// Encrypts the output of another codec, and binds each frame to its log and its place in it.
#[derive(Debug, Clone)]
pub struct Aead {
    safe: Arc<Safe>,
    nested: Arc<dyn Codec>,
    readable: CodecSet,
    /// What the codecs underneath keep.
    files: Option<Arc<SealedFiles>>,
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
