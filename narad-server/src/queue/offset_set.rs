//! A set of offsets kept as ranges, so that a long run of settled or lost offsets costs one entry.
//!
//! Bytes, clocks and locks are no business of this module.

use std::{collections::BTreeMap, ops::Range};

use narad_core::format::Offset;

/// A set of offsets. Memory grows with the number of separate ranges, not with the number of offsets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OffsetSet {
    /// Start → exclusive end; never empty, never overlapping, never touching.
    ranges: BTreeMap<Offset, Offset>,
    /// Offsets in all ranges.
    len: u64,
}

impl OffsetSet {
    /// How many offsets are in it.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Whether `offset` is in it.
    pub(super) fn contains(&self, offset: Offset) -> bool {
        self.range_at(offset).is_some()
    }

    /// The first offset at or above `from` that is not in it.
    pub(super) fn first_absent(&self, from: Offset) -> Offset {
        self.range_at(from).map_or(from, |range| range.end)
    }

    /// The first offset at or above `from` that is in it.
    pub(super) fn first_present(&self, from: Offset) -> Option<Offset> {
        if self.contains(from) {
            return Some(from);
        }
        self.ranges.range(from..).next().map(|(&start, _)| start)
    }

    /// Adds a range; what is there already stays.
    pub(super) fn insert(&mut self, range: Range<Offset>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        // Everything that overlaps or touches becomes part of the new range. Such ranges start at or below `end`,
        // and the walk goes down from there until one ends short of `start`.
        while let Some((&below_start, &below_end)) = self.ranges.range(..=end).next_back() {
            if below_end < start {
                break;
            }
            self.ranges.remove(&below_start);
            self.len -= below_end.since(below_start);
            (start, end) = (start.min(below_start), end.max(below_end));
        }
        self.len += end.since(start);
        self.ranges.insert(start, end);
    }

    /// Removes every offset below `bound`.
    pub(super) fn remove_below(&mut self, bound: Offset) {
        while let Some(entry) = self.ranges.first_entry() {
            let (start, end) = (*entry.key(), *entry.get());
            if start >= bound {
                return;
            }
            entry.remove();
            self.len -= end.min(bound).since(start);
            if end > bound {
                self.ranges.insert(bound, end);
                return;
            }
        }
    }

    /// Removes every offset at or above `bound`.
    pub(super) fn remove_from(&mut self, bound: Offset) {
        while let Some(entry) = self.ranges.last_entry() {
            let (start, end) = (*entry.key(), *entry.get());
            if end <= bound {
                return;
            }
            entry.remove();
            self.len -= end.since(start.max(bound));
            if start < bound {
                self.ranges.insert(start, bound);
                return;
            }
        }
    }

    /// The offsets, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = Offset> {
        self.ranges
            .iter()
            .flat_map(|(&start, &end)| (0..end.since(start)).map(move |n| start.saturating_add(n)))
    }

    fn range_at(&self, offset: Offset) -> Option<Range<Offset>> {
        let (&start, &end) = self.ranges.range(..=offset).next_back()?;
        (offset < end).then_some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn at(value: u64) -> Offset {
        Offset::new(value).unwrap()
    }

    #[test]
    fn ranges_that_touch_become_one() {
        let mut set = OffsetSet::default();
        set.insert(at(1)..at(3));
        set.insert(at(5)..at(6));
        set.insert(at(3)..at(5));
        assert_eq!(set.ranges, BTreeMap::from([(at(1), at(6))]));
        assert_eq!((set.len(), set.first_absent(at(2)), set.first_absent(at(0))), (5, at(6), at(0)));
    }

    /// Every operation over all small sets, against a plain set of numbers.
    #[test]
    fn every_small_case_agrees_with_a_plain_set() {
        for bits in 0u32..64 {
            let plain: BTreeSet<u64> = (0..6).filter(|n| bits & (1 << n) != 0).collect();
            let mut set = OffsetSet::default();
            for &n in plain.iter().rev() {
                set.insert(at(n)..at(n + 1));
            }
            for a in 0..7 {
                let (mut below, mut from) = (set.clone(), set.clone());
                below.remove_below(at(a));
                from.remove_from(at(a));
                check(&below, &plain.iter().copied().filter(|&n| n >= a).collect());
                check(&from, &plain.iter().copied().filter(|&n| n < a).collect());
                for b in a..7 {
                    let mut more = set.clone();
                    more.insert(at(a)..at(b));
                    check(&more, &plain.iter().copied().chain(a..b).collect());
                }
            }
        }
    }

    fn check(set: &OffsetSet, plain: &BTreeSet<u64>) {
        assert_eq!(set.iter().map(Offset::get).collect::<BTreeSet<_>>(), *plain);
        assert_eq!(set.len(), plain.len() as u64);
        for n in 0..8 {
            assert_eq!(set.contains(at(n)), plain.contains(&n));
            let absent = (n..).find(|m| !plain.contains(m)).unwrap();
            assert_eq!(set.first_absent(at(n)), at(absent));
            assert_eq!(set.first_present(at(n)).map(Offset::get), plain.range(n..).next().copied());
        }
    }
}
