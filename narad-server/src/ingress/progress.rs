//! Which WAL records are done: the checkpoint is the first that is not.

use std::collections::VecDeque;

use narad_core::format::Offset;

/// What is done from the checkpoint on; one byte for each record that was read and lies above it.
#[derive(Debug)]
pub(super) struct Progress {
    /// The first record not done: the checkpoint.
    first: Offset,
    /// Whether each record from `first` to below the read position is done.
    done: VecDeque<bool>,
    /// How many of them are not.
    undone: u64,
}

impl Progress {
    /// Everything below `checkpoint` is done and nothing above it was read.
    pub(super) fn new(checkpoint: Offset) -> Self {
        Self { first: checkpoint, done: VecDeque::new(), undone: 0 }
    }

    /// The first record not done, or the read position when all that was read is.
    pub(super) fn checkpoint(&self) -> Offset {
        self.first
    }

    /// The first record not read.
    pub(super) fn read_to(&self) -> Offset {
        self.first.saturating_add(self.done.len() as u64)
    }

    /// Records read and not done.
    pub(super) fn undone(&self) -> u64 {
        self.undone
    }

    /// Everything below `next` was read. What came in between and does not turn up in [`finish`](Self::finish)
    /// holds the checkpoint back.
    pub(super) fn read(&mut self, next: Offset) {
        let count = next.since(self.read_to());
        self.undone += count;
        for _ in 0..count {
            self.done.push_back(false);
        }
    }

    /// The record is done: committed to its partition, or dropped for good.
    pub(super) fn finish(&mut self, offset: Offset) {
        let slot = (offset >= self.first)
            .then(|| usize::try_from(offset.since(self.first)).ok())
            .flatten()
            .and_then(|index| self.done.get_mut(index));
        if let Some(done) = slot.filter(|done| !**done) {
            *done = true;
            self.undone -= 1;
        }
        while self.done.front() == Some(&true) {
            self.done.pop_front();
            self.first = self.first.saturating_add(1);
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
        progress.read(at(14));
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
}
