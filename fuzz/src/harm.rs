//! What is done to a file. Random bytes alone reach nothing behind a CRC, so most harms know what a frame is, and some
//! make its CRC hold again.

use std::ops::Range;

use bolero::TypeGenerator;
use narad_core::format::{EXTENDED_CODEC, FrameHeader, HEADER_LEN, Offset};

use crate::{
    directory::Source,
    slow::{Candidate, chain},
};

/// A place in a file. All numbers wrap round at what there is.
#[derive(Debug, Clone, TypeGenerator)]
pub enum Place {
    /// Any byte.
    Any(u32),
    /// A byte of a frame's header.
    Header(u8, u8),
    /// A byte of a frame's payload.
    Payload(u8, u16),
    /// Where a frame starts.
    Frame(u8),
    /// So many bytes in front of the end.
    End(u8),
}

/// A field of a frame's header.
#[derive(Debug, Clone, TypeGenerator)]
pub enum Field {
    /// Codec and reserved bits.
    Flags,
    /// Records.
    Count,
    /// The first offset.
    Base,
    /// Bytes in front of the codec.
    Uncompressed,
    /// Bytes on disk.
    Stored,
}

/// What a field is set to.
#[derive(Debug, Clone, TypeGenerator)]
pub enum Value {
    /// Anything.
    Any(i64),
    /// A little more or less than it was.
    Near(i8),
    /// A power of two, and a little more or less.
    Power(u8, i8),
}

/// What is done to a file.
#[derive(Debug, Clone, TypeGenerator)]
pub enum Harm {
    /// One bit flips.
    Flip(Place, u8),
    /// A sector reads as zeros, or a part of it.
    Zero(Place, u16),
    /// Other bytes stand there.
    Overwrite(Place, [u8; 8]),
    /// The file ends there.
    Cut(Place),
    /// Bytes are gone.
    Remove(Place, u16),
    /// Bytes have come in.
    Insert(Place, [u8; 5], u8),
    /// Bytes of another golden file have come in, or stand in the place of others.
    Splice { at: Place, from: Source, start: u32, len: u16, over: bool },
    /// A whole frame of another golden file has come in, with a base of its own if one is given.
    Graft { at: Place, from: Source, frame: u8, base: Option<Value> },
    /// Two frames have changed places.
    Swap(u8, u8),
    /// A frame is there twice.
    Double(u8, Place),
    /// A frame is gone.
    Drop(u8),
    /// A header field has another value; its CRC holds, or does not.
    Set { frame: u8, field: Field, value: Value, valid: bool },
    /// A bit of a payload has flipped, and the CRC holds.
    Payload(u8, u16, u8),
    /// A frame says that its codec has that number.
    Extended(u8, u32),
}

impl Value {
    fn of(&self, old: i64) -> i64 {
        match *self {
            Self::Any(value) => value,
            Self::Near(by) => old.wrapping_add(i64::from(by)),
            Self::Power(bit, by) => (1i64 << (bit % 64)).wrapping_add(i64::from(by)),
        }
    }
}

impl Place {
    fn of(&self, bytes: &[u8]) -> usize {
        let in_frame = |frame: u8, within: fn(&Candidate) -> Range<usize>, at: usize| {
            nth(&chain(bytes), frame).map(|frame| wrap(within(frame), at))
        };
        let place = match *self {
            Self::Any(at) => Some(at as usize),
            Self::Header(frame, at) => in_frame(frame, header, usize::from(at)),
            Self::Payload(frame, at) => in_frame(frame, payload, usize::from(at)),
            Self::Frame(frame) => in_frame(frame, header, 0),
            Self::End(at) => bytes.len().checked_sub(usize::from(at)),
        };
        place.unwrap_or_default() % (bytes.len() + 1)
    }

    fn range(&self, bytes: &[u8], len: u16) -> Range<usize> {
        let start = self.of(bytes);
        start..(start + usize::from(len)).min(bytes.len())
    }
}

