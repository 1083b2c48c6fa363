//! The open logs: opened on first use, looked at without opening, closed together.
//!
//! Nothing here holds the map's lock across file I/O, or one topic's guard while it waits for another's.

use std::{
    num::NonZero,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    Ailment, Inner, OpenFailure, PartitionStats, TopicSpec, incarnation::Owner, open_log::OpenLog,
    topic::Topic,
};
use crate::{
    Error, Result,
    disk::Spares,
    log::{self, Log},
    plugin::PartitionId,
};

/// Topics that are opened or closed at once, unless the caller says otherwise.
const MOST_AT_ONCE: usize = 8;

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
        // Others may have opened it, or closed the store, while this one waited for the guard.
        if let Some(open) = self.open_log(spec, partition)? {
            return Ok(open.log.clone());
        }
        let mark = topic.mark();
        let paths = guarded.prepare(self, spec.incarnation, partition)?;
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
        side_by_side(specs, parallelism, |spec| {
            for partition in (0..spec.partitions).map(PartitionId) {
                if let Err(error) = self.log(spec, partition) {
                    tracing::error!(topic = %spec.name, %partition, %error, "could not open a partition");
                    self.count_error("open");
                    failures.lock().push(OpenFailure { topic: spec.name.clone(), partition, error });
                }
            }
        });
        failures.into_inner()
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
        side_by_side(&topics, None, |topic| {
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

/// Does `work` for each item, on a few threads.
fn side_by_side<T: Sync>(items: &[T], parallelism: Option<usize>, work: impl Fn(&T) + Sync) {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = parallelism.unwrap_or(cores.min(MOST_AT_ONCE)).clamp(1, items.len().max(1));
    let next = AtomicUsize::new(0);
    let run = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(item);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run);
        }
        run();
    });
}
