//! How far the consumers of a partition are, on disk: `consumer.ahead` at every tick, `consumer.offset` now and
//! then, both exactly at close.
//!
//! Files are written through descriptors that were opened under the topic's guard, while the directory was known
//! to be this incarnation's. So what a deleted topic's consumers did never reaches its successor.

mod ahead;
mod committer;
mod positions;
mod recover;
mod topic;

use std::{path::Path, time::Duration};

use parking_lot::Mutex;

use self::{
    ahead::AheadFile,
    recover::{Fitted, fit, recover},
};
pub(super) use self::{committer::Committer, topic::TopicConsumers};
use crate::{
    Error, Result,
    disk::{File, FileExt},
    format::{Offset, encode_consumer_offset},
    plugin::{Incarnation, PartitionId},
    store::{Inner, directory::Directory, files, layout::PartitionPaths},
};

/// How often a position that moved is written into the page cache.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// How far `consumer.offset` may trail while the store is open.
const LEVEL_INTERVAL: Duration = Duration::from_secs(30);
/// How long a position waits that could not be written. Always the same: once the disk is well again, a crash takes no
/// more than it always does, however long the disk was not.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How far the consumers of a partition are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConsumerPosition {
    /// The highest offset at and below which everything is settled; `None` when nothing is.
    pub frontier: Option<Offset>,
    /// What is settled above the frontier, ascending.
    pub acked: Vec<Offset>,
}

/// How far the consumers of a partition are, and what became of what they had not settled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RecoveredPosition {
    /// The position, within the log's bounds where the log is open.
    pub position: ConsumerPosition,
    /// Offsets that retention took before they were settled, since the position was last written; told once.
    pub lost: u64,
    /// Whether it lay beyond the log's end, and was brought there; told once.
    pub clamped: bool,
}

/// The position of one partition on its way to the disk.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) incarnation: Incarnation,
    pub(super) partition: PartitionId,
    /// Shifts this partition's syncs within the interval, so that they do not all fall on one tick.
    phase: u32,
    memory: Mutex<Memory>,
    /// One committer at a time.
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Memory {
    position: ConsumerPosition,
    /// Newer than what `consumer.ahead` was last given.
    dirty: bool,
    /// The committer has it on its list.
    queued: bool,
    /// Its incarnation is gone: nothing more is written.
    retired: bool,
}

#[derive(Debug, Default)]
struct Files {
    ahead: Option<AheadFile>,
    sync_due: Option<Duration>,
    level_due: Option<Duration>,
    /// When what failed is due again.
    retry_at: Option<Duration>,
    /// How often it has failed since it worked last.
    failures: u32,
}

/// What a step works with.
#[derive(Clone, Copy)]
struct Step<'a> {
    store: &'a Inner,
    directory: &'a Directory,
    now: Duration,
    /// Everything is written and synced, whatever the clock says, and the topic's guard is waited for.
    exact: bool,
}

impl Consumer {
    pub(super) fn new(incarnation: Incarnation, partition: PartitionId, phase: u32) -> Self {
        Self { incarnation, partition, phase, memory: Mutex::default(), files: Mutex::default() }
    }

    pub(super) fn position(&self) -> ConsumerPosition {
        self.memory.lock().position.clone()
    }

    /// Nothing more is written, and no descriptor kept. A step that is under way sees to that at its end.
    pub(super) fn retire(&self) {
        self.memory.lock().retired = true;
        if let Some(mut files) = self.files.try_lock() {
            files.ahead = None;
        }
    }

    /// Whether it keeps failing, and that was said before.
    fn keeps_failing(&self) -> bool {
        self.files.lock().failures > 1
    }

    /// One step by the clock. Returns when the next one is due, `None` when the files say what memory says.
    fn step(&self, step: Step<'_>) -> (Option<Duration>, Result<()>) {
        let now = step.now;
        let mut files = self.files.lock();
        if let Some(later) = files.retry_at.filter(|&at| at > now && !step.exact) {
            return (Some(later), Ok(()));
        }
        let (position, dirty) = {
            let mut memory = self.memory.lock();
            if memory.retired {
                return (None, Ok(()));
            }
            (memory.position.clone(), std::mem::take(&mut memory.dirty))
        };
        if dirty {
            files.level_due.get_or_insert(now.saturating_add(LEVEL_INTERVAL));
        }
        let written = self.write_ahead(&mut files, step, dirty.then_some(&position));
        // A broken consumer.ahead must not keep consumer.offset from being levelled.
        let levelled = self.level(&mut files, step, &position);
        let mut memory = self.memory.lock();
        if memory.retired {
            files.ahead = None;
            return (None, Ok(()));
        }
        match written.and_then(|written| levelled.map(|()| written)) {
            Ok(written) => {
                (files.retry_at, files.failures) = (None, 0);
                memory.dirty |= !written;
                let rewrite = memory.dirty.then(|| now.saturating_add(TICK));
                let next = [rewrite, files.sync_due, files.level_due].into_iter().flatten().min();
                if next.is_none() {
                    files.ahead = None;
                }
                (next, Ok(()))
            }
            Err(error) => {
                // Whatever was being written is of unknown content, and is written again whole.
                memory.dirty = true;
                let retry_at = now.saturating_add(RETRY_INTERVAL);
                (files.retry_at, files.failures) = (Some(retry_at), files.failures.saturating_add(1));
                (Some(retry_at), Err(error))
            }
        }
    }

