//! One timer for all logs of a process. It holds an entry only for a log that owes a pass, so idle logs cost nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use crate::{
    clock::Clock,
    sync::{Condvar, Mutex, thread},
};

/// An entry of the timer, to be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerEntry {
    /// Monotonic time of the call.
    pub(crate) at: Duration,
    number: u64,
}

/// Something that asked to be called at an instant.
pub(crate) trait Due: Send + Sync {
    /// The instant has come. Called on the timer's thread: hands its work to the pool.
    fn due(self: Arc<Self>);
}

/// The timer.
#[derive(Debug)]
pub(crate) struct Timer {
    shared: Arc<Shared>,
    threaded: bool,
}

struct Shared {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<TimerEntry, Weak<dyn Due>>,
    next_entry: u64,
    started: bool,
    ended: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timer").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl Timer {
    /// A timer with a thread of its own, or one that is driven by [`run_due`](Self::run_due) alone.
    pub(crate) fn new(clock: Arc<dyn Clock>, threaded: bool) -> Self {
        Self {
            shared: Arc::new(Shared { clock, state: Mutex::default(), changed: Condvar::new() }),
            threaded,
        }
    }

    /// Calls `due` at `at` (monotonic time), unless it is gone by then or the entry was taken back.
    pub(crate) fn schedule(&self, at: Duration, due: Weak<dyn Due>) -> TimerEntry {
        let mut state = self.shared.state.lock();
        let entry = TimerEntry { at, number: state.next_entry };
        state.next_entry += 1;
        state.entries.insert(entry, due);
        if self.threaded && !state.started {
            let shared = Arc::clone(&self.shared);
            state.started =
                thread::Builder::new().name("narad-timer".into()).spawn(move || shared.run()).is_ok();
        }
        let is_first = state.entries.first_key_value().is_some_and(|(first, _)| *first == entry);
        drop(state);
        if is_first {
            self.shared.changed.notify_one();
        }
        entry
    }

    /// Takes an entry back. One whose instant has come may still be called.
    pub(crate) fn cancel(&self, entry: TimerEntry) {
        self.shared.state.lock().entries.remove(&entry);
    }

    /// Entries that wait.
    pub(crate) fn len(&self) -> usize {
        self.shared.state.lock().entries.len()
    }

    /// Calls everything whose instant has come. Returns how many.
    pub(crate) fn run_due(&self) -> usize {
        self.shared.run_due()
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.shared.state.lock().ended = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn run_due(&self) -> usize {
        let mut called = 0;
        let now = self.clock.monotonic();
        loop {
            let due = {
                let mut state = self.state.lock();
                match state.entries.first_key_value() {
                    Some((&TimerEntry { at, .. }, _)) if at <= now => {
                        state.entries.pop_first().and_then(|(_, due)| due.upgrade())
                    }
                    _ => return called,
                }
            };
            if let Some(due) = due {
                called += 1;
                due.due();
            }
        }
    }

    fn run(&self) {
        loop {
            self.run_due();
            let mut state = self.state.lock();
            if state.ended {
                return;
            }
            match state.entries.first_key_value() {
                None => self.changed.wait(&mut state),
                Some((&TimerEntry { at, .. }, _)) => {
                    let wait = at.saturating_sub(self.clock.monotonic());
                    if !wait.is_zero() {
                        self.changed.wait_for(&mut state, wait);
                    }
                }
            }
        }
    }
}
