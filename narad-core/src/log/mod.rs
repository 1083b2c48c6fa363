//! A partition: open and recover, append, commit, read, watermark, retain, notify, close.
//!
//! Knows nothing of topics, incarnations or consumers.
//!
//! ```
//! use std::sync::Arc;
//! use narad_core::{format::Batch, log::{Log, LogOptions}, runtime::Runtime};
//!
//! # fn main() -> narad_core::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! let runtime = Runtime::default();
//! let log = Log::open(&runtime, dir.path(), LogOptions::new("orders", Arc::new(narad_codecs::Zstd::default())))?;
//! let offsets = log.commit(Batch::of(b"key", b"value"))?; // durable when it returns
//! assert_eq!(log.read(offsets.start)?.payload, "value");
//! log.close()
//! # }
//! ```

mod active;
mod buffer;
mod codecs;
mod combine;
mod commit;
mod company;
mod drain;
pub(crate) mod files;
pub mod inspect;
mod lifecycle;
#[cfg(all(test, feature = "shuttle"))]
mod models;
mod notify;
mod observe;
mod options;
mod peek;
mod prepare;
mod read;
mod recover;
mod release;
mod retain;
mod roll;
mod view;
mod watermark;
mod writer;

use std::{
    future::Future,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use event_listener::Event;

use self::{
    buffer::{Buffer, Fate, Gate},
    codecs::Codecs,
    combine::Combiner,
    view::{HotSet, Times, View},
    writer::{WriteContext, Writer},
};
pub use self::{
    notify::Subscription,
    options::{LogOptions, SEGMENT_BYTES},
    peek::{ClosedStats, peek, peek_segments},
};
use crate::{
    error::{Error, Result},
    format::{Batch, Offset, Record},
    metrics::LogMetrics,
    plugin::{LogIdentity, RetentionPolicy, WakeReason},
    runtime::{Runtime, TimerEntry},
    segment::CacheId,
    sync::{
        Mutex, RwLock,
        atomic::{AtomicBool, AtomicU64},
    },
};

/// An open partition. Cloning it gives another handle to the same log.
///
/// The last handle that goes does not close the log: without a [`close`](Self::close) the next open recovers as
/// after a crash, which loses nothing that was committed.
///
/// A log looks after itself only when it is asked to: [`sweep`](Self::sweep) runs its retention, [`reopen`](Self::reopen)
/// heals it after a failed fsync. A [`Store`](crate::store::Store) asks all of its logs from time to time.
///
/// Every call has a blocking form, which runs in the caller's thread, and where it may touch a file an async form,
/// which runs on the runtime's workers.
#[derive(Debug, Clone)]
pub struct Log(Arc<Inner>);

/// Lock order: `writer`, then `buffer`, then `view`, then a segment's own. Only `writer`, the produce lock, is held
/// across an fsync, and no reader takes it.
#[derive(Debug)]
struct Inner {
    runtime: Runtime,
    dir: PathBuf,
    /// As they were at open: what can be changed since stands below. Every plugin is timed.
    options: LogOptions,
    codecs: RwLock<Arc<Codecs>>,
    metrics: Arc<LogMetrics>,
    cache_id: CacheId,
    /// Names the share of the pool's workers that this log can take.
    group: Arc<str>,
    /// The offset of the next record at open.
    start: Offset,
    buffer: Mutex<Buffer>,
    combiner: Combiner,
    writer: Mutex<Writer>,
    view: RwLock<View>,
    hot: HotSet,
    high_watermark: AtomicU64,
    retention: RwLock<Arc<dyn RetentionPolicy>>,
    announced: Event,
    is_silent: bool,
    /// Whether something has read here since frames last entered the cache as they were written.
    read_since_write: AtomicBool,
    /// When the timer will call, if it will.
    armed: Mutex<Option<TimerEntry>>,
    pass_queued: AtomicBool,
    /// Since when the commit cycle that runs now does.
    cycle_since: Mutex<Option<Duration>>,
    /// Expired segments whose unlink failed.
    unlink_again: Mutex<Vec<PathBuf>>,
    /// Held while segments are unlinked by their paths, which are somebody else's once the log is closed.
    unlinking: Mutex<()>,
}

/// Records that were appended and not yet committed.
#[derive(Debug, Clone)]
pub struct Appended {
    /// Their offsets, if no failed commit drops them.
    pub offsets: Range<Offset>,
    fate: Fate,
}

/// What a batch read found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReadBatch {
    /// The records, ascending.
    pub records: Vec<Record>,
    /// Where the next read should begin: behind the last record, or behind the damage that ended the batch.
    pub next: Offset,
    /// Ranges below `next` that could not be read: damaged, missing, or of an unknown codec.
    pub unreadable: Vec<Range<Offset>>,
}

