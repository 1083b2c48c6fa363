//! Deleting a topic: one rename, durable, and it is gone; its files follow.
//!
//! Needs no open, works on a full disk, never follows a link, and takes nothing that could be somebody else's.

use super::{
    Inner, files,
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
            let mut guarded = topic.guard.lock();
            topic.retire(id);
            if guarded.claimed == Some(id) {
                guarded.claimed = None;
            }
            match incarnation::owner(disk, &self.layout.topic(name)?)? {
                Owner::NoDirectory => None,
                Owner::Of(found) if found == id => {
                    let places = self.layout.deleted(name, id);
                    Some(incarnation::set_aside(disk, &self.layout, name, places)?)
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
        // The topic is gone whatever becomes of the files: the next start removes what is left.
        if let Some(dir) = doomed
            && let Err(error) = files::remove_tree(disk, &dir)
        {
            tracing::warn!(topic = name, %error, "could not remove a deleted topic's files");
            self.count_error("delete_unlink");
        }
        Ok(())
    }

    /// Removes what deletes left behind that were interrupted. A failure is logged: it is no reason not to start.
    pub(super) fn remove_leftovers(&self) -> Result<()> {
        let (disk, topics) = (&**self.runtime.disk(), self.layout.topics());
        for entry in disk.list(&topics).map_err(|error| Error::io("list", &topics, error))? {
            if entry.kind != FileKind::Directory || !layout::is_deleted_leftover(&entry.name) {
                continue;
            }
            if let Err(error) = files::remove_tree(disk, &topics.join(&entry.name)) {
                tracing::warn!(entry = %entry.name.display(), %error, "could not remove a deleted topic's files");
                self.count_error("delete_unlink");
            }
        }
        Ok(())
    }
}
