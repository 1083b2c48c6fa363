//! The record: the unit of reading, and the batch of records that becomes the payload of a frame.

use bytes::Bytes;

use super::{MAX_FRAME_BYTES, Offset};

/// The first byte of every record.
pub const RECORD_VERSION: u8 = 0x02;

const LEN_PREFIX: usize = 4;
const TIME_LEN: usize = 8;
const MAX_VARINT_LEN: usize = 10;

/// A committed record, as a view into the buffer its frame was decoded to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The record's place in the partition.
    pub offset: Offset,
    /// The key; empty when there is none.
    pub key: Bytes,
    /// When the record was committed: Unix milliseconds, never decreasing along a partition within a process.
    pub committed_at_ms: i64,
    /// The message itself; may be empty.
    pub payload: Bytes,
}

/// Why bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The version byte is not 2.
    #[error("unknown record version")]
    Version,
    /// The key's length is malformed or reaches past the end.
    #[error("malformed key length")]
    Key,
    /// The record ends before its commit time does.
    #[error("record cut short")]
    Short,
}

impl Record {
    /// A record of these parts, for the tests of a plugin that is handed records.
    pub fn new(
        offset: Offset,
        committed_at_ms: i64,
        key: impl Into<Bytes>,
        payload: impl Into<Bytes>,
    ) -> Self {
        Self { offset, committed_at_ms, key: key.into(), payload: payload.into() }
    }

    /// Decodes one record (without its length prefix); key and payload share `bytes`.
    ///
    /// # Errors
    /// Says which part of the envelope is malformed.
    pub fn decode(offset: Offset, bytes: &Bytes) -> Result<Self, RecordError> {
        Self::decode_in(offset, bytes, bytes)
    }

    /// Decodes the record that is `record`, a part of `bytes`; key and payload share `bytes`.
    pub(crate) fn decode_in(offset: Offset, bytes: &Bytes, record: &[u8]) -> Result<Self, RecordError> {
        let (&version, rest) = record.split_first().ok_or(RecordError::Version)?;
        if version != RECORD_VERSION {
            return Err(RecordError::Version);
        }
        let (key_len, after_len) = read_varint(rest).ok_or(RecordError::Key)?;
        let key_len = usize::try_from(key_len).map_err(|_| RecordError::Key)?;
        let (key, after_key) = after_len.split_at_checked(key_len).ok_or(RecordError::Key)?;
        let (time, payload) = after_key.split_first_chunk::<TIME_LEN>().ok_or(RecordError::Short)?;
        Ok(Self {
            offset,
            key: bytes.slice_ref(key),
            committed_at_ms: i64::from_be_bytes(*time),
            payload: bytes.slice_ref(payload),
        })
    }
}

