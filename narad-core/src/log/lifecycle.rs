//! Opening, reopening and closing a log.

use std::{path::Path, sync::Arc};

use super::{
    Inner, LogOptions,
    buffer::{Buffer, Gate},
    codecs::Codecs,
    combine::Combiner,
    notify::{announcements, is_silent},
    observe::{Recovering, open_span},
    recover::{ActiveSurvey, Survey, commit_time_floor, ensure_dir, survey},
    view::{HotSet, View},
    watermark::WatermarkFile,
    writer::{Failure, Writer},
};
use crate::{
    disk::{Disk, OpenMode},
    error::{Error, Result},
    format::Offset,
    plugin::WakeReason,
    runtime::Runtime,
    segment::ReadContext,
    sync::{
        Mutex, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

impl Inner {
    /// Opens the partition in `dir`, recovering what a crash left.
    pub(super) fn open(runtime: &Runtime, dir: &Path, options: LogOptions) -> Result<Arc<Self>> {
        let codecs = Codecs::new(Arc::clone(&options.codec), options.readable.clone(), runtime.metrics())?;
        let is_silent = is_silent(&*options.wake);
        let options = options.timed(runtime.metrics());
        let span = open_span(&options.identity);
        let _entered = span.enter();
        let disk = &**runtime.disk();
        ensure_dir(disk, dir)?;
        let context = ReadContext { disk, codecs: &codecs.readable, log: &options.identity };
        let mut survey = survey(context, dir, OpenMode::ReadWrite, Some(runtime.turns()))?;
        for _ in 0..survey.passed_over_files {
            runtime.metrics().error("storage", "state_file");
        }
        for _ in 0..survey.damages {
            runtime.metrics().error("storage", "damage");
        }
        let recovered = Recovering::of(&survey);
        if let Some(active) = &mut survey.active {
            cut_tail(active)?;
        }
        let boundary = survey.high_watermark();
        let needs_sync = survey.stated.is_none();
        let floor = commit_time_floor(survey.newest_ms, runtime.clock().unix_ms(), dir);
        let mut writer = Writer::new(WatermarkFile::new(disk, dir), floor, options.prepare_segments);
        // Without a statement the boundary comes from frames that a dead process may never have synced: nothing shown
        // now may be taken back by a power loss.
        if needs_sync
            && survey.active.is_none()
            && let Some(last) = survey.sealed.last()
        {
            sync_file(disk, &last.path)?;
        }
        let (view, next) = adopt(survey, boundary, &mut writer);
        if needs_sync {
            writer.sync_recovered()?;
        }
        let log = Arc::new(Self {
            runtime: runtime.clone(),
            dir: dir.to_owned(),
            cache_id: runtime.cache().new_id(),
            group: Arc::clone(&options.identity.name),
            retention: RwLock::new(Arc::clone(&options.retention)),
            is_silent,
            codecs: RwLock::new(Arc::new(codecs)),
            metrics: runtime.metrics().log(&options.identity),
            options,
            start: next,
            buffer: Mutex::new(Buffer::new(next)),
            combiner: Combiner::default(),
            writer: Mutex::new(writer),
            view: RwLock::new(view),
            hot: HotSet::default(),
            high_watermark: AtomicU64::new(boundary.get()),
            announced: announcements(),
            read_since_write: AtomicBool::new(false),
            armed: Mutex::new(None),
            pass_queued: AtomicBool::new(false),
            cycle_since: Mutex::new(None),
            unlink_again: Mutex::default(),
            unlinking: Mutex::default(),
        });
        if log.retention.read().roll_age().is_some() {
            log.learn_first_write(&mut log.writer.lock());
        }
        recovered.tell(&log.metrics, &span);
        Ok(log)
    }

    /// The age of a recovered active segment, for a policy that rolls by age, is that of its first record. Reads a
    /// frame the first time.
    pub(super) fn learn_first_write(&self, writer: &mut Writer) {
        let Some(active) = writer.active.as_mut().filter(|active| active.first_write_is_guessed) else {
            return;
        };
        active.first_write_is_guessed = false;
        if let Some(first) = active.segment.first_commit_ms(self.read_context(&self.codecs())) {
            active.first_write_ms = Some(first.min(self.runtime.clock().unix_ms()));
        }
    }

    /// Scans a poisoned log again. The process knows the exact watermark: what lies above it is cut, durably, before
    /// the log takes records again.
    pub(super) fn reopen(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        match self.buffer.lock().gate() {
            Gate::Open => return Ok(()),
            Gate::Closed => return Err(Error::Closed),
            Gate::Poisoned(_) => {}
        }
        let boundary = self.high_watermark();
        let mut found = self.survey()?;
        if found.active.is_none() && found.next > boundary {
            // An empty file that a failed roll left behind makes the segment that was written to look sealed: it is cut
            // by the writer that knows it.
            writer.cut_tail(&**self.runtime.disk(), boundary)?;
            found = self.survey()?;
        }
        // What is known of `hwm` stays known: a failed attempt to empty it is not undone by looking at it again.
        let mut fresh =
            Writer::new(writer.watermark.clone(), writer.newest_ms, self.options.prepare_segments);
        let recovered = found.next;
        let (mut view, _) = adopt(found, Offset::ZERO, &mut fresh);
        // What a sweep took off and could not unlink yet is still there, and stays gone.
        view.drop_below(self.view.read().oldest());
        fresh.succeed(&writer);
        let next = fresh.discard(&**self.runtime.disk(), boundary, recovered.max(boundary))?;
        if recovered < boundary {
            tracing::error!(log = %self.options.identity, %recovered, %boundary, "committed records are missing after a failed fsync");
        }
        self.runtime.cache().cut_from(self.cache_id, boundary);
        self.hot.clear();
        *self.view.write() = view;
        *writer = fresh;
        let mut buffer = self.buffer.lock();
        buffer.discard(next, boundary);
        buffer.set_gate(Gate::Open);
        tracing::info!(log = %self.options.identity, %boundary, "the log was reopened and takes records again");
        Ok(())
    }

    fn survey(&self) -> Result<Survey> {
        survey(self.read_context(&self.codecs()), &self.dir, OpenMode::ReadWrite, Some(self.runtime.turns()))
    }

    /// Drains, syncs, writes the exact boundary and lets go of every file. The log is closed whatever fails.
    pub(super) fn close(&self) -> Result<()> {
        let closed = {
            let mut writer = self.writer.lock();
            if matches!(self.buffer.lock().gate(), Gate::Closed) {
                return Ok(());
            }
            let outcome = self.close_files(&mut writer);
            self.buffer.lock().set_gate(Gate::Closed);
            writer.active = None;
            let mut view = self.view.write();
            view.closed = true;
            view.segments.clear();
            outcome
        };
        self.wait_for_unlink();
        self.settle_debts();
        self.hot.clear();
        self.runtime.cache().forget(self.cache_id);
        self.announce(WakeReason::Closed);
        closed
    }

    fn close_files(&self, writer: &mut Writer) -> Result<()> {
        let drained = {
            let mut buffer = self.buffer.lock();
            if buffer.check_open().is_err() {
                drop(buffer);
                self.cut_unknown_tail(writer);
                return Ok(());
            }
            let (drained, _) = buffer.drain(&mut [])?;
            buffer.set_gate(Gate::Closed);
            drained
        };
        let written = match self.write_last(writer, drained) {
            Err(Failure::Poison(error)) => return Err(self.poison_at_close(writer, error)),
            Err(Failure::Clean(error)) => {
                tracing::warn!(log = %self.options.identity, %error, "records that nobody committed were lost at close");
                Err(error)
            }
            Ok(()) => Ok(()),
        };
        if let Err(error) = self.sync(writer) {
            return Err(self.poison_at_close(writer, error));
        }
        let boundary = self.high_watermark();
        if writer.wants_roll(self.options.segment_bytes, None, 0) {
            let base = writer.committed_end().unwrap_or_default().max(boundary);
            _ = self.roll(writer, base).inspect_err(|error| tracing::warn!(%error, "not rolled at close"));
        }
        _ = writer
            .trim(&**self.runtime.disk())
            .inspect_err(|error| tracing::warn!(%error, "zeros stay behind the frames at close"));
        writer.watermark.write(&**self.runtime.disk(), boundary)?;
        written
    }

    fn poison_at_close(&self, writer: &mut Writer, error: Error) -> Error {
        self.poison(error.clone());
        self.cut_unknown_tail(writer);
        error
    }

    /// Cuts what lies above the high watermark, all of it refused or never promised, after a failed fsync: the next open
    /// would find it in the system's cache and show it, and a power loss would take it back. States no boundary.
    fn cut_unknown_tail(&self, writer: &mut Writer) {
        let high_watermark = self.high_watermark();
        if let Err(error) = writer.discard(&**self.runtime.disk(), high_watermark, high_watermark) {
            tracing::warn!(log = %self.options.identity, %error, "what a failed fsync left behind could not be cut at close");
        }
    }

    fn write_last(&self, writer: &mut Writer, drained: super::buffer::Drained) -> Result<(), Failure> {
        let codecs = self.codecs();
        let context = self.write_context(&codecs);
        if !drained.batch.is_empty() {
            self.prepare_segment(writer, drained.base).map_err(Failure::Clean)?;
            writer.encode(drained, context).map_err(|(error, _)| Failure::Clean(error))?;
        }
        self.write(writer, context)
    }
}

/// Cuts what lies behind the last valid frame, durably: what a crash tore, or what was prepared for frames to come.
fn cut_tail(active: &mut ActiveSurvey) -> Result<()> {
    let path = &active.segment.path;
    let (pos, bytes) = (active.place.pos, active.tail_bytes());
    match (active.torn_bytes(), active.prepared_bytes()) {
        (0, 0) => return Ok(()),
        (0, _) => tracing::debug!(path = %path.display(), pos, bytes, "cutting zeros behind the last frame"),
        _ => tracing::warn!(path = %path.display(), pos, bytes, "cutting a torn tail"),
    }
    active.file.set_len(active.place.pos).map_err(|error| Error::io("truncate", path, error))?;
    active.file.sync_data().map_err(|error| Error::io("fsync", path, error))?;
    active.segment.len = active.place.pos;
    Ok(())
}

fn sync_file(disk: &dyn Disk, path: &Path) -> Result<()> {
    let file = disk.open(path, OpenMode::Read).map_err(|error| Error::io("open", path, error))?;
    file.sync_data().map_err(|error| Error::io("fsync", path, error))
}

/// Hands what was surveyed to the writer and to the readers.
fn adopt(survey: Survey, boundary: Offset, writer: &mut Writer) -> (View, Offset) {
    let Survey { sealed, active, oldest, passed_over, next, newest_ms, .. } = survey;
    writer.passed_over = passed_over;
    let sealed_end = active.as_ref().map_or(next, |active| active.segment.base);
    let mut view = View::recovered(&sealed, sealed_end);
    view.oldest_if_empty = oldest;
    if let Some(active) = active {
        let has_tail = boundary < next || active.tail_bytes() > 0;
        let segment = writer.resume(active, has_tail, newest_ms);
        view.push_active(segment, None);
    }
    (view, next)
}

impl Inner {
    /// The exclusive bound of what readers see.
    pub(super) fn high_watermark(&self) -> Offset {
        Offset::new(self.high_watermark.load(Ordering::Acquire)).unwrap_or(Offset::MAX)
    }
}
