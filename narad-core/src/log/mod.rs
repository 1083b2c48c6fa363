//! A partition: open and recover, append, commit, read, watermark, retain, notify, close.
//!
//! Knows nothing of topics, incarnations or consumers.

use std::{
    future::Future,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{
    error::Result,
    format::{Batch, Offset, Record},
    plugin::{
        BatchedSync, Codec, CodecSet, LogIdentity, RetentionDecision, RetentionPolicy, RetentionView,
        SilentWake, SyncPolicy, WakeNotifier,
    },
    runtime::Runtime,
};

/// How a log is opened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogOptions {
    /// Who the log is, to its plugins and in metrics.
    pub identity: LogIdentity,
    /// The codec for new frames.
    pub codec: Arc<dyn Codec>,
    /// The codecs that frames may have been written with; `codec` is always among them.
    pub readable: CodecSet,
    /// When records are synced that nobody commits.
    pub sync: Arc<dyn SyncPolicy>,
    /// Which segments may go.
    pub retention: Arc<dyn RetentionPolicy>,
    /// Told of every announcement.
    pub wake: Arc<dyn WakeNotifier>,
    /// The size at which a segment is full, in bytes.
    pub segment_bytes: u64,
}

impl LogOptions {
    /// A log called `name` that writes with `codec`, keeps everything, and is otherwise as the defaults say.
    pub fn new(name: &str, codec: Arc<dyn Codec>) -> Self {
        Self::for_log(LogIdentity::named(name), codec)
    }

    /// The same for a log with an identity of its own.
    pub fn for_log(identity: LogIdentity, codec: Arc<dyn Codec>) -> Self {
        Self {
            identity,
            codec,
            readable: CodecSet::new(),
            sync: Arc::new(BatchedSync::default()),
            retention: Arc::new(KeepEverything),
            wake: Arc::new(SilentWake),
            segment_bytes: 64 << 20,
        }
    }
}

/// The retention of a log that was given none.
#[derive(Debug)]
struct KeepEverything;

impl RetentionPolicy for KeepEverything {
    fn name(&self) -> &str {
        "keep-everything"
    }

    fn roll_age(&self) -> Option<Duration> {
        None
    }

    fn decide(&self, _: &RetentionView<'_>) -> RetentionDecision {
        RetentionDecision::KEEP
    }
}

/// An open partition. Cloning it gives another handle to the same log; the last handle that goes does not close
/// the log: call [`close`](Self::close).
#[derive(Debug, Clone)]
pub struct Log {}

/// Records that were appended and not yet committed.
#[derive(Debug, Clone)]
pub struct Appended {
    /// Their offsets, if no failed commit drops them.
    pub offsets: Range<Offset>,
}

/// What a batch read found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReadBatch {
    /// The records, ascending.
    pub records: Vec<Record>,
    /// Where the next read should begin: behind the last record or behind the damage that ended the batch.
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
    pub poisoned: Option<crate::Error>,
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

/// A wait for the next announcement: take it before the last look for data, so that nothing in between is missed.
#[derive(Debug)]
pub struct Subscription {}

impl Subscription {
    /// Waits in this thread, at most `timeout`. Returns whether something was announced.
    pub fn wait(self, timeout: Duration) -> bool {
        todo!("{timeout:?}")
    }

    /// Waits without blocking the executor.
    pub async fn changed(self) {
        todo!()
    }
}

#[expect(missing_docs, reason = "stub")]
impl Log {
    pub fn open(runtime: &Runtime, dir: &Path, options: LogOptions) -> Result<Self> {
        todo!("{runtime:?} {dir:?} {options:?}")
    }
    pub fn append(&self, batch: Batch) -> Result<Appended> {
        todo!("{batch:?}")
    }
    pub fn commit(&self, batch: Batch) -> Result<Range<Offset>> {
        todo!("{batch:?}")
    }
    pub fn commit_async(&self, batch: Batch) -> impl Future<Output = Result<Range<Offset>>> + Send + 'static {
        async move { todo!("{batch:?}") }
    }
    pub fn commit_appended(&self, appended: &Appended) -> Result<()> {
        todo!("{appended:?}")
    }
    pub fn read(&self, offset: Offset) -> Result<Record> {
        todo!("{offset:?}")
    }
    pub fn read_async(&self, offset: Offset) -> impl Future<Output = Result<Record>> + Send + 'static {
        async move { todo!("{offset:?}") }
    }
    pub fn read_batch(&self, from: Offset, max_records: usize, max_bytes: usize) -> Result<ReadBatch> {
        todo!("{from:?} {max_records} {max_bytes}")
    }
    pub fn read_batch_async(
        &self,
        from: Offset,
        max_records: usize,
        max_bytes: usize,
    ) -> impl Future<Output = Result<ReadBatch>> + Send + 'static {
        async move { todo!("{from:?} {max_records} {max_bytes}") }
    }
    pub fn identity(&self) -> &LogIdentity {
        todo!()
    }
    pub fn dir(&self) -> &Path {
        todo!()
    }
    pub fn high_watermark(&self) -> Offset {
        todo!()
    }
    pub fn oldest_offset(&self) -> Offset {
        todo!()
    }
    pub fn next_offset(&self) -> Offset {
        todo!()
    }
    pub fn stats(&self) -> LogStats {
        todo!()
    }
    pub fn subscribe(&self) -> Subscription {
        todo!()
    }
    pub fn wake(&self) {
        todo!()
    }
    pub fn sweep(&self, frontier: Option<Offset>) -> Result<Swept> {
        todo!("{frontier:?}")
    }
    pub fn set_retention(&self, policy: Arc<dyn RetentionPolicy>) {
        todo!("{policy:?}")
    }
    /// Scans a poisoned log again and cuts what lies above its watermark; it then takes writes again.
    pub fn reopen(&self) -> Result<()> {
        todo!()
    }
    pub fn is_closed(&self) -> bool {
        todo!()
    }
    pub fn close(&self) -> Result<()> {
        todo!()
    }
    pub fn close_async(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        async move { todo!() }
    }
}

/// What can be told of a closed partition without opening it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClosedStats {
    /// Segment files.
    pub segments: usize,
    /// The oldest offset kept.
    pub oldest: Offset,
    /// The high watermark, where the files state it: `None` after a crash.
    pub high_watermark: Option<Offset>,
    /// Bytes of all segment files.
    pub bytes: u64,
    /// Last write of the oldest segment, Unix milliseconds.
    pub oldest_segment_ms: Option<i64>,
    /// The directory.
    pub dir: PathBuf,
}

/// Reads what a closed partition's files state, without opening the log.
pub fn peek(runtime: &Runtime, dir: &Path) -> Result<ClosedStats> {
    todo!("{runtime:?} {dir:?}")
}
