//! Reads of committed records. They take no lock that is held across an fsync.

use std::sync::Arc;

use super::{Inner, ReadBatch, codecs::Codecs};
use crate::{
    error::{Error, Result},
    format::{Offset, Record},
    segment::{DecodedFrame, Found, Joining, READ_CHUNK, ReadContext, ReadWindow, Unreadable},
    sync::atomic::Ordering,
};

/// Records of an answer that is taken from memory without leaving the caller's thread, at most.
const MAX_INLINE: u64 = 512;

/// Records that an answer has room for in advance, at most: how many it takes is not known before.
const MOST_RESERVED: usize = 1024;

/// What there is at an offset below the high watermark.
enum At {
    Frame(Arc<DecodedFrame>),
    /// Nothing up to this offset can be read, for that reason.
    Lost(Offset, Error),
}

impl Inner {
    pub(super) fn read(&self, offset: Offset) -> Result<Record> {
        self.check_visible(offset)?;
        match self.frame_at(offset, &mut ReadWindow::new(READ_CHUNK))? {
            At::Frame(frame) => self.record(&frame, offset),
            At::Lost(_, error) => Err(error),
        }
    }

    /// The record, if no file needs to be touched for it.
    pub(super) fn read_cached(&self, offset: Offset) -> Option<Result<Record>> {
        if let Err(error) = self.check_visible(offset) {
            return Some(Err(error));
        }
        let frame = self.runtime.cache().get(self.cache_id, offset)?;
        self.read_since_write.store(true, Ordering::Relaxed);
        Some(self.record(&frame, offset))
    }

    pub(super) fn read_batch(&self, from: Offset, max_records: usize, max_bytes: usize) -> Result<ReadBatch> {
        let joining = Joining { records: max_records, below: self.high_watermark() };
        let mut window = ReadWindow::onwards(4 * READ_CHUNK, joining);
        self.gather(from, max_records, max_bytes, |offset| self.frame_at(offset, &mut window).map(Some))
    }

    /// The same, if it is short and no file needs to be touched for any of it.
    pub(super) fn read_batch_cached(
        &self,
        from: Offset,
        max_records: usize,
        max_bytes: usize,
    ) -> Option<Result<ReadBatch>> {
        if self.high_watermark().get().saturating_sub(from.get()) > MAX_INLINE {
            return None;
        }
        self.read_since_write.store(true, Ordering::Relaxed);
        let mut is_whole = true;
        let gathered = self.gather(from, max_records, max_bytes, |offset| {
            let frame = self.runtime.cache().get(self.cache_id, offset);
            is_whole = frame.is_some();
            Ok(frame.map(At::Frame))
        });
        is_whole.then_some(gathered)
    }

    /// Records of the frames that `frame_at` finds, up to the first that it has none for.
    fn gather(
        &self,
        from: Offset,
        max_records: usize,
        max_bytes: usize,
        mut frame_at: impl FnMut(Offset) -> Result<Option<At>>,
    ) -> Result<ReadBatch> {
        let (mut batch, mut bytes) = (ReadBatch { next: from, ..ReadBatch::default() }, 0usize);
        let end = self.high_watermark();
        if from >= end {
            return self.check_open_for_reads().map(|()| batch);
        }
        self.check_visible(from)?;
        while batch.next < end && batch.records.len() < max_records {
            let frame = match frame_at(batch.next) {
                Ok(Some(At::Frame(frame))) => frame,
                Ok(None) => break,
                Ok(Some(At::Lost(resume, error))) => {
                    tracing::debug!(log = %self.options.identity, from = %batch.next, to = %resume, %error, "unreadable");
                    let lost = batch.next..resume.min(end);
                    batch.next = lost.end;
                    batch.unreadable.push(lost);
                    continue;
                }
                // What was read so far is answered first; the error comes with the next call.
                Err(_) if !batch.records.is_empty() => break,
                Err(error) => return Err(error),
            };
            let frame_end = frame.end().min(end);
            let left = usize::try_from(frame_end.since(batch.next)).unwrap_or(usize::MAX);
            batch.records.reserve(left.min(max_records - batch.records.len()).min(MOST_RESERVED));
            while batch.next < frame_end && batch.records.len() < max_records {
                let after = batch.next.saturating_add(1);
                match frame.record(batch.next) {
                    Ok(record) => {
                        let size = record.key.len() + record.payload.len();
                        if !batch.records.is_empty() && bytes + size > max_bytes {
                            return Ok(batch);
                        }
                        bytes += size;
                        batch.records.push(record);
                    }
                    Err(_) => batch.unreadable.push(batch.next..after),
                }
                batch.next = after;
            }
        }
        Ok(batch)
    }

