//! Where a topic's plugins keep their files: `topics/<topic>/plugins/`, for as long as the directory is the topic's.
//!
//! Holds the store weakly: a plugin is not what keeps a store open.

use std::sync::{Arc, Weak};

use super::{Inner, directory::Guarded, files, incarnation::Owner};
use crate::{
    Error, Result,
    disk::{DiskExt, FileKind},
    plugin::{Incarnation, PluginPlace, Visit},
};

/// The place of one incarnation's plugins.
#[derive(Debug)]
pub(super) struct TopicPlugins {
    store: Weak<Inner>,
    topic: Arc<str>,
    incarnation: Incarnation,
}

impl TopicPlugins {
    pub(super) fn new(store: Weak<Inner>, topic: Arc<str>, incarnation: Incarnation) -> Self {
        Self { store, topic, incarnation }
    }

    /// With the topic's guard held, so that nobody moves the directory and one change is made at a time.
    fn guarded(&self, work: impl FnOnce(&Inner, &mut Guarded<'_>) -> Result<()>) -> Result<()> {
        let store = self.store.upgrade().ok_or(Error::Closed)?;
        store.check_open()?;
        let topic = store.topic(&self.topic)?;
        let mut guarded = topic.directory.lock();
        if topic.directory.is_retired(self.incarnation) {
            let reason = format!("{} of topic {} is gone", self.incarnation, self.topic);
            return Err(Error::InvalidArgument { name: "incarnation", reason });
        }
        work(&store, &mut guarded)
    }
}

impl PluginPlace for TopicPlugins {
    fn look(&self, visit: Visit<'_>) -> Result<()> {
        self.guarded(|store, guarded| match guarded.owner(store)? {
            Owner::NoDirectory => Ok(()),
            // It is set aside before this incarnation gets a directory.
            Owner::Of(other) if other != self.incarnation => Ok(()),
            Owner::Of(_) | Owner::Unmarked | Owner::Illegible => {
                let (disk, dir) = (&**store.runtime.disk(), store.layout.topic(&self.topic)?.plugins());
                match files::kind(disk, &dir)? {
                    None => Ok(()),
                    Some(FileKind::Directory) => visit(disk, &dir),
                    Some(_) => files::require_directory(disk, &dir),
                }
            }
        })
    }

    fn change(&self, visit: Visit<'_>) -> Result<()> {
        self.guarded(|store, guarded| {
            guarded.claim(store, self.incarnation)?;
            let (disk, paths) = (&**store.runtime.disk(), store.layout.topic(&self.topic)?);
            let dir = paths.plugins();
            disk.create_dir_all_durable(&dir).map_err(|error| Error::io("mkdir", &dir, error))?;
            files::require_directory(disk, &dir)?;
            // An earlier process may have died between making the name and making it durable.
            files::sync_dir(disk, paths.dir())?;
            visit(disk, &dir)
        })
    }
}