/// What a log holds, for statistics.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogStats {
    /// Segment files.
    pub segments: usize,
    /// The oldest offset kept.
    pub oldest: Offset,
    /// The offset of the next record.
    pub next: Offset,
    /// The exclusive bound of what can be read.
    pub high_watermark: Offset,
    /// Bytes of all segment files.
    pub bytes: u64,
    /// First write of the oldest segment, Unix milliseconds.
    pub oldest_segment_ms: Option<i64>,
    /// The failure that poisoned the log, if it is.
    pub poisoned: Option<Error>,
}

/// What a sweep deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Segments.
    pub segments: usize,
    /// Bytes.
    pub bytes: u64,
    /// Offsets.
    pub records: u64,
}

impl Log {
    /// Opens the partition in `dir`, which is created if it is missing. Reads the active segment alone; a torn tail is
    /// cut, damage in the middle is kept and never served. Without a clean close before, everything whose frames
    /// check out is visible, durably.
    ///
    /// Nothing keeps a second log, of this process or another one, from opening the same directory, and both would write
    /// over each other; a [`Store`](crate::store::Store) takes a lock.
    ///
    /// # Errors
    /// `Io` when anything could not be read or synced (every byte is left as it was), `Unusable` for a segment named
    /// for the largest offset, `InvalidArgument` when two codecs claim one number.
    pub fn open(runtime: &Runtime, dir: &Path, options: LogOptions) -> Result<Self> {
        Inner::open(runtime, dir, options).map(Self)
    }

    /// [`open`](Self::open) on the runtime's workers.
    pub fn open_async(
        runtime: &Runtime,
        dir: &Path,
        options: LogOptions,
    ) -> impl Future<Output = Result<Self>> + Send + use<> {
        let (handle, dir, group) = (runtime.clone(), dir.to_owned(), Arc::clone(&options.identity.name));
        runtime.run_blocking(&group, move || Self::open(&handle, &dir, options))
    }

    /// Puts records into memory and returns their offsets. Nothing is promised about them: they are written within
    /// 100 ms, synced as the log's sync policy says, and visible only after a commit. Touches no file and never waits for
    /// one, so asynchronous code calls it as it is.
    ///
    /// # Errors
    /// `RecordTooLarge`, `BufferFull` while the disk does not take what was appended before, `Closed`, `Poisoned`.
    pub fn append(&self, batch: &Batch) -> Result<Appended> {
        self.0.append(batch)
    }

    /// Writes a batch, fsyncs it once together with everything appended before and every other commit that arrived
    /// meanwhile, reads it back, and makes all of it visible. The offsets of a batch are contiguous. What it returned
    /// survives a process crash and a power loss.
    ///
    /// # Errors
    /// Nothing of the batch is left in the log, and the next append gets the offset that it had, so committing it
    /// again puts one copy there: `DiskFull`, `Io`, `Plugin` (the codec), `RecordTooLarge`. With `Poisoned` the log
    /// takes no records until it is reopened, and what the failed commit wrote may come back then as a duplicate.
    pub fn commit(&self, batch: Batch) -> Result<Range<Offset>> {
        self.0.commit(batch)
    }

    /// [`commit`](Self::commit) on the runtime's workers. The batch is queued when this is called. Dropping the
    /// future before its cycle has started leaves the batch out; afterwards it is committed all the same.
    pub fn commit_async(&self, batch: Batch) -> impl Future<Output = Result<Range<Offset>>> + Send + use<> {
        self.0.commit_async(batch)
    }

    /// Commits everything appended up to and including `appended`.
    ///
    /// # Errors
    /// `Discarded` when a failed commit has dropped these records; otherwise as [`commit`](Self::commit).
    pub fn commit_appended(&self, appended: &Appended) -> Result<()> {
        self.0.check_kept(appended)?;
        if self.high_watermark() < appended.offsets.end {
            self.0.commit(Batch::new())?;
        }
        self.0.check_kept(appended)
    }

