//! A scanner that knows nothing of the engine's: it looks for a frame at every byte, and says which records a
//! directory can hold and which an open must find. Slow, and short enough to be believed.

use std::{collections::BTreeMap, ops::Range};

use bytes::Bytes;
use narad_core::{
    format::{CodecNumber, FRAME_MAGIC, FrameHeader, HEADER_LEN, Offset, Record, split_records},
    plugin::{FrameContext, LogIdentity},
};

use crate::{directory::Directory, watch};

/// A frame whose CRC holds, wherever it lies: in a payload too.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Its bytes in the file.
    pub at: Range<usize>,
    /// Its header.
    pub header: FrameHeader,
}

/// The records of a range of offsets.
pub type Records = BTreeMap<u64, Record>;

/// Every frame in `bytes` whose CRC holds, by position.
pub fn candidates(bytes: &[u8]) -> Vec<Candidate> {
    let starts = bytes.windows(2).enumerate().filter(|(_, two)| **two == FRAME_MAGIC).map(|(at, _)| at);
    starts.filter_map(|at| candidate(bytes, at)).collect()
}

fn candidate(bytes: &[u8], at: usize) -> Option<Candidate> {
    let header = FrameHeader::decode(bytes.get(at..)?.first_chunk()?).ok()?;
    let end = at.checked_add(usize::try_from(header.frame_len()).ok()?)?;
    let stored = bytes.get(at + HEADER_LEN..end)?;
    (header.crc_with(stored) == header.crc).then_some(Candidate { at: at..end, header })
}

/// The frames of `bytes` that are in no other frame's payload, as far as an intact file shows.
pub fn chain(bytes: &[u8]) -> Vec<Candidate> {
    let mut end = 0;
    let mut outer = candidates(bytes);
    outer.retain(|frame| {
        let is_outer = frame.at.start >= end;
        end = if is_outer { frame.at.end } else { end };
        is_outer
    });
    outer
}

impl Candidate {
    /// The records that can be read from it, by offset.
    fn records(&self, file: &[u8]) -> Records {
        let header = &self.header;
        let Some(codec) = CodecNumber::new(u32::from(header.flags)).and_then(watch::codec) else {
            return Records::new();
        };
        let identity = LogIdentity::named("scan");
        let context = FrameContext::new(&identity, header.base, header.count, header.uncompressed_len);
        let mut raw = Vec::new();
        if codec.decode(&context, &file[self.at.start + HEADER_LEN..self.at.end], &mut raw).is_err()
            || raw.len() != header.uncompressed_len as usize
        {
            return Records::new();
        }
        let split = split_records(&Bytes::from(raw), header.count).unwrap_or_default();
        let numbered = split.iter().zip(header.base.get()..);
        let decode = |(bytes, at)| Some((at, Record::decode(Offset::new(at)?, bytes).ok()?));
        numbered.filter_map(decode).collect()
    }
}

/// A segment file, scanned.
#[derive(Debug)]
struct Segment {
    base: u64,
    frames: Vec<(Candidate, Records)>,
}

/// What the segment files of a directory hold.
#[derive(Debug)]
pub struct Scan {
    segments: Vec<Segment>,
    /// The largest payload, uncompressed, that a frame with a valid CRC states.
    pub largest_claim: u64,
}

impl Scan {
    /// Scans every segment that takes part: those too short for a frame do not, but for the last.
    pub fn of(directory: &Directory) -> Self {
        let files: Vec<_> = directory.segments().collect();
        let last = files.len().saturating_sub(1);
        let kept = files
            .iter()
            .enumerate()
            .filter(|(index, (_, bytes))| *index == last || bytes.len() >= HEADER_LEN);
        let segments: Vec<_> = kept.map(|(_, (base, bytes))| Segment::of(*base, bytes)).collect();
        let claims = segments.iter().flat_map(|segment| &segment.frames);
        let largest_claim =
            claims.map(|(frame, _)| u64::from(frame.header.uncompressed_len)).max().unwrap_or(0);
        Self { segments, largest_claim }
    }

    /// Checks that `served`, which is all that can be read below `high_watermark`, is what the files hold: each record
    /// comes from a frame of the file that its offset belongs to, those frames follow one another without an overlap,
    /// and no record that lies in front of the first damage is missing.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn explain(&self, served: &Records, high_watermark: u64) -> Result<(), String> {
        let segments: Vec<&Segment> = self.segments.iter().collect();
        let as_named = explain(&segments, served, high_watermark);
        // A newest file without a frame of its own, named below the end of the one before, is passed over.
        match segments.as_slice() {
            [before @ .., last] if before.last().is_some_and(|before| before.end() > last.base) => as_named
                .or_else(|why| {
                    explain(before, served, high_watermark).map_err(|other| format!("{why}; or {other}"))
                }),
            _ => as_named,
        }
    }
}

fn explain(segments: &[&Segment], served: &Records, high_watermark: u64) -> Result<(), String> {
    for (index, segment) in segments.iter().enumerate() {
        let limit = segments.get(index + 1).map_or(Offset::MAX.get(), |next| next.base);
        let here: Records =
            served.range(segment.base..limit).map(|(at, record)| (*at, record.clone())).collect();
        segment.explains(&here)?;
        let due = segment.in_front_of_damage(limit);
        for (at, record) in due.range(..high_watermark) {
            if here.get(at) != Some(record) {
                return Err(format!("segment {}: {at} is whole and was not served", segment.base));
            }
        }
    }
    let first = segments.first().map_or(Offset::MAX.get(), |first| first.base);
    match served.range(..first).next() {
        Some((at, _)) => Err(format!("{at} lies below every segment")),
        None => Ok(()),
    }
}

impl Segment {
    fn of(base: u64, bytes: &[u8]) -> Self {
        let frames = candidates(bytes).into_iter().map(|frame| (frame.records(bytes), frame));
        Self { base, frames: frames.map(|(records, frame)| (frame, records)).collect() }
    }

    fn end(&self) -> u64 {
        self.frames.iter().map(|(frame, _)| frame.header.end().get()).max().unwrap_or(0)
    }

    /// Whether frames that follow one another without an overlap can have given these records.
    fn explains(&self, served: &Records) -> Result<(), String> {
        // The frames that can have given the record before.
        let mut before: Vec<usize> = Vec::new();
        for (at, record) in served {
            let room_from = before.iter().map(|&index| self.frames[index].0.at.end).min().unwrap_or(0);
            let gives = |index: &usize| self.frames[*index].1.get(at) == Some(record);
            let mut here: Vec<usize> = (0..self.frames.len()).filter(gives).collect();
            if here.is_empty() {
                return Err(format!("segment {}: {at} was made up", self.base));
            }
            here.retain(|index| before.contains(index) || self.frames[*index].0.at.start >= room_from);
            if here.is_empty() {
                return Err(format!("segment {}: {at} comes from a frame that overlaps another", self.base));
            }
            before = here;
        }
        Ok(())
    }

    /// The records of the frames that stand at the start of the file, one directly behind the other, and belong there.
    fn in_front_of_damage(&self, limit: u64) -> Records {
        let (mut pos, mut expected, mut found) = (0, self.base, Records::new());
        let at = |pos: usize| self.frames.iter().find(|(frame, _)| frame.at.start == pos);
        while let Some((frame, records)) = at(pos) {
            let (from, to) = (frame.header.base.get(), frame.header.end().get());
            if to > limit {
                // The file reaches into its successor's offsets; which of the two is believed is not decided here.
                break;
            }
            if from >= expected {
                found.extend(records.clone());
                expected = to;
            }
            pos = frame.at.end;
        }
        found
    }
}
