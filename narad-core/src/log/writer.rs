//! The write side of the active segment: encode, write, sync, read back, roll, discard.
//!
//! One thread at a time is in here, under the log's produce lock. Readers never wait for it: what it writes becomes
//! known to them only when it is committed.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::{
    active::Active,
    buffer::Drained,
    files::segment_path,
    prepare::Prepared,
    recover::{ActiveSurvey, SegmentFile},
    roll::{create_segment, set_aside},
    watermark::WatermarkFile,
};
use crate::{
    disk::{Disk, File, FileExt, parent_of},
    error::{Error, Result},
    format::{Batch, FrameHeader, HEADER_LEN, MAX_FRAME_BYTES, Offset},
    plugin::{Codec, LogIdentity, Unsynced},
    segment::{EncodeError, Place, Segment, encode_frame, is_written, may_hold_frame},
};

/// Memory kept for the next frames between two of them, of what the largest have needed: a batch of a thousand messages of
/// 1 KiB, so that its pages are not made anew for each.
const KEPT_BYTES: usize = 2 << 20;
/// Uncompressed bytes of a frame. Leaves room for a codec that expands what it cannot compress.
const RAW_LIMIT: usize = MAX_FRAME_BYTES as usize;

/// How making records durable failed: whether what is in the file can still be known.
pub(super) enum Failure {
    /// It can: the tail is cut, and the log goes on.
    Clean(Error),
    /// An fsync failed: it cannot.
    Poison(Error),
}

/// What the writer needs of the log around it.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteContext<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) codec: &'a dyn Codec,
    pub(super) log: &'a LogIdentity,
    pub(super) segment_bytes: u64,
    pub(super) now: Duration,
    pub(super) now_ms: i64,
}

/// The write side.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) active: Option<Active>,
    /// Where the next frame goes: behind everything that was encoded.
    end: u64,
    /// Where the committed frames end; `None` while a recovered tail lies above the high watermark.
    committed: Option<Place>,
    /// Frames above the high watermark, encoded and perhaps written, in order.
    pending: Vec<(FrameHeader, u64)>,
    /// The bytes of the frames that are not synced, and where they begin. Kept until an fsync has succeeded.
    unsynced: Vec<u8>,
    unsynced_start: u64,
    /// How many of them were written.
    written: usize,
    /// Whether a frame that is not written holds what could be taken for one.
    needs_anchor: bool,
    unsynced_records: u64,
    /// Monotonic time of the first write that is not synced.
    unsynced_since: Option<Duration>,
    /// Whether the file may hold bytes above the high watermark.
    tail_dirty: bool,
    /// The zeros behind the frames.
    prepared: Prepared,
    /// The newest commit time of the partition.
    pub(super) newest_ms: i64,
    pub(super) watermark: WatermarkFile,
    /// A file with a segment's name that must be out of the way before a segment follows it.
    pub(super) passed_over: Option<PathBuf>,
}

impl Writer {
    /// The writer of a log whose active segment was surveyed, if it has one. `prepares` says whether it may fill its
    /// segments with zeros ahead of their frames.
    pub(super) fn new(watermark: WatermarkFile, newest_ms: i64, prepares: bool) -> Self {
        Self {
            active: None,
            end: 0,
            committed: None,
            pending: Vec::new(),
            unsynced: Vec::new(),
            unsynced_start: 0,
            written: 0,
            needs_anchor: false,
            unsynced_records: 0,
            unsynced_since: None,
            tail_dirty: false,
            prepared: Prepared::new(prepares, 0),
            newest_ms,
            watermark,
            passed_over: None,
        }
    }

