//! Where the next frame is, after one that does not check out.
//!
//! Bytes inside a payload must never become a frame, be they a bare magic, a plausible header, or one whole valid
//! frame. So the evidence is taken in order:
//!
//! 1. the end that the damaged header itself states, if a valid frame with the base it implies starts there;
//! 2. the header with one field corrected so that its CRC holds;
//! 3. the extent of a header that shows no damage: what lies inside is payload;
//! 4. the nearest valid frame whose offsets fit and which is followed by what may follow a frame.
//!
//! Works on the rest of the file in memory; the cost is linear in it.

use memchr::memmem;

use super::crc_range::PrefixCrcs;
use crate::format::{FRAME_MAGIC, FrameHeader, HEADER_LEN, MAX_FRAME_BYTES, Offset};

/// The rest of a file behind a frame that does not check out.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Where in the file `bytes` begin.
    start: u64,
    bytes: Vec<u8>,
    prefixes: PrefixCrcs,
    /// Every place at which a frame with a valid CRC starts, whether it is one or lies in a payload.
    valid: Vec<Candidate>,
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

/// Which offsets a frame may have at a place.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// The first offset that has not been seen.
    expected: Offset,
    /// No record reaches past this.
    limit: Offset,
}

impl Bounds {
    /// Whether a frame may follow one that was lost here; what was lost held at least one record.
    fn fit(&self, header: &FrameHeader) -> bool {
        header.base > self.expected && header.end() <= self.limit
    }
}

impl Tail {
    /// Indexes `bytes`, which begin at `start` in the file.
    pub(crate) fn new(start: u64, bytes: Vec<u8>) -> Self {
        let mut tail = Self { start, prefixes: PrefixCrcs::of(&bytes), bytes, valid: Vec::new() };
        let found = memmem::find_iter(&tail.bytes, &FRAME_MAGIC).filter_map(|at| tail.check(at)).collect();
        tail.valid = found;
        tail
    }

    /// The place of the next frame after the one at `pos` that does not check out, or `None` if there is none: what
    /// lies from `pos` on is a torn tail. `expected` is the first offset that has not been seen, `limit` the offset
    /// that no record here reaches past.
    pub(crate) fn next_frame(&self, pos: u64, expected: Offset, limit: Offset) -> Option<u64> {
        let mut at = usize::try_from(pos.checked_sub(self.start)?).ok()?;
        let mut bounds = Bounds { expected, limit };
        loop {
            let header = RawHeader::at(&self.bytes, at);
            if let Some(header) = &header
                && let Some(next) =
                    self.stated_end(at, header, bounds).or_else(|| self.corrected(at, header, bounds))
            {
                return Some(self.start + next as u64);
            }
            match header.and_then(|header| header.undamaged(bounds)) {
                Some(header) => {
                    let end = at + header.frame_len() as usize;
                    if end >= self.bytes.len() {
                        return None;
                    }
                    let after = Bounds { expected: header.end(), ..bounds };
                    if self
                        .find(end)
                        .is_some_and(|next| next.header.base >= after.expected && next.header.end() <= limit)
                    {
                        return Some(self.start + end as u64);
                    }
                    // The frame behind it is damaged too: the same question there.
                    (at, bounds) = (end, after);
                }
                None => return self.nearest(at, bounds).map(|next| self.start + next as u64),
            }
        }
    }

    /// Evidence 1: where the header says it ends, a valid frame starts with the base it implies.
    fn stated_end(&self, at: usize, header: &RawHeader, bounds: Bounds) -> Option<usize> {
        let next = self.find(at + header.stated_len()?)?;
        let implied = header.base.checked_add(i64::from(header.count)).and_then(Offset::from_i64);
        (bounds.fit(&next.header) && implied == Some(next.header.base)).then_some(next.at)
    }

    /// Evidence 2: the header with its count, its base or its stored length corrected has a CRC that holds.
    fn corrected(&self, at: usize, header: &RawHeader, bounds: Bounds) -> Option<usize> {
        let holds = |fixed: RawHeader, end: usize| {
            self.crc(fixed.crc_of_fields(), at + HEADER_LEN, end) == Some(fixed.crc)
        };
        if let Some(next) =
            header.stated_len().and_then(|len| self.find(at + len)).filter(|n| bounds.fit(&n.header))
        {
            let next_base = next.header.base.to_i64();
            let count =
                next_base.checked_sub(header.base).and_then(|n| i32::try_from(n).ok()).filter(|&n| n > 0);
            let base = next_base.checked_sub(i64::from(header.count)).filter(|&base| base >= 0);
            let fixes = [
                count.map(|count| RawHeader { count, ..*header }),
                base.map(|base| RawHeader { base, ..*header }),
            ];
            if fixes.into_iter().flatten().any(|fixed| holds(fixed, next.at)) {
                return Some(next.at);
            }
        }
        let implied = header.base.checked_add(i64::from(header.count)).and_then(Offset::from_i64)?;
        let payload = at + HEADER_LEN;
        self.after(at)
            .iter()
            .filter(|next| next.header.base == implied && bounds.fit(&next.header) && next.at > payload)
            .find(|next| {
                i32::try_from(next.at - payload)
                    .is_ok_and(|stored| holds(RawHeader { stored, ..*header }, next.at))
            })
            .map(|next| next.at)
    }

