//! The codec that stores the records of a frame as one zstd frame.

use std::io::{self, Cursor};

use narad_core::{
    format::CodecNumber,
    plugin::{Codec, FrameContext, PluginError, Pool},
};
use zstd::{
    bulk::{Compressor, Decompressor},
    zstd_safe,
};

/// No frame holds more than 256 MiB, so no honest frame needs a larger window.
const MAX_WINDOW: u64 = 1 << 28;
/// A compression context that has grown beyond this (the high levels do) is not kept.
const MAX_IDLE_CONTEXT_BYTES: usize = 16 << 20;

const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
const SINGLE_SEGMENT: u8 = 1 << 5;

static COMPRESSORS: Pool<Compressor<'static>> = Pool::new();
static DECOMPRESSORS: Pool<Decompressor<'static>> = Pool::new();

/// Stores the records of a frame as exactly one zstd frame, without dictionary.
#[derive(Debug, Clone, Copy)]
pub struct Zstd {
    level: i32,
}

/// The level is not one that zstd has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("zstd level {0} is not between 1 and 22")]
pub struct InvalidLevel(pub i32);

/// Why stored bytes do not decode, or records do not encode.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZstdError {
    /// The bytes do not start with a zstd frame.
    #[error("not a zstd frame")]
    NotAFrame,
    /// The zstd frame ends before the bytes do: a second frame, or something else, follows.
    #[error("the zstd frame takes {frame} of {stored} stored bytes")]
    Trailing {
        /// Bytes of the first zstd frame.
        frame: usize,
        /// Bytes stored.
        stored: usize,
    },
    /// The zstd frame wants a window above 256 MiB.
    #[error("the zstd frame wants a window of {bytes} bytes")]
    Window {
        /// The window it wants.
        bytes: u64,
    },
    /// The content is, or claims to be, of another length than the frame header states.
    #[error("{actual} bytes of content where the frame states {stated}")]
    Length {
        /// The length of the content.
        actual: u64,
        /// The length the frame header states.
        stated: u32,
    },
    /// The library refused.
    #[error("zstd: {0}")]
    Library(#[from] io::Error),
}

impl Zstd {
    /// Its number on disk.
    pub const NUMBER: CodecNumber = CodecNumber::new(1).unwrap();
    /// The level of a codec that was given none: the fastest.
    pub const DEFAULT_LEVEL: i32 = 1;

    /// A codec that compresses at `level`, 1 (fastest) to 22 (smallest). It decodes frames of any level.
    ///
    /// # Errors
    /// Another level.
    pub fn new(level: i32) -> Result<Self, InvalidLevel> {
        if (1..=22).contains(&level) { Ok(Self { level }) } else { Err(InvalidLevel(level)) }
    }
}

impl Default for Zstd {
    fn default() -> Self {
        Self { level: Self::DEFAULT_LEVEL }
    }
}

impl Codec for Zstd {
    fn number(&self) -> CodecNumber {
        Self::NUMBER
    }

    fn name(&self) -> &str {
        "zstd"
    }

    fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let mut context = COMPRESSORS.take(|| Compressor::new(self.level))?;
        context.set_compression_level(self.level)?;
        out.reserve(zstd_safe::compress_bound(raw.len()));
        context.compress_to_buffer(raw, &mut at_end(out))?;
        if context.context_mut().sizeof() <= MAX_IDLE_CONTEXT_BYTES {
            COMPRESSORS.give_back(context);
        }
        Ok(())
    }

    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        check(stored, frame.uncompressed_len)?;
        let start = out.len();
        let decoded = decompress(stored, frame.uncompressed_len, out);
        if decoded.is_err() {
            out.truncate(start);
        }
        Ok(decoded?)
    }
}

/// Checks what can be told without decompressing: that one zstd frame takes up all the bytes, and that it wants
/// neither a larger window nor another length than it may.
fn check(stored: &[u8], stated: u32) -> Result<(), ZstdError> {
    let window = window_of(stored).ok_or(ZstdError::NotAFrame)?;
    // No window but the content itself: then the content's length is checked below.
    if let Some(bytes) = window.filter(|bytes| *bytes > MAX_WINDOW) {
        return Err(ZstdError::Window { bytes });
    }
    match zstd_safe::get_frame_content_size(stored) {
        Ok(Some(actual)) if actual != u64::from(stated) => return Err(ZstdError::Length { actual, stated }),
        Ok(_) => {}
        Err(_) => return Err(ZstdError::NotAFrame),
    }
    let frame = zstd_safe::find_frame_compressed_size(stored).map_err(library)?;
    if frame == stored.len() { Ok(()) } else { Err(ZstdError::Trailing { frame, stored: stored.len() }) }
}

fn decompress(stored: &[u8], stated: u32, out: &mut Vec<u8>) -> Result<(), ZstdError> {
    let len = usize::try_from(stated).map_err(|_| ZstdError::Library(io::ErrorKind::OutOfMemory.into()))?;
    out.try_reserve_exact(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let mut context = DECOMPRESSORS.take(Decompressor::new)?;
    let decoded = context.decompress_to_buffer(stored, &mut at_end(out));
    DECOMPRESSORS.give_back(context);
    let actual = decoded?;
    if actual == len { Ok(()) } else { Err(ZstdError::Length { actual: actual as u64, stated }) }
}

/// The window that a zstd frame asks for, `Some(None)` when its content is the window; `None` when the bytes do not
/// start a zstd frame (a skippable one counts as none).
fn window_of(stored: &[u8]) -> Option<Option<u64>> {
    let (descriptor, rest) = stored.strip_prefix(&MAGIC)?.split_first()?;
    if descriptor & SINGLE_SEGMENT != 0 {
        return Some(None);
    }
    let window = rest.first()?;
    let base = 1_u64 << (10 + (window >> 3));
    Some(Some(base + base / 8 * u64::from(window & 0b111)))
}

/// A buffer that begins where `out` ends and may take up what is reserved behind it.
fn at_end(out: &mut Vec<u8>) -> Cursor<&mut Vec<u8>> {
    let end = out.len() as u64;
    let mut cursor = Cursor::new(out);
    cursor.set_position(end);
    cursor
}

fn library(code: zstd_safe::ErrorCode) -> ZstdError {
    ZstdError::Library(io::Error::other(zstd_safe::get_error_name(code)))
}
