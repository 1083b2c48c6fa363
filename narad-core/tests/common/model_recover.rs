//! What the model asks of a log that was just swept, or opened: after a close, a crash, a power loss, a drive that lied.

use narad_core::log::Log;

use super::{
    Model,
    look::{Shown, look},
};

impl Model {
    /// Holds a log that was just swept against the rules: a prefix may be gone, of what nobody asked to keep.
    /// `is_unlinked` says whether every unlink was durable.
    pub fn swept(&mut self, log: &Log, keeps: u64, is_unlinked: bool) {
        let oldest = log.oldest_offset().get();
        assert!(oldest >= self.oldest, "a sweep brings nothing back");
        let may_go = self.high_watermark().saturating_sub(keeps).max(self.oldest);
        assert!(oldest <= may_go, "{oldest} is the oldest, and {keeps} records were to be kept");
        (self.oldest, self.swept) = (oldest, self.swept.max(oldest));
        if is_unlinked && self.honest_below.is_none() {
            self.gone = oldest;
        }
        self.settle(log);
    }

    /// The drive acknowledges syncs that it does not do.
    pub fn lies(&mut self) {
        // Behind damage, a record may not be told from a lost payload once there is damage behind it too.
        let lost = self.acked.iter().skip(self.swept as usize).position(Option::is_none);
        let sure = lost.map_or(self.acked.len() as u64, |lost| self.swept + lost as u64);
        self.honest_below.get_or_insert(sure);
        self.has_lied = true;
    }

    /// Whether the drive has lied since the power last came.
    pub fn is_lied_to(&self) -> bool {
        self.honest_below.is_some()
    }

    /// The power goes, before the next [`recover`](Self::recover).
    pub fn lose_power(&mut self) {
        self.power_lost = true;
    }

    /// Holds a log that was just opened against the model: every acknowledged record is there, and nothing is that
    /// was never written there. After a clean close (`exact`) nothing more is visible.
    pub fn recover(&mut self, log: &Log, exact: bool) {
        (self.appended, self.dropped) = (Vec::new(), Vec::new());
        let (oldest, next) = (log.oldest_offset().get(), log.next_offset().get());
        assert!(next >= log.high_watermark().get(), "the boundary is not above what is there");
        if self.power_lost
            && let Some(honest) = self.honest_below.take()
        {
            self.recover_from_lies(&look(log), oldest, honest);
        }
        if self.power_lost {
            // A frame that nobody had synced may be gone, and a later one there.
            self.torn_below = self.torn_below.max(next);
        }
        let before = self.high_watermark();
        assert!((self.gone..=self.swept).contains(&oldest), "{} <= {oldest} <= {}", self.gone, self.swept);
        self.oldest = oldest;
        self.adopt(log);
        // A boundary of 0 over records says nothing: it may be what a power loss left of a file.
        if exact && before > 0 {
            assert_eq!(self.high_watermark(), before, "hidden records stay hidden");
        }
        if std::mem::take(&mut self.power_lost) {
            self.gone = oldest;
        }
        self.possible.retain(|offset, _| (self.acked.len() as u64..next).contains(offset));
    }

    /// What outlived a drive that lied: nothing is made up, and what was acknowledged before it lied is there.
    fn recover_from_lies(&mut self, shown: &Shown, oldest: u64, honest: u64) {
        for (offset, payload) in shown {
            let payload = payload.as_deref();
            assert!(payload.is_none_or(|payload| self.was_written(*offset, payload)), "{offset} is made up");
        }
        for offset in self.swept..honest {
            let (acked, shown) = (&self.acked[offset as usize], shown.get(&offset));
            assert!(
                acked.is_none() || shown == Some(acked),
                "{offset} was {acked:?}, honestly, and is {shown:?}"
            );
        }
        let end = shown.last_key_value().map_or(oldest, |(last, _)| last + 1);
        self.acked = (0..end).map(|offset| shown.get(&offset).cloned().flatten()).collect();
        self.possible = self.ever.clone();
        (self.swept, self.gone) = (oldest, oldest);
    }
}
