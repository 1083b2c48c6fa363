//! A frame with its codec undone: what readers share and the cache holds.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use bytes::Bytes;

use crate::{
    error::Error,
    format::{
        FrameHeader, HEADER_LEN, Offset, Record, StoredCodec, crc32c_append, frame_crc, read_extended_codec,
        record_starts,
    },
    plugin::{Codec, CodecSet, FrameContext, Lacking, LogIdentity},
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
    /// Bytes that are in memory for as long as `raw` is.
    held: usize,
    /// Start and length of each record in `raw`.
    records: Vec<(u32, u32)>,
}

impl DecodedFrame {
    /// From the uncompressed payload of a frame.
    pub(crate) fn new(base: Offset, count: u32, raw: Bytes) -> Result<Self, Unreadable> {
        let records = record_starts(&raw, count).map_err(Unreadable::Corrupt)?;
        Ok(Self { base, held: raw.len(), raw, records })
    }

    /// Checks the CRC of a frame (header and stored payload, as read) and undoes its codec.
    pub(crate) fn decode(bytes: Bytes, codecs: &CodecSet, log: &LogIdentity) -> Result<Self, Unreadable> {
        const SHORT: Unreadable = Unreadable::Corrupt("the frame is cut short");
        let (header_bytes, stored) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(SHORT)?;
        let header = FrameHeader::decode(header_bytes)
            .map_err(|_| Unreadable::Corrupt("the frame header is damaged"))?;
        let stored = stored.get(..header.stored_len as usize).ok_or(SHORT)?;
        if crc32c_append(frame_crc(header_bytes), stored) != header.crc {
            return Err(Unreadable::Corrupt("the checksum does not hold"));
        }
        let (stored, held) = (bytes.slice_ref(stored), bytes.len());
        Self::decode_checked(&header, stored, held, codecs, log)
    }

    /// Undoes the codec of a frame whose CRC was found to hold in these very bytes, which are a part of `held` bytes.
    pub(crate) fn decode_checked(
        header: &FrameHeader,
        stored: Bytes,
        held: usize,
        codecs: &CodecSet,
        log: &LogIdentity,
    ) -> Result<Self, Unreadable> {
        let (raw, codec) = undo(header, &stored, codecs, log)?;
        let is_shared = stored.as_ptr_range().contains(&raw.as_ptr());
        // A part of much more than itself would keep all of that in memory.
        let (raw, held) = match raw.len() {
            len if !is_shared => (raw, len),
            len if len < held / 2 => (Bytes::copy_from_slice(&raw), len),
            _ => (raw, held),
        };
        let frame = Self::new(header.base, header.count, raw).inspect_err(|_| {
            tracing::error!(%log, codec = codec.name(), base = %header.base, "what a codec gave back are no records");
        })?;
        Ok(Self { held, ..frame })
    }

    /// Bytes of its records.
    pub(crate) fn len(&self) -> usize {
        self.raw.len()
    }

    /// The frame as the first of several, for which there is room.
    pub(super) fn begin(self, room: usize) -> Joined {
        let mut raw = Vec::with_capacity(room);
        raw.extend_from_slice(&self.raw);
        Joined { base: self.base, raw, records: self.records }
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
        self.held + self.records.len() * size_of::<(u32, u32)>() + size_of::<Self>()
    }

    /// The record at `offset`, or why its envelope is unreadable. `offset` lies in the frame.
    pub(crate) fn record(&self, offset: Offset) -> Result<Record, Unreadable> {
        let index = usize::try_from(offset.since(self.base)).unwrap_or(usize::MAX);
        let &(start, len) = self.records.get(index).ok_or(Unreadable::Corrupt("not in its frame"))?;
        let record = self.raw.get(start as usize..).and_then(|rest| rest.get(..len as usize));
        Record::decode_in(offset, &self.raw, record.unwrap_or_default()).map_err(|error| {
            Unreadable::Corrupt(match error {
                crate::format::RecordError::Version => "unknown record version",
                crate::format::RecordError::Key => "the record's key is malformed",
                crate::format::RecordError::Short => "the record is cut short",
            })
        })
    }
}

