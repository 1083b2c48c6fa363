//! The store's two threads: one that writes consumer positions, one that looks after the logs. Two, so that a slow
//! recovery does not hold up positions.
//!
//! A thread holds the store weakly: a store whose handles are gone is not kept open by its own threads.

use std::{
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use super::{Inner, consumer_state::TICK};
use crate::{Error, Result};

/// No thread sleeps longer, so that one whose store is gone ends.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// The threads, once started, and what wakes them.
#[derive(Debug, Default)]
pub(super) struct Background {
    threads: Mutex<Vec<JoinHandle<()>>>,
    signal: Arc<Signal>,
}

#[derive(Debug, Default)]
struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stop: bool,
    /// A position has moved since the committer's last pass.
    moved: bool,
}

impl Background {
    /// Starts the threads, unless they run.
    pub(super) fn start(&self, store: &Arc<Inner>) -> Result<()> {
        let mut threads = self.threads.lock();
        if !threads.is_empty() {
            return Ok(());
        }
        for (name, run) in [("narad-positions", positions as fn(_, _)), ("narad-reaper", reaper)] {
            let (store, signal) = (Arc::downgrade(store), self.signal.clone());
            let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(store, signal));
            threads.push(spawned.map_err(|error| Error::io("spawn", name, error))?);
        }
        Ok(())
    }

    /// A position has moved.
    pub(super) fn position_moved(&self) {
        if !std::mem::replace(&mut self.signal.state.lock().moved, true) {
            self.signal.changed.notify_all();
        }
    }

    /// Ends the threads and waits until they have.
    pub(super) fn stop(&self) {
        self.signal.state.lock().stop = true;
        self.signal.changed.notify_all();
        let me = std::thread::current().id();
        for thread in self.threads.lock().drain(..).filter(|thread| thread.thread().id() != me) {
            if thread.join().is_err() {
                tracing::error!("a background thread of the store had panicked");
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.signal.state.lock().stop = true;
        self.signal.changed.notify_all();
    }
}

impl Signal {
    /// Sleeps `wait`, or less when a position moves and `positions` are asked for. Returns false to end.
    fn sleep(&self, wait: Duration, positions: bool) -> bool {
        let mut state = self.state.lock();
        let woken = |state: &State| state.stop || (positions && state.moved);
        self.changed.wait_while_for(&mut state, |state| !woken(state), wait.min(LONGEST_SLEEP));
        // Moves within one tick share a write.
        if positions && std::mem::take(&mut state.moved) && !state.stop {
            self.changed.wait_while_for(&mut state, |state| !state.stop, TICK);
            state.moved = false;
        }
        !state.stop
    }
}

fn positions(store: Weak<Inner>, signal: Arc<Signal>) {
    let mut wait = Duration::ZERO;
    while signal.sleep(wait, true) {
        let Some(store) = store.upgrade() else { return };
        let now = store.now();
        let (due, _) = store.committer.pass(&store, now, false);
        wait = due.map_or(LONGEST_SLEEP, |due| due.saturating_sub(now));
    }
}

fn reaper(store: Weak<Inner>, signal: Arc<Signal>) {
    let mut wait = Duration::ZERO;
    while signal.sleep(wait, false) {
        let Some(store) = store.upgrade() else { return };
        let now = store.now();
        wait = store.reaper.step(&store, now).saturating_sub(now);
    }
}