    /// Goes on with a surveyed segment. `has_tail` says that the file holds bytes above the
    /// high watermark.
    pub(super) fn resume(
        &mut self,
        survey: ActiveSurvey,
        has_tail: bool,
        newest_ms: Option<i64>,
    ) -> Arc<Segment> {
        let SegmentFile { base, path, modified_ms, len } = survey.segment;
        let file = Arc::clone(&survey.file);
        let is_empty = survey.place.pos == 0;
        let segment = Segment::active(base, path.clone(), survey.file, survey.index, survey.place.pos);
        let segment = Arc::new(segment);
        self.end = survey.place.pos;
        self.prepared.cut(len);
        self.tail_dirty = has_tail;
        self.committed = (!has_tail).then_some(survey.place);
        let mut active = Active::created(Arc::clone(&segment), path, file);
        active.first_write_ms = (!is_empty).then_some(modified_ms);
        active.last_write_ms = newest_ms.unwrap_or(modified_ms);
        active.first_write_is_guessed = !is_empty;
        active.name_is_durable = !is_empty;
        self.active = Some(active);
        segment
    }

    /// Encodes records behind everything that is there. On an error nothing of them is kept and they are given back.
    pub(super) fn encode(
        &mut self,
        mut drained: Drained,
        context: WriteContext<'_>,
    ) -> Result<Batch, (Error, Drained)> {
        if self.unsynced.is_empty() {
            self.unsynced_start = self.end;
        }
        self.newest_ms = self.newest_ms.max(context.now_ms);
        drained.batch.stamp(self.newest_ms);
        let (bytes_before, frames_before, end_before) = (self.unsynced.len(), self.pending.len(), self.end);
        let mut base = drained.base;
        for (count, raw) in drained.batch.runs(RAW_LIMIT) {
            if let Err(error) = self.encode_run(base, count, raw, context) {
                self.unsynced.truncate(bytes_before);
                self.pending.truncate(frames_before);
                self.end = end_before;
                return Err((error, drained));
            }
            base = base.saturating_add(u64::from(count));
        }
        Ok(drained.batch)
    }

    /// One frame of a run of records, or several where the codec's output would not fit in one.
    fn encode_run(&mut self, base: Offset, count: u32, raw: &[u8], context: WriteContext<'_>) -> Result<()> {
        let start = self.unsynced.len() + HEADER_LEN;
        match encode_frame(context.codec, context.log, base, count, raw, &mut self.unsynced) {
            Ok(header) => {
                let stored = self.unsynced.get(start..).unwrap_or_default();
                self.needs_anchor |= may_hold_frame(stored);
                self.pending.push((header, self.end));
                self.end += header.frame_len();
                Ok(())
            }
            Err(EncodeError::Failed(error)) => Err(error),
            Err(EncodeError::TooLarge) if count > 1 => {
                let mut base = base;
                for (count, half) in Batch::runs_of(raw, raw.len() / 2) {
                    self.encode_run(base, count, half, context)?;
                    base = base.saturating_add(u64::from(count));
                }
                Ok(())
            }
            Err(EncodeError::TooLarge) => {
                let limit = u64::from(MAX_FRAME_BYTES);
                Err(Error::RecordTooLarge { bytes: raw.len() as u64 + HEADER_LEN as u64, limit })
            }
        }
    }

    /// Makes the headers of the frames that are to be written durable, where a payload among them holds what could be taken
    /// for a frame: of an unsynced write a power loss keeps any sectors, and without the header around it what lies in a
    /// payload would be one. With it the frame's extent is known, however little of it is left.
    ///
    /// # Errors
    /// Nothing of the payloads is written.
    pub(super) fn anchor(&mut self, disk: &dyn Disk) -> Result<(), Failure> {
        if !self.needs_anchor {
            return Ok(());
        }
        let Some(active) = &mut self.active else { return Err(Failure::Clean(Error::Closed)) };
        let file = Arc::clone(active.file(disk).map_err(Failure::Clean)?);
        self.tail_dirty = true;
        let from = self.unsynced_start + self.written as u64;
        for (header, pos) in self.pending.iter().filter(|(_, pos)| *pos >= from) {
            let written = file.write_all_at(&header.encode(), *pos);
            written.map_err(|(_, error)| Failure::Clean(Error::io("write", &active.path, error)))?;
        }
        file.sync_data().map_err(|error| Failure::Poison(Error::io("fsync", &active.path, error)))?;
        self.needs_anchor = false;
        Ok(())
    }

