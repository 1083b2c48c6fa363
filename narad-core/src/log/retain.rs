//! Retention: what a sweep asks the policy, and how it deletes what may go.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
};

use super::{
    Inner, Swept,
    view::{Entry, Times},
};
use crate::{
    error::{Error, Result},
    format::Offset,
    plugin::{RetentionDecision, RetentionView, SegmentInfo},
};

impl Inner {
    /// Asks the policy, detaches what may go under the view's lock, unlinks it outside.
    pub(super) fn sweep(&self, frontier: Option<Offset>) -> Result<Swept> {
        self.retry_unlinks();
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
        let expired = infos.get(..decision.expire.min(infos.len())).unwrap_or_default();
        let Some(last) = expired.last() else { return Ok(Swept::default()) };
        // What follows the last segment exists before it goes, so that offsets never start over.
        let successor_exists = if last.sealed { self.ensure_active(last)? } else { self.seal_idle(last)? };
        if !successor_exists {
            return Ok(Swept::default());
        }
        let gone = self.detach_below(last.end);
        let swept = Swept {
            segments: gone.len(),
            bytes: gone.iter().map(|entry| entry.segment.len()).sum(),
            records: expired.first().map_or(0, |first| last.end.since(first.start)),
        };
        self.runtime.cache().cut_below(self.cache_id, last.end);
        self.runtime.metrics().deleted(decision.reason, swept.bytes, swept.records);
        self.unlink(gone.into_iter().map(|entry| entry.segment.path().to_owned()).collect());
        Ok(swept)
    }

    /// The segments as a policy sees them: the active one last, and only while everything in it is committed.
    fn segment_infos(&self) -> Vec<SegmentInfo> {
        // The writer's lock is taken first and let go again: a sweep never holds up a commit.
        let active_times = self.writer.try_lock().and_then(|writer| {
            let active = writer.active.as_ref().filter(|_| !writer.has_uncommitted())?;
            Some((active.first_write_ms?, active.last_write_ms))
        });
        self.learn_times();
        let now = self.runtime.clock().unix_ms();
        let view = self.view.read();
        let ends = view.segments.iter().skip(1).map(|next| next.segment.base()).map(Some).chain([None]);
        let infos = view.segments.iter().zip(ends).filter_map(|(entry, end)| {
            let segment = &entry.segment;
            let (first, last, sealed) = match entry.times {
                Times::Known { first, last } => (first, last, true),
                Times::File(modified) => (modified, modified, true),
                Times::Active => active_times.map(|(first, last)| (first, last, false))?,
            };
            let end = end.unwrap_or_else(|| segment.place().expected);
            let mut info =
                SegmentInfo::sealed(segment.base(), end, segment.len(), first.min(now), last.min(now));
            info.sealed = sealed;
            (sealed || end > segment.base()).then_some(info)
        });
        infos.collect()
    }

    /// Asks the records of segments that were recovered from disk when they were written: their own first record,
    /// and their successor's first one. A file's time is the fallback.
    fn learn_times(&self) {
        let entries: Vec<Entry> = self.view.read().segments.iter().cloned().collect();
        let unknown = |entry: &Entry| matches!(entry.times, Times::File(_));
        if !entries.iter().any(unknown) {
            return;
        }
        let firsts: Vec<_> =
            entries.iter().map(|entry| entry.segment.first_commit_ms(self.read_context())).collect();
        let mut view = self.view.write();
        for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| unknown(entry)) {
            let Times::File(modified) = entry.times else { continue };
            let first_of = |index: usize| firsts.get(index).copied().flatten();
            let (first, last) =
                (first_of(index).unwrap_or(modified), first_of(index + 1).unwrap_or(modified));
            let known = Times::Known { first: first.min(last), last };
            if let Some(same) =
                view.segments.iter_mut().find(|other| other.segment.base() == entry.segment.base())
            {
                same.times = known;
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

    fn retry_unlinks(&self) {
        let left = std::mem::take(&mut *self.unlink_again.lock());
        self.unlink(left);
    }

    /// Unlinks oldest first. What fails is counted and tried again by the next sweep.
    fn unlink(&self, paths: Vec<PathBuf>) {
        if paths.is_empty() {
            return;
        }
        let disk = self.runtime.disk();
        for path in paths {
            match disk.remove_file(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "an expired segment could not be unlinked; trying again");
                    self.runtime.metrics().error("storage", "retention_unlink");
                    self.unlink_again.lock().push(path);
                }
            }
        }
        if let Err(error) = disk.sync_dir(&self.dir).map_err(|error| Error::io("fsync", &self.dir, error)) {
            // An expired segment may come back after a power loss; the next sweep takes it again.
            tracing::warn!(%error, "the unlinking of expired segments may not be durable");
        }
    }
}
