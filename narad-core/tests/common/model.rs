//! A reference model of a log: what was acknowledged, what may yet come to light, and what must not.
//!
//! It knows nothing of frames or files. Whatever a reader has seen once counts as acknowledged.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

#[path = "look.rs"]
pub mod look;
#[path = "model_recover.rs"]
mod recover;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use look::look;
use narad_core::{
    Error, Result,
    format::{Batch, Offset},
    log::{Appended, Log},
};

type Contents = BTreeMap<u64, BTreeSet<String>>;

#[derive(Debug, Clone, Default)]
pub struct Model {
    /// By offset, from 0 on: `None` where a power loss left a hole.
    acked: Vec<Option<String>>,
    /// What was written or buffered above that, by offset: none of it need ever show, and nothing else may.
    possible: Contents,
    /// What was ever written or buffered, by offset.
    ever: Contents,
    /// Appended in this life of the process and neither committed nor dropped.
    appended: Vec<Appended>,
    /// Appended and dropped.
    dropped: Vec<Appended>,
    names: u64,
    /// Where the log begins, in this life of the process.
    oldest: u64,
    /// Below this a sweep has taken everything: it may be gone, or come back until its unlinks are durable.
    swept: u64,
    /// Below this it has gone for good.
    gone: u64,
    power_lost: bool,
    /// The drive has lied since the power last came: only what was acknowledged before is sure to outlive it.
    honest_below: Option<u64>,
    has_lied: bool,
    /// A power loss may have left holes below this in what nobody had acknowledged, or a lie in anything.
    torn_below: u64,
}

/// A commit before its outcome is known.
#[derive(Debug)]
pub struct Asked {
    next: u64,
    was_poisoned: bool,
}

/// Batches that shared an outcome: where each of them is, or why none is.
pub type Cycle = (Vec<Vec<String>>, Result<Vec<Range<Offset>>>);

impl Model {
    pub fn acked(&self) -> &[Option<String>] {
        &self.acked
    }

    pub fn high_watermark(&self) -> u64 {
        self.acked.len() as u64
    }

    /// Payloads that no other batch holds.
    pub fn payloads(&mut self, count: usize, len: usize) -> Vec<String> {
        let names = self.names..self.names + count as u64;
        self.names = names.end;
        names.map(|name| format!("{name:_<len$}")).collect()
    }

    /// Whether somebody has put these bytes at this offset.
    pub fn was_written(&self, offset: u64, payload: &str) -> bool {
        self.ever.get(&offset).is_some_and(|ever| ever.contains(payload))
    }

    /// Whether a power loss, or a sweep before a crash, may have cost this record.
    pub fn may_be_unreadable(&self, offset: u64) -> bool {
        offset < self.swept || self.acked.get(offset as usize).is_some_and(Option::is_none)
    }

    pub fn append(&mut self, log: &Log, payloads: &[String]) -> Result<()> {
        let asked = Self::ask(log);
        match log.append(&batch(payloads)) {
            Ok(appended) => {
                assert!(!asked.was_poisoned, "a poisoned log takes no records");
                assert_eq!(appended.offsets.start.get(), asked.next);
                self.note(asked.next, payloads);
                self.appended.push(appended);
            }
            Err(Error::Poisoned { .. }) if asked.was_poisoned => return Ok(()),
            Err(error) => return Err(error),
        }
        self.settle(log);
        Ok(())
    }

    /// Commits, and holds the outcome against the rules. The error of a commit that failed.
    pub fn commit(&mut self, log: &Log, payloads: &[String]) -> Option<Error> {
        let asked = Self::ask(log);
        let outcome = log.commit(batch(payloads)).map(|offsets| vec![offsets]);
        self.answered(log, &asked, vec![(vec![payloads.to_vec()], outcome)])
    }

    /// To be asked before a commit.
    pub fn ask(log: &Log) -> Asked {
        Asked { next: log.next_offset().get(), was_poisoned: log.is_poisoned() }
    }

    /// Holds the outcomes of cycles that ran one after the other against the rules. The error of the last of them.
    pub fn answered(&mut self, log: &Log, asked: &Asked, cycles: Vec<Cycle>) -> Option<Error> {
        let (mut next, mut high_watermark) = (asked.next, self.high_watermark());
        let (mut landed, mut last) = (Vec::new(), None);
        for (batches, outcome) in cycles {
            let all = batches.concat();
            if let (Some(_), Ok(offsets)) = (&last, &outcome) {
                next = self.next_after_discard(high_watermark, offsets[0].start.get());
            }
            self.note(next, &all);
            if last.is_some() && outcome.is_err() && self.has_lied && asked.next <= self.torn_below {
                // Of two failures in a row nobody says where the second began: above what a lie has hidden, perhaps.
                self.note(asked.next, &all);
            }
            match outcome {
                Ok(offsets) => {
                    assert!(!asked.was_poisoned, "a poisoned log takes no commit");
                    for (offsets, batch) in offsets.iter().zip(&batches) {
                        assert_eq!(
                            offsets.start.get(),
                            next,
                            "offsets go on where the next one was announced"
                        );
                        next += batch.len() as u64;
                        assert_eq!(offsets.end.get(), next);
                    }
                    landed.push((next - all.len() as u64, all));
                    high_watermark = next;
                    self.appended.retain(|appended| appended.offsets.end.get() > high_watermark);
                    last = None;
                }
                Err(Error::Poisoned { source }) => {
                    assert!(log.is_poisoned());
                    assert!(!matches!(*source, Error::Internal { .. }), "{source}");
                    last = Some(Error::Poisoned { source });
                }
                Err(error) => {
                    assert!(!matches!(last, Some(Error::Poisoned { .. })), "a poisoned log says so: {error}");
                    next = high_watermark;
                    self.dropped.append(&mut self.appended);
                    last = Some(error);
                }
            }
        }
        assert_eq!(log.high_watermark().get(), high_watermark, "it moves with what is acknowledged");
        if !landed.is_empty() {
            self.adopt(log);
            for (start, payloads) in landed {
                let there = self.acked[start as usize..].iter().take(payloads.len()).flatten();
                assert!(there.eq(&payloads), "the batch is at its offsets");
            }
        }
        if !matches!(last, Some(Error::Poisoned { .. })) {
            assert!(!log.is_poisoned(), "{last:?}");
            self.drop_the_rest(log);
        }
        self.settle(log);
        last
    }

