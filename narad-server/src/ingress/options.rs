//! The bounds of the ingress.

use std::time::Duration;

/// The bounds of the ingress; the defaults suit a broker.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IngressOptions {
    /// The size at which a WAL segment is full, in bytes. What is done is deleted in whole segments.
    pub segment_bytes: u64,
    /// Whether the WAL's segments are filled with zeros ahead of the messages; see `LogOptions::prepare_segments`.
    pub prepare_segments: bool,
    /// Whether a lone message on an idle broker, and a request with 64 KiB to 2 MiB of payload for one partition, go to the
    /// partition without the WAL.
    pub direct: bool,
    /// How long no lone message does after a partition took longer than a producer waits for it (20 ms): on a disk whose fsyncs all
    /// take that long, each message would wait for nothing.
    pub direct_rest: Duration,
    /// Bytes of messages that may wait for the WAL's fsync at one time.
    pub pending_bytes: u32,
    /// Messages in the WAL that may wait for their partitions; beyond it, producers wait.
    pub backlog_records: u64,
    /// How long a producer waits for room before it is refused.
    pub produce_wait: Duration,
    /// Bytes of messages that the dispatcher holds in memory before it stops reading ahead. Batches whose commit
    /// runs come on top of it.
    pub memory_bytes: usize,
    /// Messages that the dispatcher holds in memory before it stops reading ahead.
    pub memory_records: usize,
    /// Commits to partitions that the dispatcher has run at one time. Large requests may run a quarter as many beside them.
    pub parallel_commits: usize,
    /// Messages in one commit to a partition.
    pub batch_records: usize,
    /// Bytes in one commit to a partition; one larger message makes a batch of its own.
    pub batch_bytes: usize,
    /// How long a small batch waits for more while messages come in numbers. One that comes alone never waits.
    pub linger: Duration,
    /// How long a partition that failed is left alone before it is tried again.
    pub retry: Duration,
    /// How long a partition fails before messages whose producer did not name it go to the next one that works.
    pub reroute_after: Duration,
    /// How often the checkpoint is synced while it advances, and the bound on what a power loss repeats.
    pub checkpoint_sync: Duration,
    /// The first wait before a poisoned WAL is reopened; it doubles with each failure.
    pub heal_first: Duration,
    /// The longest wait before a poisoned WAL is reopened.
    pub heal_longest: Duration,
}

impl Default for IngressOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            prepare_segments: true,
            direct: true,
            direct_rest: Duration::from_secs(5),
            pending_bytes: 64 << 20,
            backlog_records: 1_000_000,
            produce_wait: Duration::from_secs(2),
            memory_bytes: 64 << 20,
            memory_records: 32_768,
            parallel_commits: 16,
            batch_records: 4096,
            batch_bytes: 4 << 20,
            linger: Duration::from_millis(5),
            retry: Duration::from_secs(1),
            reroute_after: Duration::from_secs(3),
            checkpoint_sync: Duration::from_secs(1),
            heal_first: Duration::from_secs(1),
            heal_longest: Duration::from_secs(60),
        }
    }
}
