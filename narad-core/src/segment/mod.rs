//! One segment file: write frames, scan, index, read.
//!
//! Knows nothing of other segments or of the high watermark.

mod cache;
mod crc_range;
mod decoded;
mod encode;
mod index;
mod raw_header;
mod resync;
mod run;
mod scan;
mod verify;
mod window;

use std::{
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use self::cache::CacheStats;
pub(crate) use self::{
    cache::{CacheId, FrameCache},
    decoded::{DecodedFrame, Unreadable},
    encode::{EncodeError, encode_frame, may_hold_frame},
    index::SparseIndex,
    scan::{Place, Step, Walk},
    window::{Joining, READ_CHUNK, ReadWindow},
};
use self::{
    index::Hole,
    run::{Run, decode_run, frame_at},
};
use crate::{
    disk::{Disk, File, FileExt, OpenMode},
    error::{Error, Result},
    format::{FrameHeader, Offset},
    plugin::{CodecSet, LogIdentity},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// Bytes by which the index of a sealed segment runs ahead of the read that extends it.
const INDEX_AHEAD: u64 = 4 << 20;

/// A segment file, as readers and the log's writer share it.
#[derive(Debug)]
pub(crate) struct Segment {
    base: Offset,
    path: PathBuf,
    /// Bytes that belong to the segment.
    len: AtomicU64,
    /// No record reaches past this: the base of the successor.
    limit: AtomicU64,
    /// Held across the reads that open and index a sealed segment: sweeps and statistics do without it.
    nav: Mutex<Nav>,
}

/// What is known of the file's content, and the open file.
#[derive(Debug)]
struct Nav {
    file: Option<Arc<dyn File>>,
    index: SparseIndex,
    /// Whether the index covers all that belongs to the segment. An active segment's always does.
    complete: bool,
    /// Where the last read ended: the first offset behind its frame, and the position.
    hint: (Offset, u64),
}

/// What a read finds at an offset.
#[derive(Debug)]
pub(crate) enum Found {
    /// The frame that holds it, and where the next one starts.
    Frame(DecodedFrame),
    /// No readable frame holds these offsets.
    Lost(Range<Offset>, Unreadable),
}

/// What a read needs besides the segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadContext<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) codecs: &'a CodecSet,
    pub(crate) log: &'a LogIdentity,
}

impl Segment {
    /// A sealed segment, of which nothing but its bounds is known yet. Opens no file.
    pub(crate) fn sealed(base: Offset, path: PathBuf, len: u64, limit: Offset) -> Self {
        let index = SparseIndex::new(base);
        let nav = Nav { file: None, index, complete: false, hint: (base, 0) };
        Self {
            base,
            path,
            len: AtomicU64::new(len),
            limit: AtomicU64::new(limit.get()),
            nav: Mutex::new(nav),
        }
    }

    /// The active segment, scanned up to `len`.
    pub(crate) fn active(
        base: Offset,
        path: PathBuf,
        file: Arc<dyn File>,
        index: SparseIndex,
        len: u64,
    ) -> Self {
        let nav = Nav { file: Some(file), index, complete: true, hint: (base, 0) };
        let limit = AtomicU64::new(Offset::MAX.get());
        Self { base, path, len: AtomicU64::new(len), limit, nav: Mutex::new(nav) }
    }

    /// The first offset, as the file's name states it.
    pub(crate) fn base(&self) -> Offset {
        self.base
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that belong to the segment.
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// The first offset behind everything that is known to be in it.
    pub(crate) fn place(&self) -> Place {
        self.nav.lock().index.place()
    }

    fn limit(&self) -> Offset {
        Offset::new(self.limit.load(Ordering::Acquire)).unwrap_or(Offset::MAX)
    }

    /// Turns the active segment into a sealed one that ends at `limit`.
    pub(crate) fn seal(&self, limit: Offset) {
        self.limit.store(limit.get(), Ordering::Release);
    }

    /// Gives back the file descriptor: for a segment that was just sealed.
    pub(crate) fn release_file(&self) {
        self.nav.lock().file = None;
    }

    /// Gives back the file descriptor, and what was read before it goes on with its own hold on it. Waits for no reader:
    /// answers whether it could.
    pub(crate) fn try_release_file(&self) -> bool {
        self.nav.try_lock().map(|mut nav| nav.file = None).is_some()
    }

    /// Reads go to this descriptor from now on, which the writer has opened.
    pub(crate) fn use_file(&self, file: Arc<dyn File>) {
        self.nav.lock().file = Some(file);
    }

    /// Gives back the file descriptor and the index: for a sealed segment that is no longer read much. Waits for no
    /// reader: answers whether it could.
    pub(crate) fn try_cool(&self) -> bool {
        let Some(mut nav) = self.nav.try_lock() else { return false };
        self.reset(&mut nav);
        true
    }

    /// The same, waiting for a reader that is in it.
    pub(crate) fn cool(&self) {
        self.reset(&mut self.nav.lock());
    }

    fn reset(&self, nav: &mut Nav) {
        nav.file = None;
        nav.index = SparseIndex::new(self.base);
        nav.complete = false;
        nav.hint = (self.base, 0);
    }

    /// Takes frames into the index that were written and verified: each header with its position.
    pub(crate) fn note_written(&self, frames: &[(FrameHeader, u64)]) {
        let mut nav = self.nav.lock();
        for (header, pos) in frames {
            let after = Place { pos: pos + header.frame_len(), expected: header.end() };
            nav.index.push(header.base, *pos, after);
            self.len.fetch_max(after.pos, Ordering::AcqRel);
        }
    }

    /// Forgets everything from `place` on, which was cut from the file.
    pub(crate) fn note_truncated(&self, place: Place) {
        let mut nav = self.nav.lock();
        nav.index.truncate(place);
        self.len.store(place.pos, Ordering::Release);
        nav.hint = (self.base, 0);
    }

    /// Where the first frame at or above `offset` starts, and the first offset behind the frames in front of it: what
    /// lies behind is about to be cut, so only frames whose CRC holds count, and damage is never a reason to cut. For
    /// the active segment, whose index is complete; `file` is its own.
    pub(crate) fn place_of(&self, file: Arc<dyn File>, offset: Offset) -> io::Result<Place> {
        let (end, from) = {
            let nav = self.nav.lock();
            let (base, pos) = nav.index.floor(offset).unwrap_or((self.base, 0));
            (nav.index.place(), Place { pos, expected: base })
        };
        if offset >= end.expected {
            return Ok(end);
        }
        let mut walk = Walk::new(file, end.pos, from, Offset::MAX);
        loop {
            let before = walk.place();
            match walk.step()? {
                Step::Frame { header, .. } if header.base >= offset => return Ok(before),
                Step::Torn { .. } | Step::End => return Ok(end),
                Step::Frame { .. } | Step::Misplaced { .. } | Step::Damage { .. } => {}
            }
        }
    }

    /// Reads the frame that holds `offset`.
    ///
    /// # Errors
    /// An I/O error: nothing is said about the record then.
    pub(crate) fn read(
        &self,
        offset: Offset,
        context: ReadContext<'_>,
        window: &mut ReadWindow,
    ) -> Result<Found> {
        if let Some(found) = self.read_on(offset, context, window)? {
            return Ok(found);
        }
        let io = |error| Error::io("read", &self.path, error);
        let (file, len, start, holes) = {
            let mut nav = self.nav.lock();
            let file = self.open(&mut nav, context.disk)?;
            self.extend_index(&mut nav, &file, offset).map_err(io)?;
            if let Some(lost) = nav.index.lost(offset) {
                return Ok(Found::Lost(lost, Unreadable::Corrupt("the frame is damaged")));
            }
            if offset >= nav.index.place().expected {
                let lost = offset..self.limit().max(offset.saturating_add(1));
                return Ok(Found::Lost(lost, Unreadable::Corrupt("the frame is missing")));
            }
            let floor = nav.index.floor(offset).map_or(0, |(_, pos)| pos);
            let start = if nav.hint.0 <= offset { floor.max(nav.hint.1) } else { floor };
            (file, self.len(), start, Arc::clone(nav.index.holes()))
        };
        window.turn_to(&file);
        let mut pos = start;
        while pos < len {
            if let Some(hole) = hole_at(&holes, pos) {
                pos = hole.resume;
                continue;
            }
            // A frame that is passed over must check out as well: its header says where the next one is.
            let Some((header, stored)) = frame_at(window, pos, len).map_err(io)? else { break };
            if offset >= header.end() {
                pos += header.frame_len();
                continue;
            }
            if offset < header.base {
                return Ok(Found::Lost(offset..header.base, Unreadable::Corrupt("the frame is missing")));
            }
            let run = decode_run(window, (pos, len), (header, stored), self.limit(), context);
            if let Found::Frame(_) = &run.found {
                self.nav.lock().hint = (run.after.expected, run.after.pos);
            }
            return Ok(run.found);
        }
        // What the index says and what the file holds differ: it was damaged since. The walk decides.
        self.walk_for(offset, context, &file, len).map_err(io)
    }

    /// Reads the frame that begins at `offset`, where that is just how far the index of a sealed segment reaches: whoever
    /// reads on takes frames into the index as they come, and no byte is read twice. `None` where it is not that simple.
    fn read_on(
        &self,
        offset: Offset,
        context: ReadContext<'_>,
        window: &mut ReadWindow,
    ) -> Result<Option<Found>> {
        let (file, place) = {
            let mut nav = self.nav.lock();
            if nav.complete || nav.index.place().expected != offset {
                return Ok(None);
            }
            (self.open(&mut nav, context.disk)?, nav.index.place())
        };
        window.turn_to(&file);
        let (len, limit) = (self.len(), self.limit());
        let frame = frame_at(window, place.pos, len).map_err(|error| Error::io("read", &self.path, error))?;
        let fits = |header: &FrameHeader| header.base == offset && header.end() <= limit;
        let Some(frame) = frame.filter(|(header, _)| fits(header)) else { return Ok(None) };
        let Run { found, frames, after } = decode_run(window, (place.pos, len), frame, limit, context);
        let mut nav = self.nav.lock();
        // Somebody else may have gone further meanwhile, or given the index up.
        if nav.index.place() == place {
            for (base, after) in frames {
                let pos = nav.index.place().pos;
                nav.index.push(base, pos, after);
            }
            nav.hint = (after.expected, after.pos);
        }
        Ok(Some(found))
    }

    /// Finds `offset` by a walk that trusts nothing but CRCs, and remembers the damage that it meets.
    fn walk_for(
        &self,
        offset: Offset,
        context: ReadContext<'_>,
        file: &Arc<dyn File>,
        len: u64,
    ) -> io::Result<Found> {
        let (from, limit) = {
            let nav = self.nav.lock();
            let (base, pos) = nav.index.floor(offset).unwrap_or((self.base, 0));
            (Place { pos, expected: base }, self.limit())
        };
        let damaged = |lost: Range<Offset>| {
            let lost = if lost.contains(&offset) { lost } else { offset..offset.saturating_add(1) };
            Found::Lost(lost, Unreadable::Corrupt("the frame is damaged"))
        };
        // Shorter than it was: the rest is missing, which is damage and no error.
        let len = len.min(file.len()?);
        let mut walk = Walk::new(Arc::clone(file), len, from, limit);
        loop {
            match walk.step()? {
                Step::Frame { pos, header, .. } if offset < header.end() => {
                    if offset < header.base {
                        return Ok(damaged(offset..header.base));
                    }
                    let mut bytes = vec![0; usize::try_from(header.frame_len()).unwrap_or(0)];
                    file.read_exact_at(&mut bytes, pos)?;
                    return Ok(match DecodedFrame::decode(bytes.into(), context.codecs, context.log) {
                        Ok(frame) => Found::Frame(frame),
                        Err(why) => Found::Lost(header.base..header.end(), why),
                    });
                }
                Step::Damage { pos, lost } => {
                    let hole = Hole { pos, resume: walk.place().pos, lost: lost.clone() };
                    self.nav.lock().index.add_hole(hole);
                    if lost.contains(&offset) {
                        return Ok(damaged(lost));
                    }
                }
                Step::Torn { .. } | Step::End => return Ok(damaged(offset..limit)),
                Step::Frame { .. } | Step::Misplaced { .. } => {}
            }
        }
    }

    /// Lets the index of a sealed segment reach `offset`, and some way beyond.
    fn extend_index(&self, nav: &mut Nav, file: &Arc<dyn File>, offset: Offset) -> io::Result<()> {
        if nav.complete || nav.index.place().expected > offset {
            return Ok(());
        }
        let enough = nav.index.place().pos.saturating_add(INDEX_AHEAD);
        let len = self.len().min(file.len()?);
        let mut walk = Walk::new(Arc::clone(file), len, nav.index.place(), self.limit());
        while nav.index.place().expected <= offset || nav.index.place().pos < enough {
            let step = walk.step()?;
            nav.index.note(&step, walk.place());
            if matches!(step, Step::Torn { .. } | Step::End) {
                nav.complete = true;
                break;
            }
        }
        Ok(())
    }

    /// The open file.
    fn open(&self, nav: &mut Nav, disk: &dyn Disk) -> Result<Arc<dyn File>> {
        if let Some(file) = &nav.file {
            return Ok(Arc::clone(file));
        }
        let file =
            disk.open(&self.path, OpenMode::Read).map_err(|error| Error::io("open", &self.path, error))?;
        Ok(Arc::clone(nav.file.insert(Arc::from(file))))
    }

    /// The first offset that is not in it: for a sealed one the base of its successor.
    pub(crate) fn end(&self) -> Offset {
        let limit = self.limit();
        if limit == Offset::MAX { self.place().expected } else { limit }
    }

    /// The commit time of the first record, if it can be read.
    pub(crate) fn first_commit_ms(&self, context: ReadContext<'_>) -> Option<i64> {
        self.first_commit(context).ok().flatten()
    }

    /// The commit time of the first record, `None` where no frame has one that can be read. Keeps no descriptor that
    /// was not open before.
    ///
    /// # Errors
    /// An I/O error: nothing is said about the record then.
    pub(crate) fn first_commit(&self, context: ReadContext<'_>) -> io::Result<Option<i64>> {
        // Whoever holds the lock now reads from a file that may be slow: not worth waiting for.
        let open = self.nav.try_lock().and_then(|nav| nav.file.clone());
        let (len, limit) = (self.len(), self.limit());
        let file = match open {
            Some(file) => file,
            None => Arc::from(context.disk.open(&self.path, OpenMode::Read)?),
        };
        let len = len.min(file.len()?);
        let mut walk = Walk::new(Arc::clone(&file), len, Place { pos: 0, expected: self.base }, limit);
        let (pos, header) = loop {
            match walk.step()? {
                Step::Frame { pos, header, .. } => break (pos, header),
                Step::Torn { .. } | Step::End => return Ok(None),
                Step::Damage { .. } | Step::Misplaced { .. } => {}
            }
        };
        let mut bytes =
            vec![0; usize::try_from(header.frame_len()).map_err(|_| io::ErrorKind::FileTooLarge)?];
        file.read_exact_at(&mut bytes, pos)?;
        let frame = DecodedFrame::decode(bytes.into(), context.codecs, context.log).ok();
        let record = frame.and_then(|frame| frame.record(header.base).ok());
        Ok(record.map(|record| record.committed_at_ms))
    }
}

/// Whether the frame of that header can be read back from the file.
pub(crate) fn is_written(file: &dyn File, pos: u64, header: &FrameHeader) -> io::Result<bool> {
    verify::is_written(file, pos, header)
}

fn hole_at(holes: &[Hole], pos: u64) -> Option<&Hole> {
    holes.binary_search_by_key(&pos, |hole| hole.pos).ok().and_then(|index| holes.get(index))
}
