//! A topic's directory: its guard, whose it was found to be, and which incarnations are gone.
//!
//! Everything that creates, renames or opens by path something in the directory does it with the guard held. File I/O
//! under the guard stalls callers of this topic and nobody else. Knows nothing of open logs or of positions: their
//! keeper is told of an incarnation that is found to be gone.

use std::{
    collections::VecDeque,
    fmt::Debug,
    sync::{Arc, Weak},
};

use parking_lot::{Mutex, MutexGuard};

use super::{
    Inner, files,
    incarnation::{self, Owner},
    layout::PartitionPaths,
};
use crate::{
    Error, Result,
    disk::FileKind,
    plugin::{Incarnation, PartitionId},
};

/// Enough that no caller still holds an incarnation that has dropped off the list.
const RETIRED_KEPT: usize = 64;

/// Keeps what an incarnation has in memory.
pub(super) trait Tenant: Debug + Send + Sync {
    /// The incarnation is gone: its logs are to be closed and its positions forgotten. Called with the guard held, before
    /// its directory is moved.
    fn retire(&self, id: Incarnation);

    /// The directory is about to be moved: nobody may have a file in it open.
    fn vacate(&self);
}

#[derive(Debug)]
pub(super) struct Directory {
    pub(super) name: Arc<str>,
    tenant: Weak<dyn Tenant>,
    /// Whose directory it was found to be, durably marked, in this process.
    claimed: Mutex<Option<Incarnation>>,
    retired: Mutex<VecDeque<Incarnation>>,
}

/// The directory, with its guard held.
#[derive(Debug)]
pub(super) struct Guarded<'a> {
    directory: &'a Directory,
    claimed: MutexGuard<'a, Option<Incarnation>>,
}

impl Directory {
    pub(super) fn new(name: Arc<str>, tenant: Weak<dyn Tenant>) -> Self {
        Self { name, tenant, claimed: Mutex::default(), retired: Mutex::default() }
    }

    /// Takes the guard; waits for a log of the topic that is being opened or closed.
    pub(super) fn lock(&self) -> Guarded<'_> {
        Guarded { directory: self, claimed: self.claimed.lock() }
    }

    /// Takes the guard unless somebody has it.
    pub(super) fn try_lock(&self) -> Option<Guarded<'_>> {
        self.claimed.try_lock().map(|claimed| Guarded { directory: self, claimed })
    }

    pub(super) fn is_retired(&self, id: Incarnation) -> bool {
        self.retired.lock().contains(&id)
    }

    /// From here on nobody gets anything of this incarnation.
    pub(super) fn retire(&self, id: Incarnation) {
        let mut retired = self.retired.lock();
        if !retired.contains(&id) {
            retired.push_back(id);
        }
        if retired.len() > RETIRED_KEPT {
            retired.pop_front();
        }
    }

    /// The incarnation is back.
    pub(super) fn restore(&self, id: Incarnation) {
        self.retired.lock().retain(|&other| other != id);
    }
}

impl Guarded<'_> {
    /// Makes sure that the partition's directory is there, durably, and this incarnation's.
    ///
    /// # Errors
    /// `InvalidArgument` for an incarnation that was deleted or replaced.
    pub(super) fn prepare(
        &mut self,
        store: &Inner,
        id: Incarnation,
        partition: PartitionId,
    ) -> Result<PartitionPaths> {
        self.claim(store, id)?;
        let disk = &**store.runtime.disk();
        let topic = store.layout.topic(&self.directory.name)?;
        let paths = topic.partition(partition);
        if files::create_dir(disk, paths.dir())? {
            // Should the sync fail, the next claim repeats it.
            *self.claimed = None;
            files::sync_dir(disk, topic.dir())?;
            *self.claimed = Some(id);
        }
        match files::kind(disk, paths.dir())? {
            Some(FileKind::Directory) => Ok(paths),
            _ => Err(not_a_directory(&paths)),
        }
    }

    /// Makes sure that the topic's directory is there, durably, and this incarnation's: see [`incarnation::claim`].
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub(super) fn claim(&mut self, store: &Inner, id: Incarnation) -> Result<()> {
        let name = &self.directory.name;
        if self.directory.is_retired(id) {
            let reason = format!("{id} of topic {name} is gone");
            return Err(Error::InvalidArgument { name: "incarnation", reason });
        }
        if *self.claimed != Some(id) {
            *self.claimed = None;
            let before = incarnation::claim(&**store.runtime.disk(), &store.layout, name, id, |old| {
                if let Some(tenant) = self.directory.tenant.upgrade() {
                    tenant.retire(old);
                    tenant.vacate();
                }
                store.runtime.metrics().forget(name, old);
            })?;
            if before == Owner::Illegible {
                store.count_error("state_file");
            }
            *self.claimed = Some(id);
        }
        Ok(())
    }

    /// The partition's directory, if there is one and it is this incarnation's, or nobody's yet. Creates nothing.
    pub(super) fn existing(
        &self,
        store: &Inner,
        id: Incarnation,
        partition: PartitionId,
    ) -> Result<Option<PartitionPaths>> {
        match self.owner(store)? {
            Owner::NoDirectory => Ok(None),
            Owner::Of(other) if other != id => Ok(None),
            Owner::Of(_) | Owner::Unmarked | Owner::Illegible => self.partition(store, partition),
        }
    }

    /// The partition's directory, if it is there and marked as this incarnation's: the only one to write to. Creates
    /// nothing.
    pub(super) fn owned(
        &self,
        store: &Inner,
        id: Incarnation,
        partition: PartitionId,
    ) -> Result<Option<PartitionPaths>> {
        if self.directory.is_retired(id) || self.owner(store)? != Owner::Of(id) {
            return Ok(None);
        }
        self.partition(store, partition)
    }

    /// Whose the directory is.
    pub(super) fn owner(&self, store: &Inner) -> Result<Owner> {
        match *self.claimed {
            Some(id) => Ok(Owner::Of(id)),
            None => incarnation::owner(&**store.runtime.disk(), &store.layout.topic(&self.directory.name)?),
        }
    }

    /// Forgets whose directory it was found to be: it is looked at again before the next use.
    pub(super) fn look_again(&mut self) {
        *self.claimed = None;
    }

    fn partition(&self, store: &Inner, partition: PartitionId) -> Result<Option<PartitionPaths>> {
        let paths = store.layout.topic(&self.directory.name)?.partition(partition);
        match files::kind(&**store.runtime.disk(), paths.dir())? {
            None => Ok(None),
            Some(FileKind::Directory) => Ok(Some(paths)),
            Some(_) => Err(not_a_directory(&paths)),
        }
    }
}

fn not_a_directory(paths: &PartitionPaths) -> Error {
    files::unusable(paths.dir(), "a partition is a directory, and links are not followed")
}
