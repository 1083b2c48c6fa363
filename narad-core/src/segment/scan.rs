//! The walk through a segment file, frame by frame, CRC included.
//!
//! The one place that decides what in a file is a frame, what is damage and what is a torn tail: recovery, reads of
//! sealed segments and the inspection tools all walk with it. It reads and never writes.

use std::{io, ops::Range, sync::Arc};

use super::{
    resync::{Next, Tail},
    window::{WALK_CHUNK, Window},
};
use crate::{
    disk::{File, FileExt},
    format::{FrameHeader, HEADER_LEN, Offset, crc32c_append},
};

/// What the walk found at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A frame whose CRC holds and whose offsets fit.
    Frame {
        /// Where it starts.
        pos: u64,
        /// Its header.
        header: FrameHeader,
        /// Offsets that are missing in front of it; empty as a rule.
        missing: Range<Offset>,
    },
    /// A frame whose CRC holds and whose offsets do not fit here: kept, and never served.
    Misplaced {
        /// Where it starts.
        pos: u64,
    },
    /// Bytes that are no frame, with a valid frame behind them. The offsets up to it are lost. Where the walk is then
    /// at the end of the file, valid frames are among the bytes and cannot be told from a payload.
    Damage {
        /// Where the damage starts.
        pos: u64,
        /// The offsets it cost.
        lost: Range<Offset>,
    },
    /// Bytes that are no frame, with none behind them.
    Torn {
        /// Where they start.
        pos: u64,
        /// Whether there is nothing but zeros, which no frame begins with: prepared for frames that did not come, or
        /// frames that never reached the disk.
        only_zeros: bool,
    },
    /// The end of the file.
    End,
}

/// Where a walk stands, so that it can be continued later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The next byte to look at.
    pub(crate) pos: u64,
    /// The first offset that has not been seen.
    pub(crate) expected: Offset,
}

/// A walk through a segment file.
#[derive(Debug)]
pub(crate) struct Walk {
    window: Window,
    len: u64,
    place: Place,
    limit: Offset,
    /// Whether a valid frame was met that does not belong here: the file is not all that its name says.
    is_foreign: bool,
    /// The rest of the file in memory, once damage has been met.
    tail: Option<Tail>,
}

impl Walk {
    /// A walk from `place` through the first `len` bytes of `file`; no record reaches past `limit`, the base of the
    /// segment behind it.
    pub(crate) fn new(file: Arc<dyn File>, len: u64, place: Place, limit: Offset) -> Self {
        Self { window: Window::new(file, len, WALK_CHUNK), len, place, limit, is_foreign: false, tail: None }
    }

    /// Where the walk stands.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// The next step. An I/O error is passed on: what could not be read is not judged, be it for an error or because
    /// the file seemed to end before the length that was stated.
    pub(crate) fn step(&mut self) -> io::Result<Step> {
        let Place { pos, expected } = self.place;
        if pos >= self.len {
            return Ok(Step::End);
        }
        if let Some(header) = self.valid_frame(pos)? {
            self.place.pos = pos + header.frame_len();
            if header.base < expected || header.end() > self.limit {
                self.is_foreign = true;
                return Ok(Step::Misplaced { pos });
            }
            self.place.expected = header.end();
            return Ok(Step::Frame { pos, header, missing: expected..header.base });
        }
        if self.is_zero_from(pos)? {
            self.place.pos = self.len;
            return Ok(Step::Torn { pos, only_zeros: true });
        }
        let (limit, is_foreign) = (self.limit, self.is_foreign);
        let (resume, lost_to) = match self.tail()?.next_frame(pos, expected, limit, is_foreign) {
            Next::Frame(next) => (next, self.valid_frame(next)?.map_or(expected, |header| header.base)),
            Next::Doubtful(lost_to) => (self.len, lost_to),
            Next::Nothing => {
                self.place.pos = self.len;
                return Ok(Step::Torn { pos, only_zeros: false });
            }
        };
        self.place = Place { pos: resume, expected: lost_to };
        Ok(Step::Damage { pos, lost: expected..lost_to })
    }

    /// The header of the frame at `pos`, if its CRC holds.
    fn valid_frame(&mut self, pos: u64) -> io::Result<Option<FrameHeader>> {
        let Some(bytes) = self.window.get(pos, HEADER_LEN)?.first_chunk() else { return Ok(None) };
        let Ok(header) = FrameHeader::decode(bytes) else { return Ok(None) };
        let (start, end) = (pos + HEADER_LEN as u64, pos + header.frame_len());
        if end > self.len {
            return Ok(None);
        }
        let (mut crc, mut at) = (header.crc_of_fields(), start);
        while at < end {
            let chunk = self.window.some(at, usize::try_from(end - at).unwrap_or(usize::MAX))?;
            if chunk.is_empty() {
                return Ok(None);
            }
            crc = crc32c_append(crc, chunk);
            at += chunk.len() as u64;
        }
        Ok((crc == header.crc).then_some(header))
    }

    /// Whether no byte from `pos` on is anything but zero.
    fn is_zero_from(&mut self, pos: u64) -> io::Result<bool> {
        let mut at = pos;
        while at < self.len {
            let chunk = self.window.some(at, usize::try_from(self.len - at).unwrap_or(usize::MAX))?;
            // A file that ends before its length was not read: what is missing is for the caller below to find.
            if chunk.is_empty() || chunk.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            at += chunk.len() as u64;
        }
        Ok(true)
    }

    fn tail(&mut self) -> io::Result<&mut Tail> {
        let tail = match self.tail.take() {
            Some(tail) => tail,
            None => {
                let start = self.place.pos;
                let len = usize::try_from(self.len - start).map_err(|_| io::ErrorKind::FileTooLarge)?;
                let mut bytes = vec![0; len];
                // A file that ends before its length was not read: what is missing must not be taken for damage.
                self.window.file().read_exact_at(&mut bytes, start)?;
                Tail::new(start, bytes)
            }
        };
        Ok(self.tail.insert(tail))
    }
}
