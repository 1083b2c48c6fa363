//! How a log is opened.

use std::{sync::Arc, time::Duration};

use crate::{
    metrics::Metrics,
    plugin::{
        BatchedSync, Codec, CodecSet, LogIdentity, RetentionDecision, RetentionPolicy, RetentionView,
        SilentWake, SyncPolicy, WakeNotifier,
    },
};

/// The size at which a segment is full, unless told otherwise: 64 MiB.
pub const SEGMENT_BYTES: u64 = 64 << 20;

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
    /// The size at which a segment is full, in bytes. The frame that passes it is still written.
    pub segment_bytes: u64,
    /// Whether a busy segment is filled with zeros ahead of its frames, so that a small commit does not make the file
    /// longer each time: on most file systems it then takes two thirds of the time. At most 256 KiB a log, cut when the
    /// segment is sealed, and when the log is idle or closed. After a crash any engine of this format opens what is left.
    pub prepare_segments: bool,
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
            segment_bytes: SEGMENT_BYTES,
            prepare_segments: true,
        }
    }
}

impl LogOptions {
    /// The same with the calls into its policies timed and counted; those into codecs are where the log keeps them.
    pub(super) fn timed(mut self, metrics: &Metrics) -> Self {
        self.retention = metrics.timed_retention(self.retention);
        self.sync = metrics.timed_sync(self.sync);
        self.wake = metrics.timed_wake(self.wake);
        self
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
