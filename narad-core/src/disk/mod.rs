//! The seam to the file system: everything the engine asks of a disk, and nothing else.
//!
//! The engine reaches files through [`Disk`] and [`File`] alone, so a simulated disk can fail, tear or lie about
//! any call. Nothing here knows what a frame is.

mod os;
#[cfg(feature = "engine")]
mod reclaim;
#[cfg(feature = "engine")]
mod sparing;
#[cfg(feature = "engine")]
mod turns;

use std::{
    ffi::OsString,
    fmt::Debug,
    io,
    path::{Path, PathBuf},
};

pub use os::OsDisk;
#[cfg(feature = "engine")]
pub(crate) use reclaim::{Doomed, Reclaimer};
#[cfg(feature = "engine")]
pub(crate) use sparing::{Spares, SparingDisk};
#[cfg(feature = "engine")]
pub(crate) use turns::{GivingWay, Turns};

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, to be read.
    Read,
    /// An existing file, to be read and written.
    ReadWrite,
    /// A new file, to be read and written; fails with `AlreadyExists` when the name is taken.
    CreateNew,
}

/// What an entry of a directory is. A symbolic link is never followed to find out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, FIFO, socket or device.
    Other,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name within the directory.
    pub name: OsString,
    /// What it is.
    pub kind: FileKind,
}

/// What a file system knows about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// What it is; symbolic links are not followed.
    pub kind: FileKind,
    /// Bytes.
    pub len: u64,
    /// The last write, in Unix milliseconds.
    pub modified_ms: i64,
}

/// A file system.
///
/// # Contract
/// 1. A name made by `create` mode, `create_dir` or `rename` survives a power loss only after `sync_dir` on the
///    directory that holds it.
/// 2. Files are created with mode 0600, directories with 0700; what exists keeps its mode.
/// 3. Every error is passed on as the operating system gave it; a full disk is `StorageFull` or `QuotaExceeded`.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Opens a regular file. Anything else of that name, a symbolic link included, is an error at once: an open never
    /// waits and never leads elsewhere.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn File>>;

    /// Makes one directory. `AlreadyExists` when something of that name is there.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// The entries of a directory, in any order.
    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// What is known about the entry itself, links not followed.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// Renames, replacing a file at `to`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Unlinks a file (or a link, never what it points to).
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Takes an exclusive advisory lock on the file at `path`, creating it if need be, for as long as the returned
    /// value lives; `WouldBlock` when another process (or another lock of this one) holds it. The file's content is
    /// the caller's, and as with [`open`](Self::open) the file is a regular one. Child processes do not inherit the lock.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Bytes an ordinary user can still write to the file system that holds `path`.
    fn available_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// How a file will be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Reading on from where the last read ended is worth preparing for: what every file begins with.
    Ahead,
    /// Only what is asked for, when it is asked for.
    AsAsked,
}

/// An open file. Calls may be made from several threads at once.
pub trait File: Debug + Send + Sync {
    /// Reads some bytes at `offset`, possibly fewer than fit; 0 at and past the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some bytes at `offset`, possibly fewer than given.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes content and length durable.
    fn sync_data(&self) -> io::Result<()>;

    /// Sets the length; what lies beyond is gone, what is new reads as zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Says how the file will be read from now on. Changes no result; a disk that has no use for it does nothing.
    fn advise(&self, access: Access) {
        _ = access;
    }

    /// Bytes in the file.
    fn len(&self) -> io::Result<u64>;

    /// Whether no name leads to the file any more: whatever is done to it then, nobody finds it after a crash. A disk that
    /// cannot tell says no.
    fn is_unlinked(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// Whether the file holds no byte.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }
}

/// What the engine builds from the calls of [`File`].
pub trait FileExt: File {
    /// Reads until `buf` is full or the file ends; returns the bytes read.
    fn read_full_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0usize;
        while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.read_at(rest, offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Reads exactly `buf`; `UnexpectedEof` when the file ends first.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if self.read_full_at(buf, offset)? == buf.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    /// Writes all of `buf`. On an error the first value says how many bytes were taken before it.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<(), (usize, io::Error)> {
        let mut written = 0usize;
        while let Some(rest) = buf.get(written..).filter(|rest| !rest.is_empty()) {
            match self.write_at(rest, offset + written as u64) {
                Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err((written, error)),
            }
        }
        Ok(())
    }
}

impl<F: File + ?Sized> FileExt for F {}

/// Helpers over whole files and directory chains, for files small enough to be read at once.
pub trait DiskExt: Disk {
    /// The whole of a regular file of at most `limit` bytes; longer ones are cut there.
    fn read_small(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        let file = self.open(path, OpenMode::Read)?;
        let mut bytes = vec![0; limit];
        let len = file.read_full_at(&mut bytes, 0)?;
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Makes `path` a directory, with each missing level above it, each new name durable. So is then the name of the
    /// level that holds them: an earlier attempt may have failed, or died, between making it and syncing its parent.
    fn create_dir_all_durable(&self, path: &Path) -> io::Result<()> {
        let mut missing: Vec<PathBuf> = Vec::new();
        let mut level = Some(path);
        while let Some(dir) = level.filter(|dir| !dir.as_os_str().is_empty()) {
            match self.metadata(dir) {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(dir.to_owned()),
                Err(error) => return Err(error),
            }
            level = dir.parent();
        }
        if let Some(existing) = level.filter(|_| !missing.is_empty()) {
            match self.sync_dir(parent_of(existing)) {
                // A directory made here is one that this process can read: that level was there before.
                Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
                _ => {}
            }
        }
        for dir in missing.iter().rev() {
            match self.create_dir(dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => self.sync_dir(parent_of(dir))?,
            }
        }
        Ok(())
    }
}

impl<D: Disk + ?Sized> DiskExt for D {}

/// The directory that holds `path`; `.` for a bare name.
pub fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
