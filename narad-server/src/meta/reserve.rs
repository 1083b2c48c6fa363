//! Space set aside, so that what frees space can be written down on a full disk: deletes and shorter retention.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use narad_core::disk::{Disk, FileExt, OpenMode};

/// Bytes set aside: many times what one change of the metadata takes.
const BYTES: usize = 1 << 20;

/// A file of its own that stands for space. Best effort: without it such a change fails like any other. Nothing reads
/// it, so it is never synced.
#[derive(Debug)]
pub(super) struct Reserve {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl Reserve {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: &Path) -> Self {
        Self { disk, path: dir.join("reserve") }
    }

    /// Sets the space aside, unless it is already.
    pub(super) fn fill(&self) {
        let is_full = self.disk.metadata(&self.path).is_ok_and(|file| file.len == BYTES as u64);
        if !is_full && self.write().is_err() {
            // Half a reserve would only be in the way of others.
            let _ = self.disk.remove_file(&self.path);
        }
    }

    fn write(&self) -> io::Result<()> {
        let _ = self.disk.remove_file(&self.path);
        let file = self.disk.open(&self.path, OpenMode::CreateNew)?;
        file.write_all_at(&vec![0; BYTES], 0).map_err(|(_, error)| error)
    }

    /// Gives the space back. Answers whether there was any.
    pub(super) fn release(&self) -> bool {
        self.disk.remove_file(&self.path).is_ok()
    }
}
