//! Small steps on directories and state files, with the crate's errors. No link is ever followed to remove
//! something.

use std::{io, path::Path};

use crate::{
    Error, Result,
    disk::{Disk, Doomed, File, FileKind, OpenMode, Reclaimer},
};

/// What is at `path`, links not followed; `None` when nothing is.
pub(super) fn kind(disk: &dyn Disk, path: &Path) -> Result<Option<FileKind>> {
    match disk.metadata(path) {
        Ok(metadata) => Ok(Some(metadata.kind)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("stat", path, error)),
    }
}

/// Refuses what is at `path` unless it is a directory.
pub(super) fn require_directory(disk: &dyn Disk, path: &Path) -> Result<()> {
    match kind(disk, path)? {
        Some(FileKind::Directory) => Ok(()),
        _ => Err(unusable(path, "this has to be a directory, and links are not followed")),
    }
}

/// Makes a directory; `false` when something of that name was there.
pub(super) fn create_dir(disk: &dyn Disk, path: &Path) -> Result<bool> {
    match disk.create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(Error::io("mkdir", path, error)),
    }
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(disk: &dyn Disk, path: &Path) -> Result<()> {
    disk.sync_dir(path).map_err(|error| Error::io("fsync", path, error))
}

/// Opens a state file to be overwritten in place. Its name is durable only after a `sync_dir`, also when it was
/// there: whoever made it may have died before its own.
pub(super) fn open_or_create(disk: &dyn Disk, path: &Path) -> Result<Box<dyn File>> {
    match disk.open(path, OpenMode::CreateNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => disk.open(path, OpenMode::ReadWrite),
        opened => opened,
    }
    .map_err(|error| Error::io("open", path, error))
}

/// Removes a directory with all that is in it, which nobody takes for anything else any more. What is gone already does
/// not count as an error.
pub(super) fn remove_tree(disk: &dyn Disk, reclaimer: &Reclaimer, dir: &Path) -> Result<()> {
    let gone = |op: &'static str, path: &Path, result: io::Result<()>| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(op, path, error)),
        _ => Ok(()),
    };
    let entries = match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        listed => listed.map_err(|error| Error::io("list", dir, error))?,
    };
    for entry in entries {
        let path = dir.join(&entry.name);
        match entry.kind {
            FileKind::Directory => remove_tree(disk, reclaimer, &path)?,
            FileKind::File => {
                let doomed = Doomed::open(disk, &path);
                gone("unlink", &path, disk.remove_file(&path))?;
                reclaimer.reclaim(doomed);
            }
            FileKind::Other => gone("unlink", &path, disk.remove_file(&path))?,
        }
    }
    gone("rmdir", dir, disk.remove_dir(dir))
}

/// The error for something that is not what it has to be.
pub(super) fn unusable(path: &Path, reason: &str) -> Error {
    Error::Unusable { path: path.to_owned(), reason: reason.to_owned() }
}