    /// [`commit_appended`](Self::commit_appended) on the runtime's workers.
    pub fn commit_appended_async(
        &self,
        appended: &Appended,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let (log, appended) = (self.clone(), appended.clone());
        async move {
            log.0.check_kept(&appended)?;
            if log.high_watermark() < appended.offsets.end {
                log.commit_async(Batch::new()).await?;
            }
            log.0.check_kept(&appended)
        }
    }

    /// Reads one record.
    ///
    /// # Errors
    /// `NotYet` at and above the high watermark, `Expired` below the oldest record kept, `Corrupt` for what is damaged
    /// or missing, `UnknownCodec`, `Io`, and `Closed` for everything once the log is closed.
    pub fn read(&self, offset: Offset) -> Result<Record> {
        self.0.read(offset)
    }

    /// [`read`](Self::read): answered at once from the cache, otherwise on the runtime's workers.
    pub fn read_async(&self, offset: Offset) -> impl Future<Output = Result<Record>> + Send + use<> {
        self.on_a_worker_unless(self.0.read_cached(offset), move |log| log.read(offset))
    }

    /// Reads the records from `from` on: at most `max_records`, and no more than `max_bytes` of keys and payloads,
    /// but at least one record if there is any. Each frame is decoded once. Empty at the high watermark.
    ///
    /// # Errors
    /// `Expired` when `from` lies below the oldest record kept, `Io` when nothing could be read, `Closed`. What is
    /// unreadable is no error: it is passed over and reported in the answer.
    pub fn read_batch(&self, from: Offset, max_records: usize, max_bytes: usize) -> Result<ReadBatch> {
        self.0.read_batch(from, max_records, max_bytes)
    }

    /// [`read_batch`](Self::read_batch) on the runtime's workers.
    pub fn read_batch_async(
        &self,
        from: Offset,
        max_records: usize,
        max_bytes: usize,
    ) -> impl Future<Output = Result<ReadBatch>> + Send + use<> {
        let cached = self.0.read_batch_cached(from, max_records, max_bytes);
        self.on_a_worker_unless(cached, move |log| log.read_batch(from, max_records, max_bytes))
    }

