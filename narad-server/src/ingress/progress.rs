//! Which WAL records are done: the checkpoint is the first that is not.

use std::{collections::VecDeque, ops::Range};

use narad_core::format::Offset;

/// What is done from the checkpoint on; one byte for each record that was read and lies above it, and none for the
/// offsets that hold no record: damage may have taken any number of them.
#[derive(Debug)]
pub(super) struct Progress {
    /// The first record not done: the checkpoint.
    first: Offset,
    /// Whether each record from `first` to below the read position is done.
    done: VecDeque<bool>,
    /// The ranges among them that hold no record, ascending and apart.
    gaps: VecDeque<Range<Offset>>,
    /// The first record not read.
    read_to: Offset,
    /// How many of the records are not done.
    undone: u64,
}

impl Progress {
    /// Everything below `checkpoint` is done and nothing above it was read.
    pub(super) fn new(checkpoint: Offset) -> Self {
        Self {
            first: checkpoint,
            done: VecDeque::new(),
            gaps: VecDeque::new(),
            read_to: checkpoint,
            undone: 0,
        }
    }

    /// The first record not done, or the read position when all that was read is.
    pub(super) fn checkpoint(&self) -> Offset {
        self.first
    }

    /// The first record not read.
    pub(super) fn read_to(&self) -> Offset {
        self.read_to
    }

    /// Records read and not done.
    pub(super) fn undone(&self) -> u64 {
        self.undone
    }

    /// The record at the read position was read. It holds the checkpoint back until it is [finished](Self::finish).
    pub(super) fn read(&mut self) {
        self.done.push_back(false);
        self.read_to = self.read_to.saturating_add(1);
        self.undone += 1;
    }

    /// There is no record from the read position up to `next`.
    pub(super) fn skip(&mut self, next: Offset) {
        if next <= self.read_to {
            return;
        }
        match self.gaps.back_mut().filter(|gap| gap.end == self.read_to) {
            Some(gap) => gap.end = next,
            None => self.gaps.push_back(self.read_to..next),
        }
        self.read_to = next;
        self.advance();
    }

    /// The record is done: committed to its partition, or dropped for good.
    pub(super) fn finish(&mut self, offset: Offset) {
        let slot = self.index(offset).and_then(|index| self.done.get_mut(index));
        if let Some(done) = slot.filter(|done| !**done) {
            *done = true;
            self.undone -= 1;
        }
        self.advance();
    }

    /// Where a record from `first` on has its place in `done`.
    fn index(&self, offset: Offset) -> Option<usize> {
        let mut index = (offset >= self.first).then(|| offset.since(self.first))?;
        for gap in self.gaps.iter().take_while(|gap| gap.start <= offset) {
            index = (gap.end <= offset).then(|| index.checked_sub(gap.end.since(gap.start)))??;
        }
        usize::try_from(index).ok()
    }

    fn advance(&mut self) {
        loop {
            if let Some(gap) = self.gaps.pop_front_if(|gap| gap.start == self.first) {
                self.first = gap.end;
            } else if self.done.pop_front_if(|done| *done).is_some() {
                self.first = self.first.saturating_add(1);
            } else {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkpoint_is_the_first_record_not_done() {
        let at = |n: u32| Offset::from(n);
        let mut progress = Progress::new(at(10));
        progress.finish(at(10));
        assert_eq!(progress.checkpoint(), at(10), "what was not read cannot be done");
        for _ in 10..14 {
            progress.read();
        }
        assert_eq!((progress.read_to(), progress.undone()), (at(14), 4));
        progress.finish(at(11));
        progress.finish(at(11));
        progress.finish(at(13));
        assert_eq!((progress.checkpoint(), progress.undone()), (at(10), 2));
        progress.finish(at(10));
        assert_eq!(progress.checkpoint(), at(12));
        progress.finish(at(3));
        progress.finish(at(12));
        assert_eq!((progress.checkpoint(), progress.read_to(), progress.undone()), (at(14), at(14), 0));
    }
    #[test]
    fn offsets_without_a_record_hold_nothing_back_and_take_no_memory() {
        let at = |n: u64| Offset::new(n).unwrap_or_default();
        let mut progress = Progress::new(at(10));
        progress.skip(at(20));
        assert_eq!((progress.checkpoint(), progress.read_to()), (at(20), at(20)));
        progress.read();
        progress.skip(at(1 << 40));
        progress.skip(at(1 << 50));
        progress.read();
        progress.read();
        progress.skip(at(5));
        assert_eq!((progress.undone(), progress.done.len(), progress.gaps.len()), (3, 3, 1));
        progress.finish(at((1 << 50) + 1));
        progress.finish(at(1 << 45));
        assert_eq!((progress.checkpoint(), progress.undone()), (at(20), 2), "no record is there");
        progress.finish(at(20));
        assert_eq!((progress.checkpoint(), progress.undone()), (at(1 << 50), 1));
        progress.finish(at(1 << 50));
        assert_eq!((progress.checkpoint(), progress.undone()), (at((1 << 50) + 2), 0));
    }
}