    /// Commits what was appended last, and asks after something that was dropped.
    pub fn commit_appended(&mut self, log: &Log) -> Option<Error> {
        if let Some(dropped) = self.dropped.pop() {
            let answer = log.commit_appended(&dropped);
            assert!(
                matches!(answer, Err(Error::Discarded { .. } | Error::Poisoned { .. })),
                "{dropped:?} was dropped, and the answer is {answer:?}"
            );
        }
        let last = self.appended.last()?.clone();
        let outcome = log.commit_appended(&last);
        match &outcome {
            Ok(()) => {
                assert!(log.high_watermark() >= last.offsets.end);
                self.adopt(log);
                self.drop_the_rest(log);
            }
            Err(Error::Poisoned { .. }) => assert!(log.is_poisoned()),
            Err(_) => {
                self.drop_the_rest(log);
                self.dropped.append(&mut self.appended);
            }
        }
        self.settle(log);
        outcome.err()
    }

    /// Scans a poisoned log again.
    pub fn reopen(&mut self, log: &Log) -> Result<()> {
        let was_poisoned = log.is_poisoned();
        log.reopen()?;
        self.reopened(log, was_poisoned);
        Ok(())
    }

    /// Holds a log that was scanned again against the rules.
    pub fn reopened(&mut self, log: &Log, was_poisoned: bool) {
        assert!(!log.is_poisoned());
        if was_poisoned {
            self.drop_the_rest(log);
        }
        self.settle(log);
    }

    /// Holds a log that the process still has open against the model: nothing more and nothing less is visible, and
    /// appended records know their fate.
    pub fn settle(&mut self, log: &Log) {
        let visible = (log.oldest_offset().get(), log.high_watermark().get());
        let expected = (self.oldest, self.high_watermark());
        assert_eq!(visible, expected, "the watermark moves with a commit alone, the start with a sweep");
        self.adopt(log);
        if log.is_poisoned() {
            self.dropped.append(&mut self.appended);
        }
        self.appended.retain(|appended| appended.offsets.end > log.high_watermark());
    }

    /// Nothing above the watermark is left.
    fn drop_the_rest(&mut self, log: &Log) {
        let next = self.next_after_discard(self.high_watermark(), log.next_offset().get());
        self.possible.retain(|offset, _| *offset < next);
    }

    /// Offsets go on at the watermark; but where a lie has sealed a segment with records above it, these stay hidden.
    fn next_after_discard(&self, high_watermark: u64, next: u64) -> u64 {
        let stay_hidden = self.has_lied && (high_watermark..=self.torn_below).contains(&next);
        assert!(next == high_watermark || stay_hidden, "{next} is next, above {high_watermark}");
        next
    }

    fn note(&mut self, start: u64, payloads: &[String]) {
        for (offset, payload) in (start..).zip(payloads) {
            self.possible.entry(offset).or_default().insert(payload.clone());
            self.ever.entry(offset).or_default().insert(payload.clone());
        }
    }

    /// Takes in what is visible.
    fn adopt(&mut self, log: &Log) {
        let shown = look(log);
        let end = log.high_watermark().get();
        assert!(end >= self.high_watermark(), "{end} of {} records are left", self.acked.len());
        if !self.has_lied {
            look::assert_times_ascend(log);
        }
        for (offset, payload) in shown {
            match self.acked.get_mut(offset as usize) {
                Some(Some(acked)) => {
                    let is_there = payload.as_ref() == Some(acked);
                    assert!(
                        is_there || payload.is_none() && offset < self.swept,
                        "{offset}: {payload:?}, not {acked}"
                    );
                }
                // More of what is damaged can be told when more follows it.
                Some(acked) => {
                    let was_written =
                        |payload| self.ever.get(&offset).is_some_and(|ever| ever.contains(payload));
                    assert!(payload.as_ref().is_none_or(was_written), "record {offset} is made up");
                    *acked = payload;
                }
                None => {
                    let may_be = match &payload {
                        Some(payload) => self.possible.get(&offset).is_some_and(|all| all.contains(payload)),
                        None => offset < self.torn_below,
                    };
                    assert!(may_be, "record {offset} is {payload:?}, which was never written there");
                    self.acked.push(payload);
                }
            }
        }
        assert_eq!(end, self.high_watermark());
    }
}

pub fn batch(payloads: &[String]) -> Batch {
    let mut batch = Batch::new();
    for payload in payloads {
        batch.push(b"", payload.as_bytes());
    }
    batch
}