    /// Writes what is encoded and not written. What a failure leaves unwritten is written by the next call.
    pub(super) fn write(&mut self, context: WriteContext<'_>) -> Result<()> {
        let Some(rest) = self.unsynced.get(self.written..).filter(|rest| !rest.is_empty()) else {
            return Ok(());
        };
        let Some(active) = &mut self.active else { return Err(Error::Closed) };
        let file = active.file(context.disk)?;
        self.tail_dirty = true;
        let outcome = file.write_all_at(rest, self.unsynced_start + self.written as u64);
        match outcome {
            Ok(()) => {
                let (bytes, end) = (rest.len() as u64, self.unsynced_start + self.unsynced.len() as u64);
                self.prepared.follow(&**file, bytes, end, context.segment_bytes);
                self.written = self.unsynced.len();
                self.unsynced_since.get_or_insert(context.now);
                active.first_write_ms.get_or_insert(context.now_ms);
                active.last_write_ms = context.now_ms;
                Ok(())
            }
            Err((taken, error)) => {
                self.written += taken;
                Err(Error::io("write", &active.path, error))
            }
        }
    }

    /// Makes everything written durable. A failure poisons the log: the caller sees to that.
    pub(super) fn sync(&mut self) -> Result<()> {
        if self.unsynced.is_empty() {
            return Ok(());
        }
        let Some((active, file)) = self.active_file() else { return Ok(()) };
        file.sync_data().map_err(|error| Error::io("fsync", &active.path, error))?;
        if self.written == self.unsynced.len() {
            self.unsynced.clear();
            self.unsynced.shrink_to(KEPT_BYTES);
            (self.written, self.unsynced_start) = (0, self.end);
        }
        (self.unsynced_since, self.unsynced_records) = (None, 0);
        Ok(())
    }

    /// Reads the frames above the high watermark back and checks them.
    pub(super) fn verify(&mut self, disk: &dyn Disk) -> Result<()> {
        let Some(active) = &mut self.active else { return Ok(()) };
        for (header, pos) in &self.pending {
            let holds = is_written(&**active.file(disk)?, *pos, header);
            if !holds.map_err(|error| Error::io("read", &active.path, error))? {
                let reason = "what was read back is not what was written";
                return Err(Error::Corrupt { offset: header.base, segment: active.path.clone(), reason });
            }
        }
        Ok(())
    }

    /// The frames above the high watermark are committed.
    pub(super) fn commit(&mut self) {
        if let Some(active) = &self.active {
            active.segment.note_written(&self.pending);
        }
        if let Some((last, pos)) = self.pending.last() {
            self.committed = Some(Place { pos: pos + last.frame_len(), expected: last.end() });
        }
        self.pending.clear();
        self.pending.shrink_to(64);
        self.tail_dirty = false;
    }

    /// Drops everything above `high_watermark`, in memory and on disk; returns the offset of the next record.
    ///
    /// # Errors
    /// The truncate or its fsync failed: what is in the file is not known.
    pub(super) fn discard(
        &mut self,
        disk: &dyn Disk,
        high_watermark: Offset,
        next_if_clean: Offset,
    ) -> Result<Offset> {
        self.drop_unsynced();
        let Some(active) = &mut self.active else { return Ok(next_if_clean) };
        let place = match self.committed {
            Some(place) => place,
            None => {
                let file = Arc::clone(active.file(disk)?);
                let place = active.segment.place_of(file, high_watermark);
                place.map_err(|error| Error::io("read", &active.path, error))?
            }
        };
        if self.tail_dirty {
            let file = Arc::clone(active.file(disk)?);
            file.set_len(place.pos).map_err(|error| Error::io("truncate", &active.path, error))?;
            file.sync_data().map_err(|error| Error::io("fsync", &active.path, error))?;
            active.segment.note_truncated(place);
            self.prepared.cut(place.pos);
            self.tail_dirty = false;
        }
        if place.pos == 0 {
            (active.first_write_ms, active.first_write_is_guessed) = (None, false);
        }
        self.committed = Some(place);
        (self.end, self.unsynced_start) = (place.pos, place.pos);
        Ok(place.expected.max(high_watermark))
    }

