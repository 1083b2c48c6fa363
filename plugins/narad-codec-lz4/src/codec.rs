//! From records to an LZ4 block and back. Nothing here believes a length that stands in the block.

use std::cell::RefCell;

use lz4_flex::block::{
    CompressTable, compress_into, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use narad_core::{
    format::CodecNumber,
    plugin::{Codec, FrameContext, PluginError},
};

/// No byte of a block stands for more than this many bytes of content.
const MAX_RATIO: u64 = 255;
/// Inputs below this fit the small table, and making one for each would cost them more than compressing does.
const SMALL: usize = u16::MAX as usize;

thread_local! {
    /// The table of matches, used again by the next frame of this thread. It carries nothing over.
    static TABLE: RefCell<CompressTable> = RefCell::new(CompressTable::small());
}

/// Stores the records of a frame as one LZ4 block.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lz4;

/// Why stored bytes do not decode, or records do not encode.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Lz4Error {
    /// No block of that size has as much content as the frame header states.
    #[error("{stored} stored bytes cannot hold the {stated} that the frame states")]
    TooShort {
        /// Bytes stored.
        stored: usize,
        /// The length the frame header states.
        stated: u32,
    },
    /// The content is shorter than the frame header states.
    #[error("{actual} bytes of content where the frame states {stated}")]
    Length {
        /// The length of the content.
        actual: usize,
        /// The length the frame header states.
        stated: u32,
    },
    /// The bytes are no LZ4 block, or one of more content than the frame header states.
    #[error("not an LZ4 block of the stated length: {0}")]
    Block(#[source] PluginError),
    /// The records did not fit where any records fit: a defect of the library.
    #[error("the compressor needs more room than it said")]
    NoRoom,
}

impl Lz4 {
    /// Its number on disk.
    pub const NUMBER: CodecNumber = CodecNumber::new(2).unwrap();
}

impl Codec for Lz4 {
    fn number(&self) -> CodecNumber {
        Self::NUMBER
    }

    fn name(&self) -> &str {
        "lz4"
    }

    fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let start = out.len();
        out.resize(start.saturating_add(get_maximum_output_size(raw.len())), 0);
        let written = out.get_mut(start..).and_then(|room| compress(raw, room));
        out.truncate(start.saturating_add(written.unwrap_or(0)));
        written.map(drop).ok_or_else(|| Lz4Error::NoRoom.into())
    }

    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let start = out.len();
        let decoded = decompress(stored, frame.uncompressed_len, out);
        if decoded.is_err() {
            out.truncate(start);
        }
        Ok(decoded?)
    }
}

fn compress(raw: &[u8], room: &mut [u8]) -> Option<usize> {
    if raw.len() >= SMALL {
        return compress_into(raw, room).ok();
    }
    TABLE.with(|table| compress_into_with_table(raw, room, &mut *table.try_borrow_mut().ok()?).ok())
}

fn decompress(stored: &[u8], stated: u32, out: &mut Vec<u8>) -> Result<(), Lz4Error> {
    if (stored.len() as u64).saturating_mul(MAX_RATIO) < u64::from(stated) {
        return Err(Lz4Error::TooShort { stored: stored.len(), stated });
    }
    let start = out.len();
    out.resize(start.saturating_add(stated as usize), 0);
    let room = out.get_mut(start..).unwrap_or_default();
    match decompress_into(stored, room).map_err(|error| Lz4Error::Block(error.into()))? {
        written if written == room.len() => Ok(()),
        written => Err(Lz4Error::Length { actual: written, stated }),
    }
}
