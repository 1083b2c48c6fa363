//! The thread on which wake notifiers are called, so that a slow one cannot stall a commit; those that say that they are
//! not slow are called where they are announced.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    plugin::{LogIdentity, WakeNotifier, WakeReason},
    sync::{Condvar, Mutex, thread},
};

/// Calls notifiers one after another.
#[derive(Debug)]
pub(crate) struct Notifications {
    shared: Arc<Shared>,
    threaded: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Call>,
    started: bool,
    ended: bool,
}

#[derive(Debug)]
struct Call {
    notifier: Arc<dyn WakeNotifier>,
    log: LogIdentity,
    reason: WakeReason,
}

impl Notifications {
    /// With a thread of its own, or calling in the announcing thread.
    pub(crate) fn new(threaded: bool) -> Self {
        Self { shared: Arc::default(), threaded }
    }

    /// Has `notifier` called. An equal announcement that still waits takes this one in.
    pub(crate) fn announce(&self, notifier: &Arc<dyn WakeNotifier>, log: &LogIdentity, reason: WakeReason) {
        if !self.threaded || notifier.is_prompt() {
            return call(notifier, log, reason);
        }
        let call = Call { notifier: Arc::clone(notifier), log: log.clone(), reason };
        let mut state = self.shared.state.lock();
        if state.queue.iter().any(|waiting| waiting.same_as(&call)) {
            return;
        }
        state.queue.push_back(call);
        if !state.started {
            let shared = Arc::clone(&self.shared);
            state.started =
                thread::Builder::new().name("narad-notify".into()).spawn(move || shared.run()).is_ok();
        }
        drop(state);
        self.shared.changed.notify_one();
    }
}

impl Drop for Notifications {
    fn drop(&mut self) {
        self.shared.state.lock().ended = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(call) = state.queue.pop_front() {
                drop(state);
                self::call(&call.notifier, &call.log, call.reason);
                state = self.state.lock();
            } else if state.ended {
                return;
            } else {
                self.changed.wait(&mut state);
            }
        }
    }
}

impl Call {
    fn same_as(&self, other: &Self) -> bool {
        self.reason == other.reason && Arc::ptr_eq(&self.notifier, &other.notifier) && self.log == other.log
    }
}

fn call(notifier: &Arc<dyn WakeNotifier>, log: &LogIdentity, reason: WakeReason) {
    if catch_unwind(AssertUnwindSafe(|| notifier.wake(log, reason))).is_err() {
        tracing::error!(%log, notifier = notifier.name(), "a wake notifier panicked");
    }
}
