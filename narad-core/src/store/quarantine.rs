//! Directories that belong to no topic for now: what another incarnation left, and what came from elsewhere.
//!
//! They are listed and taken back or removed on the word of whoever keeps the metadata. Nothing here decides that a
//! topic is gone, and what cannot be told apart stays.

use std::sync::Arc;

use super::{
    Inner, files,
    incarnation::{self, Owner},
    layout,
};
use crate::{
    Error, Result,
    disk::FileKind,
    plugin::{Incarnation, PartitionId},
};

/// A directory below `topics/` that holds, or held, a topic's partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicDirectory {
    /// Its name.
    pub entry: String,
    /// The topic's name: that of the directory, without what a quarantine puts behind it.
    pub topic: Arc<str>,
    /// Whose it says it is; `None` for one without a marker, or with one that names nobody.
    pub incarnation: Option<Incarnation>,
    /// Partitions, up to the highest that there is a directory for.
    pub partitions: u32,
    /// Whether it was set aside as another incarnation's.
    pub quarantined: bool,
}

impl Inner {
    pub(super) fn directories(&self) -> Result<Vec<TopicDirectory>> {
        self.those_named(|_| true)
    }

    /// Looks into none but those that were set aside: there may be thousands of others.
    pub(super) fn quarantined(&self) -> Result<Vec<TopicDirectory>> {
        self.those_named(|name| layout::quarantined_topic(name).is_some())
    }

    fn those_named(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<TopicDirectory>> {
        let (disk, topics) = (&**self.runtime.disk(), self.layout.topics());
        let mut found = Vec::new();
        for entry in disk.list(&topics).map_err(|error| Error::io("list", &topics, error))? {
            let is_wanted = |name: &&str| entry.kind == FileKind::Directory && wanted(name);
            let Some(name) = entry.name.to_str().filter(is_wanted) else { continue };
            if layout::is_deleted_leftover(&entry.name) || layout::is_of_the_file_system(name) {
                continue;
            }
            let quarantined = layout::quarantined_topic(name);
            let topic = quarantined.unwrap_or(name);
            if layout::check_topic_name(topic).is_err() {
                continue;
            }
            let paths = self.layout.entry(name);
            let incarnation = match incarnation::owner(disk, &paths)? {
                Owner::Of(id) => Some(id),
                Owner::Unmarked | Owner::Illegible => None,
                Owner::NoDirectory => continue,
            };
            let entries = disk.list(paths.dir()).map_err(|error| Error::io("list", paths.dir(), error))?;
            let numbers = entries.iter().filter(|entry| entry.kind == FileKind::Directory);
            let numbers = numbers.filter_map(|entry| layout::partition_number(entry.name.to_str()?));
            let highest = numbers.max();
            if incarnation.is_none() && highest.is_none() {
                // Nothing in it is of a topic.
                continue;
            }
            found.push(TopicDirectory {
                entry: name.to_owned(),
                topic: topic.into(),
                incarnation,
                partitions: highest.map_or(0, |PartitionId(last)| last + 1),
                quarantined: quarantined.is_some(),
            });
        }
        found.sort_by(|a, b| a.entry.cmp(&b.entry));
        Ok(found)
    }

    pub(super) fn reclaim(&self, directory: &TopicDirectory) -> Result<()> {
        self.check_open()?;
        let (disk, paths) = (&**self.runtime.disk(), self.layout.entry(&directory.entry));
        let refuse = |reason: &str| Err(files::unusable(paths.dir(), reason));
        let (true, Some(id)) = (directory.quarantined, directory.incarnation) else {
            return refuse("only what was quarantined, and says whose it was, is reclaimed");
        };
        if layout::quarantined_topic(&directory.entry) != Some(&*directory.topic) {
            return refuse("this is not the name of a quarantined directory");
        }
        let doomed = {
            let topic = self.topic(&directory.topic)?;
            let _guarded = topic.directory.lock();
            match incarnation::owner(disk, &paths)? {
                Owner::NoDirectory => return Ok(()),
                Owner::Of(found) if found == id => {}
                Owner::Of(_) | Owner::Unmarked | Owner::Illegible => {
                    return refuse("its marker is not what it was");
                }
            }
            let places = self.layout.deleted(&directory.topic, id);
            incarnation::set_aside(disk, &self.layout, paths.dir(), places)?
        };
        tracing::info!(entry = %directory.entry, incarnation = %id, "reclaiming a quarantined directory");
        self.remove_doomed(&doomed);
        Ok(())
    }

    pub(super) fn adopt(&self, directory: &TopicDirectory, id: Incarnation) -> Result<()> {
        self.check_open()?;
        let (disk, from) = (&**self.runtime.disk(), self.layout.entry(&directory.entry));
        let topic = self.topic(&directory.topic)?;
        let mut guarded = topic.directory.lock();
        let owner = incarnation::owner(disk, &from)?;
        match owner {
            Owner::Of(found) if found != id => {
                return Err(files::unusable(from.dir(), &format!("it belongs to {found}, not to {id}")));
            }
            Owner::NoDirectory => return Err(files::unusable(from.dir(), "there is no such directory")),
            Owner::Of(_) | Owner::Unmarked | Owner::Illegible => {}
        }
        let home = self.layout.topic(&directory.topic)?;
        if from.dir() != home.dir() {
            if files::kind(disk, home.dir())?.is_some() {
                return Err(files::unusable(home.dir(), "a directory is there already"));
            }
            disk.rename(from.dir(), home.dir()).map_err(|error| Error::io("rename", from.dir(), error))?;
            files::sync_dir(disk, &self.layout.topics())?;
        }
        guarded.look_again();
        topic.directory.restore(id);
        match owner {
            // A marker that names it is not written again: a write that fails would leave a directory of nobody's, and
            // the next topic of the name would take it for its own.
            Owner::Of(_) => incarnation::settle(disk, &home)?,
            _ => incarnation::stamp(disk, &home, id)?,
        }
        tracing::info!(entry = %directory.entry, topic = %directory.topic, incarnation = %id, "adopted a directory");
        Ok(())
    }
}
