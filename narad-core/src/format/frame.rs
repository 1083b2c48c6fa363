//! The frame header: the unit of writing, and everything a scanner knows before it has a codec.

use std::fmt;

use super::{
    Offset,
    crc::{crc32c, crc32c_append},
};

/// The first two bytes of a frame. They lie outside the CRC, so that a scanner can look for them.
pub const FRAME_MAGIC: [u8; 2] = [0xCA, 0xFE];
/// Bytes in front of the payload.
pub const HEADER_LEN: usize = 27;
/// The largest payload of a frame, stored and uncompressed alike: 256 MiB.
pub const MAX_FRAME_BYTES: u32 = 268_435_456;
/// The header's codec id that says: the codec's number stands in front of the payload.
pub const EXTENDED_CODEC: u8 = 7;

const CODEC_MASK: u8 = 0b0000_0111;
const CRC_START: usize = 2;
const CRC_END: usize = 23;

/// Names a codec on disk. 0-6 fit in the frame header (0 none, 1 zstd, 2 lz4); 7 is never a codec; 8-1023 are
/// assigned in `docs/codec-numbers.md`; 1024 and above are for everybody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodecNumber(u32);

impl CodecNumber {
    /// The number, or `None` for 7, which the format uses as the sign of an extended number.
    pub const fn new(number: u32) -> Option<Self> {
        if number == EXTENDED_CODEC as u32 { None } else { Some(Self(number)) }
    }

    /// As a plain number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The id for the header's three bits.
    pub const fn header_id(self) -> u8 {
        if self.0 < EXTENDED_CODEC as u32 { self.0 as u8 } else { EXTENDED_CODEC }
    }

    /// Whether the number is written in front of the payload.
    pub const fn is_extended(self) -> bool {
        self.0 > EXTENDED_CODEC as u32
    }
}

impl fmt::Display for CodecNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the flags of a header say about the codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredCodec {
    /// A codec named in the header.
    Plain(CodecNumber),
    /// The number is in front of the payload: [`read_extended_codec`].
    Extended,
    /// A reserved bit is set: a newer format, which nothing here can read.
    Reserved(u8),
}

/// The header of a frame, decoded and not yet believed: only the CRC makes it true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bits 0-2 codec id, 3-7 reserved.
    pub flags: u8,
    /// Records in the frame, ≥ 1.
    pub count: u32,
    /// The offset of the first record.
    pub base: Offset,
    /// Bytes of payload before the codec, 1 to [`MAX_FRAME_BYTES`].
    pub uncompressed_len: u32,
    /// Bytes of payload on disk, 1 to [`MAX_FRAME_BYTES`].
    pub stored_len: u32,
    /// Castagnoli CRC over header bytes 2..23 and the stored payload.
    pub crc: u32,
}

/// Why bytes are not a frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The first two bytes are not the magic.
    #[error("no frame magic")]
    Magic,
    /// The record count is not positive.
    #[error("record count out of range")]
    Count,
    /// The base offset is negative, or the records would pass the largest offset.
    #[error("base offset out of range")]
    Base,
    /// A length is 0 or above 256 MiB.
    #[error("length out of range")]
    Length,
}

impl FrameHeader {
    /// Decodes the fields and checks their ranges. The CRC is not checked: it needs the payload.
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, HeaderError> {
        let (header, magic) = Self::decode_ignoring_magic(bytes)?;
        if magic { Ok(header) } else { Err(HeaderError::Magic) }
    }

    /// Decodes like [`decode`](Self::decode), and tells whether the magic was there: the magic is outside the
    /// CRC, so a frame whose magic alone is damaged can still state where it ends.
    pub(crate) fn decode_ignoring_magic(bytes: &[u8; HEADER_LEN]) -> Result<(Self, bool), HeaderError> {
        let [m0, m1, flags, c0, c1, c2, c3, rest @ ..] = *bytes;
        let [b0, b1, b2, b3, b4, b5, b6, b7, u0, u1, u2, u3, s0, s1, s2, s3, k0, k1, k2, k3] = rest;
        let count = u32::try_from(i32::from_be_bytes([c0, c1, c2, c3])).ok().filter(|&n| n > 0);
        let count = count.ok_or(HeaderError::Count)?;
        let base = Offset::from_i64(i64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]));
        let base =
            base.filter(|base| base.checked_add(u64::from(count)).is_some()).ok_or(HeaderError::Base)?;
        let length = |bytes| {
            let length = u32::try_from(i32::from_be_bytes(bytes)).ok();
            length.filter(|n| (1..=MAX_FRAME_BYTES).contains(n)).ok_or(HeaderError::Length)
        };
        let header = Self {
            flags,
            count,
            base,
            uncompressed_len: length([u0, u1, u2, u3])?,
            stored_len: length([s0, s1, s2, s3])?,
            crc: u32::from_be_bytes([k0, k1, k2, k3]),
        };
        Ok((header, [m0, m1] == FRAME_MAGIC))
    }

    /// The header as written.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let [c0, c1, c2, c3] = self.count.to_be_bytes();
        let [b0, b1, b2, b3, b4, b5, b6, b7] = self.base.get().to_be_bytes();
        let [u0, u1, u2, u3] = self.uncompressed_len.to_be_bytes();
        let [s0, s1, s2, s3] = self.stored_len.to_be_bytes();
        let [k0, k1, k2, k3] = self.crc.to_be_bytes();
        let [m0, m1] = FRAME_MAGIC;
        [
            m0, m1, self.flags, c0, c1, c2, c3, b0, b1, b2, b3, b4, b5, b6, b7, u0, u1, u2, u3, s0, s1, s2,
            s3, k0, k1, k2, k3,
        ]
    }

    /// The CRC that a frame of these fields has with `stored` as its payload.
    pub fn crc_with(&self, stored: &[u8]) -> u32 {
        crc32c_append(self.crc_of_fields(), stored)
    }

    /// The CRC over the header's own fields, to be continued over the payload.
    pub(crate) fn crc_of_fields(&self) -> u32 {
        frame_crc(&self.encode())
    }

    /// The first offset after this frame.
    pub fn end(&self) -> Offset {
        self.base.saturating_add(u64::from(self.count))
    }

    /// Bytes of the whole frame on disk.
    pub fn frame_len(&self) -> u64 {
        HEADER_LEN as u64 + u64::from(self.stored_len)
    }

    /// What the flags say about the codec.
    pub fn codec(&self) -> StoredCodec {
        if self.flags & !CODEC_MASK != 0 {
            return StoredCodec::Reserved(self.flags);
        }
        CodecNumber::new(u32::from(self.flags)).map_or(StoredCodec::Extended, StoredCodec::Plain)
    }
}

