//! One zstd frame: made, looked at, and undone, with contexts that are used again. Nothing here believes what a frame
//! says about itself before it is checked.

use std::io::{self, Cursor};

use narad_core::plugin::Pool;
use zstd::zstd_safe::{self, CCtx, CDict, DCtx, DDict};

use crate::error::ZstdDictError;

/// No frame holds more than 256 MiB, so no honest frame needs a larger window.
const MAX_WINDOW: u64 = 1 << 28;
/// A compression context that has grown beyond this (the high levels do) is not kept.
const MAX_IDLE_CONTEXT_BYTES: usize = 16 << 20;

const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
const SINGLE_SEGMENT: u8 = 1 << 5;

static COMPRESSORS: Pool<CCtx<'static>> = Pool::new();
static DECOMPRESSORS: Pool<DCtx<'static>> = Pool::new();

/// How a frame is compressed.
#[derive(Clone, Copy)]
pub(crate) enum With<'a> {
    Level(i32),
    Dictionary(&'a CDict<'static>),
}

/// Appends `raw` as one zstd frame.
pub(crate) fn compress(with: With<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), ZstdDictError> {
    let bound = zstd_safe::compress_bound(raw.len());
    out.try_reserve(bound).map_err(|_| ZstdDictError::Memory { bytes: bound })?;
    let mut context = COMPRESSORS.take(|| CCtx::try_create().ok_or_else(no_context))?;
    let compressed = match with {
        With::Level(level) => context.compress(&mut at_end(out), raw, level),
        With::Dictionary(dictionary) => context.compress_using_cdict(&mut at_end(out), raw, dictionary),
    };
    if context.sizeof() <= MAX_IDLE_CONTEXT_BYTES {
        COMPRESSORS.give_back(context);
    }
    compressed.map(drop).map_err(ZstdDictError::library)
}

/// Checks what can be told without decompressing: that one zstd frame takes up all the bytes, and that it wants neither a
/// larger window nor another length than it may. Returns the number of its dictionary, 0 for none.
pub(crate) fn check(stored: &[u8], stated: u32) -> Result<u32, ZstdDictError> {
    let window = window_of(stored).ok_or(ZstdDictError::NotAFrame)?;
    // No window but the content itself: then the content's length is checked below.
    if let Some(bytes) = window.filter(|bytes| *bytes > MAX_WINDOW) {
        return Err(ZstdDictError::Window { bytes });
    }
    match zstd_safe::get_frame_content_size(stored) {
        Ok(Some(actual)) if actual != u64::from(stated) => {
            return Err(ZstdDictError::Length { actual, stated });
        }
        Ok(_) => {}
        Err(_) => return Err(ZstdDictError::NotAFrame),
    }
    let frame = zstd_safe::find_frame_compressed_size(stored).map_err(ZstdDictError::library)?;
    if frame != stored.len() {
        return Err(ZstdDictError::Trailing { frame, stored: stored.len() });
    }
    Ok(zstd_safe::get_dict_id_from_frame(stored).map_or(0, u32::from))
}

/// Appends the content of a frame that was checked: exactly `stated` bytes.
pub(crate) fn decompress(
    dictionary: Option<&DDict<'static>>,
    stored: &[u8],
    stated: u32,
    out: &mut Vec<u8>,
) -> Result<(), ZstdDictError> {
    let bytes = usize::try_from(stated).unwrap_or(usize::MAX);
    out.try_reserve_exact(bytes).map_err(|_| ZstdDictError::Memory { bytes })?;
    let mut context = DECOMPRESSORS.take(|| DCtx::try_create().ok_or_else(no_context))?;
    let decompressed = match dictionary {
        None => context.decompress(&mut at_end(out), stored),
        Some(dictionary) => context.decompress_using_ddict(&mut at_end(out), stored, dictionary),
    };
    DECOMPRESSORS.give_back(context);
    let actual = decompressed.map_err(ZstdDictError::library)?;
    if actual == bytes { Ok(()) } else { Err(ZstdDictError::Length { actual: actual as u64, stated }) }
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

fn no_context() -> ZstdDictError {
    io::Error::from(io::ErrorKind::OutOfMemory).into()
}