/// Records to be written together, already in the form they have inside a frame.
///
/// Building a batch copies each key and payload once; nothing is allocated per record after that. The commit
/// time is filled in by the engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    raw: Vec<u8>,
    count: u32,
    largest: u64,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with room for `bytes` of records.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { raw: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// An empty batch with room for so many records whose keys and payloads have so many `bytes` together.
    pub fn with_room(records: usize, bytes: usize) -> Self {
        /// What stands around each record, at most.
        const ENVELOPE: usize = LEN_PREFIX + 1 + MAX_VARINT_LEN + TIME_LEN;
        Self::with_capacity(bytes.saturating_add(records.saturating_mul(ENVELOPE)))
    }

    /// A batch of one record.
    pub fn of(key: &[u8], payload: &[u8]) -> Self {
        let mut batch = Self::with_room(1, key.len() + payload.len());
        batch.push(key, payload);
        batch
    }

    /// Adds a record. A record too large for a frame is taken here and refused by the log, before anything is
    /// written, with [`Error::RecordTooLarge`](crate::Error::RecordTooLarge).
    pub fn push(&mut self, key: &[u8], payload: &[u8]) {
        let start = self.raw.len();
        self.raw.extend_from_slice(&[0; LEN_PREFIX]);
        self.raw.push(RECORD_VERSION);
        write_varint(key.len() as u64, &mut self.raw);
        self.raw.extend_from_slice(key);
        self.raw.extend_from_slice(&[0; TIME_LEN]);
        self.raw.extend_from_slice(payload);
        let with_prefix = self.raw.len() - start;
        // A length that does not fit is one the log refuses: `largest` says so.
        let len = u32::try_from(with_prefix - LEN_PREFIX).unwrap_or(u32::MAX);
        if let Some(prefix) = self.raw.get_mut(start..).and_then(|rest| rest.first_chunk_mut::<LEN_PREFIX>())
        {
            *prefix = len.to_be_bytes();
        }
        self.largest = self.largest.max(with_prefix as u64);
        self.count = self.count.saturating_add(1);
    }

    /// How many records are in it.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is no record in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes the records take in a frame before the codec.
    pub fn size(&self) -> usize {
        self.raw.len()
    }

    /// The records in the form they have inside a frame, commit times not yet filled in.
    pub fn as_bytes(&self) -> &[u8] {
        &self.raw
    }

    /// The records as laid out in a frame, and how many they are.
    pub(crate) fn into_parts(self) -> (u32, Vec<u8>) {
        (self.count, self.raw)
    }

    /// Checks that each record alone fits in a frame.
    pub(crate) fn check_size(&self) -> Result<(), crate::Error> {
        let limit = u64::from(MAX_FRAME_BYTES);
        if self.largest > limit {
            return Err(crate::Error::RecordTooLarge { bytes: self.largest, limit });
        }
        Ok(())
    }

    /// Makes room for `bytes` more of records.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.raw.reserve(bytes);
    }

    /// Appends all records of `other`.
    pub(crate) fn append(&mut self, other: &Self) {
        self.raw.extend_from_slice(&other.raw);
        self.count = self.count.saturating_add(other.count);
        self.largest = self.largest.max(other.largest);
    }

    /// Makes the batch empty and keeps its memory, unless that has grown beyond `keep` bytes.
    pub(crate) fn clear(&mut self, keep: usize) {
        self.raw.clear();
        self.raw.shrink_to(keep);
        self.count = 0;
        self.largest = 0;
    }

    /// Writes `unix_ms` into every record as its commit time.
    pub fn stamp(&mut self, unix_ms: i64) {
        let mut rest = self.raw.as_mut_slice();
        while let Some((prefix, tail)) = rest.split_first_chunk_mut::<LEN_PREFIX>() {
            let len = u32::from_be_bytes(*prefix) as usize;
            let Some((record, next)) = tail.split_at_mut_checked(len) else { return };
            if let Some(time) = time_field(record) {
                *time = unix_ms.to_be_bytes();
            }
            rest = next;
        }
    }

    /// The records cut into runs of at most `limit` bytes (a larger single record makes a run of its own), each
    /// with its count.
    pub(crate) fn runs(&self, limit: usize) -> Vec<(u32, &[u8])> {
        match self.raw.len() {
            0 => Vec::new(),
            len if len <= limit => vec![(self.count, &self.raw)],
            _ => Self::runs_of(&self.raw, limit),
        }
    }

    /// The same for records as they are laid out in a batch.
    pub(crate) fn runs_of(mut rest: &[u8], limit: usize) -> Vec<(u32, &[u8])> {
        let mut runs = Vec::new();
        while !rest.is_empty() {
            let (mut count, mut end) = (0, 0);
            while let Some(len) = rest.get(end..).and_then(prefixed_len) {
                if count > 0 && end + len > limit {
                    break;
                }
                (count, end) = (count + 1, end + len);
            }
            let Some((run, next)) = rest.split_at_checked(end).filter(|(run, _)| !run.is_empty()) else {
                break;
            };
            runs.push((count, run));
            rest = next;
        }
        runs
    }
}

/// A batch of `(key, payload)` pairs.
impl<K: AsRef<[u8]>, P: AsRef<[u8]>> FromIterator<(K, P)> for Batch {
    fn from_iter<I: IntoIterator<Item = (K, P)>>(records: I) -> Self {
        let mut batch = Self::new();
        for (key, payload) in records {
            batch.push(key.as_ref(), payload.as_ref());
        }
        batch
    }
}

/// Splits the uncompressed payload of a frame into its `count` records.
///
/// # Errors
/// What cannot be true of a frame: a length prefix past the end, or bytes left over.
pub fn split_records(raw: &Bytes, count: u32) -> Result<Vec<Bytes>, &'static str> {
    let ranges = record_starts(raw, count)?;
    Ok(ranges.into_iter().map(|(start, len)| raw.slice(start as usize..(start + len) as usize)).collect())
}

/// Where each of the `count` records lies in `raw`: start (behind the length prefix) and length.
pub(crate) fn record_starts(raw: &[u8], count: u32) -> Result<Vec<(u32, u32)>, &'static str> {
    if (count as usize).saturating_mul(LEN_PREFIX) > raw.len() {
        return Err("more records than its length can hold");
    }
    let (mut starts, mut pos) = (Vec::with_capacity(count as usize), 0usize);
    for _ in 0..count {
        let len =
            raw.get(pos..).and_then(prefixed_len).ok_or("a record reaches past the end of its frame")?;
        let (start, body) = (pos + LEN_PREFIX, len - LEN_PREFIX);
        if start + body > raw.len() {
            return Err("a record reaches past the end of its frame");
        }
        starts.push((
            u32::try_from(start).map_err(|_| "frame too long")?,
            u32::try_from(body).map_err(|_| "frame too long")?,
        ));
        pos += len;
    }
    if pos == raw.len() { Ok(starts) } else { Err("bytes left over behind the last record of a frame") }
}

