//! What open logs need from time to time: retention, closing when idle, reopening when poisoned, descriptors given
//! back.
//!
//! One reaper serves all logs of the store. It waits for no topic's guard: who holds it is opening or closing a log,
//! and is passed over until the next step. A log on which a reaper hangs is passed over by the one that replaces it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::{Inner, background::Beat, cold_partition::ColdPartition, open_log::OpenLog, topic::Topic};
use crate::Error;

/// How soon a poisoned log is noticed.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// What the reaper remembers between its steps.
#[derive(Debug)]
pub(super) struct Reaper {
    plan: Mutex<Plan>,
    beat: Beat,
}

#[derive(Debug)]
struct Plan {
    next_sweep: Duration,
    /// How many poisonings the process had counted at the last step.
    poisonings: u64,
    /// No log waits to be reopened.
    all_well: bool,
}

impl Reaper {
    pub(super) fn new(first_sweep: Duration) -> Self {
        let plan = Plan { next_sweep: first_sweep, poisonings: 0, all_well: true };
        Self { plan: Mutex::new(plan), beat: Beat::default() }
    }

    pub(super) fn beat(&self) -> &Beat {
        &self.beat
    }

    /// One step by the clock. Returns when the next is due. Nothing is locked while it is at work: it may hang.
    pub(super) fn step(&self, store: &Inner, now: Duration) -> Duration {
        self.beat.at_work(now);
        // A log says nothing when it is poisoned; the process counts it, and a count is cheap to watch.
        let poisonings = store.runtime.metrics().error_count("storage", "fsync_poisoned");
        let (counted, heals, sweeps) = {
            let mut plan = self.plan.lock();
            let counted = std::mem::replace(&mut plan.poisonings, poisonings) != poisonings;
            let sweeps = plan.next_sweep <= now;
            if sweeps {
                plan.next_sweep = now.saturating_add(store.options.sweep_interval);
            }
            (counted, counted || !plan.all_well, sweeps)
        };
        if heals {
            let healed = each_log(store, |topic, open| heal(store, topic, open, now));
            // What was counted just now may show in the log only at the next step.
            self.plan.lock().all_well = healed && !counted;
        }
        if sweeps {
            each_log(store, |topic, open| sweep(store, topic, open) && evict(store, topic, open, now));
            store.remove_leftovers_again();
        }
        self.beat.rests();
        self.plan.lock().next_sweep.min(now.saturating_add(WATCH_INTERVAL))
    }
}

/// Returns whether `work` said yes for all.
fn each_log(store: &Inner, mut work: impl FnMut(&Topic, &Arc<OpenLog>) -> bool) -> bool {
    let topics: Vec<Arc<Topic>> = store.topics.read().values().cloned().collect();
    let mut all = true;
    for topic in topics {
        for open in topic.open_logs() {
            store.reaper.beat.at_work(store.now());
            let Some(_turn) = Turn::take(&open.reaping) else { continue };
            all &= work(&topic, &open);
        }
    }
    all
}

/// That somebody is at work on something, and nobody else is.
pub(super) struct Turn<'a>(&'a AtomicBool);

impl<'a> Turn<'a> {
    pub(super) fn take(taken: &'a AtomicBool) -> Option<Self> {
        (!taken.swap(true, Ordering::AcqRel)).then_some(Self(taken))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Reopens the log if it is poisoned and a try is due. Returns whether it is well.
fn heal(store: &Inner, topic: &Topic, open: &OpenLog, now: Duration) -> bool {
    if open.log.is_closed() || !open.log.is_poisoned() {
        return true;
    }
    let mut backoff = open.reopening.lock();
    if backoff.waits_until(now).is_some() {
        return false;
    }
    let Some(_guarded) = topic.directory.try_lock() else { return false };
    store.count_error("reopen_try");
    match open.log.reopen() {
        Ok(()) => {
            backoff.reset();
            tracing::warn!(topic = %topic.name(), partition = %open.partition, "reopened a poisoned log");
            true
        }
        Err(Error::Closed) => true,
        Err(error) => {
            let wait = backoff.failed(now).saturating_sub(now);
            tracing::error!(topic = %topic.name(), partition = %open.partition, %error, ?wait,
                "could not reopen a poisoned log");
            false
        }
    }
}

/// Lets retention look at the log. Whatever a plugin does, the next log has its turn. Returns whether it went well.
fn sweep(store: &Inner, topic: &Topic, open: &OpenLog) -> bool {
    let consumers = open.frontier();
    let swept = catch_unwind(AssertUnwindSafe(|| {
        open.log.sweep(store.settled_by_all(topic, open.incarnation, open.partition, consumers))
    }));
    match swept {
        Ok(Ok(_)) => true,
        Ok(Err(Error::Closed)) => false,
        Ok(Err(error)) => {
            tracing::error!(topic = %topic.name(), partition = %open.partition, %error, "a retention sweep failed");
            store.count_error("retention_sweep");
            false
        }
        Err(_) => {
            tracing::error!(topic = %topic.name(), partition = %open.partition, "a retention sweep panicked");
            store.count_error("retention_panic");
            false
        }
    }
}

/// Has a log that is idle give back the space that it has prepared, and its descriptors, and closes it if it was idle for long enough.
fn evict(store: &Inner, topic: &Topic, open: &Arc<OpenLog>, now: Duration) -> bool {
    let idle = open.idle_for(now);
    if idle >= store.options.descriptor_release {
        open.log.release_space();
        open.log.release_files();
    }
    if store.options.idle_eviction.is_none_or(|limit| idle < limit) || open.log.is_poisoned() {
        return true;
    }
    // Without a walk nobody sweeps a closed log: one whose records age stays open until they are gone.
    let ages = open.retention.lock().roll_age().is_some();
    if store.options.cold_walk.is_none() && ages && open.log.stats().bytes > 0 {
        return true;
    }
    let Some(_guarded) = topic.directory.try_lock() else { return true };
    let cold = ColdPartition::closed(open.log.segments(), open.known_frontier());
    match topic.close_log(open) {
        Ok(()) | Err(Error::Closed) => {
            tracing::debug!(topic = %topic.name(), partition = %open.partition, "closed an idle log");
            store.counters.evicted.fetch_add(1, Ordering::Relaxed);
            topic.cold.lock().insert(open.partition, cold);
            true
        }
        Err(error) => {
            tracing::error!(topic = %topic.name(), partition = %open.partition, %error, "could not close an idle log");
            store.count_error("close");
            false
        }
    }
}