    /// Answers what is known already, or else what `read` finds on a worker.
    fn on_a_worker_unless<T, F>(
        &self,
        known: Option<Result<T>>,
        read: F,
    ) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&Self) -> Result<T> + Send + 'static,
    {
        let reading = match known {
            Some(answer) => Err(answer),
            None => {
                let log = self.clone();
                Ok(self.0.runtime.run_blocking(&self.0.group, move || read(&log)))
            }
        };
        async move {
            match reading {
                Ok(reading) => reading.await,
                Err(answer) => answer,
            }
        }
    }

    /// Who the log is.
    pub fn identity(&self) -> &LogIdentity {
        &self.0.options.identity
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// The exclusive bound of what can be read.
    pub fn high_watermark(&self) -> Offset {
        self.0.high_watermark()
    }

    /// The oldest offset kept.
    pub fn oldest_offset(&self) -> Offset {
        self.0.view.read().oldest()
    }

    /// The offset of the next record that is appended.
    pub fn next_offset(&self) -> Offset {
        self.0.buffer.lock().next()
    }

    /// What the log holds. Touches no file.
    pub fn stats(&self) -> LogStats {
        self.0.stats()
    }

    /// A wait for the next announcement. Take it before the last look for data.
    pub fn subscribe(&self) -> Subscription {
        Subscription(self.0.announced.listen())
    }

    /// Announces that records may be deliverable again, to subscribers and to the notifier.
    pub fn wake(&self) {
        self.0.announce(WakeReason::Requested);
    }

    /// Deletes what the retention policy lets go: whole segments, oldest first. `frontier` is what every consumer has
    /// settled, for policies that ask.
    ///
    /// # Errors
    /// An idle active segment could not be sealed. A failed unlink is no error: it is counted and tried again.
    pub fn sweep(&self, frontier: Option<Offset>) -> Result<Swept> {
        self.0.sweep(frontier)
    }

    /// Puts another retention policy in place, roll age included, from the next write and the next sweep on.
    pub fn set_retention(&self, policy: Arc<dyn RetentionPolicy>) {
        let timed = self.0.runtime.metrics().timed_retention(policy);
        *self.0.retention.write() = timed;
    }

    /// Scans a poisoned log again, cuts what lies above its watermark, durably, and lets it take records again. Does
    /// nothing to a log that is not poisoned.
    ///
    /// # Errors
    /// What kept it from being scanned or cut; the log stays poisoned. `Closed`.
    pub fn reopen(&self) -> Result<()> {
        self.0.reopen()
    }

    /// Whether an fsync failed and the log takes no records until it is reopened.
    pub fn is_poisoned(&self) -> bool {
        matches!(self.0.buffer.lock().gate(), Gate::Poisoned(_))
    }

    /// For how long the commit that runs now has been at it: a disk that hangs answers nothing, and this shows it.
    pub fn committing_for(&self) -> Option<Duration> {
        let since = (*self.0.cycle_since.lock())?;
        Some(self.0.runtime.clock().monotonic().saturating_sub(since))
    }

    /// Whether the log was closed.
    pub fn is_closed(&self) -> bool {
        self.0.view.read().closed
    }

    /// Gives back the disk space that a busy log has prepared behind its frames (at most 256 KiB), durably, unless
    /// something is under way. For a log that has become idle; the store calls it. Costs an fsync where there is such
    /// space, nothing where there is none, and no crash loses a record by it.
    pub fn release_space(&self) {
        self.0.release_space();
    }

    /// Closes every descriptor of a log that is idle and clean: nothing is appended, unsynced or uncommitted, no commit is
    /// running, and it is not poisoned. Answers whether the log holds none now; a read that is under way goes on with the
    /// one that it has. Memory kept for the next frames goes with them. Never waits.
    ///
    /// Nothing else changes. The next write or read opens its file again, so it may fail for want of a descriptor
    /// ([`Error::is_out_of_descriptors`]) as an open may: nothing is lost, and the next try may succeed. While the active
    /// segment is missing or has another length than it had, commits fail with `Unusable`, and no byte of it is touched.
    pub fn release_files(&self) -> bool {
        self.0.release_files()
    }

    /// Writes and syncs what was appended, writes the exact high watermark, and lets go of every file. Lands between
    /// two commits. Calls after it answer `Closed`; closing again does nothing. A poisoned log writes and states nothing;
    /// what lies above its watermark is cut if that can be done.
    ///
    /// # Errors
    /// What could not be written or synced. The log is closed all the same, and the next open recovers as after a
    /// crash: nothing committed is lost.
    pub fn close(&self) -> Result<()> {
        self.0.close()
    }

    /// [`close`](Self::close) on the runtime's workers.
    pub fn close_async(&self) -> impl Future<Output = Result<()>> + Send + use<> {
        let log = self.clone();
        let group = Arc::clone(&self.0.group);
        self.0.runtime.run_blocking(&group, move || log.close())
    }
}

impl Inner {
    /// Fails when a failed commit has dropped these records.
    fn check_kept(&self, appended: &Appended) -> Result<()> {
        if !appended.fate.has_dropped(appended.offsets.end) {
            return Ok(());
        }
        self.buffer.lock().check_open()?;
        Err(Error::Discarded { first: appended.offsets.start })
    }

    fn write_context<'a>(&'a self, codecs: &'a Codecs) -> WriteContext<'a> {
        WriteContext {
            disk: &**self.runtime.disk(),
            codec: &*codecs.writing,
            log: &self.options.identity,
            segment_bytes: self.options.segment_bytes,
            now: self.runtime.clock().monotonic(),
            now_ms: self.runtime.clock().unix_ms(),
        }
    }

    fn stats(&self) -> LogStats {
        let (next, poisoned) = {
            let buffer = self.buffer.lock();
            let poisoned = match buffer.gate() {
                Gate::Poisoned(error) => Some(error.clone()),
                Gate::Open | Gate::Closed => None,
            };
            (buffer.next(), poisoned)
        };
        let view = self.view.read();
        let oldest_segment_ms = view.segments.front().and_then(|entry| match entry.times {
            Times::Known { first, .. } => Some(first),
            Times::File(modified) => Some(modified),
            Times::Active => self.writer.try_lock()?.active.as_ref()?.first_write_ms,
        });
        LogStats {
            segments: view.segments.len(),
            oldest: view.oldest(),
            next,
            high_watermark: self.high_watermark(),
            bytes: view.segments.iter().map(|entry| entry.segment.len()).sum(),
            oldest_segment_ms,
            poisoned,
        }
    }
}
