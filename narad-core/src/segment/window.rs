//! A reused buffer over a file, so that a walk of small frames costs one read for many of them.

use std::{io, sync::Arc};

use crate::disk::{File, FileExt};

/// Bytes read ahead by a walk.
pub(crate) const WALK_CHUNK: usize = 256 << 10;
/// Bytes read ahead by the read of a single record.
pub(crate) const READ_CHUNK: usize = 16 << 10;

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

    /// Makes `window` one on the first `limit` bytes of `file`, keeping what it remembers if it was one before.
    pub(super) fn onto(
        window: &mut Option<Self>,
        file: Arc<dyn File>,
        limit: u64,
        chunk: usize,
    ) -> &mut Self {
        match window {
            Some(same) if Arc::ptr_eq(&same.file, &file) => same.limit = limit,
            _ => *window = Some(Self::new(Arc::clone(&file), limit, chunk)),
        }
        window.get_or_insert_with(|| Self::new(file, limit, chunk))
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
