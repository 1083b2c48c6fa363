//! What an open finds in a directory, and what it decides to do about it.
//!
//! The survey reads: recovery acts on it, and the inspection tools report it. Opened for writing it empties a last file
//! that holds nothing but a torn tail and is passed over, as its last step. Only bytes that were read and found bad may
//! be cut; an I/O error fails the survey and leaves every byte.

use std::{io, path::Path, path::PathBuf, sync::Arc};

use super::files::{CONSUMER_AHEAD, CONSUMER_OFFSET, HWM, segment_base};
use super::watermark::{self, Stated};
use crate::{
    disk::{Disk, DiskExt, File, FileExt, FileKind, GivingWay, OpenMode, Turns},
    error::{Error, Result},
    format::{
        AHEAD_SLOT_LEN, AheadSlots, FrameHeader, HEADER_LEN, Offset, decode_consumer_offset, decode_watermark,
    },
    segment::{DecodedFrame, Place, ReadContext, SparseIndex, Step, Walk},
};

/// A commit time this far ahead of the clock is not believed.
const FUTURE_LIMIT_MS: i64 = 3_600_000;

/// A segment file, as its name and its directory entry describe it.
#[derive(Debug, Clone)]
pub(super) struct SegmentFile {
    pub(super) base: Offset,
    pub(super) path: PathBuf,
    pub(super) len: u64,
    pub(super) modified_ms: i64,
}

/// The active segment, walked from end to end.
#[derive(Debug)]
pub(super) struct ActiveSurvey {
    pub(super) segment: SegmentFile,
    pub(super) file: Arc<dyn File>,
    pub(super) index: SparseIndex,
    /// Where its last valid frame ends.
    pub(super) place: Place,
    /// Runs of offsets that are lost to damage; each was logged.
    damages: u64,
    /// Whether nothing but zeros lies behind the last valid frame.
    ends_in_zeros: bool,
}

impl ActiveSurvey {
    /// Bytes behind the last valid frame.
    pub(super) fn tail_bytes(&self) -> u64 {
        self.segment.len - self.place.pos
    }

    /// Those of a torn tail.
    pub(super) fn torn_bytes(&self) -> u64 {
        if self.ends_in_zeros { 0 } else { self.tail_bytes() }
    }

    /// Those that were prepared for frames to come.
    pub(super) fn prepared_bytes(&self) -> u64 {
        self.tail_bytes() - self.torn_bytes()
    }
}

/// What a directory holds.
#[derive(Debug)]
pub(super) struct Survey {
    /// Oldest first.
    pub(super) sealed: Vec<SegmentFile>,
    /// Absent when new frames must go to a new file.
    pub(super) active: Option<ActiveSurvey>,
    /// The oldest offset kept.
    pub(super) oldest: Offset,
    /// A newest file that is named below where the records end and holds none that fit. It is not served, and must
    /// not stand between its neighbours once it is no longer the newest.
    pub(super) passed_over: Option<PathBuf>,
    /// The offset of the next record.
    pub(super) next: Offset,
    /// The commit time of the newest record, where it could be read.
    pub(super) newest_ms: Option<i64>,
    /// The high watermark that `hwm` states, where it can be believed.
    pub(super) stated: Option<Offset>,
    /// State files that hold something and say nothing; each was logged.
    pub(super) passed_over_files: u64,
    /// Runs of offsets that the segments read have lost to damage; each was logged.
    pub(super) damages: u64,
}

impl Survey {
    /// The boundary that an open recovers.
    pub(super) fn high_watermark(&self) -> Offset {
        self.stated.unwrap_or(self.next)
    }
}

/// Lists the segments of a directory, oldest first. Everything else in it is left alone.
pub(super) fn list_segments(disk: &dyn Disk, dir: &Path) -> Result<Vec<SegmentFile>> {
    let entries = disk.list(dir).map_err(|error| Error::io("list", dir, error))?;
    let mut segments = Vec::new();
    for entry in entries {
        let base = segment_base(&entry.name).filter(|_| entry.kind == FileKind::File);
        let Some(base) = base else {
            tracing::debug!(dir = %dir.display(), name = ?entry.name, "not a segment");
            continue;
        };
        let path = dir.join(&entry.name);
        if base == Offset::MAX {
            let reason = "a segment cannot begin at the largest offset".to_owned();
            return Err(Error::Unusable { path, reason });
        }
        let metadata = disk.metadata(&path).map_err(|error| Error::io("stat", &path, error))?;
        segments.push(SegmentFile { base, path, len: metadata.len, modified_ms: metadata.modified_ms });
    }
    segments.sort_by_key(|segment| segment.base);
    Ok(segments)
}

