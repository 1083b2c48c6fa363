//! The codec that stores records as they are.

use bytes::Bytes;
use narad_core::{
    format::CodecNumber,
    plugin::{Codec, FrameContext, PluginError},
};

/// Stores records as they are.
#[derive(Debug, Clone, Copy, Default)]
pub struct None;

/// What is stored is not as long as the frame states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{stored} bytes are stored and the frame states {stated}")]
struct WrongLength {
    stored: usize,
    stated: u32,
}

impl None {
    /// Its number on disk.
    pub const NUMBER: CodecNumber = CodecNumber::new(0).unwrap();
}

impl Codec for None {
    fn number(&self) -> CodecNumber {
        Self::NUMBER
    }

    fn name(&self) -> &str {
        "none"
    }

    fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        out.extend_from_slice(raw);
        Ok(())
    }

    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        check(frame, stored)?;
        out.extend_from_slice(stored);
        Ok(())
    }

    fn decode_shared(&self, frame: &FrameContext<'_>, stored: &Bytes) -> Result<Bytes, PluginError> {
        check(frame, stored)?;
        Ok(stored.clone())
    }
}

fn check(frame: &FrameContext<'_>, stored: &[u8]) -> Result<(), WrongLength> {
    let stated = frame.uncompressed_len;
    if usize::try_from(stated) == Ok(stored.len()) {
        Ok(())
    } else {
        Err(WrongLength { stored: stored.len(), stated })
    }
}
