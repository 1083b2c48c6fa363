//! What can be told of a partition without opening it.

use std::path::{Path, PathBuf};

use super::{
    recover::{SegmentFile, list_segments},
    watermark::{self, Stated},
};
use crate::{
    error::Result,
    format::{HEADER_LEN, Offset},
    plugin::SegmentInfo,
    runtime::Runtime,
};

/// What the files of a partition state, nothing having been opened or scanned.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClosedStats {
    /// Segment files.
    pub segments: usize,
    /// The oldest offset kept.
    pub oldest: Offset,
    /// The high watermark, where the files state it: `None` for a log that is open or was not closed.
    pub high_watermark: Option<Offset>,
    /// Bytes of all segment files.
    pub bytes: u64,
    /// Last write of the oldest segment, Unix milliseconds.
    pub oldest_segment_ms: Option<i64>,
    /// The directory.
    pub dir: PathBuf,
}

/// The segments of a closed partition as a retention policy would see them, by the files' own times. Lists and stats.
///
/// # Errors
/// `Io` when the directory cannot be listed (`NotFound` when there is none).
pub fn peek_segments(runtime: &Runtime, dir: &Path) -> Result<Vec<SegmentInfo>> {
    let files = list_segments(&**runtime.disk(), dir)?;
    let now = runtime.clock().unix_ms();
    let ends = files.iter().skip(1).map(|next| next.base);
    // How far the last one reaches is not known without reading it: one record, if there is room for one.
    let ends = ends.chain(files.last().map(|last| last.base.saturating_add(u64::from(holds_records(last)))));
    let infos = files.iter().zip(ends).filter(|(file, end)| *end > file.base).map(|(file, end)| {
        let modified = file.modified_ms.min(now);
        SegmentInfo::sealed(file.base, end, file.len, modified, modified)
    });
    Ok(infos.collect())
}

fn holds_records(segment: &SegmentFile) -> bool {
    segment.len >= HEADER_LEN as u64
}

/// Reads what a closed partition's files state. Lists, stats, and reads eight bytes.
///
/// # Errors
/// `Io` when the directory cannot be listed (`NotFound` when there is none).
pub fn peek(runtime: &Runtime, dir: &Path) -> Result<ClosedStats> {
    let disk = &**runtime.disk();
    let segments = list_segments(disk, dir)?;
    let oldest = segments.first().map_or(Offset::ZERO, |segment| segment.base);
    let newest = segments.last().map_or(Offset::ZERO, |segment| segment.base);
    let holds_records = segments.iter().any(holds_records);
    let stated = match watermark::read(disk, dir) {
        Stated::Boundary(Offset::ZERO) if holds_records => None,
        Stated::Boundary(boundary) => Some(boundary).filter(|boundary| *boundary >= oldest),
        Stated::Missing | Stated::Empty | Stated::Nonsense => None,
    };
    Ok(ClosedStats {
        segments: segments.len(),
        oldest,
        // Without a record, the offset that the newest segment is named for is the boundary.
        high_watermark: stated.or((!holds_records).then_some(newest)),
        bytes: segments.iter().map(|segment| segment.len).sum(),
        oldest_segment_ms: segments.first().map(|segment| segment.modified_ms),
        dir: dir.to_owned(),
    })
}
