//! Draws a history from a seed.

use narad_core::testkit::{CallKind, Failure, Fault, Survival};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::steps::{Caller, Down, Drive, Keep, Plan, Records, Setup, Step};

const STEPS: usize = 40;

const KINDS: [CallKind; 11] = [
    CallKind::Open,
    CallKind::Create,
    CallKind::CreateDir,
    CallKind::Read,
    CallKind::Write,
    CallKind::SyncData,
    CallKind::SyncDir,
    CallKind::SetLen,
    CallKind::Remove,
    CallKind::List,
    CallKind::Metadata,
];
const FAILURES: [Failure; 7] = [
    Failure::Io,
    Failure::NoSpace,
    Failure::QuotaExceeded,
    Failure::TooManyFiles,
    Failure::AccessDenied,
    Failure::ReadOnly,
    Failure::Interrupted,
];
const SURVIVALS: [Survival; 4] =
    [Survival::Random, Survival::Random, Survival::Nothing, Survival::Everything];

impl Plan {
    /// The history of this seed on this kind of drive.
    pub fn drawn(seed: u64, drive: Drive) -> Self {
        let mut draw = Draw(StdRng::seed_from_u64(seed), drive);
        let setup =
            Setup { drive, disk_seed: draw.0.random(), segment_bytes: draw.one_of(&[200, 500, 3000, 8000]) };
        let mut steps: Vec<Step> = (0..STEPS).map(|_| draw.step()).collect();
        steps.push(Step::Down { how: Down::PowerLoss(draw.survival()), stays: false, fault: None });
        Self { setup, steps }
    }
}

/// Draws steps.
struct Draw(StdRng, Drive);

impl Draw {
    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.0.random_range(0..all.len())].clone()
    }

    fn step(&mut self) -> Step {
        match self.0.random_range(0..100) {
            0..14 => Step::Append(self.records()),
            14..32 => {
                // What a drain writes is not read back before a commit asks for it: only a commit can tell that a bit
                // flipped.
                let flip =
                    self.0.random_ratio(1, 15).then(|| Fault::flip_bit(CallKind::Write).named("*.log"));
                Step::Commit {
                    records: self.records(),
                    refused_by_codec: self.0.random_ratio(1, 40),
                    tries: self.0.random_range(0..40),
                    fault: flip.or_else(|| self.call_fault(15)),
                }
            }
            32..38 => Step::Together {
                first: self.records(),
                is_async: self.0.random(),
                others: (0..self.0.random_range(1..5))
                    .map(|_| (self.records(), self.one_of(&[Caller::Stays, Caller::Stays, Caller::Leaves])))
                    .collect(),
                fault: self.call_fault(3),
            },
            38..43 => Step::CommitAppended,
            43..46 => Step::Read { at: self.0.random(), fault: self.call_fault(2) },
            46..49 => Step::ReadBatch {
                at: self.0.random(),
                max_records: self.0.random_range(1..9),
                max_bytes: self.0.random_range(0..900),
                fault: self.call_fault(2),
            },
            49..53 => Step::Release,
            53..62 => Step::Pass { ms: self.0.random_range(1..1500) },
            62..67 => {
                let keep =
                    if self.0.random() { Keep::ByAge } else { Keep::Newest(self.0.random_range(0..12)) };
                Step::Sweep { keep, fault: self.call_fault(3) }
            }
            67..78 => Step::Fault(self.lasting_fault()),
            78..80 => Step::Fill { free: self.0.random_range(0..700) },
            // Less than the hour beyond which a recovered time is not believed.
            80..82 => Step::WallClock { ms: self.0.random_range(0..3_000_000) },
            82..85 => Step::ClearFaults,
            85..88 => Step::Reopen { fault: self.call_fault(4) },
            _ if self.1 == Drive::Lying && self.0.random_ratio(1, 3) => match self.0.random_range(0..4) {
                0 => Step::Lie(false),
                1 => Step::SkipSync { nth: self.0.random_range(1..4) },
                _ => Step::Lie(true),
            },
            _ => {
                let power_loss = Down::PowerLoss(self.survival());
                let how = self.one_of(&[Down::Close, Down::ProcessCrash, power_loss]);
                Step::Down { how, stays: self.0.random_ratio(1, 4), fault: self.call_fault(4) }
            }
        }
    }

    /// What is lost of a garbling disk reads as zeros below, and not above: there nothing may be lost in part.
    fn survival(&mut self) -> Survival {
        match self.1 {
            Drive::Garbled => self.one_of(&SURVIVALS[2..]),
            Drive::Honest | Drive::Lying => self.one_of(&SURVIVALS),
        }
    }

    fn kind(&mut self) -> CallKind {
        match self.one_of(&KINDS) {
            CallKind::SyncData if self.1 == Drive::Garbled => CallKind::SyncDir,
            kind => kind,
        }
    }

    fn records(&mut self) -> Records {
        Records { count: self.0.random_range(1..4), len: self.0.random_range(1..200) }
    }

    fn call_fault(&mut self, one_in: u32) -> Option<Fault> {
        if !self.0.random_ratio(1, one_in) {
            return None;
        }
        let (fault, may_stay) = self.fault(3);
        Some(if may_stay && self.0.random() { fault.onwards() } else { fault })
    }

    fn lasting_fault(&mut self) -> Fault {
        let kind = self.kind();
        let (fault, may_stay) = self.fault_of(kind, 4);
        // The model must be able to look.
        let blinds = matches!(kind, CallKind::Read | CallKind::Open | CallKind::Metadata);
        if may_stay && !blinds && self.0.random_ratio(1, 5) { fault.onwards() } else { fault }
    }

    fn fault(&mut self, up_to: u64) -> (Fault, bool) {
        let kind = self.kind();
        self.fault_of(kind, up_to)
    }

    /// A fault at one of the next calls of a kind, and whether it may stay: one that asks for another try must end.
    fn fault_of(&mut self, kind: CallKind, up_to: u64) -> (Fault, bool) {
        let failure = self.one_of(&FAILURES);
        let (fault, may_stay) = match kind {
            CallKind::Write if self.0.random() => (Fault::shorten(kind, self.0.random_range(0..120)), true),
            CallKind::Read if self.0.random() => (Fault::shorten(kind, self.0.random_range(1..60)), true),
            _ => (Fault::fail(kind, failure), failure != Failure::Interrupted),
        };
        (fault.at(self.0.random_range(1..=up_to)), may_stay)
    }
}
