//! The file `checkpoint`: 8 bytes big-endian, the first WAL offset that is not yet done, overwritten in place.
//!
//! Every call does file I/O in the caller's thread. A checkpoint that cannot be read or written costs duplicates
//! at the next start, never a message, so nothing here fails the ingress.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use narad_core::{
    Error,
    disk::{Disk, DiskExt, File, FileExt, OpenMode, parent_of},
    format::Offset,
    metrics::Metrics,
};

const FILE_NAME: &str = "checkpoint";
const LEN: usize = 8;

/// The checkpoint's file.
#[derive(Debug)]
pub(super) struct CheckpointFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Open once it was written to.
    file: Option<Box<dyn File>>,
}

impl CheckpointFile {
    /// The checkpoint of the WAL in `dir`. Touches no file.
    pub(super) fn new(disk: Arc<dyn Disk>, dir: &Path) -> Self {
        Self { disk, path: dir.join(FILE_NAME), file: None }
    }

    /// What the file states, for a log that keeps the offsets from `oldest` to below `end`: a position outside is
    /// clamped, and a file that states nothing means the start of the log, each with a warning. A file that is not
    /// there belongs to a log without history and is no reason for one. What is warned of is counted as well.
    pub(super) fn load(&self, oldest: Offset, end: Offset, metrics: &Metrics) -> Offset {
        let stated = match self.disk.read_small(&self.path, LEN + 1) {
            Ok(bytes) => decode(&bytes).ok_or("it does not hold one offset".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && oldest == end => return oldest,
            Err(error) => Err(error.to_string()),
        };
        if !stated.as_ref().is_ok_and(|stated| (oldest..=end).contains(stated)) {
            metrics.error("ingress", "checkpoint");
        }
        match stated {
            Ok(stated) if stated > end => {
                tracing::warn!(path = %self.path.display(), %stated, %end, "checkpoint lies beyond the log's end");
                end
            }
            Ok(stated) if stated < oldest => {
                tracing::warn!(path = %self.path.display(), %stated, %oldest, "checkpoint lies before the log's start");
                oldest
            }
            Ok(stated) => stated,
            Err(reason) => {
                tracing::warn!(
                    path = %self.path.display(), reason, from = %oldest,
                    "checkpoint says nothing; dispatching all that the log keeps, some of it again"
                );
                oldest
            }
        }
    }

    /// Writes the position, without a sync. The first write makes the file, durably.
    ///
    /// # Errors
    /// What the disk answered; the next call tries all of it again.
    pub(super) fn write(&mut self, checkpoint: Offset) -> Result<(), Error> {
        let bytes = checkpoint.to_i64().to_be_bytes();
        if let Some(file) = &self.file {
            return file.write_all_at(&bytes, 0).map_err(|(_, source)| self.error("write", source));
        }
        let (file, created) = match self.disk.open(&self.path, OpenMode::ReadWrite) {
            Ok(file) => (file, false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let created = self.disk.open(&self.path, OpenMode::CreateNew);
                (created.map_err(|source| self.error("create", source))?, true)
            }
            Err(source) => return Err(self.error("open", source)),
        };
        file.write_all_at(&bytes, 0).map_err(|(_, source)| self.error("write", source))?;
        // Left over from a file of an odd size.
        file.set_len(LEN as u64).map_err(|source| self.error("truncate", source))?;
        if created {
            file.sync_data().map_err(|source| self.error("fsync", source))?;
            self.disk.sync_dir(parent_of(&self.path)).map_err(|source| self.error("fsync", source))?;
        }
        self.file = Some(file);
        Ok(())
    }

    /// Makes the last write durable.
    ///
    /// # Errors
    /// What the disk answered. The file is let go of, so that the next write begins anew: after a failed sync a
    /// later one on the same descriptor proves nothing.
    pub(super) fn sync(&mut self) -> Result<(), Error> {
        let Some(file) = &self.file else { return Ok(()) };
        file.sync_data().map_err(|source| {
            let error = self.error("fsync", source);
            self.file = None;
            error
        })
    }

    fn error(&self, op: &'static str, source: io::Error) -> Error {
        Error::io(op, &self.path, source)
    }
}

fn decode(bytes: &[u8]) -> Option<Offset> {
    Offset::from_i64(i64::from_be_bytes(bytes.try_into().ok()?))
}
