//! The durable commit: drain, write, one fsync, read back, release `hwm`, advance the watermark; or leave nothing
//! behind.

use std::{
    io,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use super::{
    Inner,
    buffer::{Drained, Gate},
    combine::{Leading, Member, Next, Outcome, Turn},
    company::Company,
    observe::tell_records,
    writer::{Failure, Writer},
};
use crate::{
    disk::parent_of,
    error::{Error, Result},
    format::{Batch, Offset},
    plugin::WakeReason,
    runtime::promise,
    segment::DecodedFrame,
    sync::{MutexGuard, atomic::Ordering, thread},
};

/// Frames up to this many uncompressed bytes enter the cache as they are written.
const CACHED_ON_WRITE: usize = 1 << 20;

/// What a cycle achieved.
struct Committed {
    /// The offsets of each batch.
    offsets: Vec<Range<Offset>>,
    /// Whether the high watermark moved.
    advanced: bool,
}

/// A cycle that is over, its members not yet told.
#[derive(Default)]
struct Cycle {
    outcomes: Vec<(Member, Outcome)>,
    /// Whether the high watermark moved.
    advanced: bool,
}

impl Cycle {
    /// Tells every member its outcome.
    fn tell(self) {
        for (member, outcome) in self.outcomes {
            member.finish(outcome);
        }
    }
}

impl Inner {
    /// Commits in this thread.
    pub(super) fn commit(self: &Arc<Self>, batch: Batch) -> Result<Range<Offset>> {
        self.check_commit(&batch)?;
        let (seat, turn) = self.combiner.enter_blocking(batch);
        match turn {
            Turn::Done(outcome) => outcome,
            Turn::Lead => {
                let lead = Leading { combiner: &self.combiner, ask_worker: || self.lead_on_worker() };
                let cycle = self.run_cycle(self.combiner.take());
                let advanced = cycle.advanced;
                cycle.tell();
                drop(lead);
                if advanced {
                    self.announce(WakeReason::Committed);
                }
                seat.outcome()
            }
        }
    }

    /// Commits on a worker of the pool. Dropped before its cycle has started, the batch is left out.
    pub(super) fn commit_async(
        self: &Arc<Self>,
        batch: Batch,
    ) -> impl Future<Output = Result<Range<Offset>>> + Send + use<> {
        let entered = self.check_commit(&batch).map(|()| {
            let (deliver, outcome) = promise();
            if self.combiner.enter(batch, deliver) == Next::Worker {
                self.lead_on_worker();
            }
            outcome
        });
        async move { entered?.await.unwrap_or(Err(Error::Closed)) }
    }

    fn check_commit(&self, batch: &Batch) -> Result<()> {
        batch.check_size()?;
        self.buffer.lock().check_open()
    }

    /// Has a worker lead until the queue is empty, unless a thread has taken the lead by the time it begins.
    fn lead_on_worker(self: &Arc<Self>) {
        let log = Arc::clone(self);
        self.runtime.spawn(&self.group, move || {
            if !log.combiner.begin() {
                return;
            }
            let (clock, mut company) = (log.runtime.clock(), Company::default());
            loop {
                company.gather(|| log.combiner.waiting(), || clock.monotonic(), thread::yield_now);
                let members = log.combiner.take();
                company.came(members.len());
                let cycle = catch_unwind(AssertUnwindSafe(|| log.run_cycle(members))).unwrap_or_default();
                let drained = log.combiner.is_drained();
                if cycle.advanced {
                    // A panic, in a subscriber's waker say, must not leave the lead taken.
                    _ = catch_unwind(AssertUnwindSafe(|| log.announce(WakeReason::Committed)));
                }
                // Who waits for the records is on the way before those who know them already.
                cycle.tell();
                if drained {
                    return;
                }
            }
        });
    }

    /// One cycle: every member shares its outcome, whatever happens in it. That the high watermark moved is to be
    /// announced when the lead has been given up: whoever hears it may commit.
    fn run_cycle(&self, mut members: Vec<Member>) -> Cycle {
        if members.is_empty() {
            return Cycle::default();
        }
        let _span = self.commit_span(&members).entered();
        let mut batches: Vec<Batch> =
            members.iter_mut().map(|member| std::mem::take(&mut member.batch)).collect();
        *self.cycle_since.lock() = Some(self.runtime.clock().monotonic());
        let cycle = catch_unwind(AssertUnwindSafe(|| self.cycle(&mut batches)));
        *self.cycle_since.lock() = None;
        let outcome =
            cycle.unwrap_or_else(|_| Err(self.poison(Error::Internal { what: "a commit panicked" })));
        match outcome {
            Ok(Committed { offsets, advanced }) => {
                Cycle { outcomes: members.into_iter().zip(offsets.into_iter().map(Ok)).collect(), advanced }
            }
            Err(error) => {
                let outcomes = members.into_iter().map(|member| (member, Err(error.clone()))).collect();
                Cycle { outcomes, advanced: false }
            }
        }
    }

    /// Writes and commits everything appended so far, with the batches behind it.
    fn cycle(&self, batches: &mut [Batch]) -> Result<Committed> {
        let mut writer = self.writer.lock();
        let (drained, offsets) = {
            let mut buffer = self.buffer.lock();
            buffer.check_open()?;
            buffer.drain(batches)?
        };
        if drained.batch.is_empty() && !writer.has_pending() {
            // Nothing was appended: records hidden since the last close stay hidden.
            return Ok(Committed { offsets, advanced: false });
        }
        let end = drained.base.saturating_add(drained.batch.len() as u64);
        tell_records(drained.batch.len());
        let outcome = match self.make_durable(&mut writer, drained) {
            Ok(()) => {
                self.advance(&mut writer, end);
                Ok(Committed { offsets, advanced: true })
            }
            Err(failure) => Err(self.abandon(&mut writer, failure)),
        };
        self.settle_debts();
        outcome
    }

    fn make_durable(&self, writer: &mut Writer, drained: Drained) -> Result<(), Failure> {
        let _turn = self.runtime.turns().commit();
        let codecs = self.codecs();
        let context = self.write_context(&codecs);
        if !drained.batch.is_empty() {
            self.prepare_segment(writer, drained.base).map_err(Failure::Clean)?;
            let (base, records) = (drained.base, drained.batch.len() as u64);
            let batch = writer.encode(drained, context).map_err(|(error, _)| Failure::Clean(error))?;
            writer.count_unsynced(records);
            self.cache_written(base, batch);
        }
        self.write(writer, context)?;
        self.sync(writer).map_err(Failure::Poison)?;
        writer.verify(context.disk).map_err(Failure::Clean)?;
        tracing::trace!("verify");
        writer.watermark.release(context.disk).map_err(Failure::Clean)
    }

    /// Sees to it that the next frame, which begins at `base`, has a segment to go to.
    pub(super) fn prepare_segment(&self, writer: &mut Writer, base: Offset) -> Result<()> {
        if writer.active.is_some() && !self.wants_roll(writer) {
            return writer.settle_name(&**self.runtime.disk());
        }
        self.roll(writer, base)
    }

    fn wants_roll(&self, writer: &mut Writer) -> bool {
        let policy = Arc::clone(&*self.retention.read());
        let roll_age = catch_unwind(AssertUnwindSafe(|| policy.roll_age())).unwrap_or_else(|_| {
            tracing::error!(log = %self.options.identity, policy = policy.name(), "a retention policy panicked; not rolling by age");
            self.runtime.metrics().error("storage", "retention_policy");
            None
        });
        if roll_age.is_some() {
            self.learn_first_write(writer);
        }
        writer.wants_roll(self.options.segment_bytes, roll_age, self.runtime.clock().unix_ms())
    }

    /// Starts the segment for the frames from `base` on and seals the one before it.
    pub(super) fn roll(&self, writer: &mut Writer, base: Offset) -> Result<()> {
        if self.view.read().segments.is_empty() {
            self.settle_dir_name()?;
        }
        let times = writer.active.as_ref().map(|active| (active.first_write_ms, active.last_write_ms));
        let segment = writer.start_segment(base, &self.dir, &**self.runtime.disk())?;
        let former = {
            let mut view = self.view.write();
            let former = view.active().cloned();
            view.push_active(segment, times);
            former
        };
        if let Some(former) = former {
            // A reader at the tail still finds its index; the descriptor comes back with the first read.
            former.release_file();
            self.hot.touch(&former);
        }
        Ok(())
    }

    /// Makes the name of the log's own directory durable, before its first segment relies on it: whoever created it may
    /// have died, or failed, before that.
    fn settle_dir_name(&self) -> Result<()> {
        let parent = parent_of(&self.dir);
        match self.runtime.disk().sync_dir(parent) {
            // A directory that this process created is one that it can read: this one was there before.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced.map_err(|error| Error::io("fsync", parent, error)),
        }
    }

    /// Moves the watermark over everything that was just made durable. A roll that is due now may fail: it is tried
    /// again before the next write.
    fn advance(&self, writer: &mut Writer, end: Offset) {
        writer.commit();
        self.high_watermark.fetch_max(end.get(), Ordering::AcqRel);
        if writer.is_full(self.options.segment_bytes)
            && let Err(error) = self.roll(writer, end)
        {
            tracing::warn!(log = %self.options.identity, %error, "the segment is full and could not be rolled yet");
            self.runtime.metrics().error("storage", "roll");
        }
    }

    /// Leaves nothing of a failed commit behind; returns the error for those who asked for it.
    fn abandon(&self, writer: &mut MutexGuard<'_, Writer>, failure: Failure) -> Error {
        let high_watermark = self.high_watermark();
        self.runtime.cache().cut_from(self.cache_id, high_watermark);
        let error = match failure {
            Failure::Clean(error) => error,
            Failure::Poison(error) => {
                writer.drop_refused();
                return self.poison(error);
            }
        };
        let disk = &**self.runtime.disk();
        match writer.discard(disk, high_watermark, self.start.max(high_watermark)) {
            Ok(next) => {
                self.buffer.lock().discard(next, high_watermark);
                tracing::warn!(log = %self.options.identity, %error, %next, "a commit failed and left nothing behind");
                self.runtime.metrics().error("storage", "commit");
                error
            }
            Err(discard) => {
                tracing::error!(log = %self.options.identity, commit = %error, %discard, "a failed commit could not be cut off");
                writer.drop_unsynced();
                self.poison(discard)
            }
        }
    }

    /// Lets the log take no more records until it is reopened.
    pub(super) fn poison(&self, source: Error) -> Error {
        tracing::error!(log = %self.options.identity, error = %source, "the log is poisoned until it is reopened");
        self.runtime.metrics().error("storage", "fsync_poisoned");
        let error = Error::Poisoned { source: Arc::new(source) };
        let mut buffer = self.buffer.lock();
        let high_watermark = self.high_watermark();
        buffer.discard(high_watermark, high_watermark);
        if !matches!(buffer.gate(), Gate::Closed) {
            buffer.set_gate(Gate::Poisoned(error.clone()));
        }
        error
    }

    /// Keeps what was just encoded for a reader at the tail, if there is one.
    fn cache_written(&self, base: Offset, batch: Batch) {
        if batch.size() > CACHED_ON_WRITE || !self.read_since_write.swap(false, Ordering::Relaxed) {
            return;
        }
        let (count, raw) = batch.into_parts();
        if let Ok(frame) = DecodedFrame::new(base, count, raw.into()) {
            self.runtime.cache().insert(self.cache_id, Arc::new(frame));
        }
    }
}