/// Surveys a partition's directory. Reads the active segment alone, and the one before it where that is empty, and gives
/// way to those who commit if `turns` are given.
pub(super) fn survey(
    context: ReadContext<'_>,
    dir: &Path,
    mode: OpenMode,
    turns: Option<&Arc<Turns>>,
) -> Result<Survey> {
    let mut segments = list_segments(context.disk, dir)?;
    let last = segments.pop();
    // A file too short for a frame that is not the last one: a roll that was overtaken. It holds nothing.
    segments.retain(|segment| segment.len >= HEADER_LEN as u64);
    let Some(last) = last else { return empty(context.disk, dir) };

    let (mut active, mut newest) = walk(context.disk, last, mode, turns)?;
    let (mut next, mut damages) = (active.place.expected, active.damages);
    let mut keep_active = true;
    if newest.is_none()
        && let Some(before) = segments.last()
    {
        // The newest file holds no frame: where the records end is for the one before it to say.
        let (before, last_frame) = walk(context.disk, before.clone(), OpenMode::Read, turns)?;
        damages += before.damages;
        keep_active = before.place.expected <= next;
        next = next.max(before.place.expected);
        newest =
            last_frame.map(|frame| (before.file, frame)).map(|(file, (_, pos, header))| (file, pos, header));
    }
    let oldest = segments.first().map_or(active.segment.base, |segment| segment.base).min(next);
    let newest_ms = match newest {
        Some((file, pos, header)) => last_commit_ms(context, &*file, pos, &header)
            .map_err(|error| Error::io("read", &active.segment.path, error))?,
        None => None,
    };
    let found = watermark::read(context.disk, dir);
    let stated = found.boundary(oldest, next);
    let says_nothing = stated.is_none() && !matches!(found, Stated::Missing | Stated::Empty);
    if says_nothing {
        tracing::warn!(dir = %dir.display(), ?found, "the high watermark file says nothing; taking the boundary from the records");
    }
    if !keep_active {
        tracing::warn!(path = %active.segment.path.display(), %next, "a segment named below the end holds no record of its own and is passed over");
        if mode == OpenMode::ReadWrite {
            empty_passed_over(&active)?;
        }
    }
    active.place.expected = next.max(active.place.expected);
    let holds_frames = !keep_active && active.place.pos > 0;
    let passed_over = holds_frames.then(|| active.segment.path.clone());
    let active = keep_active.then_some(active);
    let passed_over_files = u64::from(says_nothing);
    let sealed = segments;
    Ok(Survey { sealed, active, oldest, passed_over, next, newest_ms, stated, passed_over_files, damages })
}

/// Makes a passed-over file as empty as it was found to be: once it is no longer the last one, nothing but its length
/// tells that the segment before it goes on past its name.
fn empty_passed_over(survey: &ActiveSurvey) -> Result<()> {
    let path = &survey.segment.path;
    if survey.place.pos > 0 || survey.tail_bytes() == 0 {
        return Ok(());
    }
    survey.file.set_len(0).map_err(|error| Error::io("truncate", path, error))?;
    survey.file.sync_data().map_err(|error| Error::io("fsync", path, error))
}

type LastFrame = (Arc<dyn File>, u64, FrameHeader);

/// Times that a walk is repeated without the tail that the one before found torn.
const MAX_WALKS: usize = 16;

/// Walks a segment from end to end.
///
/// The end of the file is evidence for where a damaged frame ends, and a torn tail is about to be cut. So where there
/// is both, the walk is repeated as the next open would walk: what it finds then is what this one answers.
fn walk(
    disk: &dyn Disk,
    segment: SegmentFile,
    mode: OpenMode,
    turns: Option<&Arc<Turns>>,
) -> Result<(ActiveSurvey, Option<LastFrame>)> {
    let path = &segment.path;
    let file: Arc<dyn File> = disk.open(path, mode).map_err(|error| Error::io("open", path, error))?.into();
    let read: Arc<dyn File> = match turns {
        Some(turns) => Arc::new(GivingWay::new(Arc::clone(&file), Arc::clone(turns))),
        None => Arc::clone(&file),
    };
    let mut walked = walk_up_to(segment.len, &read, &segment)?;
    let ends_in_zeros = walked.ends_in_zeros;
    for _ in 1..MAX_WALKS {
        let end = walked.index.place().pos;
        if end == walked.len || walked.damages == 0 {
            break;
        }
        walked = walk_up_to(end, &read, &segment)?;
    }
    let Walked { index, last, damages, .. } = walked;
    let place = index.place();
    let last = last.map(|(pos, header)| (Arc::clone(&file), pos, header));
    Ok((ActiveSurvey { segment, file, index, place, damages, ends_in_zeros }, last))
}

struct Walked {
    len: u64,
    index: SparseIndex,
    last: Option<(u64, FrameHeader)>,
    damages: u64,
    ends_in_zeros: bool,
}

