//! A codec for tests of crates that know none.

use crate::{
    format::CodecNumber,
    plugin::{Codec, FrameContext, PluginError},
};

/// Keeps records as they are, under the number that stands for no codec: what a log needs that a test opens without the
/// crate of a codec.
#[derive(Debug, Clone, Copy, Default)]
pub struct Verbatim;

impl Codec for Verbatim {
    fn number(&self) -> CodecNumber {
        const { CodecNumber::new(0).expect("0 is a codec number") }
    }

    fn name(&self) -> &str {
        "verbatim"
    }

    fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        out.extend_from_slice(raw);
        Ok(())
    }

    fn decode(&self, _: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        out.extend_from_slice(stored);
        Ok(())
    }
}
