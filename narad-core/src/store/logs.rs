//! The open logs: opened on first use, looked at without opening, closed together.
//!
//! Nothing here holds the map's lock across file I/O, or one topic's guard while it waits for another's.

use std::{
    num::NonZero,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    Ailment, Inner, OpenFailure, PartitionStats, TopicSpec,
    directory::Guarded,
    incarnation::Owner,
    layout::PartitionPaths,
    open_log::OpenLog,
    topic::{Mark, Topic},
};
use crate::{
    Error, Result,
    disk::Spares,
    log::{self, Log},
    plugin::PartitionId,
};

/// Logs that are opened at once, and topics that are closed, unless the caller says otherwise.
const MOST_AT_ONCE: usize = 8;

/// A partition whose topic's guard is held.
enum Prepared {
    /// Its log is open.
    Open(Log),
    /// It is not, and this is where its files are.
    Closed(PartitionPaths, Mark),
}

impl Inner {
    /// The log if it is open: no file is touched and no guard taken.
    pub(super) fn open_log(&self, spec: &TopicSpec, partition: PartitionId) -> Result<Option<Arc<OpenLog>>> {
        self.check_open()?;
        spec.check(partition)?;
        let topic = self.topics.read().get(&spec.name).cloned();
        let open = topic.and_then(|topic| topic.find(spec.incarnation, partition));
        if let Some(open) = &open {
            open.touch(self.now());
        }
        Ok(open)
    }

    /// The same for one who only looks, which keeps no log open.
    pub(super) fn unused(&self, spec: &TopicSpec, partition: PartitionId) -> Option<Log> {
        let topic = self.topics.read().get(&spec.name).cloned()?;
        topic.find(spec.incarnation, partition).map(|open| open.log.clone())
    }

    pub(super) fn log(&self, spec: &TopicSpec, partition: PartitionId) -> Result<Log> {
        if let Some(open) = self.open_log(spec, partition)? {
            return Ok(open.log.clone());
        }
        let topic = self.topic(&spec.name)?;
        let mut guarded = topic.directory.lock();
        match self.prepare(&topic, &mut guarded, spec, partition)? {
            Prepared::Open(log) => Ok(log),
            Prepared::Closed(paths, mark) => self.open_prepared(&topic, spec, partition, &paths, mark),
        }
    }

    fn prepare(
        &self,
        topic: &Topic,
        guarded: &mut Guarded<'_>,
        spec: &TopicSpec,
        partition: PartitionId,
    ) -> Result<Prepared> {
        // Others may have opened it, or closed the store, while this one waited for the guard.
        if let Some(open) = self.open_log(spec, partition)? {
            return Ok(Prepared::Open(open.log.clone()));
        }
        let mark = topic.mark();
        Ok(Prepared::Closed(guarded.prepare(self, spec.incarnation, partition)?, mark))
    }

    /// Called while the guard is held: by this thread, or by one that waits for this one.
    fn open_prepared(
        &self,
        topic: &Topic,
        spec: &TopicSpec,
        partition: PartitionId,
        paths: &PartitionPaths,
        mark: Mark,
    ) -> Result<Log> {
        let log = Log::open(&self.runtime, paths.dir(), spec.log_options(partition))?;
        let open = OpenLog::new(log.clone(), spec.incarnation, partition, spec.retention.clone(), self.now());
        topic.install(open, spec, mark);
        Ok(log)
    }

    pub(super) fn check_incarnation(&self, spec: &TopicSpec) -> Result<()> {
        self.check_open()?;
        let topic = self.topic(&spec.name)?;
        let mut guarded = topic.directory.lock();
        guarded.look_again();
        match guarded.owner(self)? {
            Owner::Of(found) if found != spec.incarnation => guarded.claim(self, spec.incarnation),
            _ => {
                topic.retire_others(spec.incarnation);
                Ok(())
            }
        }
    }

    pub(super) fn stats(&self, spec: &TopicSpec, partition: PartitionId) -> Result<PartitionStats> {
        self.check_open()?;
        spec.check(partition)?;
        let topic = self.topic(&spec.name)?;
        if let Some(open) = topic.find(spec.incarnation, partition) {
            return Ok(open.log.stats().into());
        }
        // A log that is being closed is half written; who closes it holds the guard.
        let guarded = topic.directory.lock();
        if let Some(open) = topic.find(spec.incarnation, partition) {
            return Ok(open.log.stats().into());
        }
        match guarded.existing(self, spec.incarnation, partition)? {
            Some(paths) => Ok(log::peek(&self.runtime, paths.dir())?.into()),
            None => Ok(PartitionStats::untouched()),
        }
    }

    pub(super) fn open_all(&self, specs: &[TopicSpec], parallelism: Option<usize>) -> Vec<OpenFailure> {
        for spec in specs {
            if let Ok(topic) = self.topic(&spec.name) {
                topic.learn(spec);
            }
        }
        let failures = Mutex::new(Vec::new());
        side_by_side(specs, parallelism, |spec, idle| {
            let failed = |partition: PartitionId, error: Error| {
                tracing::error!(topic = %spec.name, %partition, %error, "could not open a partition");
                self.count_error("open");
                failures.lock().push(OpenFailure { topic: spec.name.clone(), partition, error });
            };
            let mut next = 0;
            while next < spec.partitions {
                let helpers = idle.take((spec.partitions - next - 1) as usize);
                let some: Vec<_> = (next..spec.partitions).take(1 + helpers).map(PartitionId).collect();
                next += some.len() as u32;
                self.open_some(spec, &some, &failed);
                idle.give(helpers);
            }
        });
        let mut failures = failures.into_inner();
        failures.sort_by(|one, other| (&one.topic, one.partition.0).cmp(&(&other.topic, other.partition.0)));
        failures
    }

