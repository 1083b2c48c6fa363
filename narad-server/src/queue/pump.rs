//! The one task that looks for records on behalf of everybody who waits, and what wakes it.
//!
//! It sleeps until a log announces something or the earliest lease ends that somebody waits for. It does no I/O: a
//! partition that has to be opened is opened by a task beside it.

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, Weak},
    time::Duration,
};

use narad_core::plugin::{Incarnation, LogIdentity, WakeNotifier, WakeReason};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::queues::Shared;

/// What wakes the pump. Handed to the logs, so it knows nothing of them.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// Topics that may have records.
    ready: Mutex<HashSet<Incarnation>>,
    /// When to look at a topic because a lease of it ends.
    alarms: Mutex<BTreeSet<(Duration, Incarnation)>>,
    wake: Notify,
}

impl Signals {
    /// A topic may have records.
    pub(super) fn ready(&self, id: Incarnation) {
        self.ready.lock().insert(id);
        self.wake.notify_one();
    }

    /// A topic is to be looked at, at a time of the clock.
    pub(super) fn set_alarm(&self, at: Duration, id: Incarnation) {
        self.alarms.lock().insert((at, id));
        self.wake.notify_one();
    }

    /// The owner is gone.
    pub(super) fn end(&self) {
        self.wake.notify_one();
    }

    /// The topics to be looked at now.
    fn due(&self, now: Duration) -> HashSet<Incarnation> {
        let mut due = std::mem::take(&mut *self.ready.lock());
        let mut alarms = self.alarms.lock();
        while let Some(&(at, id)) = alarms.first().filter(|(at, _)| *at <= now) {
            alarms.remove(&(at, id));
            due.insert(id);
        }
        due
    }

    fn next_alarm(&self) -> Option<Duration> {
        self.alarms.lock().first().map(|&(at, _)| at)
    }
}

impl WakeNotifier for Signals {
    fn name(&self) -> &str {
        "queue"
    }

    fn wake(&self, log: &LogIdentity, reason: WakeReason) {
        // A log that closes has nothing new, and must not be opened again for those who wait: it may be deleted.
        if let Some(id) = log.incarnation.filter(|_| reason != WakeReason::Closed) {
            self.ready(id);
        }
    }

    /// A place in a set, and a wake-up.
    fn is_prompt(&self) -> bool {
        true
    }
}

/// Runs until the queues are gone.
pub(super) async fn run(shared: Weak<Shared>, signals: Arc<Signals>) {
    loop {
        let sleep = {
            let Some(shared) = shared.upgrade() else { return };
            for id in signals.due(shared.now()) {
                shared.look_at(id);
            }
            signals.next_alarm().map(|at| at.saturating_sub(shared.now()))
        };
        let timer = tokio::time::sleep(sleep.unwrap_or_default());
        tokio::select! {
            () = signals.wake.notified() => {}
            () = timer, if sleep.is_some() => {}
        }
    }
}
