//! From records to the bytes of a frame.

use std::panic::{AssertUnwindSafe, catch_unwind};

use memchr::memmem;

use crate::{
    error::{Error, Result},
    format::{FRAME_MAGIC, FrameHeader, HEADER_LEN, MAX_FRAME_BYTES, Offset, write_extended_codec},
    plugin::{Codec, FrameContext, LogIdentity, PluginError},
};

/// The codec's output would pass the bound of a frame: the records must be split.
#[derive(Debug)]
pub(crate) enum EncodeError {
    /// Stored bytes above the bound.
    TooLarge,
    /// The codec failed.
    Failed(Error),
}

/// Appends the frame of `count` records, `raw` as they are laid out in it, to `out`; returns its header.
pub(crate) fn encode_frame(
    codec: &dyn Codec,
    log: &LogIdentity,
    base: Offset,
    count: u32,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<FrameHeader, EncodeError> {
    let start = out.len();
    let encoded = encode_at(start, codec, log, base, count, raw, out);
    if encoded.is_err() {
        out.truncate(start);
    }
    encoded
}

fn encode_at(
    start: usize,
    codec: &dyn Codec,
    log: &LogIdentity,
    base: Offset,
    count: u32,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<FrameHeader, EncodeError> {
    let uncompressed_len = bounded(raw.len())?;
    let context = FrameContext::new(log, base, count, uncompressed_len);
    out.extend_from_slice(&[0; HEADER_LEN]);
    write_extended_codec(codec.number(), out);
    let before = out.len();
    let failed = |source: PluginError| {
        EncodeError::Failed(Error::Plugin {
            plugin: codec.name().to_owned(),
            operation: "encode",
            source: source.into(),
        })
    };
    match catch_unwind(AssertUnwindSafe(|| codec.encode(&context, raw, out))) {
        Ok(Ok(())) if out.len() > before => {}
        Ok(Ok(())) => return Err(failed("it produced no bytes".into())),
        Ok(Err(error)) => return Err(failed(error)),
        Err(_) => return Err(failed("it panicked".into())),
    }
    let stored_len = bounded(out.len() - start - HEADER_LEN)?;
    let mut header =
        FrameHeader { flags: codec.number().header_id(), count, base, uncompressed_len, stored_len, crc: 0 };
    let stored = out.get(start + HEADER_LEN..).unwrap_or_default();
    header.crc = header.crc_with(stored);
    if let Some(room) = out.get_mut(start..).and_then(|frame| frame.first_chunk_mut::<HEADER_LEN>()) {
        *room = header.encode();
    }
    Ok(header)
}

/// Whether the stored bytes of a frame hold what could be taken for a frame, if the header in front of them were lost: a
/// header in range, or the beginning of one that the next frame may complete. Its offsets are not looked at: which would
/// fit depends on how many frames in front of it are lost as well.
pub(crate) fn may_hold_frame(stored: &[u8]) -> bool {
    memmem::find_iter(stored, &FRAME_MAGIC).any(|at| {
        let header = stored.get(at..).and_then(<[u8]>::first_chunk).map(FrameHeader::decode);
        header.is_none_or(|header| header.is_ok())
    })
}

fn bounded(len: usize) -> Result<u32, EncodeError> {
    u32::try_from(len).ok().filter(|&len| len <= MAX_FRAME_BYTES).ok_or(EncodeError::TooLarge)
}