    /// Evidence 4: the nearest valid frame that fits, followed by what may follow a frame.
    fn nearest(&self, at: usize, bounds: Bounds) -> Option<usize> {
        self.after(at)
            .iter()
            .find(|candidate| bounds.fit(&candidate.header) && self.is_followed_well(candidate, bounds.limit))
            .map(|candidate| candidate.at)
    }

    /// Whether behind the candidate comes the end of the file, another valid frame that fits, a header that shows no
    /// damage and states the offset that is due, or what a crash leaves: less than a header, or nothing but zeros.
    fn is_followed_well(&self, candidate: &Candidate, limit: Offset) -> bool {
        let end = candidate.end();
        let due = candidate.header.end();
        let rest = self.bytes.get(end..).unwrap_or_default();
        rest.len() < HEADER_LEN
            || self.find(end).is_some_and(|next| next.header.base >= due && next.header.end() <= limit)
            || RawHeader::at(&self.bytes, end)
                .and_then(|h| h.undamaged(Bounds { expected: due, limit }))
                .is_some()
            || rest.iter().all(|&byte| byte == 0)
    }

    /// The valid frame that starts at `at`, if one does.
    fn find(&self, at: usize) -> Option<&Candidate> {
        let index = self.valid.binary_search_by_key(&at, |candidate| candidate.at).ok()?;
        self.valid.get(index)
    }

    /// The valid frames that start behind `at`.
    fn after(&self, at: usize) -> &[Candidate] {
        let index = self.valid.partition_point(|candidate| candidate.at <= at);
        self.valid.get(index..).unwrap_or_default()
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

/// A header of which any field may be damaged: nothing is in range until it is checked.
#[derive(Debug, Clone, Copy)]
struct RawHeader {
    magic: [u8; 2],
    flags: u8,
    count: i32,
    base: i64,
    uncompressed: i32,
    stored: i32,
    crc: u32,
}

impl RawHeader {
    fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let bytes: &[u8; HEADER_LEN] = bytes.get(at..)?.first_chunk()?;
        let [m0, m1, flags, c0, c1, c2, c3, b0, b1, b2, b3, b4, b5, b6, b7, rest @ ..] = *bytes;
        let [u0, u1, u2, u3, s0, s1, s2, s3, k0, k1, k2, k3] = rest;
        Some(Self {
            magic: [m0, m1],
            flags,
            count: i32::from_be_bytes([c0, c1, c2, c3]),
            base: i64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
            uncompressed: i32::from_be_bytes([u0, u1, u2, u3]),
            stored: i32::from_be_bytes([s0, s1, s2, s3]),
            crc: u32::from_be_bytes([k0, k1, k2, k3]),
        })
    }

    /// Bytes of the whole frame, if the stored length is in range.
    fn stated_len(&self) -> Option<usize> {
        let stored = u32::try_from(self.stored).ok().filter(|len| (1..=MAX_FRAME_BYTES).contains(len))?;
        Some(HEADER_LEN + stored as usize)
    }

    fn crc_of_fields(&self) -> u32 {
        let crc = crc32c::crc32c(&[self.flags]);
        let crc = crc32c::crc32c_append(crc, &self.count.to_be_bytes());
        let crc = crc32c::crc32c_append(crc, &self.base.to_be_bytes());
        let crc = crc32c::crc32c_append(crc, &self.uncompressed.to_be_bytes());
        crc32c::crc32c_append(crc, &self.stored.to_be_bytes())
    }

    /// The header, if every field is in range, they agree with one another, and the base is the one that is due.
    fn undamaged(&self, bounds: Bounds) -> Option<FrameHeader> {
        let header = FrameHeader {
            flags: self.flags,
            count: u32::try_from(self.count).ok()?,
            base: Offset::from_i64(self.base)?,
            uncompressed_len: u32::try_from(self.uncompressed).ok()?,
            stored_len: u32::try_from(self.stored).ok()?,
            crc: self.crc,
        };
        FrameHeader::decode(&header.encode()).ok()?;
        let consistent = self.magic == FRAME_MAGIC
            && header.base == bounds.expected
            && header.end() <= bounds.limit
            && lengths_agree(&header);
        consistent.then_some(header)
    }
}

/// Whether the lengths of a header can be true together: each record takes at least its prefix, codec 0 stores what
/// it is given, and no codec makes much more of it.
fn lengths_agree(header: &FrameHeader) -> bool {
    let (count, raw, stored) =
        (u64::from(header.count), u64::from(header.uncompressed_len), u64::from(header.stored_len));
    let holds_records = count.saturating_mul(4) <= raw;
    let stored_fits = if header.flags == 0 { stored == raw } else { stored <= raw + raw / 64 + 1024 };
    holds_records && stored_fits
}
