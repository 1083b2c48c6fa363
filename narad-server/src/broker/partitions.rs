//! What every partition holds and how far its consumers are, for the metrics.
//!
//! Looks at memory where a log is open. Of a closed one the files are looked at once: as long as it was not opened again
//! since, nothing of it has changed. Never opens a log, never keeps one from being closed for being idle.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use narad_core::{
    format::Offset,
    metrics::LogMetrics,
    plugin::{Incarnation, PartitionId},
    store::{PartitionStats, Store, TopicSpec},
};
use parking_lot::Mutex;

use super::{Inner, catalog::TopicEntry};
use crate::{
    queue::{QueueStats, Queues},
    telemetry::families::Labels,
};

/// How long a look may take before the series of partitions are left out.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a look reads records to learn their age; those that are left count by their segment this time.
const READING: Duration = Duration::from_millis(200);

/// The series of one partition.
#[derive(Debug)]
pub(super) struct PartitionGauges {
    pub(super) topic: Arc<str>,
    pub(super) labels: Labels,
    pub(super) bytes: u64,
    pub(super) segments: usize,
    /// Messages that are not acked; `None` when the files do not say where the log ends.
    pub(super) lag: Option<u64>,
    pub(super) oldest_age: Option<Duration>,
    /// Of a partition that was consumed since the start.
    pub(super) queue: Option<QueueStats>,
}

/// What is remembered between two looks, of partitions that are still there.
#[derive(Debug, Default)]
pub(super) struct PartitionLooks(Arc<Mutex<Known>>);

type Known = HashMap<(Incarnation, PartitionId), Seen>;

#[derive(Debug, Clone, Default)]
struct Seen {
    labels: Option<Labels>,
    /// How often the log had been opened when it was looked at.
    opens: u64,
    /// Of a closed log.
    files: Option<PartitionStats>,
    /// What the files said of the consumers.
    frontier: Option<Option<Offset>>,
    /// The oldest message that was not acked, and when it was committed.
    head: Option<(Offset, i64)>,
}

impl PartitionLooks {
    /// Looks at every partition of `entries`; at none when the disk gives no answer.
    pub(super) async fn look(
        &self,
        broker: &Inner,
        entries: Vec<Arc<TopicEntry>>,
        logs: &[Arc<LogMetrics>],
    ) -> Vec<PartitionGauges> {
        let opens = logs.iter().filter_map(|log| {
            let identity = log.identity();
            Some(((identity.incarnation?, identity.partition), log.recovered().opens))
        });
        let opens: HashMap<_, _> = opens.collect();
        let (store, queues, known) = (broker.store.clone(), Arc::clone(&broker.queues), Arc::clone(&self.0));
        let now_ms = broker.runtime.clock().unix_ms();
        let look = move || {
            // Another look may hang in the disk: whoever asks meanwhile gets nothing, and no second worker hangs with it.
            let Some(mut known) = known.try_lock_for(PATIENCE) else { return Vec::new() };
            let mut look =
                Look { store: &store, queues: &queues, now_ms, opens, until: Instant::now() + READING };
            let before = std::mem::take(&mut *known);
            let mut found = Vec::new();
            for entry in &entries {
                look.topic(entry, &before, &mut known, &mut found);
            }
            found
        };
        let looked = broker.runtime.run_blocking("metrics", look);
        tokio::time::timeout(PATIENCE, looked).await.unwrap_or_default()
    }
}

struct Look<'a> {
    store: &'a Store,
    queues: &'a Queues,
    now_ms: i64,
    opens: HashMap<(Incarnation, PartitionId), u64>,
    /// Until when records are read.
    until: Instant,
}

