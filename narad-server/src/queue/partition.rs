//! The queue of one partition as a pure state machine: what is settled, what is leased, what comes next.
//!
//! It never reads a record, a clock or a random number: times and nonces are handed in, and what it decides is
//! carried out by others. Every offset from the frontier to the next new one is in exactly one state: settled,
//! leased, or to be given out again.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use narad_core::{format::Offset, store::ConsumerPosition};

use super::offset_set::OffsetSet;

/// As many settled offsets above the frontier as are ever handed to the store: more do not fit its file.
const MAX_ACKED_SAVED: usize = 4096;

/// How much of a partition may be in consumers' hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caps {
    /// Leases at one time.
    pub(super) max_in_flight: u32,
    /// Offsets acked out of order, above the frontier.
    pub(super) max_acked_ahead: u32,
}

/// The lease is no more: it expired, was settled, or never was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeaseGone;

/// What [`PartitionQueue::recover`] had to correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Recovery {
    /// The stored frontier lay beyond the end of the log.
    pub(super) clamped: bool,
    /// Offsets that retention took before they were settled.
    pub(super) lost: u64,
}

#[derive(Debug, Clone, Copy)]
struct Lease {
    nonce: u64,
    /// Absent while the record is being read: such a lease is held by code of ours that always lets go of it, and
    /// its time begins when the record is handed over.
    expires: Option<Duration>,
}

/// The state of one partition's queue.
#[derive(Debug)]
pub(super) struct PartitionQueue {
    /// The first offset that is not settled: one above the frontier.
    base: Offset,
    /// The first offset that was never given out. What lies above it can still be settled (found so on disk, or
    /// part of a run that cannot be read).
    next: Offset,
    /// What is settled above `base`.
    settled: OffsetSet,
    /// The part of `settled` that nobody acked, because it cannot be read. It does not count against the cap on
    /// acks, or one large damaged frame would stop the queue.
    skipped: OffsetSet,
    leases: BTreeMap<Offset, Lease>,
    /// The leases with an end, soonest first.
    expiries: BTreeSet<(Duration, Offset)>,
    /// To be given out again, before anything new.
    returned: BTreeSet<Offset>,
}

impl PartitionQueue {
    /// The queue as `position` states it, for a log that keeps the offsets from `oldest` to below `end`.
    pub(super) fn recover(position: &ConsumerPosition, oldest: Offset, end: Offset) -> (Self, Recovery) {
        let stored = position.frontier.map_or(Offset::ZERO, |frontier| frontier.saturating_add(1));
        let base = stored.min(end);
        let mut queue = Self {
            base,
            next: base,
            settled: OffsetSet::default(),
            skipped: OffsetSet::default(),
            leases: BTreeMap::new(),
            expiries: BTreeSet::new(),
            returned: BTreeSet::new(),
        };
        for &offset in position.acked.iter().filter(|&&offset| offset >= base) {
            queue.settled.insert(offset..offset.saturating_add(1));
        }
        // An offset that is yet to be written was acked in a log that is no more.
        queue.settled.remove_from(end);
        queue.advance();
        let lost = queue.jump_to(oldest);
        (queue, Recovery { clamped: stored > end, lost })
    }

    /// The highest offset at and below which everything is settled.
    pub(super) fn frontier(&self) -> Option<Offset> {
        self.base.get().checked_sub(1).and_then(Offset::new)
    }

    /// What is to be written down.
    pub(super) fn position(&self) -> ConsumerPosition {
        ConsumerPosition {
            frontier: self.frontier(),
            acked: self.settled.iter().take(MAX_ACKED_SAVED).collect(),
        }
    }

    /// Leases in force at `now`, those whose record is being read included.
    pub(super) fn in_flight(&self, now: Duration) -> usize {
        let over = self.expiries.iter().take_while(|(at, _)| *at <= now).count();
        self.leases.len().saturating_sub(over)
    }

    /// Offsets acked above the frontier.
    pub(super) fn acked_ahead(&self) -> u64 {
        self.settled.len().saturating_sub(self.skipped.len())
    }

    /// When the next lease ends.
    pub(super) fn next_expiry(&self) -> Option<Duration> {
        self.expiries.first().map(|&(at, _)| at)
    }

    /// Moves the frontier to `oldest` if retention has passed it. Leases below end with it. Returns how many
    /// offsets were lost: gone before they were settled.
    pub(super) fn jump_to(&mut self, oldest: Offset) -> u64 {
        if oldest <= self.base {
            return 0;
        }
        let passed = oldest.since(self.base);
        let before = self.settled.len();
        self.settled.remove_below(oldest);
        self.skipped.remove_below(oldest);
        let lost = passed.saturating_sub(before.saturating_sub(self.settled.len()));
        self.returned = self.returned.split_off(&oldest);
        let kept = self.leases.split_off(&oldest);
        for (offset, lease) in std::mem::replace(&mut self.leases, kept) {
            self.forget_expiry(offset, lease);
        }
        self.base = oldest;
        self.advance();
        lost
    }

