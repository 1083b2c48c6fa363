//! Retention of partitions that are closed: nobody writes to them, so what was known of their segments stays true, and
//! only one in which something has expired is opened, swept once and closed.
//!
//! The topic's guard is held while a file is touched, and never waited for; whoever has it is opening or closing a log,
//! and the next walk comes soon. A directory that is not there any more is not made again.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    Inner, TopicSpec, background::Beat, cold_partition::ColdPartition, directory::Guarded,
    layout::PartitionPaths, open_log::Frontier, topic::Topic,
};
use crate::{
    Result,
    format::Offset,
    log::{Log, peek_segments},
    plugin::{PartitionId, RetentionView, SegmentInfo},
};

/// For how long a partition is left alone whose visit panicked.
const LEFT_ALONE: Duration = Duration::from_secs(30 * 60);

/// When the next walk is due.
#[derive(Debug)]
pub(super) struct ColdWalk {
    next: Mutex<Duration>,
    beat: Beat,
}

impl ColdWalk {
    pub(super) fn new(first: Duration) -> Self {
        Self { next: Mutex::new(first), beat: Beat::default() }
    }

    pub(super) fn beat(&self) -> &Beat {
        &self.beat
    }

    /// Walks if it is time. Returns when the next walk is due; `None` when there are none.
    pub(super) fn step(&self, store: &Inner, now: Duration) -> Option<Duration> {
        let interval = store.options.cold_walk?;
        {
            let mut next = self.next.lock();
            if *next > now {
                return Some(*next);
            }
            *next = now.saturating_add(interval);
        }
        let topics: Vec<_> = store.topics.read().values().cloned().collect();
        for topic in topics {
            let Some(spec) = topic.spec() else { continue };
            for partition in (0..spec.partitions).map(PartitionId) {
                if store.check_open().is_err() {
                    break;
                }
                self.beat.at_work(store.now());
                visit(store, &topic, &spec, partition, now);
            }
        }
        self.beat.rests();
        Some(*self.next.lock())
    }
}

/// Contains whatever happens to this partition.
fn visit(store: &Inner, topic: &Topic, spec: &TopicSpec, partition: PartitionId, now: Duration) {
    let visited = catch_unwind(AssertUnwindSafe(|| try_visit(store, topic, spec, partition, now)));
    match visited {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::error!(topic = %topic.name(), %partition, %error, "retention could not look at a closed log");
            store.count_error("cold_retention");
        }
        Err(_) => {
            tracing::error!(topic = %topic.name(), %partition, "retention of a closed log panicked; leaving it alone for now");
            store.counters.cold_panics.fetch_add(1, Ordering::Relaxed);
            let until = Some(now.saturating_add(LEFT_ALONE));
            topic.cold.lock().entry(partition).or_default().left_alone_until = until;
        }
    }
}

fn try_visit(
    store: &Inner,
    topic: &Topic,
    spec: &TopicSpec,
    partition: PartitionId,
    now: Duration,
) -> Result<()> {
    let known = topic.cold.lock().get(&partition).cloned().unwrap_or_default();
    if known.left_alone_until.is_some_and(|until| now < until)
        || topic.find(spec.incarnation, partition).is_some()
    {
        return Ok(());
    }
    let (segments, frontier) = match (known.segments, known.frontier) {
        (Some(segments), Frontier::Known(frontier)) => (segments, frontier),
        _ => {
            let Some(guarded) = guard_of_closed(topic, spec, partition) else { return Ok(()) };
            let Some(paths) = guarded.owned(store, spec.incarnation, partition)? else { return Ok(()) };
            look_at(store, topic, partition, &paths)?
        }
    };
    let recorded = topic.consumers.recorded(spec.incarnation, partition);
    let consumers = recorded.map_or(frontier, |position| position.frontier);
    let frontier = store.settled_by_all(topic, spec.incarnation, partition, consumers);
    let end = segments.last().map_or(Offset::ZERO, |last| last.end);
    let view = RetentionView::new(store.runtime.clock().unix_ms(), &segments, end).with_frontier(frontier);
    let policy = store.runtime.metrics().timed_retention(spec.retention.clone());
    if policy.decide(&view).expire == 0 {
        return Ok(());
    }
    match guard_of_closed(topic, spec, partition) {
        Some(guarded) => sweep_once(store, topic, spec, partition, &guarded),
        None => Ok(()),
    }
}

/// What the files say of a closed partition; remembered, unless who has closed it meanwhile knows better. Called with the
/// guard held.
fn look_at(
    store: &Inner,
    topic: &Topic,
    partition: PartitionId,
    paths: &PartitionPaths,
) -> Result<(Vec<SegmentInfo>, Option<Offset>)> {
    let known = topic.cold.lock().get(&partition).cloned().unwrap_or_default();
    let segments = match known.segments {
        Some(segments) => segments,
        None => peek_segments(&store.runtime, paths.dir())?,
    };
    let frontier = match known.frontier {
        Frontier::Known(frontier) => Frontier::Known(frontier),
        Frontier::Unknown => match store.recovered_position(paths) {
            Ok(position) => Frontier::Known(position.frontier),
            Err(error) => {
                // For now nothing counts as settled; what goes by age goes all the same.
                tracing::warn!(topic = %topic.name(), %partition, %error, "a consumer's position could not be read");
                Frontier::Unknown
            }
        },
    };
    let mut cold = topic.cold.lock();
    let entry = cold.entry(partition).or_default();
    let segments = entry.segments.get_or_insert(segments).clone();
    if matches!(entry.frontier, Frontier::Unknown) {
        entry.frontier = frontier;
    }
    Ok((segments, entry.frontier.known()))
}

/// The topic's guard, unless somebody has it, or has opened the log. The policy is asked without it: a slow one would hold
/// up whoever uses the topic.
fn guard_of_closed<'a>(topic: &'a Topic, spec: &TopicSpec, partition: PartitionId) -> Option<Guarded<'a>> {
    let guarded = topic.directory.try_lock()?;
    topic.find(spec.incarnation, partition).is_none().then_some(guarded)
}

/// Opens the log, sweeps it, and closes it, whatever the sweep comes to.
fn sweep_once(
    store: &Inner,
    topic: &Topic,
    spec: &TopicSpec,
    partition: PartitionId,
    guarded: &Guarded<'_>,
) -> Result<()> {
    let Some(paths) = guarded.owned(store, spec.incarnation, partition)? else {
        topic.cold.lock().remove(&partition);
        return Ok(());
    };
    let position = match topic.consumers.recorded(spec.incarnation, partition) {
        Some(position) => position,
        None => store.recovered_position(&paths)?,
    };
    let log = Log::open(&store.runtime, paths.dir(), spec.log_options(partition))?;
    let swept = catch_unwind(AssertUnwindSafe(|| {
        log.sweep(store.settled_by_all(topic, spec.incarnation, partition, position.frontier))
    }));
    let segments = log.segments();
    let closed = log.close();
    let cold = ColdPartition::closed(segments, Frontier::Known(position.frontier));
    *topic.cold.lock().entry(partition).or_default() = cold;
    match swept {
        Ok(swept) => {
            if swept?.segments > 0 {
                store.counters.cold_swept.fetch_add(1, Ordering::Relaxed);
            }
        }
        Err(panic) => std::panic::resume_unwind(panic),
    }
    closed
}