/// Length of the record at the start of `bytes`, its prefix included.
fn prefixed_len(bytes: &[u8]) -> Option<usize> {
    let prefix = bytes.first_chunk::<LEN_PREFIX>()?;
    LEN_PREFIX.checked_add(u32::from_be_bytes(*prefix) as usize)
}

/// The commit time inside an encoded record.
fn time_field(record: &mut [u8]) -> Option<&mut [u8; TIME_LEN]> {
    let (_, rest) = record.split_first()?;
    let (key_len, after_len) = read_varint(rest)?;
    let start = record.len() - after_len.len() + usize::try_from(key_len).ok()?;
    record.get_mut(start..)?.first_chunk_mut()
}

/// Reads an unsigned LEB128 number: the number and what follows, or `None` when it is cut short or above 64 bits.
pub(super) fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().enumerate().take(MAX_VARINT_LEN) {
        let bits = u64::from(byte & 0x7F);
        if index == MAX_VARINT_LEN - 1 && bits > 1 {
            return None;
        }
        value |= bits << (7 * index);
        if byte & 0x80 == 0 {
            return bytes.get(index + 1..).map(|rest| (value, rest));
        }
    }
    None
}

/// Writes an unsigned LEB128 number.
pub(super) fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    loop {
        let byte = (value & 0x7F) as u8;
        value >>= 7;
        if value == 0 {
            out.push(byte);
            return;
        }
        out.push(byte | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fm_01_record_bytes_are_the_keyed_envelope() {
        let mut batch = Batch::of(b"k", b"pay");
        batch.stamp(0x0102_0304_0506_0708);
        assert_eq!(batch.as_bytes(), [0, 0, 0, 14, 2, 1, b'k', 1, 2, 3, 4, 5, 6, 7, 8, b'p', b'a', b'y']);
        let record = Record::decode(Offset::ZERO, &Bytes::copy_from_slice(&batch.as_bytes()[4..])).unwrap();
        assert_eq!((&record.key[..], &record.payload[..]), (&b"k"[..], &b"pay"[..]));
        assert_eq!(record.committed_at_ms, 0x0102_0304_0506_0708);
    }

    #[test]
    fn fm_01_empty_keys_and_payloads_are_records() {
        let mut batch = Batch::new();
        batch.push(b"", b"");
        batch.push(b"", b"x");
        let raw = Bytes::copy_from_slice(batch.as_bytes());
        let records = split_records(&raw, 2).unwrap();
        let first = Record::decode(Offset::ZERO, &records[0]).unwrap();
        assert!(first.key.is_empty() && first.payload.is_empty());
    }

    #[test]
    fn rc_09_frames_that_cannot_be_true_are_refused() {
        let raw = Bytes::copy_from_slice(Batch::of(b"", b"abc").as_bytes());
        assert!(split_records(&raw, 1).is_ok());
        assert!(split_records(&raw, 2).is_err(), "a second record is not there");
        assert!(split_records(&raw.slice(..raw.len() - 1), 1).is_err(), "prefix past the end");
        let longer = Bytes::from([&raw[..], &[0]].concat());
        assert!(split_records(&longer, 1).is_err(), "a byte left over");
        assert!(split_records(&raw, u32::MAX).is_err(), "4 x count above the length");
    }

    #[test]
    fn fm_01_malformed_envelopes_say_what_is_wrong() {
        let decode = |bytes: &[u8]| Record::decode(Offset::ZERO, &Bytes::copy_from_slice(bytes)).unwrap_err();
        assert_eq!(decode(&[]), RecordError::Version);
        assert_eq!(decode(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]), RecordError::Version);
        assert_eq!(decode(&[2]), RecordError::Key);
        assert_eq!(decode(&[2, 5, b'a']), RecordError::Key);
        assert_eq!(decode(&[2, 0, 0, 0]), RecordError::Short);
        let overlong = [&[2][..], &[0xFF; 10], &[1]].concat();
        assert_eq!(decode(&overlong), RecordError::Key);
    }

    #[test]
    fn runs_keep_every_record_whole_and_in_order() {
        let batch: Batch = (0..10u8).map(|n| ([n], vec![n; usize::from(n)])).collect();
        let runs = batch.runs(40);
        assert!(runs.len() > 1);
        assert_eq!(runs.iter().map(|(count, _)| count).sum::<u32>(), 10);
        assert_eq!(
            runs.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect::<Vec<_>>(),
            batch.as_bytes()
        );
        assert_eq!(batch.runs(1).len(), 10);
    }

    #[test]
    fn varints_round_trip() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            write_varint(value, &mut out);
            assert_eq!(read_varint(&out), Some((value, &[][..])));
        }
    }
}
