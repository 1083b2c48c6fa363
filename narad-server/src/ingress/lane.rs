//! The queue of one partition inside the dispatcher, in WAL order.
//!
//! Records wait with their content while there is room, and as bare offsets beyond that, to be read from the WAL
//! again: a partition that does not take its records must not fill the memory that the others need.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use narad_core::format::Offset;
use tokio::time::Instant;

use super::IngressOptions;

/// What a record in memory costs beside its key and payload, in bytes; an estimate.
const RECORD_OVERHEAD: usize = 96;

/// A message that waits for its partition.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    /// Its place in the WAL.
    pub(super) offset: Offset,
    pub(super) key: Bytes,
    pub(super) payload: Bytes,
}

impl Pending {
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

impl Work {
    pub(super) fn offsets(&self) -> Vec<Offset> {
        match self {
            Self::Loaded(records) => records.iter().map(|record| record.offset).collect(),
            Self::Reread(offsets) => offsets.clone(),
        }
    }
}

/// The records that wait for one partition. All of `loaded` comes before all of `offsets`.
#[derive(Debug, Default)]
pub(super) struct Lane {
    loaded: VecDeque<Pending>,
    /// The cost of `loaded`.
    loaded_cost: usize,
    offsets: VecDeque<Offset>,
    /// When the first of what waits arrived, for the linger.
    waiting_since: Option<Instant>,
    /// Not to be tried before; set by a failure.
    retry_at: Option<Instant>,
    /// What the commit that runs now carries; empty when none runs.
    in_flight: Vec<Offset>,
}

impl Lane {
    /// Adds a record behind all others. It keeps its content only if `keep` and nothing before it lost its own.
    pub(super) fn push(&mut self, record: Pending, keep: bool, now: Instant) {
        self.waiting_since.get_or_insert(now);
        if keep && self.offsets.is_empty() && self.retry_at.is_none() {
            self.loaded_cost += record.cost();
            self.loaded.push_back(record);
        } else {
            self.offsets.push_back(record.offset);
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

    /// Whether its last commit failed.
    pub(super) fn is_failing(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Until when the lane is to be left alone; `None`: it can start. A small batch lingers while others run.
    pub(super) fn not_before(
        &self,
        others_run: bool,
        options: &IngressOptions,
        now: Instant,
    ) -> Option<Instant> {
        if let Some(retry_at) = self.retry_at {
            return Some(retry_at).filter(|&at| at > now);
        }
        let small = self.offsets.is_empty()
            && self.loaded.len() < options.batch_records
            && self.loaded_cost < options.batch_bytes;
        let lingers = others_run && small && options.linger > Duration::ZERO;
        self.waiting_since.filter(|_| lingers)?.checked_add(options.linger).filter(|&at| at > now)
    }

    /// Takes the next batch out, for a commit that begins now.
    pub(super) fn start(&mut self, options: &IngressOptions, now: Instant) -> Work {
        let work = if self.loaded.is_empty() {
            let count = self.offsets.len().min(options.batch_records.max(1));
            Work::Reread(self.offsets.drain(..count).collect())
        } else {
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
            Work::Loaded(records)
        };
        self.in_flight = work.offsets();
        self.waiting_since = self.is_waiting().then_some(now);
        work
    }

    /// The running commit has ended; `back` is what of it remains to be done, ascending. After a failure the lane
    /// waits until `retry_at`, and lets go of all content.
    pub(super) fn end(&mut self, back: Vec<Offset>, retry_at: Option<Instant>, now: Instant) {
        self.in_flight.clear();
        self.retry_at = retry_at;
        if retry_at.is_some() || !back.is_empty() {
            let loaded = std::mem::take(&mut self.loaded);
            self.loaded_cost = 0;
            let later = std::mem::take(&mut self.offsets);
            self.offsets.extend(back);
            self.offsets.extend(loaded.into_iter().map(|record| record.offset));
            self.offsets.extend(later);
        }
        self.waiting_since = self.is_waiting().then_some(now);
    }

    /// What the running commit carries.
    pub(super) fn in_flight(&self) -> &[Offset] {
        &self.in_flight
    }

    /// Empties the lane: its partition is no more. Returns what waited.
    pub(super) fn discard(&mut self) -> Vec<Offset> {
        let mut all: Vec<Offset> =
            std::mem::take(&mut self.loaded).into_iter().map(|record| record.offset).collect();
        all.extend(std::mem::take(&mut self.offsets));
        self.loaded_cost = 0;
        self.waiting_since = None;
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(offset: u32) -> Pending {
        Pending { offset: offset.into(), key: Bytes::new(), payload: Bytes::from_static(b"x") }
    }

    fn offsets(work: &Work) -> Vec<u64> {
        work.offsets().into_iter().map(Offset::get).collect()
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
        let retry_at = now + options.retry;
        lane.end(work.offsets(), Some(retry_at), now);
        assert_eq!(lane.held(), (0, 0));
        lane.push(record(6), true, now);
        assert_eq!(lane.not_before(false, &options, now), Some(retry_at));
        assert_eq!(lane.not_before(false, &options, retry_at), None);
        let mut seen = Vec::new();
        while lane.is_waiting() {
            let work = lane.start(&options, now);
            assert!(matches!(work, Work::Reread(_)));
            seen.extend(offsets(&work));
            lane.end(Vec::new(), None, now);
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
    fn a_small_batch_lingers_only_while_others_run() {
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
