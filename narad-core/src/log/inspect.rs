//! Looks at a partition's files without changing a byte: what `narad log dump` and `narad log verify` print.
//!
//! Uses the same survey and the same walk as an open, so that it reports what an open would recover. Safe on a
//! directory in use; what a writer is just adding shows as a torn tail.

use std::{ops::ControlFlow, ops::Range, path::Path, sync::Arc};

use bytes::Bytes;

use super::recover::{SegmentFile, Survey, survey};
use crate::{
    disk::{Disk, File, FileExt, OpenMode},
    error::{Error, Result},
    format::{CodecNumber, FrameHeader, HEADER_LEN, Offset, Record, StoredCodec, read_extended_codec},
    plugin::{CodecSet, LogIdentity},
    segment::{DecodedFrame, Place, ReadContext, Step, Unreadable, Walk},
};

/// Something met on the way through a partition, in offset order.
#[derive(Debug)]
#[non_exhaustive]
pub enum Inspected<'a> {
    /// A segment begins.
    Segment {
        /// The file.
        path: &'a Path,
        /// Bytes in it.
        bytes: u64,
    },
    /// A frame whose CRC holds was looked at; its records follow.
    Frame {
        /// Bytes on disk.
        bytes: u64,
    },
    /// A readable record.
    Record {
        /// The record, whether or not it is visible.
        record: Record,
        /// The codec its frame was written with.
        codec: CodecNumber,
        /// The segment file it is in.
        segment: &'a Path,
    },
    /// Records whose frame is there and cannot be read.
    Unreadable {
        /// Their offsets.
        offsets: Range<Offset>,
        /// Why.
        reason: UnreadableReason,
    },
    /// Offsets that no frame holds.
    Gap {
        /// The offsets.
        offsets: Range<Offset>,
    },
    /// A frame whose CRC holds and whose offsets do not belong where it is. It is never served.
    Misplaced {
        /// The segment file.
        segment: &'a Path,
        /// Where in it.
        pos: u64,
    },
}

/// Why records that are there cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnreadableReason {
    /// The frame or the record cannot be true.
    Corrupt,
    /// The codec of this number is not registered. The frame is intact.
    UnknownCodec(CodecNumber),
    /// The codec lacks what it needs for the frame, such as a key. The frame is intact.
    Lacking,
}

/// What an open would recover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The oldest offset kept.
    pub oldest_offset: Offset,
    /// The offset of the next record.
    pub next_offset: Offset,
    /// The exclusive bound of what consumers would see.
    pub high_watermark: Offset,
    /// Segment files that take part.
    pub segments: usize,
    /// Bytes behind the last valid frame that hold something and are no frame: an open would cut them.
    pub torn_tail_bytes: u64,
    /// Zeros behind the last valid frame: prepared for frames to come. An open would cut them too.
    pub prepared_bytes: u64,
}

/// Who is told: it can end the inspection early with `Break`.
pub type Visit<'v> = dyn FnMut(Inspected<'_>) -> ControlFlow<()> + 'v;

struct Inspection<'a, 'v> {
    context: ReadContext<'a>,
    visit: &'a mut Visit<'v>,
}

/// Goes through the partition in `dir`, frame by frame and record by record. `name` identifies the log to codecs that
/// bind frames to it.
///
/// # Errors
/// `Io` for what could not be read, `Unusable` as for an open. Damage is no error: it is reported.
pub fn inspect(
    disk: &dyn Disk,
    dir: &Path,
    name: &LogIdentity,
    codecs: &CodecSet,
    visit: &mut Visit<'_>,
) -> Result<Summary> {
    let context = ReadContext { disk, codecs, log: name };
    let Survey { sealed, active, oldest, next, stated, .. } = survey(context, dir, OpenMode::Read, None)?;
    let summary = Summary {
        oldest_offset: oldest,
        next_offset: next,
        high_watermark: stated.unwrap_or(next),
        segments: sealed.len() + usize::from(active.is_some()),
        torn_tail_bytes: active.as_ref().map_or(0, |active| active.torn_bytes()),
        prepared_bytes: active.as_ref().map_or(0, |active| active.prepared_bytes()),
    };
    let mut inspection = Inspection { context, visit };
    let ends = sealed.iter().skip(1).map(|next| next.base);
    let last_end = active.as_ref().map_or(next, |active| active.segment.base);
    for (segment, end) in sealed.iter().zip(ends.chain([last_end])) {
        let file = disk
            .open(&segment.path, OpenMode::Read)
            .map_err(|error| Error::io("open", &segment.path, error))?;
        let flow = inspection.segment(segment, file.into(), segment.len, segment.base..end)?;
        if flow.is_break() {
            return Ok(summary);
        }
    }
    if let Some(active) = active {
        let bounds = active.segment.base..Offset::MAX;
        _ = inspection.segment(&active.segment, active.file, active.place.pos, bounds)?;
    }
    Ok(summary)
}

