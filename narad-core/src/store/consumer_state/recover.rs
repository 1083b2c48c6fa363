//! What a partition's files say about its consumers: the larger of the two frontiers, and what was settled above it.
//!
//! Reads, and never writes. What is damaged is no evidence: the price is a duplicate, never a skipped record.

use std::{io, path::Path};

use super::ConsumerPosition;
use crate::{
    Error, Result,
    disk::{Disk, DiskExt, FileKind},
    format::{AHEAD_SLOT_LEN, AheadSlots, Offset, decode_consumer_offset},
    store::{files::kind, layout::PartitionPaths},
};

/// What the files say.
pub(super) struct Recovered {
    pub(super) position: ConsumerPosition,
    /// Whether one of them held something and said nothing; that was logged.
    pub(super) passed_over: bool,
}

/// The position as the files have it.
///
/// # Errors
/// `Io` when a file cannot be read: it is not taken for an empty one, since that would deliver everything again.
pub(super) fn recover(disk: &dyn Disk, paths: &PartitionPaths) -> Result<Recovered> {
    let mut passed_over = false;
    let mut pass_over = |path: &Path, why: &str| {
        tracing::warn!(file = %path.display(), "{why}; passed over");
        passed_over = true;
    };
    let path = paths.consumer_offset();
    // One byte more than fits, so that a longer file is seen to be one.
    let levelled = match read(disk, &path, 9)? {
        Content::Bytes(bytes) => {
            let decoded = decode_consumer_offset(&bytes);
            if decoded.is_none() && !bytes.is_empty() {
                pass_over(&path, "no frontier in it");
            }
            decoded.flatten()
        }
        Content::NoFile => {
            pass_over(&path, "not a regular file");
            None
        }
        Content::Missing => None,
    };
    let path = paths.consumer_ahead();
    let slots = match read(disk, &path, 2 * AHEAD_SLOT_LEN)? {
        Content::Bytes(bytes) => {
            let slots = AheadSlots::decode(&bytes);
            if slots.newest().is_none() && !bytes.is_empty() {
                pass_over(&path, "no valid record in it");
            }
            Some(slots)
        }
        Content::NoFile => {
            pass_over(&path, "not a regular file");
            None
        }
        Content::Missing => None,
    };
    let newest = slots.as_ref().and_then(AheadSlots::newest).map(|(_, record)| record);
    let frontier = levelled.max(newest.and_then(|record| record.frontier));
    let acked = newest.map_or_else(Vec::new, |record| above(&record.acked, frontier));
    Ok(Recovered { position: ConsumerPosition { frontier, acked }, passed_over })
}

/// What had to be changed to bring a position into the bounds of its log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fitted {
    /// It said that something is settled which the log has not got yet.
    pub(super) beyond: bool,
    /// Offsets below the log's start that were not settled.
    pub(super) lost: u64,
}

/// Brings a position into the bounds of its log: nothing settled at or above `end`, everything settled below `start`.
pub(super) fn fit(position: &mut ConsumerPosition, start: Offset, end: Offset) -> Fitted {
    let last_before = |bound: Offset| bound.get().checked_sub(1).and_then(Offset::new);
    let (lowest, highest) = (last_before(start), last_before(end));
    let acked = position.acked.len();
    position.acked.retain(|&offset| offset < end);
    let mut fitted = Fitted { beyond: position.acked.len() < acked, lost: 0 };
    if position.frontier > highest {
        (position.frontier, fitted.beyond) = (highest, true);
    } else if position.frontier < lowest {
        let first = position.frontier.map_or(Offset::ZERO, |frontier| frontier.saturating_add(1));
        let settled = position.acked.iter().filter(|&&offset| offset < start).count();
        fitted.lost = start.since(first).saturating_sub(settled as u64);
        position.frontier = lowest;
    }
    position.acked = above(&position.acked, position.frontier);
    fitted
}

fn above(acked: &[Offset], frontier: Option<Offset>) -> Vec<Offset> {
    acked.iter().copied().filter(|&offset| Some(offset) > frontier).collect()
}

enum Content {
    Missing,
    /// A directory, link, FIFO or the like.
    NoFile,
    Bytes(Vec<u8>),
}

/// The file's first bytes.
fn read(disk: &dyn Disk, path: &Path, limit: usize) -> Result<Content> {
    match kind(disk, path)? {
        None => return Ok(Content::Missing),
        Some(FileKind::File) => {}
        Some(_) => return Ok(Content::NoFile),
    }
    match disk.read_small(path, limit) {
        Ok(bytes) => Ok(Content::Bytes(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Content::Missing),
        Err(error) => Err(Error::io("read", path, error)),
    }
}
