//! One topic's place in the store: its guard, its open logs, its consumers' positions.
//!
//! Lock order: the guard, then any of the maps. File I/O happens under the guard alone, so opening or closing a log
//! stalls callers of its own topic and nobody else.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};

use crate::{
    Error, Result,
    disk::FileKind,
    format::Offset,
    log::Log,
    plugin::{Incarnation, PartitionId, RetentionPolicy},
    store::{
        ConsumerPosition, Inner,
        backoff::Backoff,
        consumer_state::Consumer,
        files,
        incarnation::{self, Owner},
        layout::PartitionPaths,
    },
};

/// Enough that no caller still holds an incarnation that has dropped off the list.
const RETIRED_KEPT: usize = 64;

#[derive(Debug)]
pub(super) struct Topic {
    pub(super) name: Arc<str>,
    pub(super) guard: Mutex<Guarded>,
    /// Open logs: never locked across file I/O.
    pub(super) logs: RwLock<HashMap<PartitionId, Arc<OpenLog>>>,
    /// Positions that the files trail: never locked across file I/O.
    pub(super) consumers: Mutex<HashMap<PartitionId, Arc<Consumer>>>,
    retired: Mutex<VecDeque<Incarnation>>,
    /// The newest policy given to `set_retention`, and how often that happened.
    retention: Mutex<(u64, Option<Arc<dyn RetentionPolicy>>)>,
}

/// What the guard protects: the topic's directory.
#[derive(Debug, Default)]
pub(super) struct Guarded {
    /// Whose directory it was found to be, durably marked, in this process.
    pub(super) claimed: Option<Incarnation>,
}

/// A log that the store has open.
#[derive(Debug)]
pub(super) struct OpenLog {
    pub(super) log: Log,
    pub(super) incarnation: Incarnation,
    pub(super) partition: PartitionId,
    pub(super) retention: Mutex<Arc<dyn RetentionPolicy>>,
    /// Where the consumers are, as far as this process was told.
    pub(super) frontier: Mutex<Option<Offset>>,
    pub(super) reopening: Mutex<Backoff>,
    used_ms: AtomicU64,
    seen_next: AtomicU64,
}

impl OpenLog {
    pub(super) fn new(
        log: Log,
        incarnation: Incarnation,
        partition: PartitionId,
        retention: Arc<dyn RetentionPolicy>,
        now: Duration,
    ) -> Self {
        let seen_next = AtomicU64::new(log.next_offset().get());
        Self {
            log,
            incarnation,
            partition,
            retention: Mutex::new(retention),
            frontier: Mutex::default(),
            reopening: Mutex::default(),
            used_ms: AtomicU64::new(millis(now)),
            seen_next,
        }
    }

    /// Somebody asked for it.
    pub(super) fn touch(&self, now: Duration) {
        self.used_ms.store(millis(now), Ordering::Relaxed);
    }

    /// For how long nobody asked for it and nobody wrote to it.
    pub(super) fn idle_for(&self, now: Duration) -> Duration {
        let next = self.log.next_offset().get();
        if self.seen_next.swap(next, Ordering::Relaxed) != next {
            self.touch(now);
        }
        Duration::from_millis(millis(now).saturating_sub(self.used_ms.load(Ordering::Relaxed)))
    }
}

