//! The queue of one partition inside the dispatcher, in WAL order.
//!
//! Records wait with their content while there is room, and as bare offsets beyond that, to be read from the WAL
//! again: a partition that does not take its records must not fill the memory that the others need. Bare offsets stand
//! in two lines, so that those that may go to another partition do not have to be looked for among those that wait.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use narad_core::format::Offset;
use tokio::time::Instant;

use super::IngressOptions;

/// What a record in memory costs beside its key and payload, in bytes; an estimate.
const RECORD_OVERHEAD: usize = 96;

/// A payload from this size on is a part of its frame that is worth a copy.
const LARGE: usize = 64 << 10;

/// A message that waits for its partition.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    /// Its place in the WAL.
    pub(super) offset: Offset,
    /// Whether its producer named the partition.
    pub(super) pinned: bool,
    pub(super) key: Bytes,
    pub(super) payload: Bytes,
}

impl Pending {
    /// A record of the WAL. It keeps no frame of it in memory: a large payload is read with a part of its frame, which may be
    /// many times as large and is read anew for the next part.
    pub(super) fn new(offset: Offset, pinned: bool, key: Bytes, payload: Bytes) -> Self {
        let (key, payload) = if payload.len() < LARGE {
            (key, payload)
        } else {
            (Bytes::copy_from_slice(&key), Bytes::copy_from_slice(&payload))
        };
        Self { offset, pinned, key, payload }
    }

    /// Bytes it takes in memory, as the bounds count them.
    pub(super) fn cost(&self) -> usize {
        self.key.len() + self.payload.len() + RECORD_OVERHEAD
    }
}

/// What one commit is to carry.
#[derive(Debug)]
pub(super) enum Work {
    /// Records that are in memory.
    Loaded(Vec<Pending>),
    /// Records to be read from the WAL again.
    Reread(Vec<Offset>),
}

/// Bare offsets, each line ascending.
#[derive(Debug, Default)]
struct Offsets {
    /// Of messages that may go to another partition.
    free: VecDeque<Offset>,
    /// Of messages whose producer named this one.
    pinned: VecDeque<Offset>,
}

impl Offsets {
    fn is_empty(&self) -> bool {
        self.free.is_empty() && self.pinned.is_empty()
    }

    fn len(&self) -> usize {
        self.free.len() + self.pinned.len()
    }

    fn push(&mut self, Place { offset, pinned }: Place) {
        if pinned { self.pinned.push_back(offset) } else { self.free.push_back(offset) }
    }

    fn pop(&mut self) -> Option<Place> {
        let pinned = match (self.free.front(), self.pinned.front()) {
            (Some(free), Some(pinned)) => pinned < free,
            (free, _) => free.is_none(),
        };
        let offset = if pinned { self.pinned.pop_front() } else { self.free.pop_front() }?;
        Some(Place { offset, pinned })
    }

    fn append(&mut self, mut later: Self) {
        self.free.append(&mut later.free);
        self.pinned.append(&mut later.pinned);
    }
}

/// A record without its content.
#[derive(Debug, Clone, Copy)]
struct Place {
    offset: Offset,
    pinned: bool,
}

impl From<&Pending> for Place {
    fn from(record: &Pending) -> Self {
        Self { offset: record.offset, pinned: record.pinned }
    }
}

/// The records that wait for one partition. All of `loaded` comes before all of `offsets`.
#[derive(Debug, Default)]
pub(super) struct Lane {
    loaded: VecDeque<Pending>,
    /// The cost of `loaded`.
    loaded_cost: usize,
    offsets: Offsets,
    /// When the first of what waits arrived, for the linger.
    waiting_since: Option<Instant>,
    /// What the commit that runs now carries; empty when none runs.
    in_flight: Vec<Place>,
    /// Nothing is to be read from the WAL again before; set when that failed.
    read_at: Option<Instant>,
}

impl Lane {
    /// Adds a record behind all others. It keeps its content only if `keep` and nothing before it lost its own.
    pub(super) fn push(&mut self, record: Pending, keep: bool, now: Instant) {
        self.waiting_since.get_or_insert(now);
        if keep && self.offsets.is_empty() {
            self.loaded_cost += record.cost();
            self.loaded.push_back(record);
        } else {
            self.offsets.push((&record).into());
        }
    }

    /// Records and bytes held in memory, those of the running commit left out.
    pub(super) fn held(&self) -> (usize, usize) {
        (self.loaded.len(), self.loaded_cost)
    }