impl Inspection<'_, '_> {
    /// Goes through the first `len` bytes of one segment. A sealed one ends at `bounds.end`: what is missing up to
    /// there is a gap.
    fn segment(
        &mut self,
        segment: &SegmentFile,
        file: Arc<dyn File>,
        len: u64,
        bounds: Range<Offset>,
    ) -> Result<ControlFlow<()>> {
        let path = segment.path.as_path();
        let io = |error| Error::io("read", path, error);
        if self.tell(Inspected::Segment { path, bytes: segment.len }).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let place = Place { pos: 0, expected: bounds.start };
        let mut walk = Walk::new(Arc::clone(&file), len, place, bounds.end);
        loop {
            let expected = walk.place().expected;
            let flow = match walk.step().map_err(io)? {
                Step::Frame { pos, header, missing } => {
                    let gap = self.gap(missing);
                    if gap.is_break() { gap } else { self.frame(path, &*file, pos, header).map_err(io)? }
                }
                Step::Misplaced { pos } => self.tell(Inspected::Misplaced { segment: path, pos }),
                Step::Damage { lost, .. } => self.gap(lost),
                Step::Torn { .. } | Step::End if bounds.end == Offset::MAX => {
                    return Ok(ControlFlow::Continue(()));
                }
                Step::Torn { .. } | Step::End => {
                    return Ok(self.gap(expected..bounds.end));
                }
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
    }

    fn frame(
        &mut self,
        path: &Path,
        file: &dyn File,
        pos: u64,
        header: FrameHeader,
    ) -> std::io::Result<ControlFlow<()>> {
        let mut bytes = vec![0; usize::try_from(header.frame_len()).unwrap_or(0)];
        file.read_exact_at(&mut bytes, pos)?;
        if self.tell(Inspected::Frame { bytes: header.frame_len() }).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let bytes = Bytes::from(bytes);
        let frame = match DecodedFrame::decode(bytes.clone(), self.context.codecs, self.context.log) {
            Ok(frame) => frame,
            Err(why) => {
                let offsets = header.base..header.end();
                return Ok(self.tell(Inspected::Unreadable { offsets, reason: why.into() }));
            }
        };
        let codec = match header.codec() {
            StoredCodec::Plain(number) => Some(number),
            StoredCodec::Extended => {
                bytes.get(HEADER_LEN..).and_then(read_extended_codec).map(|(number, _)| number)
            }
            StoredCodec::Reserved(_) => None,
        };
        let Some(codec) = codec else { return Ok(ControlFlow::Continue(())) };
        let mut offset = header.base;
        while offset < header.end() {
            let after = offset.saturating_add(1);
            let flow = match frame.record(offset) {
                Ok(record) => self.tell(Inspected::Record { record, codec, segment: path }),
                Err(why) => self.tell(Inspected::Unreadable { offsets: offset..after, reason: why.into() }),
            };
            if flow.is_break() {
                return Ok(flow);
            }
            offset = after;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn gap(&mut self, offsets: Range<Offset>) -> ControlFlow<()> {
        if offsets.is_empty() { ControlFlow::Continue(()) } else { self.tell(Inspected::Gap { offsets }) }
    }

    fn tell(&mut self, what: Inspected<'_>) -> ControlFlow<()> {
        (self.visit)(what)
    }
}

impl From<Unreadable> for UnreadableReason {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Corrupt(_) => Self::Corrupt,
            Unreadable::UnknownCodec(number) => Self::UnknownCodec(number),
            Unreadable::Lacking(..) => Self::Lacking,
        }
    }
}