    /// Opens these partitions, at once if there are several. Who wants the topic's guard waits for them, not for all that
    /// the topic has.
    fn open_some(
        &self,
        spec: &TopicSpec,
        partitions: &[PartitionId],
        failed: &(impl Fn(PartitionId, Error) + Sync),
    ) {
        let topic = self.topic(&spec.name);
        let (Ok(topic), [_, _, ..]) = (topic, partitions) else {
            for &partition in partitions {
                _ = self.log(spec, partition).map_err(|error| failed(partition, error));
            }
            return;
        };
        let mut guarded = topic.directory.lock();
        thread::scope(|scope| {
            let topic = &topic;
            for &partition in partitions {
                match self.prepare(topic, &mut guarded, spec, partition) {
                    Ok(Prepared::Open(_)) => {}
                    Ok(Prepared::Closed(paths, mark)) => {
                        on_a_thread(scope, move || {
                            let opened = self.open_prepared(topic, spec, partition, &paths, mark);
                            _ = opened.map_err(|error| failed(partition, error));
                        });
                    }
                    Err(error) => failed(partition, error),
                }
            }
        });
    }

    /// How many logs are open.
    pub(super) fn open_count(&self) -> usize {
        self.topics.read().values().map(|topic| topic.open_count()).sum()
    }

    pub(super) fn ailments(&self, patience: Duration) -> Vec<(Arc<str>, PartitionId, Ailment)> {
        let topics: Vec<Arc<Topic>> = self.topics.read().values().cloned().collect();
        let mut found = Vec::new();
        for topic in topics {
            for open in topic.open_logs() {
                let ailment = match open.log.stats().poisoned {
                    Some(error) => Some(Ailment::Poisoned(error)),
                    None => open.log.committing_for().filter(|time| *time >= patience).map(Ailment::Hangs),
                };
                found.extend(ailment.map(|ailment| (topic.name().clone(), open.partition, ailment)));
            }
        }
        found.sort_by(|one, other| (&one.0, one.1.0).cmp(&(&other.0, other.1.0)));
        found
    }

    /// Closes every log, several topics at once. Returns the first failure; each is logged.
    pub(super) fn close_all(&self) -> Result<()> {
        let topics: Vec<Arc<Topic>> = self.topics.read().values().cloned().collect();
        let outcome = Mutex::new(Ok(()));
        side_by_side(&topics, None, |topic, _| {
            let _guarded = topic.directory.lock();
            for open in topic.open_logs() {
                match topic.close_log(&open) {
                    Ok(()) | Err(Error::Closed) => {}
                    Err(error) => {
                        tracing::error!(topic = %topic.name(), partition = %open.partition, %error,
                            "could not close a partition");
                        self.count_error("close");
                        let mut first = outcome.lock();
                        if first.is_ok() {
                            *first = Err(error);
                        }
                    }
                }
            }
        });
        outcome.into_inner()
    }
}

impl Spares for Inner {
    fn give_back(&self) -> bool {
        self.count_error("out_of_descriptors");
        let topics: Vec<Arc<Topic>> = self.topics.read().values().cloned().collect();
        let logs = topics.iter().flat_map(|topic| topic.open_logs());
        let without = logs.filter(|open| open.log.release_files()).count();
        tracing::warn!(without, "out of file descriptors; logs that nobody uses now hold none any more");
        true
    }
}

/// Threads that may be at work and have nothing to do.
struct Idle(AtomicUsize);

impl Idle {
    /// At most `wanted` of them.
    fn take(&self, wanted: usize) -> usize {
        let left = |idle: usize| Some(idle.saturating_sub(wanted));
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        before.unwrap_or_else(|idle| idle).min(wanted)
    }

    fn give(&self, threads: usize) {
        self.0.fetch_add(threads, Ordering::Relaxed);
    }
}

/// Does `work` for each item, on a few threads. Those that have no item left are idle: the others may have as many at work in
/// their place.
fn side_by_side<T: Sync>(items: &[T], parallelism: Option<usize>, work: impl Fn(&T, &Idle) + Sync) {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let most = parallelism.unwrap_or(cores.min(MOST_AT_ONCE)).max(1);
    let threads = most.min(items.len()).max(1);
    let (next, idle) = (AtomicUsize::new(0), Idle(AtomicUsize::new(most - threads)));
    let run = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(item, &idle);
        }
        idle.give(1);
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            on_a_thread(scope, run);
        }
        run();
    });
}

/// Does `work` on a thread of the scope, or in this one if the system gives no more.
fn on_a_thread<'scope>(scope: &'scope thread::Scope<'scope, '_>, work: impl FnOnce() + Send + 'scope) {
    let work = Arc::new(Mutex::new(Some(work)));
    let taken = Arc::clone(&work);
    let run = move || {
        let work = taken.lock().take();
        work.map(|work| work())
    };
    if thread::Builder::new().spawn_scoped(scope, run).is_err() {
        let work = work.lock().take();
        _ = work.map(|work| work());
    }
}
