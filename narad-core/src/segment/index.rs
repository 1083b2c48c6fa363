//! The sparse index of a segment: where to begin to look for an offset, and which bytes are known damage.

use std::{ops::Range, sync::Arc};

use super::scan::{Place, Step};
use crate::format::Offset;

/// Bytes of frames between two entries.
const SPACING: u64 = 16 << 10;

/// Bytes that are no frame, or none that belongs here, and the offsets they cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hole {
    pub(super) pos: u64,
    pub(super) resume: u64,
    pub(super) lost: Range<Offset>,
}

/// The index. It covers the file up to [`place`](Self::place).
#[derive(Debug, Clone)]
pub(crate) struct SparseIndex {
    /// First offset and position of a frame now and then, ascending.
    entries: Vec<(Offset, u64)>,
    /// Ascending by position. Shared with the reads that go on.
    holes: Arc<Vec<Hole>>,
    place: Place,
}

impl SparseIndex {
    /// The index of nothing yet, for a segment that begins at `base`.
    pub(crate) fn new(base: Offset) -> Self {
        Self { entries: Vec::new(), holes: Arc::default(), place: Place { pos: 0, expected: base } }
    }

    /// How far the index reaches.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Takes in what a walk found; `after` is where the walk stands now. A torn tail is not taken in: the index ends
    /// in front of it.
    pub(crate) fn note(&mut self, step: &Step, after: Place) {
        match step {
            Step::Frame { pos, header, .. } => self.push(header.base, *pos, after),
            Step::Misplaced { pos } => self.note_hole(*pos, after, after.expected..after.expected),
            Step::Damage { pos, lost } => self.note_hole(*pos, after, lost.clone()),
            Step::Torn { .. } | Step::End => {}
        }
    }

    /// Takes in the frame at `pos` whose first offset is `base`.
    pub(crate) fn push(&mut self, base: Offset, pos: u64, after: Place) {
        if self.entries.last().is_none_or(|&(_, last)| pos - last >= SPACING) {
            self.entries.push((base, pos));
        }
        self.place = after;
    }

    fn note_hole(&mut self, pos: u64, after: Place, lost: Range<Offset>) {
        self.add_hole(Hole { pos, resume: after.pos, lost });
        self.place = after;
    }

    /// Remembers damage, found by the walk or by a later read.
    pub(super) fn add_hole(&mut self, hole: Hole) {
        if let Err(index) = self.holes.binary_search_by_key(&hole.pos, |hole| hole.pos) {
            Arc::make_mut(&mut self.holes).insert(index, hole);
        }
    }

    /// Forgets every frame from `place` on.
    pub(crate) fn truncate(&mut self, place: Place) {
        self.entries.retain(|&(_, pos)| pos < place.pos);
        if self.holes.iter().any(|hole| hole.pos >= place.pos) {
            Arc::make_mut(&mut self.holes).retain(|hole| hole.pos < place.pos);
        }
        self.place = place;
    }

    /// The last entry at or before `offset`: a frame's first offset and position.
    pub(crate) fn floor(&self, offset: Offset) -> Option<(Offset, u64)> {
        let index = self.entries.partition_point(|&(base, _)| base <= offset);
        self.entries.get(index.checked_sub(1)?).copied()
    }

    /// The known damage.
    pub(super) fn holes(&self) -> &Arc<Vec<Hole>> {
        &self.holes
    }

    /// The lost offsets around `offset`, if it is known to be lost.
    pub(crate) fn lost(&self, offset: Offset) -> Option<Range<Offset>> {
        self.holes.iter().find(|hole| hole.lost.contains(&offset)).map(|hole| hole.lost.clone())
    }
}
