//! The dispatcher's reads of the WAL: whether one runs, when the next one may, and how much the last one brought.
//!
//! Reads nothing itself.

use std::time::Duration;

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
    /// When the last one worked, and whether that was soon after the one before.
    worked_at: Option<Instant>,
    follows: bool,
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

    /// It brought so many records. One within `soon` of it follows it.
    pub(super) fn worked(&mut self, records: usize, now: Instant, soon: Duration) {
        self.follows = self.worked_at.is_some_and(|before| now.saturating_duration_since(before) <= soon);
        (self.fails, self.brought, self.worked_at) = (false, records, Some(now));
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

    /// Whether messages come in numbers: not as one batch, but `many` at a time, one read after the other. With
    /// `others` under way, two are a number.
    pub(super) fn come_in_numbers(&self, many: usize, others: bool) -> bool {
        (self.follows && self.brought >= many) || (others && self.brought > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_comes_alone_is_no_number_and_one_that_follows_is() {
        let (mut reads, soon, start) = (Reads::default(), Duration::from_millis(5), Instant::now());
        reads.worked(100, start, soon);
        assert!(!reads.come_in_numbers(8, false) && reads.come_in_numbers(8, true));
        reads.worked(8, start + soon, soon);
        assert!(reads.come_in_numbers(8, false));
        reads.worked(7, start + soon, soon);
        assert!(!reads.come_in_numbers(8, false));
        reads.worked(1, start + soon, soon);
        assert!(!reads.come_in_numbers(8, true));
        reads.worked(100, start + soon * 3, soon);
        assert!(!reads.come_in_numbers(8, false), "it comes alone again");
    }

    #[test]
    fn a_read_begins_when_none_runs_and_none_has_just_failed() {
        let (mut reads, now) = (Reads::default(), Instant::now());
        assert!(reads.may_begin(now));
        reads.begin();
        assert!(!reads.may_begin(now));
        reads.end();
        let later = now + Duration::from_secs(1);
        reads.rest(Some(later));
        assert!(!reads.may_begin(now) && reads.may_begin(later));
        assert!(reads.failed() && !reads.failed(), "said once");
        reads.worked(1, now, Duration::ZERO);
        assert!(reads.failed());
    }
}
