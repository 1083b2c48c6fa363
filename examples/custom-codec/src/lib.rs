//! A codec of one's own: run-length encoding, for records that are long runs of the same bytes. Put your own in its place.

use std::sync::Arc;

use narad_core::{
    format::CodecNumber,
    plugin::{Codec, FrameContext, PluginError, Registry, RegistryError},
};

/// Its number on disk, for ever: from 1024 on they are free. See docs/codec-numbers.md.
pub const NUMBER: CodecNumber = const { CodecNumber::new(5001).expect("a codec number") };

/// Keeps each run of equal bytes as its length and the byte.
#[derive(Debug)]
pub struct RunLength;

impl Codec for RunLength {
    fn number(&self) -> CodecNumber {
        NUMBER
    }
    fn name(&self) -> &str {
        "run-length"
    }
    fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        for run in raw.chunk_by(|one, next| one == next).flat_map(|run| run.chunks(255)) {
            out.extend(u8::try_from(run.len()).into_iter().chain(run.first().copied()));
        }
        Ok(())
    }
    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let mut left = frame.uncompressed_len as usize;
        for pair in stored.chunks(2) {
            let &[length, byte] = pair else { return Err("a run without its byte".into()) };
            // Before the bytes are made: whatever `stored` claims, no more than the frame states is allocated.
            left = left.checked_sub(length.into()).ok_or("more bytes than the frame states")?;
            out.resize(out.len() + usize::from(length), byte);
        }
        if left == 0 { Ok(()) } else { Err("fewer bytes than the frame states".into()) }
    }
}

/// What a configuration may say beside the name: nothing.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunLengthConfig {}

/// Makes `run-length` known to a broker.
///
/// # Errors
/// `Duplicate` when its name or its number is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry
        .codec(narad_core::origin!(), "run-length", NUMBER, |RunLengthConfig {}, _| Ok(Arc::new(RunLength)))
}
