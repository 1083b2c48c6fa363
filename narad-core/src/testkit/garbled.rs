//! A disk that stores other bytes than it was given and moves one byte a call.
//!
//! Whoever reads such a file around the seam sees nonsense, and whoever takes a short read or write for a whole one
//! loses bytes: both show at once.

use std::{io, path::Path};

use crate::disk::{DirEntry, Disk, File, Metadata, OpenMode};

/// Added to each byte on its way to the disk, so that no byte is stored as itself.
const SHIFT: u8 = 0x5B;

/// Any disk, with changed bytes in its files and one byte moved by each read and write. Names, lengths, syncs and
/// errors are those of the disk below.
#[derive(Debug, Clone, Default)]
pub struct Garbled<D>(D);

impl<D: Disk> Garbled<D> {
    /// Garbles what goes to `disk`.
    pub fn new(disk: D) -> Self {
        Self(disk)
    }

    /// The disk below, which holds the changed bytes.
    pub fn inner(&self) -> &D {
        &self.0
    }

    /// What a file's bytes below stand for.
    pub fn clear(stored: &[u8]) -> Vec<u8> {
        stored.iter().map(|byte| byte.wrapping_sub(SHIFT)).collect()
    }

    /// What bytes look like below.
    pub fn garble(bytes: &[u8]) -> Vec<u8> {
        bytes.iter().map(|byte| byte.wrapping_add(SHIFT)).collect()
    }
}

impl<D: Disk> Disk for Garbled<D> {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn File>> {
        Ok(Box::new(GarbledFile(self.0.open(path, mode)?)))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.list(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.0.metadata(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.0.remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.sync_dir(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(GarbledFile(self.0.lock(path)?)))
    }

    fn available_bytes(&self, path: &Path) -> io::Result<u64> {
        self.0.available_bytes(path)
    }
}

#[derive(Debug)]
struct GarbledFile(Box<dyn File>);

impl File for GarbledFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some(first) = buf.get_mut(..1) else { return Ok(0) };
        let read = self.0.read_at(first, offset)?;
        for byte in &mut first[..read] {
            *byte = byte.wrapping_sub(SHIFT);
        }
        Ok(read)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let Some(first) = buf.first() else { return Ok(0) };
        if offset > self.0.len()? {
            self.set_len(offset)?;
        }
        self.0.write_at(&[first.wrapping_add(SHIFT)], offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    /// Bytes that a longer length adds must read as zeros, so the garbled form of zero is stored there.
    fn set_len(&self, len: u64) -> io::Result<()> {
        let old = self.0.len()?;
        self.0.set_len(len)?;
        for offset in old..len {
            self.0.write_at(&[SHIFT], offset)?;
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn is_unlinked(&self) -> io::Result<bool> {
        self.0.is_unlinked()
    }
}
