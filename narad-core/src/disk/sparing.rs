//! A file system whose descriptors are shared out: where an open finds none, those who hold some that they do not need
//! now are asked to give them back, and it is tried once more.

use std::{
    io,
    path::Path,
    sync::{Arc, Weak},
};

use super::{DirEntry, Disk, File, Metadata, OpenMode};
use crate::{error::is_out_of_descriptors, sync::RwLock};

/// Holds descriptors that it can do without for a while.
pub(crate) trait Spares: std::fmt::Debug + Send + Sync {
    /// Closes those that nothing needs at this moment. Called by somebody who opens a file, with whatever locks that one
    /// holds: waits for none. Answers whether there may be one more now.
    fn give_back(&self) -> bool;
}

#[derive(Debug)]
pub(crate) struct SparingDisk {
    disk: Arc<dyn Disk>,
    holders: RwLock<Vec<Weak<dyn Spares>>>,
}

impl SparingDisk {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, holders: RwLock::default() }
    }

    /// From here on `holder` is asked.
    pub(crate) fn ask(&self, holder: Weak<dyn Spares>) {
        let mut holders = self.holders.write();
        holders.retain(|other| other.strong_count() > 0);
        holders.push(holder);
    }

    /// Has every holder give back what it can do without. Answers whether one may have.
    pub(crate) fn spare(&self) -> bool {
        let holders: Vec<_> = self.holders.read().iter().filter_map(Weak::upgrade).collect();
        holders.iter().filter(|holder| holder.give_back()).count() > 0
    }

    fn with_a_descriptor<T>(&self, call: impl Fn(&dyn Disk) -> io::Result<T>) -> io::Result<T> {
        match call(&*self.disk) {
            Err(error) if is_out_of_descriptors(&error) => {
                if self.spare() {
                    call(&*self.disk)
                } else {
                    Err(error)
                }
            }
            done => done,
        }
    }
}

impl Disk for SparingDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn File>> {
        self.with_a_descriptor(|disk| disk.open(path, mode))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.with_a_descriptor(|disk| disk.list(path))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.disk.metadata(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // Opening the directory is what finds no descriptor: nothing was synced before.
        self.with_a_descriptor(|disk| disk.sync_dir(path))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.with_a_descriptor(|disk| disk.lock(path))
    }

    fn available_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.available_bytes(path)
    }
}
