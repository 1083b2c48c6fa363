//! What wakes the fan-out's task: announcements of parents' logs, and times.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use narad_core::plugin::{Incarnation, LogIdentity, PartitionId, WakeNotifier, WakeReason};
use parking_lot::{Mutex, RwLock};
use tokio::{sync::Notify, time::Instant};

/// How often the wall clock is looked at while something waits for it: it may be stepped.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(1);

/// Names a cursor: the link's epoch, and the parent's partition.
pub(super) type Key = (u64, PartitionId);

/// What wakes the fan-out. Handed to the logs, so it knows nothing of them.
#[derive(Debug, Default)]
pub struct Signals {
    /// The topics that have children: of others nothing is kept.
    parents: RwLock<HashSet<Incarnation>>,
    waiting: Mutex<Waiting>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Logs that announced something.
    logs: HashSet<(Incarnation, PartitionId)>,
    /// Cursors that linger or are tried again.
    alarms: BTreeSet<(Instant, Key)>,
    /// Cursors whose next record becomes due, by wall time in Unix milliseconds.
    due: BTreeSet<(i64, Key)>,
}

/// What there is to be done.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// Logs that announced something.
    pub(super) logs: Vec<(Incarnation, PartitionId)>,
    /// Cursors whose time has come.
    pub(super) cursors: Vec<Key>,
}

impl Signals {
    pub(super) fn set_parents(&self, parents: HashSet<Incarnation>) {
        *self.parents.write() = parents;
    }

    /// A cursor is to be looked at, at a time.
    pub(super) fn set_alarm(&self, at: Instant, key: Key) {
        self.waiting.lock().alarms.insert((at, key));
        self.wake.notify_one();
    }

    /// A cursor is to be looked at when the wall clock shows a time.
    pub(super) fn set_due(&self, unix_ms: i64, key: Key) {
        self.waiting.lock().due.insert((unix_ms, key));
        self.wake.notify_one();
    }

    /// The task has to look around.
    pub(super) fn nudge(&self) {
        self.wake.notify_one();
    }

    pub(super) async fn notified(&self) {
        self.wake.notified().await;
    }

    /// What is to be done now, and how long there is nothing to do after that, unless a signal comes.
    pub(super) fn take(&self, now: Instant, unix_ms: i64) -> (Ready, Option<Duration>) {
        let mut waiting = self.waiting.lock();
        let mut ready = Ready { logs: waiting.logs.drain().collect(), cursors: Vec::new() };
        while let Some(&(at, key)) = waiting.alarms.first().filter(|(at, _)| *at <= now) {
            waiting.alarms.remove(&(at, key));
            ready.cursors.push(key);
        }
        while let Some(&(at, key)) = waiting.due.first().filter(|(at, _)| *at <= unix_ms) {
            waiting.due.remove(&(at, key));
            ready.cursors.push(key);
        }
        let alarm = waiting.alarms.first().map(|&(at, _)| at.saturating_duration_since(now));
        let due = waiting.due.first().map(|&(at, _)| {
            let ms = u64::try_from(at.saturating_sub(unix_ms)).unwrap_or_default();
            Duration::from_millis(ms).min(LOOK_AT_CLOCK)
        });
        (ready, [alarm, due].into_iter().flatten().min())
    }
}

impl WakeNotifier for Signals {
    fn name(&self) -> &str {
        "fanout"
    }

    fn wake(&self, log: &LogIdentity, reason: WakeReason) {
        // A log that closes has nothing new, and a consumer's affairs are not the fan-out's.
        let Some(id) = log.incarnation.filter(|_| reason == WakeReason::Committed) else { return };
        if self.parents.read().contains(&id) {
            self.waiting.lock().logs.insert((id, log.partition));
            self.wake.notify_one();
        }
    }

    /// A place in a set, and a wake-up.
    fn is_prompt(&self) -> bool {
        true
    }
}
