//! A frame with its codec undone: what readers share and the cache holds.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use bytes::Bytes;

use crate::{
    error::Error,
    format::{
        FrameHeader, HEADER_LEN, Offset, Record, StoredCodec, frame_crc, read_extended_codec, record_starts,
    },
    plugin::{CodecSet, FrameContext, Lacking, LogIdentity},
};

/// Why the records of a frame cannot be had.
#[derive(Debug, Clone)]
pub(crate) enum Unreadable {
    /// The bytes are damaged, or the codec says so.
    Corrupt(&'static str),
    /// No registered codec has this number.
    UnknownCodec(crate::format::CodecNumber),
    /// The codec of that name lacks what it needs for this frame.
    Lacking(Arc<str>, Arc<Lacking>),
}

impl Unreadable {
    /// As the error for the record at `offset`.
    pub(crate) fn error(self, offset: Offset, segment: &std::path::Path) -> Error {
        match self {
            Self::Corrupt(reason) => Error::Corrupt { offset, segment: segment.to_owned(), reason },
            Self::UnknownCodec(number) => Error::UnknownCodec { offset, number },
            Self::Lacking(codec, what) => Error::Lacking { offset, codec, source: what },
        }
    }
}

/// The records of a frame, uncompressed; each record handed out is a view into this one buffer.
#[derive(Debug)]
pub(crate) struct DecodedFrame {
    base: Offset,
    raw: Bytes,
    /// Start and length of each record in `raw`.
    records: Vec<(u32, u32)>,
}

impl DecodedFrame {
    /// From the uncompressed payload of a frame.
    pub(crate) fn new(base: Offset, count: u32, raw: Bytes) -> Result<Self, Unreadable> {
        let records = record_starts(&raw, count).map_err(Unreadable::Corrupt)?;
        Ok(Self { base, raw, records })
    }

    /// Checks the CRC of a frame (header and stored payload, as read) and undoes its codec.
    pub(crate) fn decode(bytes: &[u8], codecs: &CodecSet, log: &LogIdentity) -> Result<Self, Unreadable> {
        const SHORT: Unreadable = Unreadable::Corrupt("the frame is cut short");
        let (header_bytes, stored) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(SHORT)?;
        let header = FrameHeader::decode(header_bytes)
            .map_err(|_| Unreadable::Corrupt("the frame header is damaged"))?;
        let stored = stored.get(..header.stored_len as usize).ok_or(SHORT)?;
        if crc32c::crc32c_append(frame_crc(header_bytes), stored) != header.crc {
            return Err(Unreadable::Corrupt("the checksum does not hold"));
        }
        let (number, stored) = match header.codec() {
            StoredCodec::Plain(number) => (number, stored),
            StoredCodec::Extended => {
                read_extended_codec(stored).ok_or(Unreadable::Corrupt("the codec number is malformed"))?
            }
            // A newer format: answered like a codec that nobody registered.
            StoredCodec::Reserved(flags) => return Err(Unreadable::UnknownCodec(reserved(flags))),
        };
        let codec = codecs.get(number).ok_or(Unreadable::UnknownCodec(number))?;
        if u64::from(header.count) * 4 > u64::from(header.uncompressed_len) {
            return Err(Unreadable::Corrupt("more records than its length can hold"));
        }
        let context = FrameContext::new(log, header.base, header.count, header.uncompressed_len);
        let mut raw = Vec::new();
        let decoded = catch_unwind(AssertUnwindSafe(|| codec.decode(&context, stored, &mut raw)));
        match decoded {
            Ok(Ok(())) if raw.len() == header.uncompressed_len as usize => {}
            Ok(Ok(())) => {
                tracing::error!(
                    %log, codec = codec.name(), base = %header.base, stated = header.uncompressed_len, decoded = raw.len(),
                    "a codec gave back another length than it was given"
                );
                return Err(Unreadable::Corrupt("the codec returned another length than the header states"));
            }
            Ok(Err(error)) => {
                tracing::warn!(%log, codec = codec.name(), base = %header.base, %error, "a frame could not be decoded");
                return Err(match error.downcast::<Lacking>() {
                    Ok(what) => Unreadable::Lacking(codec.name().into(), Arc::new(*what)),
                    Err(_) => Unreadable::Corrupt("the codec could not decode it"),
                });
            }
            Err(_) => {
                tracing::error!(%log, codec = codec.name(), base = %header.base, "a codec panicked while decoding");
                return Err(Unreadable::Corrupt("the codec panicked"));
            }
        }
        Self::new(header.base, header.count, Bytes::from(raw)).inspect_err(|_| {
            tracing::error!(%log, codec = codec.name(), base = %header.base, "what a codec gave back are no records");
        })
    }

    /// The first offset.
    pub(crate) fn base(&self) -> Offset {
        self.base
    }

    /// The first offset after it.
    pub(crate) fn end(&self) -> Offset {
        self.base.saturating_add(self.records.len() as u64)
    }

    /// Bytes it keeps in memory.
    pub(crate) fn memory(&self) -> usize {
        self.raw.len() + self.records.len() * size_of::<(u32, u32)>() + size_of::<Self>()
    }

    /// The record at `offset`, or why its envelope is unreadable. `offset` lies in the frame.
    pub(crate) fn record(&self, offset: Offset) -> Result<Record, Unreadable> {
        let index = usize::try_from(offset.since(self.base)).unwrap_or(usize::MAX);
        let &(start, len) = self.records.get(index).ok_or(Unreadable::Corrupt("not in its frame"))?;
        let bytes = self.raw.slice(start as usize..start as usize + len as usize);
        Record::decode(offset, &bytes).map_err(|error| {
            Unreadable::Corrupt(match error {
                crate::format::RecordError::Version => "unknown record version",
                crate::format::RecordError::Key => "the record's key is malformed",
                crate::format::RecordError::Short => "the record is cut short",
            })
        })
    }
}

/// The number under which a frame with reserved bits is reported: its flags, moved out of the range of real codecs.
fn reserved(flags: u8) -> crate::format::CodecNumber {
    const NOT_A_CODEC: u32 = u32::MAX - 0xFF;
    crate::format::CodecNumber::new(NOT_A_CODEC | u32::from(flags)).unwrap_or(RESERVED_FALLBACK)
}

const RESERVED_FALLBACK: crate::format::CodecNumber = match crate::format::CodecNumber::new(u32::MAX) {
    Some(number) => number,
    None => unreachable!(),
};
