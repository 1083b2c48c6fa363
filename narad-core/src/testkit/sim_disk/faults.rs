//! Which calls go wrong, and how.

use std::{io, path::Path};

use rustix::io::Errno;

use super::{
    calls::{CallKind, name_matches},
    gate::Gate,
};

/// What the operating system says when a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// `EIO`: the device failed.
    Io,
    /// `ENOSPC`: the disk is full.
    NoSpace,
    /// `EDQUOT`: the quota is used up.
    QuotaExceeded,
    /// `EMFILE`: no descriptor is left.
    TooManyFiles,
    /// `EACCES`: not allowed.
    AccessDenied,
    /// `EROFS`: mounted read-only.
    ReadOnly,
    /// `EINTR`: to be tried again at once.
    Interrupted,
}

impl Failure {
    pub(super) fn error(self) -> io::Error {
        match self {
            Self::Io => Errno::IO,
            Self::NoSpace => Errno::NOSPC,
            Self::QuotaExceeded => Errno::DQUOT,
            Self::TooManyFiles => Errno::MFILE,
            Self::AccessDenied => Errno::ACCESS,
            Self::ReadOnly => Errno::ROFS,
            Self::Interrupted => Errno::INTR,
        }
        .into()
    }
}

/// What becomes of a call.
#[derive(Debug, Clone)]
pub(super) enum Verdict {
    Proceed,
    Fail(Failure),
    Shorten(usize),
    Skip,
    FlipBit,
    Hold(Gate),
    Panic,
}

/// One thing that goes wrong: which calls, and what becomes of them. By default it hits the first matching call
/// after it was injected, once.
///
/// ```
/// use narad_core::testkit::{CallKind, Failure, Fault};
///
/// // From the third write to a segment on, the disk is full.
/// let full = Fault::fail(CallKind::Write, Failure::NoSpace).named("*.log").at(3).onwards();
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Fault {
    kind: Option<CallKind>,
    name: Option<String>,
    nth: u64,
    onwards: bool,
    verdict: Verdict,
}

impl Fault {
    fn new(kind: Option<CallKind>, verdict: Verdict) -> Self {
        Self { kind, name: None, nth: 1, onwards: false, verdict }
    }

    /// The call fails and changes nothing. A `SyncData` that fails writes some of the dirty sectors and forgets the
    /// others: a later sync succeeds without them, as on a real system.
    pub fn fail(kind: CallKind, failure: Failure) -> Self {
        Self::new(Some(kind), Verdict::Fail(failure))
    }

    /// As [`fail`](Self::fail), for calls of every kind. With [`at`](Self::at) and [`onwards`](Self::onwards) it cuts
    /// the power between two calls: nothing works any more until the test turns the disk with `power_loss`.
    pub fn fail_all(failure: Failure) -> Self {
        Self::new(None, Verdict::Fail(failure))
    }

    /// A read or write moves at most `bytes` bytes. 0 reads look like the end of the file.
    pub fn shorten(kind: CallKind, bytes: usize) -> Self {
        Self::new(Some(kind), Verdict::Shorten(bytes))
    }

    /// A write, `set_len`, sync, rename or remove is acknowledged and not done. Other kinds proceed.
    pub fn skip(kind: CallKind) -> Self {
        Self::new(Some(kind), Verdict::Skip)
    }

    /// One bit in the middle of what is read or written is flipped. Other kinds proceed.
    pub fn flip_bit(kind: CallKind) -> Self {
        Self::new(Some(kind), Verdict::FlipBit)
    }

    /// The call waits at `gate` before it has any effect, until the test opens it.
    pub fn hold(kind: CallKind, gate: &Gate) -> Self {
        Self::new(Some(kind), Verdict::Hold(gate.clone()))
    }

    /// The call panics before it has any effect, as a disk of somebody's own may.
    pub fn panic(kind: CallKind) -> Self {
        Self::new(Some(kind), Verdict::Panic)
    }

    /// Hits the `nth` matching call, counted from 1 since the fault was injected.
    pub fn at(mut self, nth: u64) -> Self {
        self.nth = nth.max(1);
        self
    }

    /// Hits every matching call from then on.
    pub fn onwards(mut self) -> Self {
        self.onwards = true;
        self
    }

    /// Only for paths whose last component is `pattern`; `*` stands for anything, once: `hwm`, `*.log`. A `/` separates
    /// patterns for the last components: `p00000/*.log`.
    pub fn named(mut self, pattern: impl Into<String>) -> Self {
        self.name = Some(pattern.into());
        self
    }

    fn matches(&self, kind: CallKind, path: &Path) -> bool {
        self.kind.is_none_or(|only| only == kind)
            && self.name.as_deref().is_none_or(|pattern| name_matches(path, pattern))
    }
}

/// Names an injected fault, to ask how often it has hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultId(usize);

#[derive(Debug, Default)]
pub(super) struct FaultPlan(Vec<Planned>);

#[derive(Debug)]
struct Planned {
    fault: Fault,
    seen: u64,
    fired: u64,
    active: bool,
}

impl FaultPlan {
    pub(super) fn inject(&mut self, fault: Fault) -> FaultId {
        self.0.push(Planned { fault, seen: 0, fired: 0, active: true });
        FaultId(self.0.len() - 1)
    }

    pub(super) fn fired(&self, id: FaultId) -> u64 {
        self.0.get(id.0).map_or(0, |planned| planned.fired)
    }

    pub(super) fn remove(&mut self, id: FaultId) {
        if let Some(planned) = self.0.get_mut(id.0) {
            planned.active = false;
        }
    }

    pub(super) fn clear(&mut self) {
        for planned in &mut self.0 {
            planned.active = false;
        }
    }

    /// What becomes of this call. Every matching fault counts it; the first that is due decides.
    pub(super) fn judge(&mut self, kind: CallKind, path: &Path) -> Verdict {
        let mut verdict = None;
        for planned in self.0.iter_mut().filter(|planned| planned.active) {
            if !planned.fault.matches(kind, path) {
                continue;
            }
            planned.seen += 1;
            let due = planned.seen == planned.fault.nth
                || (planned.fault.onwards && planned.seen > planned.fault.nth);
            if due && verdict.is_none() {
                planned.fired += 1;
                verdict = Some(planned.fault.verdict.clone());
            }
        }
        verdict.unwrap_or(Verdict::Proceed)
    }
}
