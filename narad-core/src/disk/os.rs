//! The operating system's file system.
#![expect(clippy::disallowed_methods, reason = "this is the one place that touches real files")]

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
    time::UNIX_EPOCH,
};

use rustix::fs::{Advice, OFlags, fadvise};

use super::{Access, DirEntry, Disk, File, FileKind, Metadata, OpenMode};

const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// Real files, through the standard library.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsDisk;

impl Disk for OsDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read => {}
            OpenMode::ReadWrite => _ = options.write(true),
            OpenMode::CreateNew => _ = options.write(true).create_new(true),
        }
        Ok(Box::new(open_regular(&mut options, path)?))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::DirBuilder::new().mode(DIR_MODE).create(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        fs::read_dir(path)?
            .map(|entry| {
                let entry = entry?;
                Ok(DirEntry { name: entry.file_name(), kind: kind_of(entry.file_type()?) })
            })
            .collect()
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let metadata = fs::symlink_metadata(path)?;
        let modified = metadata.modified()?;
        let modified_ms = match modified.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
        };
        Ok(Metadata { kind: kind_of(metadata.file_type()), len: metadata.len(), modified_ms })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = open_regular(&mut options, path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(fs::TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn available_bytes(&self, path: &Path) -> io::Result<u64> {
        let stats = rustix::fs::statvfs(path)?;
        Ok(stats.f_bavail.saturating_mul(stats.f_frsize))
    }
}

/// Opens a regular file and nothing else. Without `O_NONBLOCK` the open of a FIFO that has taken the place of a file
/// waits for ever; without `O_NOFOLLOW` a link in its place leads writes out of the data directory.
fn open_regular(options: &mut fs::OpenOptions, path: &Path) -> io::Result<fs::File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.mode(FILE_MODE).custom_flags(flags.bits().cast_signed()).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        Ok(file)
    } else if kind.is_dir() {
        Err(io::ErrorKind::IsADirectory.into())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
    }
}

fn kind_of(kind: fs::FileType) -> FileKind {
    if kind.is_file() {
        FileKind::File
    } else if kind.is_dir() {
        FileKind::Directory
    } else {
        FileKind::Other
    }
}

impl File for fs::File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, buf, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        fs::File::sync_data(self)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        fs::File::set_len(self, len)
    }

    fn advise(&self, access: Access) {
        let advice = match access {
            Access::Ahead => Advice::Normal,
            Access::AsAsked => Advice::Random,
        };
        // Where the file system does not take advice, it reads as it likes.
        _ = fadvise(self, 0, None, advice);
    }

    fn len(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn is_unlinked(&self) -> io::Result<bool> {
        self.metadata().map(|metadata| metadata.nlink() == 0)
    }
}