    /// Leases the next record that may be given out, below `end`: one that came back before a new one, each in
    /// offset order. The lease has no end until [`begin`](Self::begin).
    pub(super) fn take(&mut self, now: Duration, end: Offset, caps: Caps, nonce: u64) -> Option<Offset> {
        self.expire(now);
        if self.leases.len() >= caps.max_in_flight as usize {
            return None;
        }
        let fresh = self.settled.first_absent(self.next);
        let offset = self.returned.first().copied().unwrap_or(fresh);
        if offset >= end {
            return None;
        }
        if self.acked_ahead() >= u64::from(caps.max_acked_ahead) && offset != self.base {
            return None;
        }
        if !self.returned.remove(&offset) {
            self.next = offset.saturating_add(1);
        }
        self.leases.insert(offset, Lease { nonce, expires: None });
        Some(offset)
    }

    /// The record was handed over: from here on the lease lasts until `expires`.
    pub(super) fn begin(&mut self, offset: Offset, nonce: u64, expires: Duration) -> Result<(), LeaseGone> {
        let lease = self.leases.get_mut(&offset).filter(|lease| lease.nonce == nonce).ok_or(LeaseGone)?;
        if let Some(before) = lease.expires.replace(expires) {
            self.expiries.remove(&(before, offset));
        }
        self.expiries.insert((expires, offset));
        Ok(())
    }

    /// Settles a leased record.
    pub(super) fn ack(&mut self, offset: Offset, nonce: u64, now: Duration) -> Result<(), LeaseGone> {
        self.end_lease(offset, nonce, now)?;
        self.settle(offset..offset.saturating_add(1));
        Ok(())
    }

    /// Moves the end of a lease to `expires`.
    pub(super) fn extend(
        &mut self,
        offset: Offset,
        nonce: u64,
        now: Duration,
        expires: Duration,
    ) -> Result<(), LeaseGone> {
        self.expire(now);
        self.begin(offset, nonce, expires)
    }

    /// Gives a leased record back, to be given out again at once.
    pub(super) fn release(&mut self, offset: Offset, nonce: u64, now: Duration) -> Result<(), LeaseGone> {
        self.end_lease(offset, nonce, now)?;
        self.returned.insert(offset);
        Ok(())
    }

    /// Settles every offset of a range that cannot be read, except those that somebody holds: each holder of one
    /// finds out alone. Returns how many were skipped.
    pub(super) fn skip(&mut self, range: Range<Offset>, now: Duration) -> u64 {
        self.expire(now);
        let range = range.start.max(self.base)..range.end;
        if range.is_empty() {
            return 0;
        }
        let before = self.settled.len();
        let held: Vec<Offset> = self.leases.range(range.clone()).map(|(&offset, _)| offset).collect();
        let mut from = range.start;
        for bound in held.into_iter().chain([range.end]) {
            self.skip_unheld(from..bound);
            from = bound.saturating_add(1);
        }
        let skipped = self.settled.len().saturating_sub(before);
        self.advance();
        skipped
    }

    /// Adds a range to what is settled and skipped, less what is settled already: an acked offset stays acked.
    fn skip_unheld(&mut self, range: Range<Offset>) {
        let mut from = range.start;
        while from < range.end {
            let start = self.settled.first_absent(from);
            let end = self.settled.first_present(start).unwrap_or(range.end).min(range.end);
            if start >= end {
                break;
            }
            self.skipped.insert(start..end);
            self.settled.insert(start..end);
            from = end;
        }
        let above = self.returned.split_off(&range.start);
        self.returned.extend(above.into_iter().filter(|offset| *offset >= range.end));
    }

    /// Every lease whose time is over is given back.
    fn expire(&mut self, now: Duration) {
        while let Some(&(at, offset)) = self.expiries.first().filter(|(at, _)| *at <= now) {
            self.expiries.remove(&(at, offset));
            self.leases.remove(&offset);
            self.returned.insert(offset);
        }
    }

    /// The one check that every verb makes, in one step with the expiry.
    fn end_lease(&mut self, offset: Offset, nonce: u64, now: Duration) -> Result<(), LeaseGone> {
        self.expire(now);
        let lease = *self.leases.get(&offset).filter(|lease| lease.nonce == nonce).ok_or(LeaseGone)?;
        self.leases.remove(&offset);
        self.forget_expiry(offset, lease);
        Ok(())
    }

    fn forget_expiry(&mut self, offset: Offset, lease: Lease) {
        if let Some(at) = lease.expires {
            self.expiries.remove(&(at, offset));
        }
    }

    fn settle(&mut self, range: Range<Offset>) {
        self.settled.insert(range);
        self.advance();
    }

    /// Moves the frontier over what is settled right above it.
    fn advance(&mut self) {
        let base = self.settled.first_absent(self.base);
        self.settled.remove_below(base);
        self.skipped.remove_below(base);
        self.base = base;
        self.next = self.next.max(base);
    }
}

#[cfg(test)]
mod tests;
