//! A reference model of a log: what was acknowledged, and what may yet come to light.
//!
//! It knows nothing of frames or files. Whatever a reader has seen once counts as acknowledged.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};

use narad_core::{
    Error, Result,
    format::{Batch, Offset},
    log::{Appended, Log},
};

use super::write_path::visible;

#[derive(Debug, Clone, Default)]
pub struct Model {
    /// By offset, from 0 on, without a gap.
    acked: Vec<String>,
    /// What was written or buffered above that, by offset: none of it need ever show, and nothing else may.
    possible: BTreeMap<u64, BTreeSet<String>>,
    /// Appended in this life of the process and neither committed nor dropped.
    appended: Vec<Appended>,
    /// Appended and dropped.
    dropped: Vec<Appended>,
    names: u64,
}

impl Model {
    pub fn acked(&self) -> &[String] {
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

    pub fn append(&mut self, log: &Log, payloads: &[String]) -> Result<()> {
        let next = log.next_offset().get();
        let poisoned = log.is_poisoned();
        match log.append(&batch(payloads)) {
            Ok(appended) => {
                assert!(!poisoned, "a poisoned log takes no records");
                assert_eq!(appended.offsets.start.get(), next);
                self.note(next, payloads);
                self.appended.push(appended);
            }
            Err(Error::Poisoned { .. }) if poisoned => return Ok(()),
            Err(error) => return Err(error),
        }
        self.settle(log);
        Ok(())
    }

    /// Commits, and holds the outcome against the rules. The error of a commit that failed.
    pub fn commit(&mut self, log: &Log, payloads: &[String]) -> Option<Error> {
        let (next, poisoned) = (log.next_offset().get(), log.is_poisoned());
        self.note(next, payloads);
        let outcome = log.commit(batch(payloads));
        match &outcome {
            Ok(offsets) => {
                assert!(!poisoned, "a poisoned log takes no commit");
                assert_eq!(offsets.start.get(), next, "offsets go on where the next one was announced");
                assert_eq!(offsets.end.get(), next + payloads.len() as u64);
                assert_eq!(log.high_watermark(), offsets.end);
                self.adopt(log);
                assert_eq!(&self.acked[next as usize..], payloads, "the batch is at its offsets");
                self.possible.clear();
            }
            Err(Error::Poisoned { .. }) => assert!(log.is_poisoned()),
            Err(error) => {
                assert!(!log.is_poisoned(), "{error}");
                let high_watermark = self.high_watermark();
                assert_eq!(
                    log.next_offset().get(),
                    high_watermark,
                    "{error}: nothing above the watermark is left"
                );
                self.possible.clear();
                self.dropped.append(&mut self.appended);
            }
        }
        self.settle(log);
        outcome.err()
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
                self.possible.clear();
            }
            Err(Error::Poisoned { .. }) => assert!(log.is_poisoned()),
            Err(_) => {
                assert_eq!(log.next_offset().get(), self.high_watermark());
                self.possible.clear();
                self.dropped.append(&mut self.appended);
            }
        }
        self.settle(log);
        outcome.err()
    }

    /// Scans a poisoned log again.
    pub fn reopen(&mut self, log: &Log) -> Result<()> {
        let poisoned = log.is_poisoned();
        log.reopen()?;
        if poisoned {
            self.possible.clear();
            assert_eq!(log.next_offset().get(), self.high_watermark(), "what was refused is cut");
        }
        self.settle(log);
        Ok(())
    }

    /// Holds a log that the process still has open against the model: nothing more and nothing less is visible, and
    /// appended records know their fate.
    pub fn settle(&mut self, log: &Log) {
        assert_eq!(
            log.high_watermark().get(),
            self.high_watermark(),
            "the watermark moves with a commit alone"
        );
        let seen: Vec<String> = visible(log).into_iter().map(|(_, payload)| payload).collect();
        assert_eq!(seen, self.acked);
        if log.is_poisoned() {
            self.dropped.append(&mut self.appended);
        }
        self.appended.retain(|appended| appended.offsets.end > log.high_watermark());
    }

    /// Holds a log that was just opened against the model: every acknowledged record is there, and nothing is that
    /// was never written there. After a clean close (`exact`) nothing more is visible.
    pub fn recover(&mut self, log: &Log, exact: bool) {
        (self.appended, self.dropped) = (Vec::new(), Vec::new());
        let before = self.high_watermark();
        self.adopt(log);
        // A boundary of 0 over records says nothing: it may be what a power loss left of a file.
        if exact && before > 0 {
            assert_eq!(self.high_watermark(), before, "hidden records stay hidden");
        }
        let next = log.next_offset().get();
        assert!(next >= self.high_watermark());
        self.possible.retain(|offset, _| (self.acked.len() as u64..next).contains(offset));
    }

    fn note(&mut self, start: u64, payloads: &[String]) {
        for (offset, payload) in (start..).zip(payloads) {
            self.possible.entry(offset).or_default().insert(payload.clone());
        }
    }

    /// Takes in what is visible.
    fn adopt(&mut self, log: &Log) {
        let seen = visible(log);
        assert_eq!(log.oldest_offset(), Offset::ZERO);
        assert!(seen.len() >= self.acked.len(), "{} of {} records are left", seen.len(), self.acked.len());
        for (expected, (offset, payload)) in (0..).zip(seen) {
            assert_eq!(offset, expected, "no gap");
            match self.acked.get(offset as usize) {
                Some(acked) => assert_eq!(*acked, payload, "record {offset}"),
                None => {
                    let possible = self.possible.get(&offset);
                    assert!(
                        possible.is_some_and(|possible| possible.contains(&payload)),
                        "record {offset} is {payload}, which was never written there"
                    );
                    self.acked.push(payload);
                }
            }
        }
        assert_eq!(log.high_watermark().get(), self.high_watermark());
    }
}

fn batch(payloads: &[String]) -> Batch {
    let mut batch = Batch::new();
    for payload in payloads {
        batch.push(b"", payload.as_bytes());
    }
    batch
}
