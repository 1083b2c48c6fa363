//! Where the next frame is, after one that does not check out.
//!
//! Bytes inside a payload must never become a frame, be they a bare magic, a plausible header, or whole valid frames.
//! So the place where the damaged frame ends is looked for in order of evidence:
//!
//! 1. the header with another stored length, so that its CRC holds: nothing but the true extent does that;
//! 2. the end that the header states, if a valid frame with the base it implies starts there;
//! 3. the header with another field corrected so that its CRC holds over the extent that it states;
//! 4. the extent of a header that shows no damage, or none to its stored length: what lies inside is payload;
//! 5. record after record, as codec 0 lays them out, up to a valid frame or the end of the file;
//! 6. the nearest valid frame whose offsets fit, as far ahead as what was lost can account for, and which is followed by what
//!    may follow a frame.
//!
//! Works on the rest of the file in memory; the cost is linear in it, whatever it holds.

use memchr::memmem;

use super::{
    crc_range::PrefixCrcs,
    raw_header::{Bounds, MIN_RECORD, RawHeader},
};
use crate::format::{FRAME_MAGIC, FrameHeader, HEADER_LEN, Offset, RECORD_VERSION};

/// Ends tried for a damaged stored length. More frames of one and the same base are somebody's mischief.
const MAX_ENDS: usize = 64;
/// Offsets that a lost byte can account for: a frame full of the smallest records, compressed to nearly nothing.
const MAX_LOST_PER_BYTE: u64 = 1 << 20;

/// What comes after a frame that does not check out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A frame starts there.
    Frame(u64),
    /// Valid frames are there and nothing tells whether they are frames of this file or part of a lost payload. They
    /// are kept to the end of the file and not served; the offsets up to this one are lost.
    Doubtful(Offset),
    /// Nothing: a torn tail.
    Nothing,
}

/// The rest of a file behind a frame that does not check out.
#[derive(Debug)]
pub(super) struct Tail {
    /// Where in the file `bytes` begin.
    start: u64,
    bytes: Vec<u8>,
    prefixes: PrefixCrcs,
    /// Every place at which a frame with a valid CRC starts, whether it is one or lies in a payload.
    valid: Vec<Candidate>,
    /// For each of `valid` the furthest end of it and of those in front of it.
    ends: Vec<usize>,
    /// First offset and index in `valid`, ascending.
    by_base: Vec<(Offset, usize)>,
    /// Behind the last byte that is not zero.
    zeros_from: usize,
    /// Records that may still be passed over in search of an end.
    hops_left: usize,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    at: usize,
    header: FrameHeader,
}

impl Candidate {
    fn end(&self) -> usize {
        self.at + self.header.frame_len() as usize
    }
}

/// Where a damaged frame ends.
#[derive(Debug, Clone, Copy)]
struct Extent {
    end: usize,
    /// The first offset that may follow.
    expected: Offset,
}

