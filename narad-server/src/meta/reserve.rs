//! Space set aside, so that what frees space can be written down on a full disk: deletes and shorter retention.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use narad_core::disk::{Disk, FileExt, FileKind, OpenMode};
use parking_lot::Mutex;

/// Bytes set aside: many times what one change of the metadata takes.
const BYTES: u64 = 1 << 20;
/// Bytes given back at once. On a full disk others take at once what a change leaves over, and the next change needs
/// some too.
const STEP: u64 = 1 << 17;

/// A file of its own that stands for space. Best effort: without it such a change fails like any other. Nothing reads
/// it, so it is never synced.
#[derive(Debug)]
pub(super) struct Reserve {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    one_at_a_time: Mutex<()>,
}

impl Reserve {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: &Path) -> Self {
        Self { disk, path: dir.join("reserve"), one_at_a_time: Mutex::default() }
    }

    /// Sets aside what is missing. Answers whether all of it is there now; on a full disk what was there stays.
    pub(super) fn fill(&self) -> bool {
        let _turn = self.one_at_a_time.lock();
        let kept = self.kept();
        if kept == BYTES {
            return true;
        }
        let filled = self.write_from(kept).is_ok();
        if !filled {
            let _ = self.shrink_to(kept);
        }
        filled
    }

    /// Gives a part of the space back. Answers whether there was any.
    pub(super) fn release(&self) -> bool {
        let _turn = self.one_at_a_time.lock();
        let kept = self.kept();
        kept > 0 && self.shrink_to(kept.saturating_sub(STEP)).is_ok()
    }

    /// How much is set aside. Something else in its place is nothing.
    fn kept(&self) -> u64 {
        match self.disk.metadata(&self.path) {
            Ok(found) if found.kind == FileKind::File && found.len <= BYTES => found.len,
            _ => 0,
        }
    }

    fn write_from(&self, kept: u64) -> io::Result<()> {
        let file = if kept > 0 {
            self.disk.open(&self.path, OpenMode::ReadWrite)?
        } else {
            let _ = self.disk.remove_file(&self.path);
            self.disk.open(&self.path, OpenMode::CreateNew)?
        };
        let missing = vec![0; usize::try_from(BYTES - kept).unwrap_or_default()];
        file.write_all_at(&missing, kept).map_err(|(_, error)| error)
    }

    fn shrink_to(&self, len: u64) -> io::Result<()> {
        if len == 0 {
            return self.disk.remove_file(&self.path);
        }
        self.disk.open(&self.path, OpenMode::ReadWrite)?.set_len(len)
    }
}

#[cfg(test)]
mod tests {
    use narad_core::testkit::SimDisk;

    use super::*;

    #[test]
    fn space_is_given_back_in_parts_and_a_full_disk_takes_none_of_the_rest() {
        let disk = SimDisk::new(1);
        let reserve = Reserve::new(Arc::new(disk.clone()), Path::new("/"));
        let len = || disk.contents("/reserve").map_or(0, |bytes| bytes.len() as u64);
        assert!(reserve.fill());
        let mut left = BYTES;
        while left > 0 {
            assert!(reserve.release());
            left -= STEP;
            assert_eq!(len(), left);
            // Others take it at once.
            disk.set_capacity(Some(disk.used_bytes()));
            assert!(!reserve.fill());
            assert_eq!(len(), left);
        }
        assert!(!reserve.release());
        disk.set_capacity(None);
        assert!(reserve.fill());
        assert_eq!(len(), BYTES);
    }
}