impl Harm {
    /// Does it.
    pub fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Flip(at, bit) => {
                let at = at.of(bytes);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (bit % 8);
                }
            }
            Self::Zero(at, len) => {
                let range = at.range(bytes, len % 513);
                bytes[range].fill(0);
            }
            Self::Overwrite(at, new) => {
                let range = at.range(bytes, 8);
                let len = range.len();
                bytes[range].copy_from_slice(&new[..len]);
            }
            Self::Cut(at) => bytes.truncate(at.of(bytes)),
            Self::Remove(at, len) => drop(bytes.drain(at.range(bytes, *len))),
            Self::Insert(at, new, len) => insert(bytes, at, &new[..usize::from(len % 6)]),
            Self::Splice { at, from, start, len, over } => {
                let part = from.bytes();
                let start = *start as usize % part.len();
                let part = &part[start..(start + usize::from(*len)).min(part.len())];
                let at = at.of(bytes);
                let end = if *over { (at + part.len()).min(bytes.len()) } else { at };
                bytes.splice(at..end, part.iter().copied());
            }
            Self::Graft { at, from, frame, base } => {
                let source = from.bytes();
                let Some(frame) = nth(&chain(source), *frame).cloned() else { return };
                let mut graft = source[frame.at.clone()].to_vec();
                if let Some(value) = base {
                    let place = at.of(bytes);
                    let due = chain(bytes)
                        .iter()
                        .rfind(|frame| frame.at.end <= place)
                        .map_or(0, |frame| frame.header.end().to_i64());
                    set(&mut graft, 0, &Field::Base, value.of(due), true);
                }
                insert(bytes, at, &graft);
            }
            Self::Swap(a, b) => {
                let frames = chain(bytes);
                let (Some(a), Some(b)) = (nth(&frames, *a), nth(&frames, *b)) else { return };
                let (a, b) = if a.at.start < b.at.start {
                    (a.at.clone(), b.at.clone())
                } else {
                    (b.at.clone(), a.at.clone())
                };
                if a.end <= b.start {
                    let (first, second) = (bytes[a.clone()].to_vec(), bytes[b.clone()].to_vec());
                    bytes.splice(b, first);
                    bytes.splice(a, second);
                }
            }
            Self::Double(frame, at) => {
                let Some(frame) = nth(&chain(bytes), *frame).cloned() else { return };
                let copy = bytes[frame.at].to_vec();
                insert(bytes, at, &copy);
            }
            Self::Drop(frame) => {
                let Some(frame) = nth(&chain(bytes), *frame).cloned() else { return };
                bytes.drain(frame.at);
            }
            Self::Set { frame, field, value, valid } => {
                let Some(frame) = nth(&chain(bytes), *frame).cloned() else { return };
                let old = match field {
                    Field::Flags => i64::from(frame.header.flags),
                    Field::Count => i64::from(frame.header.count),
                    Field::Base => frame.header.base.to_i64(),
                    Field::Uncompressed => i64::from(frame.header.uncompressed_len),
                    Field::Stored => i64::from(frame.header.stored_len),
                };
                set(bytes, frame.at.start, field, value.of(old), *valid);
            }
            Self::Payload(frame, at, bit) => {
                let Some(frame) = nth(&chain(bytes), *frame).cloned() else { return };
                bytes[wrap(payload(&frame), usize::from(*at))] ^= 1 << (bit % 8);
                make_valid(bytes, frame.at.start);
            }
            Self::Extended(frame, number) => {
                let Some(frame) = nth(&chain(bytes), *frame).cloned() else { return };
                let prefix = leb128(*number);
                let stored = i64::from(frame.header.stored_len) + prefix.len() as i64;
                bytes.splice(payload(&frame).start..payload(&frame).start, prefix);
                set(bytes, frame.at.start, &Field::Flags, i64::from(EXTENDED_CODEC), false);
                set(bytes, frame.at.start, &Field::Stored, stored, true);
            }
        }
    }
}

fn nth(frames: &[Candidate], index: u8) -> Option<&Candidate> {
    frames.get(usize::from(index).checked_rem(frames.len())?)
}

fn wrap(range: Range<usize>, at: usize) -> usize {
    range.start + at % range.len()
}

fn header(frame: &Candidate) -> Range<usize> {
    frame.at.start..frame.at.start + HEADER_LEN
}

fn payload(frame: &Candidate) -> Range<usize> {
    frame.at.start + HEADER_LEN..frame.at.end
}

fn insert(bytes: &mut Vec<u8>, at: &Place, new: &[u8]) {
    let at = at.of(bytes);
    bytes.splice(at..at, new.iter().copied());
}

/// Sets a field of the header at `start`.
fn set(bytes: &mut [u8], start: usize, field: &Field, value: i64, valid: bool) {
    let wide = value.to_be_bytes();
    let (at, new) = match field {
        Field::Flags => (2, &wide[7..]),
        Field::Count => (3, &wide[4..]),
        Field::Base => (7, &wide[..]),
        Field::Uncompressed => (15, &wide[4..]),
        Field::Stored => (19, &wide[4..]),
    };
    bytes[start + at..start + at + new.len()].copy_from_slice(new);
    if valid {
        make_valid(bytes, start);
    }
}

/// Makes the CRC of the frame at `start` hold, if its fields are in range and the file holds its payload.
pub fn make_valid(bytes: &mut [u8], start: usize) {
    let header = bytes.get(start..).and_then(|rest| FrameHeader::decode(rest.first_chunk()?).ok());
    let Some(header) = header else { return };
    let body = start + HEADER_LEN;
    if let Some(stored) = bytes.get(body..body + header.stored_len as usize) {
        let crc = header.crc_with(stored);
        bytes[body - 4..body].copy_from_slice(&crc.to_be_bytes());
    }
}

/// As the format writes it, for numbers that are no codec's too.
fn leb128(mut number: u32) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// The first offset behind the frames of `bytes`.
pub fn end_of(bytes: &[u8]) -> u64 {
    chain(bytes).last().map_or(Offset::ZERO, |frame| frame.header.end()).get()
}
