//! The on-disk format: bytes in, bytes out. Nothing here touches a file, a clock or a thread.
//!
//! `docs/format.md` describes it byte for byte.

mod crc;
mod cursor;
mod frame;
mod offset;
mod positions;
#[cfg_attr(
    not(feature = "engine"),
    allow(dead_code, reason = "what writes and splits frames is the engine's")
)]
mod record;

pub use cursor::{FANOUT_CURSOR_LEN, FanoutCursor, decode_fanout_cursor, encode_fanout_cursor};
pub use frame::{
    CodecNumber, EXTENDED_CODEC, FRAME_MAGIC, FrameHeader, HEADER_LEN, HeaderError, MAX_FRAME_BYTES,
    StoredCodec, frame_crc, read_extended_codec, write_extended_codec,
};
pub use offset::Offset;
pub use positions::{
    AHEAD_SLOT_LEN, AheadRecord, AheadSlots, decode_consumer_offset, decode_watermark,
    encode_consumer_offset, encode_watermark,
};
pub use record::{Batch, RECORD_VERSION, Record, RecordError, split_records};

#[cfg(feature = "engine")]
pub(crate) use crc::{crc32c, crc32c_append};
#[cfg(feature = "engine")]
pub(crate) use record::record_starts;