impl Tail {
    /// Indexes `bytes`, which begin at `start` in the file.
    pub(super) fn new(start: u64, bytes: Vec<u8>) -> Self {
        let mut tail = Self {
            start,
            prefixes: PrefixCrcs::of(&bytes),
            valid: Vec::new(),
            ends: Vec::new(),
            by_base: Vec::new(),
            zeros_from: bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1),
            hops_left: bytes.len() / HEADER_LEN,
            bytes,
        };
        tail.valid = memmem::find_iter(&tail.bytes, &FRAME_MAGIC).filter_map(|at| tail.check(at)).collect();
        let furthest = |end: &mut usize, candidate: &Candidate| {
            *end = candidate.end().max(*end);
            Some(*end)
        };
        tail.ends = tail.valid.iter().scan(0, furthest).collect();
        tail.by_base = tail.valid.iter().enumerate().map(|(index, c)| (c.header.base, index)).collect();
        tail.by_base.sort_unstable();
        tail
    }

    /// What comes after the frame at `pos` that does not check out. `expected` is the first offset that has not been
    /// seen, `limit` the offset that no record here reaches past. `is_foreign` says that valid frames were met that do
    /// not belong here: those behind are then kept, although no read will find them.
    pub(super) fn next_frame(&mut self, pos: u64, expected: Offset, limit: Offset, is_foreign: bool) -> Next {
        let Some(mut at) = pos.checked_sub(self.start).and_then(|at| usize::try_from(at).ok()) else {
            return Next::Nothing;
        };
        let mut bounds = Bounds { expected, limit };
        while let Some(extent) = self.extent(at, bounds, self.start + at as u64 == pos) {
            if extent.end >= self.bytes.len() {
                return Next::Nothing;
            }
            let after = Bounds { expected: extent.expected, limit };
            if let Some(next) = self.find(extent.end)
                && after.fit(&next.header)
            {
                return Next::Frame(self.start + next.at as u64);
            }
            // The frame behind it is damaged too: the same question there.
            (at, bounds) = (extent.end, after);
        }
        match self.nearest(at, bounds) {
            // Somebody's segment under the wrong name: what could be saved from it by hand is not cut.
            Next::Nothing if is_foreign && self.valid.last().is_some_and(|last| last.at > at) => {
                Next::Doubtful(bounds.expected.saturating_add(1).min(limit))
            }
            next => next,
        }
    }

    /// Where the damaged frame at `at` ends, as far as it says so itself. `is_start`: a frame did start there, since a
    /// valid one ends there.
    fn extent(&mut self, at: usize, bounds: Bounds, is_start: bool) -> Option<Extent> {
        let header = RawHeader::at(&self.bytes, at)?;
        self.other_length(at, &header, bounds)
            .or_else(|| self.stated_end(at, &header, bounds))
            .or_else(|| self.repaired(at, &header, bounds))
            .or_else(|| Self::undamaged(at, &header, bounds, is_start))
            .or_else(|| self.end_of_records(at, bounds))
    }

    /// Evidence 1.
    fn other_length(&self, at: usize, header: &RawHeader, bounds: Bounds) -> Option<Extent> {
        let expected = header.implied_next(bounds)?;
        let payload = at + HEADER_LEN;
        let holds = |end: usize| {
            let fixed = end.checked_sub(payload).and_then(|len| header.with_stored(len));
            fixed.is_some_and(|fixed| self.crc(fixed.crc_of_fields(), payload, end) == Some(header.crc()))
        };
        let ends = self.starts_of(expected, payload).take(MAX_ENDS).chain([self.bytes.len()]);
        ends.into_iter().find(|&end| holds(end)).map(|end| Extent { end, expected })
    }

    /// Evidence 2.
    fn stated_end(&self, at: usize, header: &RawHeader, bounds: Bounds) -> Option<Extent> {
        let next = self.find(at + header.stated_len()?)?;
        let is_implied = header.implied_next(bounds) == Some(next.header.base);
        (is_implied && bounds.fit_behind_loss(&next.header))
            .then_some(Extent { end: next.at, expected: next.header.base })
    }

    /// Evidence 3.
    fn repaired(&self, at: usize, header: &RawHeader, bounds: Bounds) -> Option<Extent> {
        let end = at + header.stated_len()?;
        let sum = self.prefixes.seed_for(header.crc(), &self.bytes, at + HEADER_LEN, end)?;
        let next = self.find(end).map(|next| next.header.base);
        let fixed = header.repaired(sum, bounds, next)?;
        Some(Extent { end, expected: fixed.end() })
    }

    /// Evidence 4. Where the offsets are in doubt the extent alone is believed.
    fn undamaged(at: usize, header: &RawHeader, bounds: Bounds, is_start: bool) -> Option<Extent> {
        let (len, next) = header.believable_extent(bounds, is_start)?;
        Some(Extent { end: at + len, expected: next.unwrap_or(bounds.expected) })
    }

    /// Evidence 5.
    fn end_of_records(&mut self, at: usize, bounds: Bounds) -> Option<Extent> {
        let mut end = at + HEADER_LEN;
        loop {
            self.hops_left = self.hops_left.checked_sub(1)?;
            let (prefix, record) = self.bytes.get(end..)?.split_first_chunk()?;
            if record.first() != Some(&RECORD_VERSION) {
                return None;
            }
            let len = u64::from(u32::from_be_bytes(*prefix)) + prefix.len() as u64;
            end = end.checked_add(usize::try_from(len).ok().filter(|_| len >= MIN_RECORD)?)?;
            if end > self.bytes.len() {
                return None;
            }
            // A record may contain frames and is passed over with them; none ends within one.
            if self.is_inside(end) {
                return None;
            }
            let is_end = end == self.bytes.len()
                || self.find(end).is_some_and(|next| bounds.fit_behind_loss(&next.header));
            if is_end {
                return Some(Extent { end, expected: bounds.expected.saturating_add(1) });
            }
        }
    }

    /// Evidence 6.
    fn nearest(&mut self, at: usize, bounds: Bounds) -> Next {
        let from = self.valid.partition_point(|candidate| candidate.at <= at);
        let mut doubtful = None;
        for index in from..self.valid.len() {
            let Some(&candidate) = self.valid.get(index) else { break };
            let believable = (candidate.at - at) as u64 * MAX_LOST_PER_BYTE;
            if !bounds.fit(&candidate.header) || candidate.header.base.since(bounds.expected) > believable {
                continue;
            }
            if bounds.fit_behind_loss(&candidate.header) && self.is_followed_well(&candidate, bounds.limit) {
                return Next::Frame(self.start + candidate.at as u64);
            }
            doubtful = doubtful.max(Some(candidate.header.end()));
        }
        doubtful.map_or(Next::Nothing, Next::Doubtful)
    }

    /// Whether behind the candidate comes the end of the file, another valid frame that fits, a damaged one that
    /// shows where it ends, or what a crash leaves: less than a header, or nothing but zeros.
    fn is_followed_well(&mut self, candidate: &Candidate, limit: Offset) -> bool {
        let end = candidate.end();
        let due = Bounds { expected: candidate.header.end(), limit };
        if end + HEADER_LEN > self.bytes.len() || end >= self.zeros_from {
            return true;
        }
        match self.find(end) {
            Some(next) => due.fit(&next.header),
            None => self.extent(end, due, false).is_some(),
        }
    }

    /// Whether `at` lies within a valid frame, behind its start.
    fn is_inside(&self, at: usize) -> bool {
        let before = self.valid.partition_point(|candidate| candidate.at < at).checked_sub(1);
        before.and_then(|index| self.ends.get(index)).is_some_and(|&end| end > at)
    }

    /// The valid frame that starts at `at`, if one does.
    fn find(&self, at: usize) -> Option<&Candidate> {
        let index = self.valid.binary_search_by_key(&at, |candidate| candidate.at).ok()?;
        self.valid.get(index)
    }

    /// Where valid frames of that base start, behind `after`.
    fn starts_of(&self, base: Offset, after: usize) -> impl Iterator<Item = usize> {
        let index = self.valid.partition_point(|candidate| candidate.at <= after);
        let from = self.by_base.partition_point(|&entry| entry < (base, index));
        let same =
            self.by_base.get(from..).unwrap_or_default().iter().take_while(move |(other, _)| *other == base);
        same.filter_map(|&(_, index)| self.valid.get(index).map(|candidate| candidate.at))
    }

    /// The frame at `at`, if its fields are in range and its CRC holds.
    fn check(&self, at: usize) -> Option<Candidate> {
        let header = FrameHeader::decode(self.bytes.get(at..)?.first_chunk()?).ok()?;
        let payload = at + HEADER_LEN;
        let crc = self.crc(header.crc_of_fields(), payload, payload + header.stored_len as usize)?;
        (crc == header.crc).then_some(Candidate { at, header })
    }

    fn crc(&self, seed: u32, from: usize, to: usize) -> Option<u32> {
        self.prefixes.append(seed, &self.bytes, from, to)
    }
}
