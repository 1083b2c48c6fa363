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
        let mut ahead = Self { file, path, window: 0, sequence: 0, unsynced: false };
        if let Some((anchor, record)) = slots.newest() {
            ahead.put(anchor, record)?;
            (ahead.window, ahead.sequence) = (1 - anchor, record.sequence);
        }
        ahead.sync_file()?;
        sync_dir(disk, paths.dir())?;
        if ahead.sequence == u64::MAX
            && let Some((anchor, record)) = slots.newest()
        {
            ahead.start_over(anchor, record)?;
        }
        Ok(ahead)
    }

    /// Nothing can follow the largest sequence. The same position gets the first one, in the other slot, before the
    /// slot with the largest is emptied: whatever a crash leaves says the same.
    fn start_over(&mut self, anchor: usize, record: &AheadRecord) -> Result<()> {
        let first = AheadRecord { sequence: 1, ..record.clone() };
        self.put(1 - anchor, &first)?;
        self.sync_file()?;
        self.put_bytes(anchor, &[0; AHEAD_SLOT_LEN])?;
        self.sync_file()?;
        (self.window, self.sequence) = (anchor, first.sequence);
        Ok(())
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
        self.unsynced = true;
        let kept = self.put(self.window, &record)?;
        if kept < position.acked.len() {
            let dropped = position.acked.len() - kept;
            tracing::debug!(file = %self.path.display(), dropped, "more settled out of order than the file holds");
        }
        Ok(())
    }

    /// Writes a record into a slot; returns how many of its settled offsets fit.
    fn put(&self, slot: usize, record: &AheadRecord) -> Result<usize> {
        let (bytes, kept) = record.encode();
        self.put_bytes(slot, &bytes).map(|()| kept)
    }

    fn put_bytes(&self, slot: usize, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all_at(bytes, (slot * AHEAD_SLOT_LEN) as u64);
        written.map_err(|(_, error)| Error::io("write", &self.path, error))
    }

    fn sync_file(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("fsync", &self.path, error))
    }

    /// Makes the window durable; it is then the anchor, and the old anchor the window. On an error both stay what
    /// they were, and the window has to be written again, whole.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.sync_file()?;
        self.window = 1 - self.window;
        self.unsynced = false;
        Ok(())
    }

    /// Whether something was written since the last sync.
    pub(super) fn is_unsynced(&self) -> bool {
        self.unsynced
    }
}
