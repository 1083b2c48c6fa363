//! Retention: what a sweep asks the policy, and how it deletes what may go.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use super::{
    Inner, Log, Swept,
    view::{Entry, Times},
};
use crate::{
    disk::Doomed,
    error::{Error, Result},
    format::Offset,
    plugin::{RetentionDecision, RetentionView, SegmentInfo},
};

impl Log {
    /// The segments as a retention policy sees them: the active one last, and only while everything in it is
    /// committed. Reads a frame of a recovered segment the first time.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.0.segment_infos()
    }
}

impl Inner {
    /// Asks the policy, detaches what may go under the view's lock, unlinks it outside.
    pub(super) fn sweep(&self, frontier: Option<Offset>) -> Result<Swept> {
        let swept = self.detach_expired(frontier);
        self.sweep_span(swept.as_ref().ok()).in_scope(|| self.unlink_detached());
        swept
    }

    fn detach_expired(&self, frontier: Option<Offset>) -> Result<Swept> {
        let infos = self.segment_infos();
        let policy = self.retention.read().clone();
        let high_watermark = self.high_watermark();
        let now_ms = self.runtime.clock().unix_ms();
        let view = RetentionView::new(now_ms, &infos, high_watermark).with_frontier(frontier);
        let decision = catch_unwind(AssertUnwindSafe(|| policy.decide(&view))).unwrap_or_else(|_| {
            tracing::error!(log = %self.options.identity, policy = policy.name(), "a retention policy panicked; keeping everything");
            self.runtime.metrics().error("storage", "retention_policy");
            RetentionDecision::KEEP
        });
        // Whatever the policy says: only what is visible can have been kept long enough.
        let visible = infos.iter().take_while(|info| info.end <= high_watermark).count();
        let expired = infos.get(..decision.expire.min(visible)).unwrap_or_default();
        let Some((last, before)) = expired.split_last() else { return Ok(Swept::default()) };
        // What follows the last segment exists before it goes, so that offsets never start over. Where that cannot be
        // made, on a full disk say, the others go all the same.
        let successor_exists = if last.sealed { self.ensure_active(last) } else { self.seal_idle(last) };
        let expired = if matches!(successor_exists, Ok(true)) { expired } else { before };
        let swept = self.detach(expired, decision.reason);
        successor_exists.map(|_| swept)
    }

    /// Takes expired segments off the view; they are unlinked later.
    fn detach(&self, expired: &[SegmentInfo], reason: &'static str) -> Swept {
        let (Some(first), Some(last)) = (expired.first(), expired.last()) else { return Swept::default() };
        let gone = self.detach_below(last.end);
        let swept = Swept {
            segments: gone.len(),
            bytes: gone.iter().map(|entry| entry.segment.len()).sum(),
            records: last.end.since(first.start),
        };
        self.hot.forget_below(last.end);
        self.runtime.cache().cut_below(self.cache_id, last.end);
        self.runtime.metrics().deleted(&self.metrics, reason, swept.bytes, swept.records);
        self.unlink_again.lock().extend(gone.iter().map(|entry| entry.segment.path().to_owned()));
        swept
    }

    /// The segments as a policy sees them: the active one last, and only while everything in it is committed.
    fn segment_infos(&self) -> Vec<SegmentInfo> {
        // The writer's lock is taken first and let go again: a sweep never holds up a commit.
        let active_times = self.writer.try_lock().and_then(|writer| {
            let active = writer.active.as_ref().filter(|_| !writer.has_uncommitted())?;
            Some((active.first_write_ms?, active.last_write_ms))
        });
        self.learn_times();
        let clock = self.runtime.clock();
        let (now, monotonic) = (clock.unix_ms(), clock.monotonic());
        let mut entries: Vec<Entry> = self.view.read().segments.iter().cloned().collect();
        let ends = entries.iter().skip(1).map(|next| next.segment.base());
        let ends: Vec<Offset> = ends.chain(entries.last().map(|last| last.segment.end())).collect();
        let is_ahead = |entry: &Entry| entry.ahead_since.is_some();
        let was_ahead = entries.iter().any(is_ahead);
        let infos = entries.iter_mut().zip(ends).filter_map(|(entry, end)| {
            let (first, last, sealed) = match entry.times {
                Times::Known { first, last } => (first, last, true),
                Times::File(modified) => (modified, modified, true),
                Times::Active => active_times.map(|(first, last)| (first, last, false))?,
            };
            let last = entry.believable(last, now, monotonic);
            let segment = &entry.segment;
            let mut info = SegmentInfo::sealed(segment.base(), end, segment.len(), first.min(last), last);
            info.sealed = sealed;
            (sealed || end > segment.base()).then_some(info)
        });
        let infos = infos.collect();
        if was_ahead || entries.iter().any(is_ahead) {
            self.view.write().note_ahead(&entries);
        }
        infos
    }