/// Frames that follow each other, with their codec undone, as they become one.
#[derive(Debug)]
pub(super) struct Joined {
    base: Offset,
    raw: Vec<u8>,
    records: Vec<(u32, u32)>,
}

impl Joined {
    /// Bytes of the records.
    pub(super) fn len(&self) -> usize {
        self.raw.len()
    }

    /// The records.
    pub(super) fn count(&self) -> usize {
        self.records.len()
    }

    /// Takes in the next frame, whose CRC was found to hold.
    pub(super) fn push(
        &mut self,
        header: &FrameHeader,
        stored: &Bytes,
        codecs: &CodecSet,
        log: &LogIdentity,
    ) -> Result<(), Unreadable> {
        let (raw, _) = undo(header, stored, codecs, log)?;
        let records = record_starts(&raw, header.count).map_err(Unreadable::Corrupt)?;
        let start =
            u32::try_from(self.raw.len()).map_err(|_| Unreadable::Corrupt("too much for one buffer"))?;
        self.raw.extend_from_slice(&raw);
        self.records.extend(records.into_iter().map(|(at, len)| (start.saturating_add(at), len)));
        Ok(())
    }

    /// All of them.
    pub(super) fn finish(self) -> DecodedFrame {
        let Self { base, raw, records } = self;
        DecodedFrame { base, held: raw.capacity(), raw: raw.into(), records }
    }
}

/// The records of a frame as they were before the codec, and that one.
fn undo<'a>(
    header: &FrameHeader,
    stored: &Bytes,
    codecs: &'a CodecSet,
    log: &LogIdentity,
) -> Result<(Bytes, &'a dyn Codec), Unreadable> {
    let (number, stored) = match header.codec() {
        StoredCodec::Plain(number) => (number, stored.clone()),
        StoredCodec::Extended => {
            let (number, rest) =
                read_extended_codec(stored).ok_or(Unreadable::Corrupt("the codec number is malformed"))?;
            (number, stored.slice_ref(rest))
        }
        // A newer format: answered like a codec that nobody registered.
        StoredCodec::Reserved(flags) => return Err(Unreadable::UnknownCodec(reserved(flags))),
    };
    let codec = codecs.get(number).ok_or(Unreadable::UnknownCodec(number))?;
    if u64::from(header.count) * 4 > u64::from(header.uncompressed_len) {
        return Err(Unreadable::Corrupt("more records than its length can hold"));
    }
    let context = FrameContext::new(log, header.base, header.count, header.uncompressed_len);
    let decoded = catch_unwind(AssertUnwindSafe(|| codec.decode_shared(&context, &stored)));
    match decoded {
        Ok(Ok(raw)) if raw.len() == header.uncompressed_len as usize => Ok((raw, &**codec)),
        Ok(Ok(raw)) => {
            tracing::error!(
                %log, codec = codec.name(), base = %header.base, stated = header.uncompressed_len, decoded = raw.len(),
                "a codec gave back another length than it was given"
            );
            Err(Unreadable::Corrupt("the codec returned another length than the header states"))
        }
        Ok(Err(error)) => {
            tracing::warn!(%log, codec = codec.name(), base = %header.base, %error, "a frame could not be decoded");
            Err(match error.downcast::<Lacking>() {
                Ok(what) => Unreadable::Lacking(codec.name().into(), Arc::new(*what)),
                Err(_) => Unreadable::Corrupt("the codec could not decode it"),
            })
        }
        Err(_) => {
            tracing::error!(%log, codec = codec.name(), base = %header.base, "a codec panicked while decoding");
            Err(Unreadable::Corrupt("the codec panicked"))
        }
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
