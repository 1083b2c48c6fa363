//! A gate that calls wait at, so that a test can arrange who is where before anything goes on.

use std::{sync::Arc, time::Duration};

use crate::sync::{Condvar, Mutex};

/// Nothing in a test should take longer; it bounds every wait, so that a failed test ends.
const PATIENCE: Duration = Duration::from_secs(30);

/// Holds the calls that a [`Fault::hold`](super::Fault::hold) sends to it. Clones are handles on the same gate.
///
/// Every wait ends by itself after 30 seconds with a panic.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    open: bool,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until `calls` calls have arrived since the gate was made, held or gone on.
    pub fn wait_for(&self, calls: usize) {
        let mut state = self.0.state.lock();
        while state.arrived < calls {
            let waited = self.0.changed.wait_for(&mut state, PATIENCE);
            assert!(!waited.timed_out(), "{} of {calls} calls arrived at the gate", state.arrived);
        }
    }

    /// How many calls have arrived since the gate was made.
    pub fn arrived(&self) -> usize {
        self.0.state.lock().arrived
    }

    /// Lets everybody through, now and later.
    pub fn open(&self) {
        self.0.state.lock().open = true;
        self.0.changed.notify_all();
    }

    /// Holds those who arrive from now on.
    pub fn close(&self) {
        self.0.state.lock().open = false;
    }

    pub(super) fn pass(&self) {
        let mut state = self.0.state.lock();
        state.arrived += 1;
        self.0.changed.notify_all();
        while !state.open {
            let waited = self.0.changed.wait_for(&mut state, PATIENCE);
            assert!(!waited.timed_out(), "nobody opened the gate");
        }
    }
}
