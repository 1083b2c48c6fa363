//! The dispatcher's reads of the WAL: whether one runs, when the next one may, and how much the last one brought.
//!
//! Reads nothing itself.

use tokio::time::Instant;

/// The state of the reads.
#[derive(Debug, Default)]
pub(super) struct Reads {
    runs: bool,
    /// None before; set when one failed.
    rests_until: Option<Instant>,
    /// Whether the last one failed, so that it is said once and not at every try.
    fails: bool,
    brought: usize,
}

impl Reads {
    /// Whether one may begin now.
    pub(super) fn may_begin(&self, now: Instant) -> bool {
        !self.runs && self.rests_until.is_none_or(|at| at <= now)
    }

    /// One begins.
    pub(super) fn begin(&mut self) {
        (self.runs, self.rests_until) = (true, None);
    }

    /// It has ended, whatever it brought.
    pub(super) fn end(&mut self) {
        self.runs = false;
    }

    /// It brought so many records.
    pub(super) fn worked(&mut self, records: usize) {
        (self.fails, self.brought) = (false, records);
    }

    /// It failed. Returns whether the one before did not.
    pub(super) fn failed(&mut self) -> bool {
        !std::mem::replace(&mut self.fails, true)
    }

    /// There is to be none before `at`.
    pub(super) fn rest(&mut self, at: Option<Instant>) {
        self.rests_until = at;
    }

    /// Until when there is none, if one has failed.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.rests_until
    }

    /// How many records the last one brought that worked.
    pub(super) fn brought(&self) -> usize {
        self.brought
    }
}
