//! Deleting a topic: one rename, durable, and it is gone; its files follow.
//!
//! Needs no open, works on a full disk, never follows a link, and takes nothing that could be somebody else's.

use std::{path::Path, sync::atomic::Ordering};

use super::{
    Inner,
    directory::Tenant,
    files,
    incarnation::{self, Owner},
    layout,
};
use crate::{Error, Result, disk::FileKind, plugin::Incarnation};

impl Inner {
    pub(super) fn delete_topic(&self, name: &str, id: Incarnation) -> Result<()> {
        self.check_open()?;
        let topic = self.topic(name)?;
        let disk = &**self.runtime.disk();
        let doomed = {
            let mut guarded = topic.directory.lock();
            topic.retire(id);
            self.runtime.metrics().forget(name, id);
            guarded.look_again();
            match incarnation::owner(disk, &self.layout.topic(name)?)? {
                Owner::NoDirectory => None,
                Owner::Of(found) if found == id => {
                    let places = self.layout.deleted(name, id);
                    let home = self.layout.topic(name)?;
                    Some(incarnation::set_aside(disk, &self.layout, home.dir(), places)?)
                }
                Owner::Of(found) => {
                    tracing::info!(topic = name, deleted = %id, %found, "the directory is another incarnation's");
                    None
                }
                // Nobody knows whose it is: out of the way of the next topic of that name, and kept.
                Owner::Unmarked | Owner::Illegible => {
                    incarnation::quarantine(disk, &self.layout, name, id)?;
                    self.count_error("quarantine");
                    None
                }
            }
        };
        // The topic is gone whatever becomes of the files.
        if let Some(dir) = doomed {
            self.remove_doomed(&dir);
        }
        Ok(())
    }

    /// Removes a directory that was renamed to be deleted. What is left of it goes with the next sweep, or start.
    pub(super) fn remove_doomed(&self, dir: &Path) {
        if let Err(error) = files::remove_tree(&**self.runtime.disk(), self.runtime.reclaimer(), dir) {
            tracing::warn!(dir = %dir.display(), %error, "could not remove a deleted topic's files yet");
            self.count_error("delete_unlink");
            self.has_leftovers.store(true, Ordering::Release);
        }
    }

    /// Tries again what could not be removed.
    pub(super) fn remove_leftovers_again(&self) {
        if self.has_leftovers.swap(false, Ordering::AcqRel)
            && let Err(error) = self.remove_leftovers()
        {
            tracing::warn!(%error, "could not look for what deleted topics left");
            self.has_leftovers.store(true, Ordering::Release);
        }
    }

    /// Removes what deletes left behind that were interrupted. A failure is logged: it is no reason not to start.
    pub(super) fn remove_leftovers(&self) -> Result<()> {
        let topics = self.layout.topics();
        let entries = self.runtime.disk().list(&topics).map_err(|error| Error::io("list", &topics, error))?;
        let leftovers = entries
            .into_iter()
            .filter(|entry| entry.kind == FileKind::Directory && layout::is_deleted_leftover(&entry.name));
        let leftovers: Vec<_> = leftovers.map(|entry| topics.join(&entry.name)).collect();
        if leftovers.is_empty() {
            return Ok(());
        }
        // Whoever renamed them may have died before that was durable. A power loss would give a directory its place back
        // without the marker that was removed from it, and the next topic of the name would take what is left for its own.
        if let Err(error) = files::sync_dir(&**self.runtime.disk(), &topics) {
            tracing::warn!(%error, "what deleted topics left is not removed yet");
            self.count_error("delete_unlink");
            self.has_leftovers.store(true, Ordering::Release);
            return Ok(());
        }
        for dir in leftovers {
            self.remove_doomed(&dir);
        }
        Ok(())
    }
}
