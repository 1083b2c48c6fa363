//! The metastore's file: how it comes to be, and how one that is there is opened.
//!
//! A file that is there is never taken for a new one: an empty registry makes every message one of a topic that is no
//! more. So a new file gets its tables under another name and is renamed when it is whole.

use std::{
    io,
    path::{Path, PathBuf},
};

use narad_core::disk::{Disk, DiskExt, FileKind, OpenMode, parent_of};
use redb::{Builder, Database, ReadableDatabase, WriteTransaction};

use super::{
    backend::{DiskBackend, PAGE_BYTES},
    failure::Failure,
    tables::{FOLDED, NUMBERS, TOPICS},
};

const FILE_NAME: &str = "meta.redb";
/// What is here is not finished: it is made anew.
const UNFINISHED_NAME: &str = "meta.redb.new";

/// Where the file is in `dir`.
pub(super) fn path_in(dir: &Path) -> PathBuf {
    dir.join(FILE_NAME)
}

/// Whether nothing at all is at `path`.
///
/// # Errors
/// When that cannot be found out.
pub(super) fn is_missing(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
    match disk.metadata(path) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Opens the file at `path`, made first when there is none; it is in its directory for good when this returns.
pub(super) fn open_or_create(disk: &dyn Disk, path: &Path) -> Result<Database, Failure> {
    let dir = parent_of(path);
    disk.create_dir_all_durable(dir)?;
    if is_missing(disk, path)? {
        create(disk, path)?;
    }
    // Whoever made these names, now or in a process that died since, may not have come to it.
    disk.sync_dir(parent_of(dir))?;
    disk.sync_dir(dir)?;
    open(disk, path)
}

/// Opens the file at `path`, which is there and holds a registry.
pub(super) fn open(disk: &dyn Disk, path: &Path) -> Result<Database, Failure> {
    if disk.metadata(path)?.kind != FileKind::File {
        return Err(refused("it is not a regular file"));
    }
    // The store's lock on the directory keeps other brokers away, and this one whatever else opens the file.
    let file = disk.lock(path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(error.kind(), "it is in use by another process"),
        _ => error,
    })?;
    // In a file without bytes redb would make a new database.
    if file.len()? < PAGE_BYTES {
        return Err(refused("it holds no metadata, it is empty or cut short: restore it from a backup"));
    }
    // The check reads all of the file, which is small: without it redb takes a file that was closed well at its word,
    // and damage shows as topics that are not there, or as a panic.
    let database = Builder::new()
        .set_check_integrity_on_open(true)
        .create_with_backend(DiskBackend::new(file, path.to_owned()))?;
    {
        let transaction = database.begin_read()?;
        transaction.open_table(TOPICS)?;
        transaction.open_table(FOLDED)?;
        transaction.open_table(NUMBERS)?;
    }
    Ok(database)
}

fn create(disk: &dyn Disk, path: &Path) -> Result<(), Failure> {
    let unfinished = path.with_file_name(UNFINISHED_NAME);
    match disk.remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let file = disk.open(&unfinished, OpenMode::CreateNew)?;
    let database = Builder::new().create_with_backend(DiskBackend::new(file, unfinished.clone()))?;
    let transaction = begin_write(&database)?;
    transaction.open_table(TOPICS)?;
    transaction.open_table(FOLDED)?;
    transaction.open_table(NUMBERS)?;
    transaction.commit()?;
    database.close()?;
    disk.rename(&unfinished, path)?;
    Ok(())
}

/// Begins a change whose commit syncs twice: what it wrote, then that it counts. With one sync redb could not tell a
/// commit that a crash tore from one that was damaged later, and would silently go back to the one before; and what a
/// failed sync has lost might be taken for durable when the file is opened anew.
pub(super) fn begin_write(database: &Database) -> Result<WriteTransaction, Failure> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    Ok(transaction)
}

fn refused(reason: &'static str) -> Failure {
    io::Error::new(io::ErrorKind::InvalidData, reason).into()
}