    /// Asks the records of segments that were recovered from disk when they were written: their own first record,
    /// and their successor's first one. A file's time is the fallback, for this sweep alone where a record could not
    /// be read now.
    fn learn_times(&self) {
        let entries: Vec<Entry> = {
            let view = self.view.read();
            // All known: as a rule, and a sweep of ten thousand such logs is to cost next to nothing.
            if !view.segments.iter().any(|entry| matches!(entry.times, Times::File(_))) {
                return;
            }
            view.segments.iter().cloned().collect()
        };
        let mut firsts: Vec<Option<io::Result<Option<i64>>>> = entries.iter().map(|_| None).collect();
        let mut first_of = |index: usize| -> Option<Option<i64>> {
            let (Some(first), Some(entry)) = (firsts.get_mut(index), entries.get(index)) else {
                return Some(None);
            };
            let first =
                first.get_or_insert_with(|| entry.segment.first_commit(self.read_context(&self.codecs())));
            first.as_ref().ok().copied()
        };
        let mut learned = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let Times::File(modified) = entry.times else { continue };
            let (Some(first), Some(last)) = (first_of(index), first_of(index + 1)) else { continue };
            let (first, last) = (first.unwrap_or(modified), last.unwrap_or(modified));
            learned.push((entry.segment.base(), Times::Known { first: first.min(last), last }));
        }
        if learned.is_empty() {
            return;
        }
        let mut view = self.view.write();
        for (base, times) in learned {
            let index = view.segments.binary_search_by_key(&base, |entry| entry.segment.base());
            if let Some(same) = index.ok().and_then(|index| view.segments.get_mut(index)) {
                same.times = times;
            }
        }
    }

    /// Seals an active segment in which everything has expired, unless it was written to meanwhile.
    fn seal_idle(&self, seen: &SegmentInfo) -> Result<bool> {
        let mut writer = self.writer.lock();
        let Some(active) = &writer.active else { return Ok(false) };
        let unchanged = active.segment.base() == seen.start && active.segment.place().expected == seen.end;
        if !unchanged || writer.has_uncommitted() || self.buffer.lock().check_open().is_err() {
            return Ok(false);
        }
        self.roll(&mut writer, seen.end).map(|()| true)
    }

    /// Sees to it that a sealed segment that goes is not the last one.
    fn ensure_active(&self, last: &SegmentInfo) -> Result<bool> {
        if self.view.read().has_active || last.end < self.start {
            return Ok(true);
        }
        let mut writer = self.writer.lock();
        if self.buffer.lock().check_open().is_err() {
            return Ok(false);
        }
        if writer.active.is_none() {
            self.roll(&mut writer, self.start)?;
        }
        Ok(true)
    }

    fn detach_below(&self, end: Offset) -> Vec<Entry> {
        let mut view = self.view.write();
        let keep = view.segments.partition_point(|entry| entry.segment.base() < end);
        let keep = if view.has_active { keep.min(view.segments.len().saturating_sub(1)) } else { keep };
        view.segments.drain(..keep).collect()
    }

    /// Unlinks what was detached, oldest first, each one durably before the next: whatever fails or crashes, what is
    /// left in the directory has no hole. What fails is counted and tried again by the next sweep. A close ends it: the
    /// directory may then be another log's, with segments of the same names, and what is left is found by the next open.
    fn unlink_detached(&self) {
        let _unlinking = self.unlinking.lock();
        let mut paths = std::mem::take(&mut *self.unlink_again.lock()).into_iter();
        while let Some(path) = paths.next() {
            if self.view.read().closed {
                return;
            }
            if let Err(error) = self.unlink(&path) {
                tracing::warn!(path = %path.display(), %error, "an expired segment could not be unlinked; trying again");
                self.runtime.metrics().error("storage", "retention_unlink");
                let mut waiting = self.unlink_again.lock();
                let newer = std::mem::take(&mut *waiting);
                waiting.extend(std::iter::once(path).chain(paths).chain(newer));
                return;
            }
        }
    }

    /// Unlinks a segment, durably, and only then lets go of its space: before, a power loss could bring the name back.
    fn unlink(&self, path: &Path) -> Result<()> {
        let disk = self.runtime.disk();
        let doomed = Doomed::open(&**disk, path);
        match disk.remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("unlink", path, error));
            }
            _ => disk.sync_dir(&self.dir).map_err(|error| Error::io("fsync", &self.dir, error))?,
        }
        self.runtime.reclaimer().reclaim(doomed);
        Ok(())
    }

    /// Waits for an unlink that is under way; after a close none follows it.
    pub(super) fn wait_for_unlink(&self) {
        drop(self.unlinking.lock());
    }
}
