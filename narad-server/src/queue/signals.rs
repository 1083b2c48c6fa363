//! What wakes the pump: announcements of the logs, and leases that end.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use narad_core::plugin::{Incarnation, LogIdentity, WakeNotifier, WakeReason};
use parking_lot::Mutex;
use tokio::sync::Notify;

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

    /// Waits until something has come since the last wait.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// The owner is gone.
    pub(super) fn end(&self) {
        self.wake.notify_one();
    }

    /// The topics to be looked at now.
    pub(super) fn due(&self, now: Duration) -> HashSet<Incarnation> {
        let mut due = std::mem::take(&mut *self.ready.lock());
        let mut alarms = self.alarms.lock();
        while let Some(&(at, id)) = alarms.first().filter(|(at, _)| *at <= now) {
            alarms.remove(&(at, id));
            due.insert(id);
        }
        due
    }

    /// When the next topic is to be looked at because of its leases.
    pub(super) fn next_alarm(&self) -> Option<Duration> {
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