impl Look<'_> {
    fn topic(
        &mut self,
        entry: &TopicEntry,
        before: &Known,
        after: &mut Known,
        found: &mut Vec<PartitionGauges>,
    ) {
        let mut queues: HashMap<PartitionId, QueueStats> =
            self.queues.stats(entry.topic.id).into_iter().map(|stats| (stats.partition, stats)).collect();
        for partition in (0..entry.topic.partitions).map(PartitionId) {
            let key = (entry.topic.id, partition);
            let seen = before.get(&key).cloned().unwrap_or_default();
            let (gauges, seen) = self.partition(entry, partition, queues.remove(&partition), seen);
            after.insert(key, seen);
            found.extend(gauges);
        }
    }

    fn partition(
        &self,
        entry: &TopicEntry,
        partition: PartitionId,
        queue: Option<QueueStats>,
        mut seen: Seen,
    ) -> (Option<PartitionGauges>, Seen) {
        // Of a topic that is not served nothing is looked at.
        let (Ok(spec), name) = (entry.spec(), &entry.topic.name) else { return (None, seen) };
        let opens = self.opens.get(&(entry.topic.id, partition)).copied().unwrap_or_default();
        if seen.opens != opens {
            (seen.files, seen.frontier, seen.opens) = (None, None, opens);
        }
        let open = self.store.open_stats(spec, partition);
        let stats = match open.or_else(|| seen.files.clone()) {
            Some(stats) => stats,
            None => match self.store.stats(spec, partition) {
                Ok(stats) => stats,
                Err(_) => return (None, seen),
            },
        };
        seen.files = (!stats.open).then(|| stats.clone());
        let frontier = match (&queue, seen.frontier) {
            (Some(queue), _) => Some(queue.frontier),
            (None, Some(stated)) => Some(stated),
            (None, None) => self.store.stated_frontier(spec, partition).ok(),
        };
        seen.frontier = if queue.is_some() { None } else { frontier };
        let head = frontier.map(|frontier| {
            let next = frontier.map_or(Offset::ZERO, |frontier| frontier.saturating_add(1));
            next.max(stats.oldest)
        });
        let lag = stats.high_watermark.zip(head).map(|(end, head)| end.get().saturating_sub(head.get()));
        let oldest_age = match (lag, head) {
            (Some(0), _) => Some(Duration::ZERO),
            (Some(_), Some(head)) => self.age(spec, partition, head, &stats, &mut seen),
            _ => None,
        };
        let number = || Labels::new([("topic", &**name), ("partition", &partition.to_string())]);
        let labels = seen.labels.get_or_insert_with(number).clone();
        let (bytes, segments) = (stats.bytes, stats.segments);
        (
            Some(PartitionGauges {
                topic: Arc::clone(name),
                labels,
                bytes,
                segments,
                lag,
                oldest_age,
                queue,
            }),
            seen,
        )
    }

    /// How old the message at `head` is.
    fn age(
        &self,
        spec: &TopicSpec,
        partition: PartitionId,
        head: Offset,
        stats: &PartitionStats,
        seen: &mut Seen,
    ) -> Option<Duration> {
        if seen.head.is_none_or(|(offset, _)| offset != head) && stats.open && Instant::now() < self.until {
            let committed = self.store.committed_at_ms(spec, partition, head);
            seen.head = committed.map(|committed| (head, committed));
        }
        let read = seen.head.filter(|(offset, _)| *offset == head).map(|(_, committed)| committed);
        let since = read.or(stats.oldest_segment_ms)?;
        Some(Duration::from_millis(u64::try_from(self.now_ms.saturating_sub(since)).unwrap_or_default()))
    }
}

/// The bytes of each topic, whose partitions stand together.
pub(super) fn bytes_by_topic(gauges: &[PartitionGauges]) -> Vec<(&Arc<str>, u64)> {
    let mut topics: Vec<(&Arc<str>, u64)> = Vec::new();
    for partition in gauges {
        match topics.last_mut().filter(|(topic, _)| **topic == partition.topic) {
            Some((_, bytes)) => *bytes = bytes.saturating_add(partition.bytes),
            None => topics.push((&partition.topic, partition.bytes)),
        }
    }
    topics
}