fn walk_up_to(len: u64, file: &Arc<dyn File>, segment: &SegmentFile) -> Result<Walked> {
    let path = &segment.path;
    let start = Place { pos: 0, expected: segment.base };
    let mut walk = Walk::new(Arc::clone(file), len, start, Offset::MAX);
    let mut walked =
        Walked { len, index: SparseIndex::new(segment.base), last: None, damages: 0, ends_in_zeros: false };
    loop {
        let step = walk.step().map_err(|error| Error::io("read", path, error))?;
        walked.index.note(&step, walk.place());
        match step {
            Step::Frame { pos, header, .. } => walked.last = Some((pos, header)),
            Step::Damage { pos, lost } => {
                walked.damages += 1;
                tracing::warn!(path = %path.display(), pos, from = %lost.start, to = %lost.end, "damaged: these offsets are lost");
            }
            Step::Misplaced { pos } => {
                tracing::warn!(path = %path.display(), pos, "a frame that does not belong here is left alone");
            }
            Step::Torn { only_zeros, .. } => {
                walked.ends_in_zeros = only_zeros;
                return Ok(walked);
            }
            Step::End => return Ok(walked),
        }
    }
}

/// A directory without a segment: offsets go on from what its state files imply. Nothing else does, so what cannot be
/// read now fails the open: offsets that start over would be taken for settled ones.
fn empty(disk: &dyn Disk, dir: &Path) -> Result<Survey> {
    let mut passed_over_files = 0;
    let mut said = |name: &str, limit: usize, says: fn(&[u8]) -> Option<Option<Offset>>| {
        let path = dir.join(name);
        let content = small_file(disk, &path, limit)?;
        let said = content.as_deref().and_then(says);
        if said.is_none() && content.is_none_or(|bytes| !bytes.is_empty()) && disk.metadata(&path).is_ok() {
            passed_over_files += 1;
            tracing::warn!(path = %path.display(), "this state file says nothing and is passed over");
        }
        Ok::<_, Error>(said.flatten())
    };
    let watermark = said(HWM, 9, |bytes| decode_watermark(bytes).map(Some))?;
    let frontier = said(CONSUMER_OFFSET, 9, decode_consumer_offset)?;
    let ahead = said(CONSUMER_AHEAD, 2 * AHEAD_SLOT_LEN, |bytes| {
        let slots = AheadSlots::decode(bytes);
        slots.newest().map(|(_, record)| record.acked.last().copied().or(record.frontier))
    })?;
    let settled = [frontier, ahead].into_iter().flatten().map(|offset| offset.saturating_add(1));
    let next = settled.chain(watermark).max().unwrap_or_default();
    if next > Offset::ZERO {
        tracing::warn!(dir = %dir.display(), %next, "no segment is left; offsets go on from what the state files imply");
    }
    Ok(Survey {
        sealed: Vec::new(),
        active: None,
        oldest: next,
        passed_over: None,
        next,
        newest_ms: None,
        stated: Some(next),
        passed_over_files,
        damages: 0,
    })
}

/// The content of a small file; `None` when no regular file of that name is there.
fn small_file(disk: &dyn Disk, path: &Path, limit: usize) -> Result<Option<Vec<u8>>> {
    match disk.metadata(path) {
        Ok(metadata) if metadata.kind == FileKind::File => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("stat", path, error)),
    }
    disk.read_small(path, limit).map(Some).map_err(|error| Error::io("read", path, error))
}

/// The commit time of the last record of a frame, if it can be read.
fn last_commit_ms(
    context: ReadContext<'_>,
    file: &dyn File,
    pos: u64,
    header: &FrameHeader,
) -> io::Result<Option<i64>> {
    let mut bytes = vec![0; usize::try_from(header.frame_len()).map_err(|_| io::ErrorKind::FileTooLarge)?];
    file.read_exact_at(&mut bytes, pos)?;
    let frame = DecodedFrame::decode(bytes.into(), context.codecs, context.log).ok();
    let last = header.end().get().checked_sub(1).and_then(Offset::new);
    let record = frame.zip(last).and_then(|(frame, last)| frame.record(last).ok());
    Ok(record.map(|record| record.committed_at_ms))
}

/// The floor for commit times: that of the newest record, unless it lies too far in the future to be true.
pub(super) fn commit_time_floor(newest_ms: Option<i64>, now_ms: i64, dir: &Path) -> i64 {
    match newest_ms {
        Some(newest) if newest.saturating_sub(now_ms) > FUTURE_LIMIT_MS => {
            tracing::warn!(dir = %dir.display(), newest, now_ms, "the newest record is from the future; going by the clock");
            0
        }
        Some(newest) => newest,
        None => 0,
    }
}

/// Creates the directory of a partition if it is missing, durably.
pub(super) fn ensure_dir(disk: &dyn Disk, dir: &Path) -> Result<()> {
    match disk.metadata(dir) {
        Ok(metadata) if metadata.kind == FileKind::Directory => Ok(()),
        Ok(_) => Err(Error::Unusable { path: dir.to_owned(), reason: "not a directory".to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.create_dir_all_durable(dir).map_err(|error| Error::io("create", dir, error))
        }
        Err(error) => Err(Error::io("stat", dir, error)),
    }
}
