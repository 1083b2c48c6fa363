//! The store's threads: one that writes consumer positions, one that looks after the open logs, one that looks at the
//! closed ones and one that has codecs look at samples, so that a slow recovery or a busy codec holds up neither positions
//! nor a reopening; and one that touches no file and replaces those that hang.
//!
//! A thread holds the store weakly: a store whose handles are gone is not kept open by its own threads.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use super::{Inner, consumer_state::TICK};
use crate::{Error, Result};

/// No thread sleeps longer, so that one whose store is gone ends.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// Who looks after logs and was not seen at one for so long hangs.
const HANGS_AFTER: Duration = Duration::from_secs(60);
/// How often that is looked at.
const WATCH_INTERVAL: Duration = Duration::from_secs(15);
/// More are not started in place of those that hang: the disk is gone, and the log says so.
const MOST_REPLACED: u64 = 16;

/// When somebody was last seen at work.
#[derive(Debug)]
pub(super) struct Beat(AtomicU64);

impl Beat {
    const AT_REST: u64 = u64::MAX;

    pub(super) fn at_work(&self, now: Duration) {
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(Self::AT_REST - 1);
        self.0.store(now_ms, Ordering::Relaxed);
    }

    pub(super) fn rests(&self) {
        self.0.store(Self::AT_REST, Ordering::Relaxed);
    }

    fn hangs(&self, now: Duration) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        seen != Self::AT_REST && now.saturating_sub(Duration::from_millis(seen)) > HANGS_AFTER
    }
}

impl Default for Beat {
    fn default() -> Self {
        Self(AtomicU64::new(Self::AT_REST))
    }
}

/// What a thread does again and again.
#[derive(Debug, Clone, Copy)]
struct Job {
    name: &'static str,
    /// Does what is due, and returns how long there is nothing to do.
    step: fn(&Inner, Duration) -> Duration,
    /// The step is due as soon as a position has moved.
    heeds_positions: bool,
    /// Where it shows that it is at work, if its step may hang and another may take its place.
    beat: Option<fn(&Inner) -> &Beat>,
}

const JOBS: [Job; 5] = [
    Job { name: "narad-positions", step: write_positions, heeds_positions: true, beat: None },
    Job { name: "narad-reaper", step: reap, heeds_positions: false, beat: Some(|store| store.reaper.beat()) },
    Job {
        name: "narad-cold-walk",
        step: walk,
        heeds_positions: false,
        beat: Some(|store| store.cold_walk.beat()),
    },
    Job {
        name: "narad-maintain",
        step: maintain,
        heeds_positions: false,
        beat: Some(|store| store.maintenance.beat()),
    },
    Job { name: "narad-watch", step: watch, heeds_positions: false, beat: None },
];

fn write_positions(store: &Inner, now: Duration) -> Duration {
    let (due, _) = store.committer.pass(store, now, false);
    due.map_or(LONGEST_SLEEP, |due| due.saturating_sub(now))
}

fn reap(store: &Inner, now: Duration) -> Duration {
    store.reaper.step(store, now).saturating_sub(now)
}

fn walk(store: &Inner, now: Duration) -> Duration {
    store.cold_walk.step(store, now).map_or(LONGEST_SLEEP, |due| due.saturating_sub(now))
}

fn maintain(store: &Inner, now: Duration) -> Duration {
    store.maintenance.step(store, now).saturating_sub(now)
}

fn watch(store: &Inner, now: Duration) -> Duration {
    store.background.replace_those_that_hang(store, now);
    WATCH_INTERVAL
}

/// The threads, once started, and what wakes them.
#[derive(Debug, Default)]
pub(super) struct Background {
    threads: Mutex<Threads>,
    signal: Arc<Signal>,
}

#[derive(Debug, Default)]
struct Threads {
    store: Weak<Inner>,
    /// By the job's place in [`JOBS`].
    running: Vec<Thread>,
    replaced: u64,
}

#[derive(Debug)]
struct Thread {
    handle: JoinHandle<()>,
    /// One more than that of the thread whose place it took.
    number: u64,
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
    /// The number of the thread that does each job.
    numbers: [u64; JOBS.len()],
}

impl Background {
    /// Starts the threads, unless they run.
    pub(super) fn start(&self, store: &Arc<Inner>) -> Result<()> {
        let mut threads = self.threads.lock();
        if !threads.running.is_empty() {
            return Ok(());
        }
        threads.store = Arc::downgrade(store);
        for job in 0..JOBS.len() {
            let thread = self.spawn(&threads.store, job, 0)?;
            threads.running.push(thread);
        }
        Ok(())
    }

    fn spawn(&self, store: &Weak<Inner>, index: usize, number: u64) -> Result<Thread> {
        let job = JOBS.get(index).copied().ok_or(Error::Internal { what: "a thread without a job" })?;
        let (store, signal) = (store.clone(), self.signal.clone());
        let run = move || {
            let mut wait = Duration::ZERO;
            while signal.sleep(wait, job.heeds_positions) && signal.is_current(index, number) {
                let Some(store) = store.upgrade() else { return };
                wait = (job.step)(&store, store.now());
            }
        };
        let spawned = std::thread::Builder::new().name(job.name.to_owned()).spawn(run);
        let handle = spawned.map_err(|error| Error::io("spawn", job.name, error))?;
        Ok(Thread { handle, number })
    }

    /// Gives the job of a thread that hangs, or that a panic has ended, to another one. It ends when it comes back.
    pub(super) fn replace_those_that_hang(&self, store: &Inner, now: Duration) {
        let mut threads = self.threads.lock();
        for (index, job) in JOBS.iter().enumerate() {
            let hangs = job.beat.is_some_and(|beat| beat(store).hangs(now));
            let Some(number) = threads.running.get(index).map(|thread| thread.number) else { continue };
            if !hangs {
                continue;
            }
            if threads.replaced >= MOST_REPLACED {
                tracing::error!(thread = job.name, "it hangs, as those before it; not starting another");
                continue;
            }
            tracing::error!(thread = job.name, "it has not moved for a minute; another takes its place");
            match self.spawn(&threads.store, index, number + 1) {
                Ok(thread) => {
                    self.signal.replace(index, thread.number);
                    threads.running.splice(index..=index, [thread]).for_each(drop);
                    threads.replaced += 1;
                    job.beat.iter().for_each(|beat| beat(store).rests());
                    store.counters.reaper_restarts.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => tracing::error!(thread = job.name, %error, "could not start another"),
            }
        }
    }

    /// A position has moved.
    pub(super) fn position_moved(&self) {
        if !std::mem::replace(&mut self.signal.state.lock().moved, true) {
            self.signal.changed.notify_all();
        }
    }

    /// Ends the threads and waits until they have, but for those that were replaced.
    pub(super) fn stop(&self) {
        self.signal.stop();
        let me = std::thread::current().id();
        let running = std::mem::take(&mut self.threads.lock().running);
        for Thread { handle, .. } in running.into_iter().filter(|thread| thread.handle.thread().id() != me) {
            if handle.join().is_err() {
                tracing::error!("a background thread of the store had panicked");
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.signal.stop();
    }
}

impl Signal {
    fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }

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

    fn replace(&self, index: usize, number: u64) {
        if let Some(current) = self.state.lock().numbers.get_mut(index) {
            *current = number;
        }
    }

    fn is_current(&self, index: usize, number: u64) -> bool {
        // A successor may be at work before its number is noted.
        self.state.lock().numbers.get(index).is_some_and(|&current| current <= number)
    }
}