fn not_a_directory(paths: &PartitionPaths) -> Error {
    files::unusable(paths.dir(), "a partition is a directory, and links are not followed")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Topic {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            guard: Mutex::default(),
            logs: RwLock::default(),
            consumers: Mutex::default(),
            retired: Mutex::default(),
            retention: Mutex::new((0, None)),
        }
    }

    /// The partition's log, if it is open and this incarnation's.
    pub(super) fn find(&self, incarnation: Incarnation, partition: PartitionId) -> Option<Arc<OpenLog>> {
        let logs = self.logs.read();
        logs.get(&partition).filter(|open| open.incarnation == incarnation && !open.log.is_closed()).cloned()
    }

    /// All open logs at this moment.
    pub(super) fn open_logs(&self) -> Vec<Arc<OpenLog>> {
        self.logs.read().values().cloned().collect()
    }

    pub(super) fn is_retired(&self, incarnation: Incarnation) -> bool {
        self.retired.lock().contains(&incarnation)
    }

    /// Makes sure that the partition's directory is there, durably, and this incarnation's: see
    /// [`incarnation::claim`].
    ///
    /// # Errors
    /// `InvalidArgument` for an incarnation that was deleted or replaced.
    pub(super) fn prepare(
        &self,
        guarded: &mut Guarded,
        store: &Inner,
        id: Incarnation,
        partition: PartitionId,
    ) -> Result<PartitionPaths> {
        if self.is_retired(id) {
            let reason = format!("{id} of topic {} is gone", self.name);
            return Err(Error::InvalidArgument { name: "incarnation", reason });
        }
        let disk = &**store.runtime.disk();
        if guarded.claimed != Some(id) {
            guarded.claimed = None;
            let before = incarnation::claim(disk, &store.layout, &self.name, id, |old| self.retire(old))?;
            if before == Owner::Illegible {
                store.count_error("state_file");
            }
            guarded.claimed = Some(id);
        }
        let topic = store.layout.topic(&self.name)?;
        let paths = topic.partition(partition);
        if files::create_dir(disk, paths.dir())? {
            // Should the sync fail, the next claim repeats it.
            guarded.claimed = None;
            files::sync_dir(disk, topic.dir())?;
            guarded.claimed = Some(id);
        }
        match files::kind(disk, paths.dir())? {
            Some(FileKind::Directory) => Ok(paths),
            _ => Err(not_a_directory(&paths)),
        }
    }

    /// The partition's directory, if there is one and it is this incarnation's. Creates nothing.
    pub(super) fn existing(
        &self,
        guarded: &Guarded,
        store: &Inner,
        id: Incarnation,
        partition: PartitionId,
    ) -> Result<Option<PartitionPaths>> {
        let (disk, topic) = (&**store.runtime.disk(), store.layout.topic(&self.name)?);
        if guarded.claimed != Some(id) {
            match incarnation::owner(disk, &topic)? {
                Owner::NoDirectory => return Ok(None),
                Owner::Of(other) if other != id => return Ok(None),
                Owner::Of(_) | Owner::Unmarked | Owner::Illegible => {}
            }
        }
        let paths = topic.partition(partition);
        match files::kind(disk, paths.dir())? {
            None => Ok(None),
            Some(FileKind::Directory) => Ok(Some(paths)),
            Some(_) => Err(not_a_directory(&paths)),
        }
    }

    /// The position that the files may trail.
    pub(super) fn recorded(&self, id: Incarnation, partition: PartitionId) -> Option<ConsumerPosition> {
        let consumers = self.consumers.lock();
        consumers.get(&partition).filter(|held| held.incarnation == id).map(|held| held.position())
    }

    /// The incarnation is gone: its logs are closed, its consumers forgotten, and nobody opens it again. Called
    /// under the guard, before its directory is moved.
    pub(super) fn retire(&self, id: Incarnation) {
        {
            let mut retired = self.retired.lock();
            if !retired.contains(&id) {
                retired.push_back(id);
            }
            if retired.len() > RETIRED_KEPT {
                retired.pop_front();
            }
        }
        self.consumers.lock().retain(|_, consumer| {
            let gone = consumer.incarnation == id;
            if gone {
                consumer.retire();
            }
            !gone
        });
        let closing: Vec<_> = {
            let mut logs = self.logs.write();
            let gone: Vec<_> = logs
                .iter()
                .filter(|(_, open)| open.incarnation == id)
                .map(|(&partition, _)| partition)
                .collect();
            gone.iter().filter_map(|partition| logs.remove(partition)).collect()
        };
        for open in closing {
            if let Err(error) = open.log.close() {
                // What it holds goes with the topic.
                tracing::debug!(topic = %self.name, partition = %open.partition, %error, "closed a retired log");
            }
        }
    }

    /// Takes one log off the map and closes it. Called under the guard: who asks for it meanwhile waits there, and
    /// opens it again.
    pub(super) fn close_log(&self, open: &Arc<OpenLog>) -> Result<()> {
        {
            let mut logs = self.logs.write();
            if logs.get(&open.partition).is_some_and(|held| Arc::ptr_eq(held, open)) {
                logs.remove(&open.partition);
            }
        }
        open.log.close()
    }

    /// How often the retention was changed; see [`install`](Self::install).
    pub(super) fn retention_changes(&self) -> u64 {
        self.retention.lock().0
    }

    /// Puts a log on the map. A retention that was set since `changes` was taken reaches it, so that a change and
    /// an open that overlap end with the new policy, without either waiting for the other.
    pub(super) fn install(&self, open: OpenLog, changes: u64) -> Arc<OpenLog> {
        let open = Arc::new(open);
        self.logs.write().insert(open.partition, open.clone());
        let newer = {
            let retention = self.retention.lock();
            retention.1.clone().filter(|_| retention.0 != changes)
        };
        if let Some(policy) = newer {
            open.set_retention(policy);
        }
        open
    }

    pub(super) fn set_retention(&self, policy: &Arc<dyn RetentionPolicy>) {
        {
            let mut retention = self.retention.lock();
            *retention = (retention.0 + 1, Some(policy.clone()));
        }
        for open in self.open_logs() {
            open.set_retention(policy.clone());
        }
    }
}

impl OpenLog {
    fn set_retention(&self, policy: Arc<dyn RetentionPolicy>) {
        *self.retention.lock() = policy.clone();
        self.log.set_retention(policy);
    }
}
