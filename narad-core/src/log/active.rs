//! The active segment as its writer holds it, and the descriptor that it gives up while nothing is written.
//!
//! A descriptor is given up only when everything written through it has been synced. The system tells of a failed
//! write-back once, to descriptors that were open when it failed: with unsynced bytes in the cache, the fsync of a
//! later one could succeed over bytes that never reached the disk.

use std::{io, path::PathBuf, sync::Arc};

use crate::{
    disk::{Disk, File, OpenMode},
    error::{Error, Result},
    segment::Segment,
};

/// The file that new frames go to.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) segment: Arc<Segment>,
    pub(super) path: PathBuf,
    /// Absent while it is given up.
    file: Option<Arc<dyn File>>,
    /// How many bytes the file had when it was given up last.
    given_up_len: u64,
    /// Wall time of its first and its last write; of a recovered one, what its records say.
    pub(super) first_write_ms: Option<i64>,
    pub(super) last_write_ms: i64,
    /// Whether the first write is that of the file itself, until the first record is asked.
    pub(super) first_write_is_guessed: bool,
    /// Whether its name is durable: not known of one without a frame, whose creator may have died right after that.
    pub(super) name_is_durable: bool,
}

impl Active {
    /// A segment that was just created, its name durable.
    pub(super) fn created(segment: Arc<Segment>, path: PathBuf, file: Arc<dyn File>) -> Self {
        Self {
            segment,
            path,
            file: Some(file),
            given_up_len: 0,
            first_write_ms: None,
            last_write_ms: 0,
            first_write_is_guessed: false,
            name_is_durable: true,
        }
    }

    /// The open file; opened again where it was given up.
    ///
    /// # Errors
    /// `Io` when it cannot be opened now, `Unusable` when it is not the file that was given up.
    pub(super) fn file(&mut self, disk: &dyn Disk) -> Result<&Arc<dyn File>> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.open_again(disk)?,
        };
        Ok(self.file.insert(file))
    }

    /// The file, unless it is given up: then nothing in it is unsynced.
    pub(super) fn open_file(&self) -> Option<&Arc<dyn File>> {
        self.file.as_ref()
    }

    /// Gives the writer's descriptor up. `len` is the length of the file, all of it synced.
    pub(super) fn give_up_file(&mut self, len: u64) {
        if self.file.take().is_some() {
            self.given_up_len = len;
        }
    }

    /// Opens the file by its path. A file that is missing is not created, and one of another length is not written to:
    /// frames at the position that the log knows would leave a gap, or lie over what somebody else has put there.
    fn open_again(&self, disk: &dyn Disk) -> Result<Arc<dyn File>> {
        let unusable = |reason| Error::Unusable { path: self.path.clone(), reason };
        let file: Arc<dyn File> = match disk.open(&self.path, OpenMode::ReadWrite) {
            Ok(file) => file.into(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(unusable("the active segment was removed while the log was idle".to_owned()));
            }
            Err(error) => return Err(Error::io("open", &self.path, error)),
        };
        let (len, known) =
            (file.len().map_err(|error| Error::io("stat", &self.path, error))?, self.given_up_len);
        if len != known {
            let reason = format!("changed while the log was idle: {len} bytes long, and it had {known}");
            return Err(unusable(reason));
        }
        // One descriptor serves the writer and the readers.
        self.segment.use_file(Arc::clone(&file));
        Ok(file)
    }
}
