//! The thread that posts: waits for announcements, gathers them for a moment, posts them, and tries again.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use crate::{
    body,
    pending::Pending,
    post::{Outcome, Poster},
};

/// The wait after the first failure in a row; it doubles with each.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);

/// How the thread works.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) poster: Poster,
    pub(crate) from: String,
    pub(crate) linger: Duration,
    pub(crate) max_backoff: Duration,
    pub(crate) max_pending: usize,
}

/// What those who announce and the thread share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pub(crate) counts: Counts,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) pending: Pending,
    pub(crate) started: bool,
    /// The thread has nothing to do, and waits to be told.
    idle: bool,
    stopped: bool,
}

/// See [`HttpWakeCounts`](crate::HttpWakeCounts).
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) taken: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl Shared {
    /// Changes what is pending, and tells the thread. The lock is never held for longer than that.
    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let idle = mem::take(&mut state.idle);
        drop(state);
        if idle {
            self.changed.notify_one();
        }
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_one();
    }

    /// Posts until it is stopped.
    pub(crate) fn run(self: Arc<Self>, settings: &Settings) {
        let (mut carried, mut failures) = (Pending::default(), 0_u32);
        while self.gather(&mut carried, settings) {
            let outcome = match body::of(&settings.from, &carried) {
                Ok(body) => settings.poster.post(&body),
                Err(error) => Outcome::Failed(error.to_string()),
            };
            let url = settings.poster.url();
            match outcome {
                Outcome::Taken => {
                    if failures > 0 {
                        tracing::info!(url, "notifications are taken again");
                    }
                    self.counts.taken.fetch_add(1, Ordering::Relaxed);
                    (carried, failures) = (Pending::default(), 0);
                }
                Outcome::Refused(status) => {
                    tracing::warn!(url, %status, "a notification was refused, and is not posted again");
                    self.counts.refused.fetch_add(1, Ordering::Relaxed);
                    (carried, failures) = (Pending::default(), 0);
                }
                Outcome::Failed(error) => {
                    if failures == 0 {
                        tracing::warn!(url, error, "a notification could not be posted; trying again");
                    }
                    self.counts.failed.fetch_add(1, Ordering::Relaxed);
                    if !self.sleep(backoff(failures, settings.max_backoff)) {
                        return;
                    }
                    failures = failures.saturating_add(1);
                }
            }
        }
    }

    /// Adds what is pending to what is carried, once there is something of either, and the moment to gather more has
    /// passed. Answers false to end.
    fn gather(&self, carried: &mut Pending, settings: &Settings) -> bool {
        let mut state = self.state.lock();
        while carried.is_empty() && state.pending.is_empty() && !state.stopped {
            state.idle = true;
            self.changed.wait(&mut state);
        }
        state.idle = false;
        drop(state);
        if carried.is_empty() && !self.sleep(settings.linger) {
            return false;
        }
        let newer = {
            let mut state = self.state.lock();
            if state.stopped {
                return false;
            }
            mem::take(&mut state.pending)
        };
        carried.merge(newer, settings.max_pending);
        true
    }

    /// Sleeps, unless it is stopped before. Answers false to end.
    fn sleep(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| !state.stopped, time);
        !state.stopped
    }
}

fn backoff(failures: u32, most: Duration) -> Duration {
    let doubled = 1_u32.checked_shl(failures).and_then(|times| FIRST_BACKOFF.checked_mul(times));
    doubled.map_or(most, |wait| wait.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let most = Duration::from_secs(30);
        let waits = [0, 1, 2, 8, 9, 31, 32, u32::MAX].map(|failures| backoff(failures, most).as_millis());
        assert_eq!(waits, [100, 200, 400, 25_600, 30_000, 30_000, 30_000, 30_000]);
        assert_eq!(backoff(0, Duration::ZERO), Duration::ZERO);
    }
}
