//! The `hwm` file: exact while the log is closed, empty while it is open.
//!
//! An open log keeps its watermark in memory. A statement in the file that outlived a crash would hide
//! acknowledged records, so it is gone, durably, before the first advance after an open.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::files::HWM;
use crate::{
    disk::{Disk, DiskExt, FileExt, FileKind, OpenMode, parent_of},
    error::{Error, Result},
    format::{Offset, decode_watermark, encode_watermark},
};

/// Longer than a valid file, so that a file of another length shows as one.
const READ_LIMIT: usize = 9;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stated {
    /// There is no such file.
    Missing,
    /// The file is empty: the log was not closed.
    Empty,
    /// A boundary, in the format's terms.
    Boundary(Offset),
    /// Something else is there. It says nothing, and is worth a warning.
    Nonsense,
}

/// Reads the file. Whatever keeps it from being read, it then says nothing: a small file's fault hides no record.
pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Stated {
    let path = dir.join(HWM);
    match disk.metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Stated::Missing,
        Ok(metadata) if metadata.kind == FileKind::File => {}
        _ => return Stated::Nonsense,
    }
    match disk.read_small(&path, READ_LIMIT) {
        Ok(bytes) if bytes.is_empty() => Stated::Empty,
        Ok(bytes) => decode_watermark(&bytes).map_or(Stated::Nonsense, Stated::Boundary),
        Err(_) => Stated::Nonsense,
    }
}

impl Stated {
    /// The boundary, if the statement can be believed of a log that keeps `oldest..next`.
    pub(crate) fn boundary(&self, oldest: Offset, next: Offset) -> Option<Offset> {
        match *self {
            // Eight zeros are what a power loss leaves on some file systems.
            Self::Boundary(Offset::ZERO) if next > Offset::ZERO => None,
            Self::Boundary(boundary) if boundary >= oldest => Some(boundary.min(next)),
            _ => None,
        }
    }
}

/// The file, in the hands of an open log.
#[derive(Debug, Clone)]
pub(crate) struct WatermarkFile {
    path: PathBuf,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The file may hold a statement.
    Stated,
    /// An attempt to empty it failed after the file was changed: a later fsync alone would prove nothing.
    Doubtful,
    /// The file is empty or absent, durably.
    Released,
    /// Something that is no regular file has the name: there is no statement, and none can be made.
    Blocked,
}

impl WatermarkFile {
    /// The file of the partition in `dir`.
    pub(crate) fn new(disk: &dyn Disk, dir: &Path) -> Self {
        let path = dir.join(HWM);
        let state = match disk.metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => State::Released,
            Ok(metadata) if metadata.kind != FileKind::File => State::Blocked,
            // Emptied by a process whose fsync may have failed or never come.
            Ok(metadata) if metadata.len == 0 => State::Doubtful,
            _ => State::Stated,
        };
        if state == State::Blocked {
            tracing::warn!(path = %path.display(), "not a regular file; the high watermark cannot be kept across a close");
        }
        Self { path, state }
    }

    /// Empties the file durably, once after an open. Does nothing once it has succeeded.
    pub(crate) fn release(&mut self, disk: &dyn Disk) -> Result<()> {
        if matches!(self.state, State::Released | State::Blocked) {
            return Ok(());
        }
        let file = match disk.open(&self.path, OpenMode::ReadWrite) {
            Ok(file) => file,
            // It could not be looked at when the log was opened, and there is none.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.state = State::Released;
                return Ok(());
            }
            Err(error) => return Err(Error::io("open", &self.path, error)),
        };
        if self.state == State::Doubtful {
            // Changes the file again, so that the fsync has something to write; one byte says nothing either.
            file.set_len(1).map_err(|error| Error::io("truncate", &self.path, error))?;
        }
        self.state = State::Doubtful;
        file.set_len(0).map_err(|error| Error::io("truncate", &self.path, error))?;
        file.sync_data().map_err(|error| Error::io("fsync", &self.path, error))?;
        self.state = State::Released;
        Ok(())
    }

    /// Writes the exact boundary, unless the file holds it already. Durable when it returns.
    pub(crate) fn write(&mut self, disk: &dyn Disk, boundary: Offset) -> Result<()> {
        if self.state == State::Blocked {
            return Ok(());
        }
        let bytes = encode_watermark(boundary);
        let (file, created) = match disk.open(&self.path, OpenMode::ReadWrite) {
            Ok(file) => (file, false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = disk.open(&self.path, OpenMode::CreateNew);
                (file.map_err(|error| Error::io("create", &self.path, error))?, true)
            }
            Err(error) => return Err(Error::io("open", &self.path, error)),
        };
        let mut found = [0; READ_LIMIT];
        let len = file.read_full_at(&mut found, 0).map_err(|error| Error::io("read", &self.path, error))?;
        if self.state == State::Stated && found.get(..len) == Some(&bytes[..]) {
            return Ok(());
        }
        self.state = State::Doubtful;
        file.write_all_at(&bytes, 0).map_err(|(_, error)| Error::io("write", &self.path, error))?;
        if len > bytes.len() {
            file.set_len(bytes.len() as u64).map_err(|error| Error::io("truncate", &self.path, error))?;
        }
        file.sync_data().map_err(|error| Error::io("fsync", &self.path, error))?;
        if created {
            let dir = parent_of(&self.path);
            disk.sync_dir(dir).map_err(|error| Error::io("fsync", dir, error))?;
        }
        self.state = State::Stated;
        Ok(())
    }
}
