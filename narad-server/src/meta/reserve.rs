//! Space set aside, so that what frees space can be written down on a full disk: deletes and shorter retention.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Bytes set aside: many times what one change of the metadata takes.
const BYTES: usize = 1 << 20;

/// A file of its own that stands for space. Best effort: without it such a change fails like any other.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    pub(super) fn new(dir: &Path) -> Self {
        Self { path: dir.join("reserve") }
    }

    /// Sets the space aside, unless it is already.
    pub(super) fn fill(&self) {
        let is_full = fs::metadata(&self.path).is_ok_and(|file| file.len() == BYTES as u64);
        if !is_full && fs::write(&self.path, vec![0; BYTES]).is_err() {
            // Half a reserve would only be in the way of others.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Gives the space back. Answers whether there was any.
    pub(super) fn release(&self) -> bool {
        let removed: io::Result<()> = fs::remove_file(&self.path);
        removed.is_ok()
    }
}