    /// Cuts the active segment at `high_watermark`, durably, however clean its tail was thought to be.
    pub(super) fn cut_tail(&mut self, disk: &dyn Disk, high_watermark: Offset) -> Result<()> {
        self.tail_dirty = true;
        self.discard(disk, high_watermark, high_watermark).map(drop)
    }

    /// Gives up the descriptor of the active segment and the memory kept for its next frames, where everything in it is
    /// committed and synced, and nothing waits to be written. Answers whether it could.
    pub(super) fn give_up_file(&mut self) -> bool {
        if self.has_uncommitted() || !self.unsynced.is_empty() {
            return false;
        }
        (self.pending, self.unsynced) = (Vec::new(), Vec::new());
        if let Some(active) = &mut self.active {
            active.give_up_file(self.prepared.len().max(self.end));
        }
        true
    }

    /// The active segment and its file, unless that is given up: nothing is unsynced then.
    fn active_file(&self) -> Option<(&Active, &Arc<dyn File>)> {
        let active = self.active.as_ref()?;
        active.open_file().map(|file| (active, file))
    }

    /// Forgets what is encoded and not synced.
    pub(super) fn drop_unsynced(&mut self) {
        self.pending.clear();
        self.unsynced.clear();
        self.unsynced.shrink_to(KEPT_BYTES);
        (self.written, self.unsynced_records, self.unsynced_since) = (0, 0, None);
        self.needs_anchor = false;
    }

    /// The same after a failed fsync, which leaves in the system's memory what looks written and may never reach the disk: a
    /// process that opens the log after this one has died would show it, and find nothing to sync. As good as can be done on
    /// a file that has just failed; the reopen cuts it again, durably.
    pub(super) fn drop_refused(&mut self) {
        self.drop_unsynced();
        let file = self.active.as_ref().and_then(Active::open_file);
        if let (Some(file), Some(place)) = (file, self.committed) {
            match file.set_len(place.pos) {
                Ok(()) => self.prepared.cut(place.pos),
                Err(error) => {
                    tracing::warn!(%error, "what a failed fsync has refused stays in the file until the log is reopened");
                }
            }
        }
    }

    /// Cuts the zeros behind the frames, durably: a segment that is sealed, closed or idle has none. Everything in it is
    /// synced, so a failure puts no record in doubt, and the next try may do no more than this one did: zeros that stay
    /// behind the frames of a segment are read as nothing.
    pub(super) fn trim(&mut self, disk: &dyn Disk) -> Result<()> {
        if !self.unsynced.is_empty() {
            return Ok(());
        }
        if self.prepared.is_trimmed(self.end) {
            self.prepared.trimmed(self.prepared.len(), true);
            return Ok(());
        }
        let Some(active) = &mut self.active else { return Ok(()) };
        let file = Arc::clone(active.file(disk)?);
        file.set_len(self.end).map_err(|error| Error::io("truncate", &active.path, error))?;
        self.prepared.trimmed(self.end, false);
        file.sync_data().map_err(|error| Error::io("fsync", &active.path, error))?;
        self.prepared.trimmed(self.end, true);
        Ok(())
    }

    /// Whether this process has encoded frames that are not committed.
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether frames above the high watermark are in the file or on their way to it.
    pub(super) fn has_uncommitted(&self) -> bool {
        !self.pending.is_empty() || self.tail_dirty
    }

