//! The last WAL record of each partition, as long as it may not be done: whether a message that goes past the WAL would
//! overtake one that was acknowledged before it.
//!
//! Says too much where it cannot tell, and never too little: what is done is known up to the checkpoint alone, so one record
//! that waits for long makes every partition that had a later one look as if it waited.

use std::collections::HashMap;

use narad_core::{
    format::Offset,
    plugin::{Incarnation, PartitionId},
};
use parking_lot::Mutex;

use super::Staged;

/// Partitions that are told apart, at most.
const KNOWN: usize = 4096;

/// Where the records end that may not be done.
#[derive(Debug)]
pub(super) struct Trail {
    ends: Mutex<Ends>,
}

#[derive(Debug)]
struct Ends {
    /// Of partitions that are not told apart, such as those whose records were there when the WAL was opened.
    others: Offset,
    of: HashMap<(Incarnation, PartitionId), Offset>,
}

impl Trail {
    /// Any record below `end` may be any partition's.
    pub(super) fn new(end: Offset) -> Self {
        Self { ends: Mutex::new(Ends { others: end, of: HashMap::new() }) }
    }

    /// The WAL holds these messages, below `end`. To be told before they are acknowledged. Everything below `done` is done.
    pub(super) fn note(&self, messages: &[Staged], end: Offset, done: Offset) {
        let mut ends = self.ends.lock();
        let mut before = None;
        for message in messages {
            let place = (message.id, message.partition);
            if before.replace(place) != Some(place) {
                let last = ends.of.entry(place).or_insert(end);
                *last = end.max(*last);
            }
        }
        if ends.of.len() > KNOWN {
            ends.forget(done);
        }
    }

    /// Whether everything that the WAL holds for the partition is done, now that everything below `done` is.
    pub(super) fn is_clear(&self, id: Incarnation, partition: PartitionId, done: Offset) -> bool {
        let ends = self.ends.lock();
        ends.others <= done && ends.of.get(&(id, partition)).is_none_or(|&end| end <= done)
    }
}

impl Ends {
    /// Keeps those alone that are not done, and none of them apart where they are still too many.
    fn forget(&mut self, done: Offset) {
        self.of.retain(|_, end| *end > done);
        if self.of.len() > KNOWN {
            let last = self.of.drain().map(|(_, end)| end).max();
            self.others = last.unwrap_or_default().max(self.others);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const ID: Incarnation = Incarnation::new(7);

    fn at(n: u32) -> Offset {
        Offset::from(n)
    }

    fn messages(partitions: std::ops::Range<u32>) -> Vec<Staged> {
        let message = |partition| Staged {
            topic: "orders".into(),
            id: ID,
            partition: PartitionId(partition),
            pinned: false,
            key: Bytes::new(),
            payload: Bytes::from_static(b"x"),
        };
        partitions.map(message).collect()
    }

    #[test]
    fn a_partition_is_clear_once_its_last_record_is_done_whatever_others_have() {
        let trail = Trail::new(at(0));
        let clear = |partition, done| trail.is_clear(ID, PartitionId(partition), at(done));
        assert!(clear(0, 0));
        trail.note(&messages(0..2), at(10), at(0));
        trail.note(&messages(1..2), at(20), at(0));
        trail.note(&messages(1..2), at(15), at(0));
        assert!(!clear(0, 9) && clear(0, 10));
        assert!(!clear(1, 19) && clear(1, 20));
        assert!(clear(2, 0));
        assert!(trail.is_clear(Incarnation::new(8), PartitionId(0), at(0)), "another life");
    }

    #[test]
    fn what_was_there_at_the_start_may_be_for_any_partition() {
        let trail = Trail::new(at(5));
        assert!(!trail.is_clear(ID, PartitionId(0), at(4)) && trail.is_clear(ID, PartitionId(0), at(5)));
    }

    #[test]
    fn more_partitions_than_are_told_apart_are_one() {
        let (trail, known) = (Trail::new(at(0)), u32::try_from(KNOWN).unwrap());
        trail.note(&messages(0..known), at(10), at(0));
        trail.note(&messages(known..known + 1), at(20), at(10));
        assert_eq!(trail.ends.lock().of.len(), 1, "those that are done are forgotten");
        trail.note(&messages(0..known), at(30), at(10));
        assert!(trail.ends.lock().of.is_empty());
        assert!(!trail.is_clear(ID, PartitionId(known + 1), at(29)));
        assert!(trail.is_clear(ID, PartitionId(known + 1), at(30)));
    }
}
