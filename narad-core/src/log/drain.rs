//! The way to disk of records that nobody has been promised: drains and syncs by timer, bounded and retried.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    Inner,
    buffer::DRAIN_INTERVAL,
    writer::{Failure, Writer},
};
use crate::{
    error::{Error, Result},
    format::Batch,
    plugin::{SyncDecision, Synced},
    runtime::Due,
    sync::atomic::Ordering,
};

impl Due for Inner {
    fn due(self: Arc<Self>) {
        let now = self.runtime.clock().monotonic();
        self.armed.lock().take_if(|entry| entry.at <= now);
        self.spawn_pass();
    }
}

impl Inner {
    /// Takes records into memory, and sees to it that they are drained in time.
    pub(super) fn append(self: &Arc<Self>, batch: &Batch) -> Result<super::Appended> {
        let now = self.runtime.clock().monotonic();
        let (appended, full) = {
            let mut buffer = self.buffer.lock();
            let offsets = buffer.append(batch, now)?;
            (super::Appended { offsets, fate: buffer.fate() }, buffer.is_full())
        };
        if full {
            self.spawn_pass();
        } else if !batch.is_empty() {
            self.arm(now + DRAIN_INTERVAL);
        }
        Ok(appended)
    }

    fn spawn_pass(self: &Arc<Self>) {
        if self.pass_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let log = Arc::clone(self);
        self.runtime.spawn(&self.group, move || {
            log.pass_queued.store(false, Ordering::Release);
            if catch_unwind(AssertUnwindSafe(|| log.pass())).is_err() {
                log.poison(Error::Internal { what: "a drain panicked" });
            }
        });
    }

    /// Has the timer call at `at`, unless it calls earlier anyway. A log has one entry at most.
    fn arm(self: &Arc<Self>, at: Duration) {
        let mut armed = self.armed.lock();
        if armed.is_some_and(|earlier| earlier.at <= at) {
            return;
        }
        let due: Weak<dyn Due> = Arc::downgrade(self) as Weak<dyn Due>;
        if let Some(later) = armed.replace(self.runtime.schedule(at, due)) {
            self.runtime.cancel(later);
        }
    }

    /// The writer owes nothing: takes the timer's entry back, unless records have been appended meanwhile. Those who
    /// append arm the timer after their records are in the buffer, so an entry of theirs is never lost.
    pub(super) fn settle_debts(&self) {
        let mut buffer = self.buffer.lock();
        buffer.waiting_bytes = 0;
        if buffer.since().is_none()
            && let Some(entry) = self.armed.lock().take()
        {
            self.runtime.cancel(entry);
        }
    }

    /// Does what is owed, and arms the timer for what is owed later.
    fn pass(self: &Arc<Self>) {
        let now = self.runtime.clock().monotonic();
        // Whoever holds the lock is a commit, which drains everything itself, or a close.
        let Some(mut writer) = self.writer.try_lock() else { return self.arm(now + DRAIN_INTERVAL) };
        if self.buffer.lock().check_open().is_err() {
            return;
        }
        let drained = self.drain(&mut writer, now);
        self.buffer.lock().waiting_bytes = writer.waiting_bytes();
        let retry = match drained {
            Ok(()) => None,
            Err(error) => {
                tracing::warn!(log = %self.options.identity, %error, "appended records could not be written; trying again");
                self.runtime.metrics().error("storage", "flush");
                Some(now + DRAIN_INTERVAL)
            }
        };
        let Ok(sync) = self.sync_if_due(&mut writer, now) else { return };
        drop(writer);
        let buffered = self.buffer.lock().since().map(|since| since + DRAIN_INTERVAL);
        match [retry, sync, buffered].into_iter().flatten().min() {
            Some(at) => self.arm(at.max(now + Duration::from_millis(1))),
            None => self.settle_debts(),
        }
    }

    fn drain(&self, writer: &mut Writer, now: Duration) -> Result<()> {
        let (is_full, since) = {
            let buffer = self.buffer.lock();
            (buffer.is_full(), buffer.since())
        };
        if is_full || since.is_some_and(|since| since + DRAIN_INTERVAL <= now) {
            let (drained, _) = self.buffer.lock().drain(&mut [])?;
            let records = drained.batch.len() as u64;
            let encoded = match self.prepare_segment(writer, drained.base) {
                Ok(()) => writer.encode(drained, self.write_context(&self.codecs())).map(drop),
                Err(error) => Err((error, drained)),
            };
            if let Err((error, drained)) = encoded {
                self.buffer.lock().restore(drained, now);
                return Err(error);
            }
            writer.count_unsynced(records);
        }
        if !writer.owes_write() {
            return Ok(());
        }
        self.write(writer, self.write_context(&self.codecs())).map_err(|failure| match failure {
            Failure::Clean(error) => error,
            Failure::Poison(error) => self.poison_from_drain(writer, error),
        })?;
        if writer.is_full(self.options.segment_bytes) {
            self.sync(writer).map_err(|error| self.poison_from_drain(writer, error))?;
        }
        Ok(())
    }

    /// Makes everything written durable, counts that and tells the policy what it has cost. An error poisons the log: the
    /// caller sees to that.
    pub(super) fn sync(&self, writer: &mut Writer) -> Result<()> {
        if !writer.owes_sync() {
            return Ok(());
        }
        let (clock, policy) = (self.runtime.clock(), &self.options.sync);
        let began = clock.monotonic();
        let unsynced = writer.unsynced(began);
        let outcome = writer.sync();
        let took = clock.monotonic().saturating_sub(began);
        self.tell_synced(took);
        outcome?;
        let Some(unsynced) = unsynced else { return Ok(()) };
        let synced = Synced::new(unsynced, took);
        if catch_unwind(AssertUnwindSafe(|| policy.synced(&synced))).is_err() {
            tracing::error!(log = %self.options.identity, policy = policy.name(), "a sync policy panicked over a sync");
        }
        Ok(())
    }

    /// Asks the policy about what is unsynced; answers when it wants to be asked again. An error: the log is poisoned.
    fn sync_if_due(&self, writer: &mut Writer, now: Duration) -> Result<Option<Duration>> {
        let Some(unsynced) = writer.unsynced(now) else { return Ok(None) };
        let policy = &self.options.sync;
        let decision = catch_unwind(AssertUnwindSafe(|| policy.decide(&unsynced))).unwrap_or_else(|_| {
            tracing::error!(log = %self.options.identity, policy = policy.name(), "a sync policy panicked; syncing");
            SyncDecision::Now
        });
        match decision {
            SyncDecision::Now => {
                self.sync(writer).map_err(|error| self.poison_from_drain(writer, error))?;
                Ok(None)
            }
            SyncDecision::Within(wait) => Ok(now.checked_add(wait)),
            SyncDecision::NotYet => Ok(None),
        }
    }

    fn poison_from_drain(&self, writer: &mut Writer, error: Error) -> Error {
        writer.drop_refused();
        self.poison(error)
    }
}