    /// Whether nothing waits and nothing runs.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_waiting() && !self.is_busy()
    }

    /// Whether records wait.
    pub(super) fn is_waiting(&self) -> bool {
        !self.loaded.is_empty() || !self.offsets.is_empty()
    }

    /// Whether a commit runs.
    pub(super) fn is_busy(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Whether something waits that another partition may take, now that this one fails.
    pub(super) fn may_go_elsewhere(&self) -> bool {
        !self.offsets.free.is_empty()
    }

    /// When the records may be read from the WAL again, if that failed.
    pub(super) fn read_at(&self) -> Option<Instant> {
        self.read_at
    }

    /// Nothing is to be read from the WAL again before `at`, if that failed.
    pub(super) fn set_read_at(&mut self, at: Option<Instant>) {
        self.read_at = at;
    }

    /// Until when a lane whose partition works is to be left alone; `None`: it can start. A small batch lingers while it
    /// `has_company`.
    pub(super) fn not_before(
        &self,
        has_company: bool,
        options: &IngressOptions,
        now: Instant,
    ) -> Option<Instant> {
        let small = self.offsets.is_empty()
            && self.loaded.len() < options.batch_records
            && self.loaded_cost < options.batch_bytes;
        let lingers = has_company && small && options.linger > Duration::ZERO;
        self.waiting_since.filter(|_| lingers)?.checked_add(options.linger).filter(|&at| at > now)
    }

    /// Takes the next batch out, for a commit to its own partition that begins now.
    pub(super) fn start(&mut self, options: &IngressOptions, now: Instant) -> Work {
        if self.loaded.is_empty() {
            let count = self.offsets.len().min(options.batch_records.max(1));
            let places = std::iter::from_fn(|| self.offsets.pop()).take(count).collect();
            return self.reread(places, now);
        }
        let (mut records, mut bytes) = (Vec::new(), 0usize);
        while let Some(record) = self.loaded.pop_front() {
            let cost = record.cost();
            let full = bytes.saturating_add(cost) > options.batch_bytes;
            if !records.is_empty() && (full || records.len() >= options.batch_records) {
                self.loaded.push_front(record);
                break;
            }
            bytes += cost;
            self.loaded_cost -= cost;
            records.push(record);
        }
        self.in_flight = records.iter().map(Place::from).collect();
        self.waiting_since = self.is_waiting().then_some(now);
        Work::Loaded(records)
    }

    /// Takes the next batch out, for a commit to another partition that begins now.
    pub(super) fn start_elsewhere(&mut self, options: &IngressOptions, now: Instant) -> Work {
        let count = self.offsets.free.len().min(options.batch_records.max(1));
        let places = self.offsets.free.drain(..count).map(|offset| Place { offset, pinned: false }).collect();
        self.reread(places, now)
    }

    fn reread(&mut self, places: Vec<Place>, now: Instant) -> Work {
        self.in_flight = places;
        self.waiting_since = self.is_waiting().then_some(now);
        Work::Reread(self.in_flight())
    }

    /// The running commit has ended; `back` is what of it remains to be done, ascending. When something does, or its
    /// partition `fails`, the lane lets go of all content.
    pub(super) fn end(&mut self, back: &[Offset], fails: bool, now: Instant) {
        debug_assert!(back.is_sorted(), "what comes back is ascending");
        let in_flight = std::mem::take(&mut self.in_flight);
        if fails || !back.is_empty() {
            let later = std::mem::take(&mut self.offsets);
            for place in in_flight.into_iter().filter(|place| back.binary_search(&place.offset).is_ok()) {
                self.offsets.push(place);
            }
            self.let_go();
            self.offsets.append(later);
        }
        self.waiting_since = self.is_waiting().then_some(now);
    }

    /// A record that was on its way before those that wait here comes back, in its place. The lane lets go of all content.
    pub(super) fn put_back(&mut self, record: &Pending, now: Instant) {
        self.waiting_since.get_or_insert(now);
        let later = std::mem::take(&mut self.offsets);
        self.let_go();
        self.offsets.append(later);
        let line = if record.pinned { &mut self.offsets.pinned } else { &mut self.offsets.free };
        line.insert(line.partition_point(|&offset| offset < record.offset), record.offset);
    }

    /// What is loaded waits behind the offsets that are there.
    fn let_go(&mut self) {
        for record in std::mem::take(&mut self.loaded) {
            self.offsets.push((&record).into());
        }
        self.loaded_cost = 0;
    }

    /// What the running commit carries.
    pub(super) fn in_flight(&self) -> Vec<Offset> {
        self.in_flight.iter().map(|place| place.offset).collect()
    }

    /// Empties the lane: its partition is no more. Returns what waited.
    pub(super) fn discard(&mut self) -> Vec<Offset> {
        let later = std::mem::take(&mut self.offsets);
        self.let_go();
        self.offsets.append(later);
        self.waiting_since = None;
        std::iter::from_fn(|| self.offsets.pop().map(|place| place.offset)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(offset: u32) -> Pending {
        Pending { offset: offset.into(), pinned: false, key: Bytes::new(), payload: Bytes::from_static(b"x") }
    }

    fn offsets(work: &Work) -> Vec<u64> {
        match work {
            Work::Loaded(records) => records.iter().map(|record| record.offset.get()).collect(),
            Work::Reread(offsets) => offsets.iter().map(|offset| offset.get()).collect(),
        }
    }

    #[test]
    fn a_large_payload_keeps_nothing_of_what_it_was_read_with() {
        let frame = Bytes::from(vec![7; 4 * LARGE]);
        let view_of = |len: usize| {
            let pending = Pending::new(Offset::ZERO, false, frame.slice(..9), frame.slice(..len));
            assert_eq!((&pending.key[..], &pending.payload[..]), (&frame[..9], &frame[..len]));
            let within = frame.as_ptr_range();
            [pending.key, pending.payload].map(|part| within.contains(&part.as_ptr()))
        };
        assert_eq!(view_of(LARGE - 1), [true, true]);
        assert_eq!(view_of(LARGE), [false, false]);
    }

    #[test]
    fn a_failed_batch_comes_again_first_and_whole_and_content_is_let_go() {
        let (options, now) = (IngressOptions { batch_records: 2, ..Default::default() }, Instant::now());
        let mut lane = Lane::default();
        (0..5).for_each(|n| lane.push(record(n), true, now));
        let work = lane.start(&options, now);
        assert!(matches!(work, Work::Loaded(_)) && lane.is_busy());
        assert_eq!(offsets(&work), [0, 1]);
        lane.push(record(5), true, now);
        lane.end(&lane.in_flight(), true, now);
        assert_eq!(lane.held(), (0, 0));
        lane.push(record(6), true, now);
        let mut seen = Vec::new();
        while lane.is_waiting() {
            let work = lane.start(&options, now);
            assert!(matches!(work, Work::Reread(_)));
            seen.extend(offsets(&work));
            lane.end(&[], false, now);
        }
        assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6]);
        assert!(lane.is_idle());
    }

    #[test]
    fn a_batch_is_bounded_by_bytes_and_always_holds_a_record() {
        let (options, now) = (IngressOptions { batch_bytes: 10, ..Default::default() }, Instant::now());
        let mut lane = Lane::default();
        (0..2).for_each(|n| lane.push(record(n), true, now));
        assert_eq!(offsets(&lane.start(&options, now)), [0]);
        assert_eq!(lane.held().0, 1);
    }

    #[test]
    fn what_is_pinned_stays_in_its_place_while_the_rest_goes_elsewhere() {
        let (options, now) = (IngressOptions { batch_records: 2, ..Default::default() }, Instant::now());
        let mut lane = Lane::default();
        (0..6).for_each(|n| lane.push(Pending { pinned: n % 3 == 0, ..record(n) }, false, now));
        let first = lane.start(&options, now);
        assert_eq!(offsets(&first), [0, 1], "its own partition gets them in order");
        lane.end(&lane.in_flight(), true, now);
        let elsewhere = lane.start_elsewhere(&options, now);
        assert_eq!(offsets(&elsewhere), [1, 2]);
        lane.end(&[2u32.into()], true, now);
        assert!(lane.may_go_elsewhere());
        lane.push(Pending { pinned: true, ..record(6) }, true, now);
        lane.push(record(7), true, now);
        let mut rest = Vec::new();
        while lane.is_waiting() {
            rest.extend(offsets(&lane.start(&options, now)));
            lane.end(&[], false, now);
        }
        assert_eq!(rest, [0, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_small_batch_lingers_only_in_company() {
        let (options, now) = (IngressOptions { batch_records: 3, ..Default::default() }, Instant::now());
        let mut lane = Lane::default();
        lane.push(record(0), true, now);
        assert_eq!(lane.not_before(false, &options, now), None);
        assert_eq!(lane.not_before(true, &options, now), Some(now + options.linger));
        assert_eq!(lane.not_before(true, &options, now + options.linger), None);
        (1..3).for_each(|n| lane.push(record(n), true, now));
        assert_eq!(lane.not_before(true, &options, now), None, "a full batch does not wait");
    }

    #[test]
    fn once_content_is_missing_what_follows_waits_as_offsets_too() {
        let now = Instant::now();
        let mut lane = Lane::default();
        lane.push(record(0), true, now);
        lane.push(record(1), false, now);
        lane.push(record(2), true, now);
        assert_eq!(lane.held().0, 1);
        assert_eq!(lane.discard(), [0u32, 1, 2].map(Offset::from));
        assert!(lane.is_idle());
    }
}