    fn check_open_for_reads(&self) -> Result<()> {
        if self.view.read().closed { Err(Error::Closed) } else { Ok(()) }
    }

    fn check_visible(&self, offset: Offset) -> Result<()> {
        let view = self.view.read();
        if view.closed {
            return Err(Error::Closed);
        }
        let (oldest, high_watermark) = (view.oldest(), self.high_watermark());
        if offset >= high_watermark {
            return Err(Error::NotYet { offset, high_watermark });
        }
        if offset < oldest { Err(Error::Expired { offset, oldest }) } else { Ok(()) }
    }

    fn frame_at(&self, offset: Offset, window: &mut ReadWindow) -> Result<At> {
        self.read_since_write.store(true, Ordering::Relaxed);
        if let Some(frame) = self.runtime.cache().get(self.cache_id, offset) {
            return Ok(At::Frame(frame));
        }
        self.runtime.cache().count_miss();
        let found = self.view.read().find(offset);
        let Some((segment, is_active)) = found else { return Err(self.gone(offset)) };
        if !is_active {
            self.hot.touch(&segment);
        }
        let found = segment.read(offset, self.read_context(&self.codecs()), window);
        match found {
            Ok(Found::Frame(frame)) => {
                let frame = Arc::new(frame);
                self.runtime.cache().insert(self.cache_id, Arc::clone(&frame));
                // A close or a sweep that ran meanwhile has forgotten the frames of this log before this one came.
                self.check_visible(offset)
                    .inspect_err(|_| self.runtime.cache().cut_below(self.cache_id, frame.end()))?;
                Ok(At::Frame(frame))
            }
            // Taken away between the look-up and the read, by retention or a close: what the file lacks by then is no damage.
            _ if self.is_gone(offset) => Err(self.gone(offset)),
            // Nothing is lost: whoever reads on past it would miss it for good.
            Ok(Found::Lost(_, why @ Unreadable::Lacking(..))) => Err(why.error(offset, segment.path())),
            Ok(Found::Lost(range, why)) => {
                let resume = range.end.max(offset.saturating_add(1));
                Ok(At::Lost(resume, why.error(offset, segment.path())))
            }
            Err(error) => Err(error),
        }
    }

    fn is_gone(&self, offset: Offset) -> bool {
        let view = self.view.read();
        view.closed || offset < view.oldest()
    }

    fn gone(&self, offset: Offset) -> Error {
        let view = self.view.read();
        if view.closed { Error::Closed } else { Error::Expired { offset, oldest: view.oldest() } }
    }

    fn record(&self, frame: &DecodedFrame, offset: Offset) -> Result<Record> {
        frame.record(offset).map_err(|why| {
            let found = self.view.read().find(offset);
            let path = found.map_or_else(|| self.dir.clone(), |(segment, _)| segment.path().to_owned());
            why.error(offset, &path)
        })
    }

    pub(super) fn read_context<'a>(&'a self, codecs: &'a Codecs) -> ReadContext<'a> {
        ReadContext { disk: &**self.runtime.disk(), codecs: &codecs.readable, log: &self.options.identity }
    }
}
