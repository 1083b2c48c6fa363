//! redb's storage over the engine's [`Disk`](narad_core::disk::Disk) seam: what a test does to a disk, it does to the
//! metadata.
//!
//! Knows bytes and no tables. Never answers for a sync that was not done, and never makes up an error without the
//! file's name.

use std::{
    io,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use narad_core::disk::{File, FileExt};
use redb::StorageBackend;

/// Bytes of one of redb's pages.
pub(super) const PAGE_BYTES: u64 = 4096;

/// One open file of redb's. The file is closed, and a lock on it released, when this goes.
#[derive(Debug)]
pub(super) struct DiskBackend {
    file: Box<dyn File>,
    path: PathBuf,
    /// The system forgets what a failed sync could not write, and a later sync succeeds without it.
    sync_failed: AtomicBool,
}

impl DiskBackend {
    /// A backend over `file`, which errors call `path`.
    pub(super) fn new(file: Box<dyn File>, path: PathBuf) -> Self {
        Self { file, path, sync_failed: AtomicBool::new(false) }
    }

    /// The same kind, so that a full disk is still told apart.
    fn named(&self, op: &str, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{op} {}: {error}", self.path.display()))
    }
}

impl StorageBackend for DiskBackend {
    /// Whole pages. A power loss while the file grows may leave part of one behind, which holds nothing: redb syncs the
    /// new length before it uses it.
    fn len(&self) -> io::Result<u64> {
        let len = self.file.len().map_err(|error| self.named("stat", &error))?;
        Ok(len - len % PAGE_BYTES)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset).map_err(|error| self.named("read", &error))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len).map_err(|error| self.named("resize", &error))
    }

    /// # Errors
    /// From the first failure on, until the file is opened anew.
    fn sync_data(&self) -> io::Result<()> {
        if self.sync_failed.load(Ordering::Acquire) {
            let refused = format!("sync {}: an earlier sync failed, open the file anew", self.path.display());
            return Err(io::Error::other(refused));
        }
        self.file.sync_data().map_err(|error| {
            self.sync_failed.store(true, Ordering::Release);
            self.named("sync", &error)
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset).map_err(|(_, error)| self.named("write", &error))
    }
}

#[cfg(test)]
mod tests {
    use std::{io::ErrorKind, path::Path};

    use narad_core::{
        disk::{Disk, OpenMode},
        testkit::{CallKind, Failure, Fault, SimDisk},
    };

    use super::*;

    fn backend() -> (SimDisk, DiskBackend) {
        let (disk, path) = (SimDisk::new(1), Path::new("/meta.redb"));
        let file = disk.open(path, OpenMode::CreateNew).unwrap();
        (disk, DiskBackend::new(file, path.to_owned()))
    }

    #[test]
    fn after_a_failed_sync_no_sync_succeeds() {
        let (disk, backend) = backend();
        backend.write(0, &[1; 600]).unwrap();
        disk.inject(Fault::fail(CallKind::SyncData, Failure::NoSpace));
        let first = backend.sync_data().unwrap_err();
        assert_eq!(first.kind(), ErrorKind::StorageFull);
        for error in [first, backend.sync_data().unwrap_err()] {
            assert!(error.to_string().contains("/meta.redb"), "{error}");
        }
        assert_eq!(disk.count(CallKind::SyncData), 1, "the second is not even asked of the disk");
    }

    #[test]
    fn a_read_beyond_the_end_is_an_error_and_a_part_of_a_page_is_none() {
        let (_disk, backend) = backend();
        backend.set_len(PAGE_BYTES + 512).unwrap();
        assert_eq!(backend.len().unwrap(), PAGE_BYTES);
        let error = backend.read(PAGE_BYTES, &mut [0; 1024]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }
}