/// The CRC over the part of an encoded header that it covers.
pub fn frame_crc(header: &[u8; HEADER_LEN]) -> u32 {
    crc32c(header.get(CRC_START..CRC_END).unwrap_or_default())
}

/// Reads an extended codec number in front of a payload: the number and the rest, or `None` when malformed.
pub fn read_extended_codec(stored: &[u8]) -> Option<(CodecNumber, &[u8])> {
    let (number, rest) = super::record::read_varint(stored)?;
    let number = u32::try_from(number).ok().and_then(CodecNumber::new).filter(|n| n.is_extended())?;
    Some((number, rest))
}

/// Writes what stands in front of an extended codec's output; nothing for a codec that fits in the header.
pub fn write_extended_codec(number: CodecNumber, out: &mut Vec<u8>) {
    if number.is_extended() {
        super::record::write_varint(u64::from(number.get()), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fm_01_header_fields_sit_where_the_format_says() {
        let header = FrameHeader {
            flags: 1,
            count: 0x0102_0304,
            base: Offset::new(0x0506_0708_090a_0b0c).unwrap(),
            uncompressed_len: 0x0d0e_0f10,
            stored_len: 0x0112_1314,
            crc: 0x1516_1718,
        };
        let bytes = header.encode();
        assert_eq!(bytes[..3], [0xCA, 0xFE, 1]);
        assert_eq!(bytes[3..7], [1, 2, 3, 4]);
        assert_eq!(bytes[7..15], [5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(bytes[15..19], [0x0d, 0x0e, 0x0f, 0x10]);
        assert_eq!(bytes[19..23], [0x01, 0x12, 0x13, 0x14]);
        assert_eq!(bytes[23..27], [0x15, 0x16, 0x17, 0x18]);
        let valid = FrameHeader { uncompressed_len: 9, stored_len: 9, ..header };
        assert_eq!(FrameHeader::decode(&valid.encode()), Ok(valid));
    }

    #[test]
    fn fm_01_fields_out_of_range_are_refused() {
        let good = FrameHeader {
            flags: 0,
            count: 1,
            base: Offset::ZERO,
            uncompressed_len: 9,
            stored_len: 9,
            crc: 0,
        };
        let with = |change: fn(&mut FrameHeader)| {
            let mut header = good;
            change(&mut header);
            FrameHeader::decode(&header.encode())
        };
        assert_eq!(with(|h| h.count = 0), Err(HeaderError::Count));
        assert_eq!(with(|h| h.count = u32::MAX), Err(HeaderError::Count));
        assert_eq!(with(|h| h.base = Offset::MAX), Err(HeaderError::Base));
        assert_eq!(with(|h| h.uncompressed_len = 0), Err(HeaderError::Length));
        assert_eq!(with(|h| h.stored_len = MAX_FRAME_BYTES + 1), Err(HeaderError::Length));
        assert!(with(|h| h.stored_len = MAX_FRAME_BYTES).is_ok());
        let mut no_magic = good.encode();
        no_magic[1] = 0;
        assert_eq!(FrameHeader::decode(&no_magic), Err(HeaderError::Magic));
    }

    #[test]
    fn fm_04_extended_numbers_round_trip_and_plain_ones_are_refused_there() {
        let mut out = Vec::new();
        write_extended_codec(CodecNumber::new(1024).unwrap(), &mut out);
        out.push(0xAA);
        let (number, rest) = read_extended_codec(&out).unwrap();
        assert_eq!((number.get(), rest), (1024, &[0xAA][..]));
        assert_eq!(read_extended_codec(&[1, 0]), None);
        assert_eq!(read_extended_codec(&[0x80]), None);
        assert_eq!(CodecNumber::new(7), None);
    }
}
