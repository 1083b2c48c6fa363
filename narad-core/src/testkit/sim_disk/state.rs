//! What every handle on one simulated disk shares, and the way into it: each call is logged and judged here.

use std::{collections::BTreeSet, io, path::Path, sync::Arc};

use rand::{SeedableRng, rngs::StdRng};
use rustix::io::Errno;

use super::{
    calls::{Call, CallKind},
    faults::{FaultPlan, Verdict},
    tree::{NodeId, Tree},
};
use crate::{
    clock::Clock,
    sync::{Mutex, MutexGuard},
    testkit::SeedGuard,
};

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Printed when a test panics while it holds the disk.
    pub(super) seed: Arc<SeedGuard>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) rng: StdRng,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) capacity: Option<u64>,
    pub(super) lying: bool,
    /// Goes up with each crash: handles of an earlier one are stale.
    pub(super) epoch: u64,
    pub(super) locked: BTreeSet<NodeId>,
    pub(super) calls: Vec<Call>,
    pub(super) faults: FaultPlan,
}

/// The state, on behalf of one call, and what is to become of that call.
pub(super) struct Entered<'a> {
    pub(super) state: MutexGuard<'a, State>,
    pub(super) verdict: Verdict,
}

impl Shared {
    pub(super) fn new(tree: Tree, seed: Arc<SeedGuard>, draws_from: u64, clock: Arc<dyn Clock>) -> Self {
        let state = State {
            tree,
            rng: StdRng::seed_from_u64(draws_from),
            clock,
            capacity: None,
            lying: false,
            epoch: 0,
            locked: BTreeSet::new(),
            calls: Vec::new(),
            faults: FaultPlan::default(),
        };
        Self { state: Mutex::new(state), seed }
    }

    /// The state, for the test's own hands: neither logged nor judged.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Logs a call and judges it. A call that is held waits here, outside the lock. A call of a process (`epoch`)
    /// that a crash has ended, before it or while it was held, is `EIO`; the former is not even logged.
    pub(super) fn enter(
        &self,
        epoch: Option<u64>,
        kind: CallKind,
        path: &Arc<Path>,
        bytes: u64,
    ) -> io::Result<Entered<'_>> {
        let mut state = self.state.lock();
        state.check_epoch(epoch)?;
        state.calls.push(Call { kind, path: path.clone(), bytes });
        match state.faults.judge(kind, path) {
            Verdict::Hold(gate) => {
                drop(state);
                gate.pass();
                let state = self.state.lock();
                state.check_epoch(epoch)?;
                Ok(Entered { state, verdict: Verdict::Proceed })
            }
            Verdict::Panic => {
                drop(state);
                panic!("{kind:?} of {} panics, as it was told to", path.display());
            }
            verdict => Ok(Entered { state, verdict }),
        }
    }
}

impl Entered<'_> {
    /// Turns a failure into its error.
    pub(super) fn or_fail(self) -> io::Result<Self> {
        match self.verdict {
            Verdict::Fail(failure) => Err(failure.error()),
            _ => Ok(self),
        }
    }
}

impl State {
    pub(super) fn now_ms(&self) -> i64 {
        self.clock.unix_ms()
    }

    /// Fails when a crash came after `epoch`. Nothing ends those who have none.
    fn check_epoch(&self, epoch: Option<u64>) -> io::Result<()> {
        if epoch.is_none_or(|epoch| epoch == self.epoch) { Ok(()) } else { Err(Errno::IO.into()) }
    }

    /// Bytes by which files may still grow.
    pub(super) fn free_bytes(&self) -> u64 {
        self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.tree.used_bytes()))
    }

    /// What a crash of the process does: handles turn stale and locks are released.
    pub(super) fn drop_handles(&mut self) {
        self.epoch += 1;
        self.locked.clear();
        self.tree.lose_handles();
    }
}
