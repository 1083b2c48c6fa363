//! What the store is told of a topic, and what it tells of a partition.

use std::{sync::Arc, time::Duration};

use crate::{
    Error, Result,
    format::Offset,
    log::{ClosedStats, LogOptions, LogStats},
    plugin::{
        Codec, CodecSet, Incarnation, LogIdentity, PartitionId, RetentionPolicy, SyncPolicy, WakeNotifier,
    },
};

/// How a store works.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// How much consumer progress a power loss can take: the interval at which positions that moved are synced.
    /// A crash of the process alone takes at most 100 ms. What is taken is delivered again.
    pub consumer_commit_interval: Duration,
    /// A log that nobody asked for and nobody wrote to for so long is closed, and opened again when it is asked
    /// for. `None`: logs stay open.
    pub idle_eviction: Option<Duration>,
    /// How often retention looks at the open logs.
    pub sweep_interval: Duration,
    /// How often retention looks at the closed ones, and opens one in which something has expired. `None`: never, and
    /// a log in which retention will still delete something is not closed for being idle.
    pub cold_walk: Option<Duration>,
    /// How often codecs that want it are shown a sample of what was written since.
    pub codec_maintenance: Duration,
    /// A log that nobody asked for and nobody wrote to for so long gives its descriptors back, and stays open.
    pub descriptor_release: Duration,
    /// How many descriptors are held at most to write consumer positions through; at least 1. Beyond that a position
    /// costs an open and a sync each time. A quarter of what the process may open is a good bound.
    pub held_position_files: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            consumer_commit_interval: Duration::from_secs(1),
            idle_eviction: Some(Duration::from_secs(30 * 60)),
            sweep_interval: Duration::from_secs(60),
            cold_walk: Some(Duration::from_secs(5 * 60)),
            codec_maintenance: Duration::from_secs(60),
            descriptor_release: Duration::from_secs(60),
            held_position_files: 256,
        }
    }
}

/// A topic, as the metadata describe it. Cheap to clone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TopicSpec {
    /// Its name; see [`check_topic_name`](super::check_topic_name).
    pub name: Arc<str>,
    /// Which life of the name this is.
    pub incarnation: Incarnation,
    /// How many partitions it has.
    pub partitions: u32,
    /// The codec for new frames.
    pub codec: Arc<dyn Codec>,
    /// The codecs that frames may have been written with.
    pub readable: CodecSet,
    /// Which segments may go.
    pub retention: Arc<dyn RetentionPolicy>,
    /// When records are synced that nobody commits.
    pub sync: Arc<dyn SyncPolicy>,
    /// Told of every announcement of its logs.
    pub wake: Arc<dyn WakeNotifier>,
    /// The size at which a segment is full, in bytes.
    pub segment_bytes: u64,
    /// Whether busy segments are filled with zeros ahead of their frames; see [`LogOptions::prepare_segments`].
    pub prepare_segments: bool,
}

impl TopicSpec {
    /// A topic whose logs write with `codec`, keep everything, and are otherwise as [`LogOptions::new`] says.
    pub fn new(
        name: impl Into<Arc<str>>,
        incarnation: Incarnation,
        partitions: u32,
        codec: Arc<dyn Codec>,
    ) -> Self {
        let name = name.into();
        let identity = LogIdentity::partition(name.clone(), incarnation, PartitionId(0));
        let LogOptions { codec, readable, sync, retention, wake, segment_bytes, prepare_segments, .. } =
            LogOptions::for_log(identity, codec);
        Self {
            name,
            incarnation,
            partitions,
            codec,
            readable,
            retention,
            sync,
            wake,
            segment_bytes,
            prepare_segments,
        }
    }

    /// How the log of a partition is opened.
    pub(super) fn log_options(&self, partition: PartitionId) -> LogOptions {
        let identity = LogIdentity::partition(self.name.clone(), self.incarnation, partition);
        let mut options = LogOptions::for_log(identity, self.codec.clone());
        options.readable = self.readable.clone();
        options.sync = self.sync.clone();
        options.retention = self.retention.clone();
        options.wake = self.wake.clone();
        options.segment_bytes = self.segment_bytes;
        options.prepare_segments = self.prepare_segments;
        options
    }

    pub(super) fn check(&self, partition: PartitionId) -> Result<()> {
        if partition.0 < self.partitions {
            return Ok(());
        }
        let reason = format!("{partition}: topic {} has {}", self.name, self.partitions);
        Err(Error::InvalidArgument { name: "partition", reason })
    }
}

/// What a partition holds, whether its log is open or not.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PartitionStats {
    /// Whether its log is open.
    pub open: bool,
    /// Segment files.
    pub segments: usize,
    /// The oldest offset kept.
    pub oldest: Offset,
    /// The offset of the next record; `None` when that would take an open.
    pub next: Option<Offset>,
    /// The exclusive bound of what can be read; `None` when the files of a closed partition do not state it.
    pub high_watermark: Option<Offset>,
    /// Bytes of all segment files.
    pub bytes: u64,
    /// The age of what is oldest, Unix milliseconds: of an open log the first write of its oldest segment, of a
    /// closed one the last, as the file system has it.
    pub oldest_segment_ms: Option<i64>,
    /// The failure that poisoned the log, if it is.
    pub poisoned: Option<Error>,
}

impl PartitionStats {
    /// Of a partition that nobody has written to.
    pub(super) fn untouched() -> Self {
        Self { next: Some(Offset::ZERO), high_watermark: Some(Offset::ZERO), ..Self::default() }
    }
}

impl From<LogStats> for PartitionStats {
    fn from(log: LogStats) -> Self {
        Self {
            open: true,
            segments: log.segments,
            oldest: log.oldest,
            next: Some(log.next),
            high_watermark: Some(log.high_watermark),
            bytes: log.bytes,
            oldest_segment_ms: log.oldest_segment_ms,
            poisoned: log.poisoned,
        }
    }
}

impl From<ClosedStats> for PartitionStats {
    fn from(files: ClosedStats) -> Self {
        Self {
            open: false,
            segments: files.segments,
            oldest: files.oldest,
            next: None,
            high_watermark: files.high_watermark,
            bytes: files.bytes,
            oldest_segment_ms: files.oldest_segment_ms,
            poisoned: None,
        }
    }
}

/// What a store has done since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreCounts {
    /// Logs closed for being idle: `narad_idle_logs_evicted_total`.
    pub evicted: u64,
    /// Closed partitions of which retention deleted something: `narad_cold_retention_swept_total`.
    pub cold_swept: u64,
    /// Visits to closed partitions that panicked: `narad_cold_retention_panics_total`.
    pub cold_panics: u64,
    /// Reapers that hung and were replaced: `narad_reaper_restarts`.
    pub reaper_restarts: u64,
    /// Offsets that retention took before they were settled, found when their position was recovered.
    pub lost_to_retention: u64,
    /// Logs that are open now: `narad_open_partition_logs`.
    pub open_logs: usize,
}

/// A partition that could not be opened.
#[derive(Debug, Clone)]
pub struct OpenFailure {
    /// Its topic.
    pub topic: Arc<str>,
    /// Which one it is.
    pub partition: PartitionId,
    /// Why.
    pub error: Error,
}

/// Why an open log takes no messages now.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Ailment {
    /// An fsync failed. It serves reads, and is tried again until it could be reopened.
    Poisoned(Error),
    /// A commit has been at it for so long: the disk hangs.
    Hangs(Duration),
}