    /// Writes `position`, if one is given, into the window, and syncs when that is due. `false` when the topic's
    /// guard was taken and nothing could be opened: other topics must not wait for this one.
    fn write_ahead(
        &self,
        files: &mut Files,
        step: Step<'_>,
        position: Option<&ConsumerPosition>,
    ) -> Result<bool> {
        if let Some(position) = position {
            let ahead = match files.ahead.take() {
                Some(ahead) => ahead,
                None => {
                    let open = |paths: &PartitionPaths| AheadFile::open(&**step.store.runtime.disk(), paths);
                    let Some(ahead) = self.access(step, open)? else { return Ok(false) };
                    ahead
                }
            };
            files.ahead.insert(ahead).write(position)?;
            let interval = step.store.options.consumer_commit_interval;
            files.sync_due.get_or_insert(self.next_sync(step.now, interval));
        }
        if files.sync_due.is_some_and(|due| step.exact || due <= step.now) {
            if let Some(ahead) = files.ahead.as_mut().filter(|ahead| ahead.is_unsynced()) {
                ahead.sync()?;
            }
            files.sync_due = None;
        }
        Ok(true)
    }

    /// Brings `consumer.offset` level with the frontier when that is due.
    fn level(&self, files: &mut Files, step: Step<'_>, position: &ConsumerPosition) -> Result<()> {
        if !files.level_due.is_some_and(|due| step.exact || due <= step.now) {
            return Ok(());
        }
        let disk = &**step.store.runtime.disk();
        let open = |paths: &PartitionPaths| {
            Ok((files::open_or_create(disk, &paths.consumer_offset())?, paths.clone()))
        };
        let Some((file, paths)) = self.access(step, open)? else {
            files.level_due = Some(step.now.saturating_add(TICK));
            return Ok(());
        };
        let bytes = encode_consumer_offset(position.frontier);
        // Eight zero bytes are no evidence, and look like damage. Empty, the file leaves it to consumer.ahead.
        let bytes = if position.frontier == Some(Offset::ZERO) { &[][..] } else { &bytes };
        overwrite(&*file, bytes, &paths.consumer_offset())?;
        files::sync_dir(disk, paths.dir())?;
        files.level_due = None;
        Ok(())
    }

    /// Opens a file of the partition under the topic's guard, once the directory is known to be this incarnation's.
    /// `None` when the guard is taken.
    fn access<T>(
        &self,
        step: Step<'_>,
        open: impl FnOnce(&PartitionPaths) -> Result<T>,
    ) -> Result<Option<T>> {
        let guarded = if step.exact { Some(step.directory.lock()) } else { step.directory.try_lock() };
        let Some(mut guarded) = guarded else { return Ok(None) };
        let paths = guarded.prepare(step.store, self.incarnation, self.partition)?;
        open(&paths).map(Some)
    }

    /// Whether it holds `consumer.ahead` open.
    fn holds_file(&self) -> bool {
        self.files.lock().ahead.is_some()
    }

    /// Gives the descriptor of `consumer.ahead` back, once what was written through it is durable: a sync through
    /// another one might not hear of a failure.
    fn release_file(&self) -> Result<()> {
        let mut files = self.files.lock();
        if let Some(ahead) = files.ahead.as_mut().filter(|ahead| ahead.is_unsynced())
            && let Err(error) = ahead.sync()
        {
            self.memory.lock().dirty = true;
            return Err(error);
        }
        files.ahead = None;
        Ok(())
    }

    /// The next moment of this partition's own, at most an interval away.
    fn next_sync(&self, now: Duration, interval: Duration) -> Duration {
        let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX).max(1);
        let tick_ms = TICK.as_millis() as u64;
        let phase_ms = (u64::from(self.phase) * tick_ms) % interval_ms;
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let into = now_ms.wrapping_add(interval_ms - phase_ms) % interval_ms;
        Duration::from_millis(now_ms.saturating_add(interval_ms - into))
    }
}

fn overwrite(file: &dyn File, bytes: &[u8], path: &Path) -> Result<()> {
    file.write_all_at(bytes, 0).map_err(|(_, error)| Error::io("write", path, error))?;
    let len = file.len().map_err(|error| Error::io("stat", path, error))?;
    if len != bytes.len() as u64 {
        // A file of an odd size is no evidence, however right its first bytes are.
        file.set_len(bytes.len() as u64).map_err(|error| Error::io("truncate", path, error))?;
    }
    file.sync_data().map_err(|error| Error::io("fsync", path, error))
}
