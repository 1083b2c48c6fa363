//! `consumer.ahead`, held open: an anchor that is known to be durable, and a window that is overwritten.
//!
//! The anchor is never written while it is the anchor, so whatever a crash does to the window, the newest durable
//! record is still there.

use std::path::PathBuf;

use super::ConsumerPosition;
use crate::{
    Error, Result,
    disk::{Disk, File, FileExt},
    format::{AHEAD_SLOT_LEN, AheadRecord, AheadSlots},
    store::{
        files::{open_or_create, sync_dir},
        layout::PartitionPaths,
    },
};

#[derive(Debug)]
pub(super) struct AheadFile {
    file: Box<dyn File>,
    path: PathBuf,
    /// The slot that is written; the other one is the anchor, or still empty.
    window: usize,
    sequence: u64,
    unsynced: bool,
}

impl AheadFile {
    /// Opens or creates the file. The newest record is written again as it is, and synced: one that only the page
    /// cache has would be no anchor, and a sync that failed before leaves it there looking clean.
    pub(super) fn open(disk: &dyn Disk, paths: &PartitionPaths) -> Result<Self> {
        let path = paths.consumer_ahead();
        let file = open_or_create(disk, &path)?;
        let mut bytes = vec![0; 2 * AHEAD_SLOT_LEN];
        let len = file.read_full_at(&mut bytes, 0).map_err(|error| Error::io("read", &path, error))?;
        if len < bytes.len() {
            file.set_len(bytes.len() as u64).map_err(|error| Error::io("truncate", &path, error))?;
        }
        let slots = AheadSlots::decode(&bytes);
        if let Some((anchor, _)) = slots.newest() {
            let start = anchor * AHEAD_SLOT_LEN;
            let slot = bytes.get(start..).unwrap_or_default();
            let slot = slot.get(..AHEAD_SLOT_LEN).unwrap_or(slot);
            file.write_all_at(slot, start as u64).map_err(|(_, error)| Error::io("write", &path, error))?;
        }
        file.sync_data().map_err(|error| Error::io("fsync", &path, error))?;
        sync_dir(disk, paths.dir())?;
        let (window, sequence) =
            slots.newest().map_or((0, 0), |(anchor, record)| (1 - anchor, record.sequence));
        Ok(Self { file, path, window, sequence, unsynced: false })
    }

    /// Puts the position into the window, in the page cache: it survives the process, and a power loss only after
    /// [`sync`](Self::sync). On an error the window is of unknown content and has to be written again.
    pub(super) fn write(&mut self, position: &ConsumerPosition) -> Result<()> {
        self.sequence += 1;
        let record = AheadRecord {
            sequence: self.sequence,
            frontier: position.frontier,
            acked: position.acked.clone(),
        };
        let (slot, kept) = record.encode();
        if kept < position.acked.len() {
            let dropped = position.acked.len() - kept;
            tracing::debug!(file = %self.path.display(), dropped, "more settled out of order than the file holds");
        }
        self.unsynced = true;
        self.file
            .write_all_at(&slot, (self.window * AHEAD_SLOT_LEN) as u64)
            .map_err(|(_, error)| Error::io("write", &self.path, error))
    }

    /// Makes the window durable; it is then the anchor, and the old anchor the window. On an error both stay what
    /// they were, and the window has to be written again, whole.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("fsync", &self.path, error))?;
        self.window = 1 - self.window;
        self.unsynced = false;
        Ok(())
    }

    /// Whether something was written since the last sync.
    pub(super) fn is_unsynced(&self) -> bool {
        self.unsynced
    }
}
