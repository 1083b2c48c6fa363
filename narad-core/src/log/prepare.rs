//! How far a busy segment's file is filled with zeros ahead of its frames.
//!
//! A write that makes a file longer costs one of the file's metadata, by way of the file system's journal where it has
//! one, on top of the flush that makes it durable; one into blocks that exist costs the flush alone. So a commit that
//! grows the file writes zeros behind its frames now and then, under the fsync that it needs anyway, and those that
//! follow write over them.
//!
//! The zeros mean nothing: no frame begins with one, so that an open takes them for a torn tail and cuts them. They
//! are cut before the segment is sealed, before the log is closed and when it is idle.

use std::ops::Range;

use crate::disk::{File, FileExt};

/// Writes beyond this many bytes gain less than the zeros cost, which are written as well.
const SMALL_WRITE: u64 = 32 << 10;
/// Growing writes of a segment before the first zeros: a partition that gets a message a day has none.
const BUSY_AFTER: u32 = 4;
/// Zeros written at a time, in bytes; never more than the segment has bytes already, above the least.
const LEAST: u64 = 16 << 10;
const MOST: u64 = 256 << 10;
/// Small writes for which one piece of zeros is to last.
const LASTS_FOR: u64 = 256;
/// The blocks of file systems.
const BLOCK: u64 = 4096;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The zeros behind the frames of one segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prepared {
    /// Whether to prepare at all.
    wanted: bool,
    /// There was no room for the zeros of this segment.
    no_room: bool,
    /// The file was cut and that is not known to be durable.
    owes_sync: bool,
    /// Where the file ends as far as this writer has made it; frames end there or before.
    len: u64,
    growths: u32,
}

impl Prepared {
    /// For a segment whose file has `len` bytes.
    pub(super) fn new(wanted: bool, len: u64) -> Self {
        Self { wanted, no_room: false, owes_sync: false, len, growths: 0 }
    }

    /// Where the file ends.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The same settings for the next segment, which is empty.
    pub(super) fn next_segment(&self) -> Self {
        Self::new(self.wanted, 0)
    }

    /// Frames of `bytes` were written to `file` up to `end`: writes zeros behind them if they made it longer and it is
    /// worth it, within a segment of `cap` bytes. What fails here fails no commit, for the frames are there: a full disk
    /// has no room for zeros, and none are tried again in this segment.
    pub(super) fn follow(&mut self, file: &dyn File, bytes: u64, end: u64, cap: u64) {
        let Some(zeros) = self.wrote(bytes, end, cap) else { return };
        while self.len < zeros.end {
            let piece =
                usize::try_from(zeros.end - self.len).map_or(ZEROS.len(), |left| left.min(ZEROS.len()));
            match file.write_all_at(ZEROS.get(..piece).unwrap_or_default(), self.len) {
                Ok(()) => self.len += piece as u64,
                Err((taken, error)) => {
                    tracing::debug!(%error, "no zeros behind the frames of this segment");
                    self.len += taken as u64;
                    self.no_room = true;
                    return;
                }
            }
        }
    }

    /// What to fill with zeros now.
    fn wrote(&mut self, bytes: u64, end: u64, cap: u64) -> Option<Range<u64>> {
        if end <= self.len {
            return None;
        }
        self.len = end;
        if !self.wanted || self.no_room || bytes > SMALL_WRITE {
            return None;
        }
        self.growths = self.growths.saturating_add(1);
        if self.growths <= BUSY_AFTER {
            return None;
        }
        let piece = bytes.saturating_mul(LASTS_FOR).min(end).clamp(LEAST, MOST);
        let to = end.saturating_add(piece).next_multiple_of(BLOCK).min(cap);
        (to > end).then_some(end..to)
    }

    /// Whether the file is known to end at `end`, durably.
    pub(super) fn is_trimmed(&self, end: u64) -> bool {
        self.len <= end && !self.owes_sync
    }

    /// The zeros behind `end` were cut. Whether the segment is busy is to be seen anew.
    pub(super) fn trimmed(&mut self, end: u64, durable: bool) {
        (self.len, self.growths, self.owes_sync) = (end, 0, !durable);
    }

    /// The file was cut at `len`.
    pub(super) fn cut(&mut self, len: u64) {
        self.len = len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: u64 = 64 << 20;

    fn busy(end: u64) -> Prepared {
        let mut prepared = Prepared::new(true, 0);
        for growth in 1..=u64::from(BUSY_AFTER) {
            assert_eq!(prepared.wrote(100, end - u64::from(BUSY_AFTER) + growth, CAP), None);
        }
        prepared
    }

    #[test]
    fn zeros_are_written_once_for_many_small_writes() {
        let (mut prepared, mut end, mut pieces) = (busy(1 << 20), 1 << 20, 0);
        for _ in 0..10_000 {
            end += 300;
            if let Some(zeros) = prepared.wrote(300, end, CAP) {
                assert!(zeros.start == end && zeros.end - end <= MOST + BLOCK, "{zeros:?}");
                assert_eq!(zeros.end % BLOCK, 0);
                prepared.len = zeros.end;
                pieces += 1;
            }
            assert!(prepared.len() >= end);
        }
        assert!((20..=60).contains(&pieces), "{pieces}");
    }

    #[test]
    fn a_small_segment_stays_small_and_large_writes_are_left_alone() {
        let zeros = busy(1000).wrote(100, 1100, CAP).unwrap();
        assert!(zeros.end <= 1100 + LEAST + BLOCK);
        assert_eq!(busy(1 << 20).wrote(SMALL_WRITE + 1, 2 << 20, CAP), None);
    }

    #[test]
    fn zeros_end_with_the_segment_and_not_at_all_where_they_are_unwanted() {
        assert_eq!(busy(CAP - 100).wrote(50, CAP - 50, CAP), Some(CAP - 50..CAP));
        assert_eq!(busy(CAP).wrote(50, CAP + 50, CAP), None);
        let mut unwanted = busy(1 << 20);
        unwanted.wanted = false;
        assert_eq!(unwanted.wrote(50, (1 << 20) + 50, CAP), None);
        assert_eq!(unwanted.len(), (1 << 20) + 50);
    }
}