    /// Goes on in place of `before` after a failed fsync. Whatever the file looks like, its tail is to be cut: an earlier
    /// cut may not be durable. The former writer knows where the committed frames end, which a walk cannot tell where
    /// damage follows; it is believed if they are all still there.
    pub(super) fn succeed(&mut self, before: &Self) {
        self.tail_dirty = self.active.is_some();
        let path = |writer: &Self| writer.active.as_ref().map(|active| active.path.clone());
        if path(self) == path(before) {
            self.committed = before.committed.filter(|place| place.pos <= self.end);
        }
    }

    /// The first offset behind the committed frames of the active segment, where that is known.
    pub(super) fn committed_end(&self) -> Option<Offset> {
        self.committed.map(|place| place.expected)
    }

    /// Whether the active segment is to be sealed before the next frame: it is full, or its oldest record is older
    /// than `roll_age`, and every record in it is committed.
    pub(super) fn wants_roll(&self, segment_bytes: u64, roll_age: Option<Duration>, now_ms: i64) -> bool {
        let Some(active) = &self.active else { return false };
        if self.has_uncommitted() || self.end == 0 {
            return false;
        }
        let too_old = roll_age.zip(active.first_write_ms).is_some_and(|(limit, first)| {
            now_ms.saturating_sub(first) > i64::try_from(limit.as_millis()).unwrap_or(i64::MAX)
        });
        self.is_full(segment_bytes) || too_old
    }

    /// Whether the active segment has reached its cap.
    pub(super) fn is_full(&self, segment_bytes: u64) -> bool {
        self.end >= segment_bytes
    }

    /// Makes the file for the frames from `base` on, its name durable. The former active segment was synced.
    pub(super) fn start_segment(
        &mut self,
        base: Offset,
        dir: &std::path::Path,
        disk: &dyn Disk,
    ) -> Result<Arc<Segment>> {
        self.trim(disk)?;
        if let Some(path) = &self.passed_over {
            set_aside(path, disk)?;
            self.passed_over = None;
        }
        let path = segment_path(dir, base);
        let file = create_segment(&path, disk)?;
        let index = crate::segment::SparseIndex::new(base);
        let segment = Arc::new(Segment::active(base, path.clone(), Arc::clone(&file), index, 0));
        (self.end, self.unsynced_start, self.tail_dirty) = (0, 0, false);
        self.prepared = self.prepared.next_segment();
        self.committed = Some(Place { pos: 0, expected: base });
        self.active = Some(Active::created(Arc::clone(&segment), path, file));
        Ok(segment)
    }

    /// Makes the name of a recovered active segment durable before the first frame relies on it.
    pub(super) fn settle_name(&mut self, disk: &dyn Disk) -> Result<()> {
        let Some(active) = self.active.as_mut().filter(|active| !active.name_is_durable) else {
            return Ok(());
        };
        let dir = parent_of(&active.path);
        disk.sync_dir(dir).map_err(|error| Error::io("fsync", dir, error))?;
        active.name_is_durable = true;
        Ok(())
    }

    /// What is written and not synced, for the policy; `None` when nothing is.
    pub(super) fn unsynced(&self, now: Duration) -> Option<Unsynced> {
        let since = self.unsynced_since?;
        Some(Unsynced::new(self.written as u64, self.unsynced_records.max(1), now.saturating_sub(since)))
    }

    /// Counts records towards the next question to the sync policy.
    pub(super) fn count_unsynced(&mut self, records: u64) {
        self.unsynced_records += records;
    }

    /// Whether a failed write is to be tried again.
    pub(super) fn owes_write(&self) -> bool {
        self.written < self.unsynced.len()
    }

    /// Whether something is encoded that no fsync has made durable.
    pub(super) fn owes_sync(&self) -> bool {
        !self.unsynced.is_empty()
    }

    /// Bytes that wait for a write to succeed.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.unsynced.len().saturating_sub(self.written) as u64
    }

    /// Makes a segment durable that was recovered and whose writer may have died before its fsync.
    pub(super) fn sync_recovered(&self) -> Result<()> {
        let Some((active, file)) = self.active_file() else { return Ok(()) };
        file.sync_data().map_err(|error| Error::io("fsync", &active.path, error))
    }
}
