//! A reused buffer over a file, so that a walk of small frames costs one read for many of them.

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};

use crate::{
    disk::{File, FileExt},
    format::{HEADER_LEN, Offset},
};

/// Bytes read ahead by a walk.
pub(crate) const WALK_CHUNK: usize = 256 << 10;
/// Bytes read ahead by the read of a single record.
pub(crate) const READ_CHUNK: usize = 16 << 10;
/// Larger frames are read by themselves, once their header is known.
const LARGEST_CHUNK: usize = 4 << 20;

/// A view of a file that remembers what it read last.
#[derive(Debug)]
pub(crate) struct Window {
    file: Arc<dyn File>,
    start: u64,
    buf: Vec<u8>,
    chunk: usize,
    /// Nothing at or behind this is looked at: it may still change.
    limit: u64,
}

impl Window {
    /// A window on the first `limit` bytes that reads at least `chunk` at a time.
    pub(crate) fn new(file: Arc<dyn File>, limit: u64, chunk: usize) -> Self {
        Self { file, start: 0, buf: Vec::new(), chunk, limit }
    }

    /// The file.
    pub(super) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// The `len` bytes at `pos`, fewer where the file or the view ends.
    pub(crate) fn get(&mut self, pos: u64, len: usize) -> io::Result<&[u8]> {
        let left = usize::try_from(self.limit.saturating_sub(pos)).unwrap_or(usize::MAX);
        let len = len.min(left);
        if !self.holds(pos, len) {
            self.buf.resize(len.max(self.chunk).min(left), 0);
            let filled = self.file.read_full_at(&mut self.buf, pos)?;
            self.buf.truncate(filled);
            self.start = pos;
        }
        let from = usize::try_from(pos - self.start).unwrap_or(usize::MAX).min(self.buf.len());
        let to = from.saturating_add(len).min(self.buf.len());
        Ok(self.buf.get(from..to).unwrap_or_default())
    }

    /// Some bytes at `pos`, `most` at most: those that are here already, read anew where there are none. Empty where the
    /// file or the view ends.
    pub(super) fn some(&mut self, pos: u64, most: usize) -> io::Result<&[u8]> {
        let end = self.start + self.buf.len() as u64;
        let here = if pos >= self.start { end.saturating_sub(pos) } else { 0 };
        let len = match usize::try_from(here) {
            Ok(0) | Err(_) => self.chunk,
            Ok(here) => here,
        };
        self.get(pos, len.min(most))
    }

    fn holds(&self, pos: u64, len: usize) -> bool {
        let end = self.start + self.buf.len() as u64;
        pos >= self.start && pos.checked_add(len as u64).is_some_and(|wanted| wanted <= end)
    }
}

/// How many frames a read may join.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joining {
    /// Enough are joined once they hold so many records.
    pub(crate) records: usize,
    /// No frame that reaches past this is taken along: it may yet be cut from the file.
    pub(crate) below: Offset,
}

/// What consecutive reads remember of a file, so that small frames are not each read from it. What it hands out shares the
/// memory that was read into, and keeps it.
#[derive(Debug)]
pub(crate) struct ReadWindow {
    file: Option<Arc<dyn File>>,
    start: u64,
    bytes: Bytes,
    chunk: usize,
    /// Whether frames that follow the one that is asked for may be read with it.
    pub(super) joining: Option<Joining>,
}

impl ReadWindow {
    /// For reads that take at least `chunk` bytes at a time.
    pub(crate) fn new(chunk: usize) -> Self {
        Self { file: None, start: 0, bytes: Bytes::new(), chunk, joining: None }
    }

    /// The same for somebody who reads on.
    pub(crate) fn onwards(chunk: usize, joining: Joining) -> Self {
        Self { joining: Some(joining), ..Self::new(chunk) }
    }

    /// Reads from `file` from now on; what is remembered of another one is forgotten.
    pub(super) fn turn_to(&mut self, file: &Arc<dyn File>) {
        if self.file.as_ref().is_none_or(|same| !Arc::ptr_eq(same, file)) {
            self.bytes = Bytes::new();
            self.file = Some(Arc::clone(file));
        }
    }

    /// Says how long the frames are that are read: one of them and the next header are then one read.
    pub(super) fn expect(&mut self, frame_len: usize) {
        let wanted = frame_len.saturating_add(HEADER_LEN);
        if wanted <= LARGEST_CHUNK {
            self.chunk = self.chunk.max(wanted);
        }
    }

    /// Bytes that are kept in memory by what was handed out last.
    pub(super) fn held(&self) -> usize {
        self.bytes.len()
    }

    /// The `len` bytes at `pos`, if all of them were read already.
    pub(super) fn here(&self, pos: u64, len: usize) -> Option<Bytes> {
        let from = usize::try_from(pos.checked_sub(self.start)?).ok()?;
        let range = from..from.checked_add(len)?;
        (range.end <= self.bytes.len()).then(|| self.bytes.slice(range))
    }

    /// The `len` bytes at `pos`, fewer where the file ends or `limit` is: nothing at or behind that is looked at, for it
    /// may still change.
    pub(super) fn get(&mut self, limit: u64, pos: u64, len: usize) -> io::Result<Bytes> {
        let left = usize::try_from(limit.saturating_sub(pos)).unwrap_or(usize::MAX);
        let len = len.min(left);
        if let Some(bytes) = self.here(pos, len) {
            return Ok(bytes);
        }
        let Some(file) = &self.file else { return Ok(Bytes::new()) };
        let wanted = len.max(self.chunk).min(left);
        // Memory that nobody shares any more is used again.
        let mut buf = match std::mem::take(&mut self.bytes).try_into_mut() {
            Ok(buf) => buf,
            Err(_) => BytesMut::zeroed(wanted),
        };
        buf.resize(wanted, 0);
        let filled = file.read_full_at(&mut buf, pos)?;
        buf.truncate(filled);
        (self.start, self.bytes) = (pos, buf.freeze());
        Ok(self.bytes.slice(..len.min(filled)))
    }
}
