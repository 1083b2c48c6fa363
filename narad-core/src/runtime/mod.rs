//! What the logs of a process share: the disk and the clock, a bounded pool of workers for blocking file I/O, one
//! timer, the thread for notifiers, the frame cache, and counters.

mod notify;
mod pool;
mod promise;
mod timer;

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, Weak},
    time::Duration,
};

use self::{notify::Notifications, pool::Pool, timer::Timer};
pub(crate) use self::{
    promise::{Deliver, promise},
    timer::{Due, TimerEntry},
};
pub use crate::segment::CacheStats;
use crate::{
    clock::{Clock, SystemClock},
    disk::{Disk, OsDisk, Reclaimer, Spares, SparingDisk, Turns},
    metrics::Metrics,
    plugin::{LogIdentity, WakeNotifier, WakeReason},
    segment::FrameCache,
};

/// How a runtime is built.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RuntimeOptions {
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Threads for blocking file I/O, at most. They start when there is work.
    pub workers: usize,
    /// Bytes of decoded frames kept in memory.
    pub cache_bytes: usize,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            disk: Arc::new(OsDisk),
            clock: Arc::new(SystemClock::new()),
            workers: 16,
            cache_bytes: 64 << 20,
        }
    }
}

/// Shared by the logs of a process; cheap to clone.
#[derive(Debug, Clone)]
pub struct Runtime(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    disk: Arc<dyn Disk>,
    /// The same.
    sparing: Arc<SparingDisk>,
    turns: Arc<Turns>,
    reclaimer: Reclaimer,
    clock: Arc<dyn Clock>,
    /// Absent in a runtime that is driven by hand: work then runs where it is asked for.
    pool: Option<Pool>,
    timer: Timer,
    notifications: Notifications,
    cache: FrameCache,
    metrics: Metrics,
}

impl Runtime {
    /// A runtime with threads of its own.
    pub fn new(options: RuntimeOptions) -> Self {
        let pool = Pool::new(options.workers);
        Self::build(options, Some(pool))
    }

    /// A runtime without threads, for deterministic tests: background work runs in the thread that causes it, and
    /// timers when [`run_due`](Self::run_due) is called.
    pub fn driven_by_hand(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> Self {
        Self::build(RuntimeOptions { disk, clock, ..RuntimeOptions::default() }, None)
    }

    fn build(options: RuntimeOptions, pool: Option<Pool>) -> Self {
        let threaded = pool.is_some();
        let sparing = Arc::new(SparingDisk::new(options.disk));
        let turns = Arc::<Turns>::default();
        let reclaimer = Reclaimer::new(threaded, Arc::clone(&turns));
        sparing.ask(Arc::downgrade(&reclaimer.spares()));
        Self(Arc::new(Inner {
            timer: Timer::new(Arc::clone(&options.clock), threaded),
            notifications: Notifications::new(threaded),
            cache: FrameCache::new(options.cache_bytes),
            metrics: Metrics::new(Arc::clone(&options.clock)),
            disk: Arc::<SparingDisk>::clone(&sparing),
            sparing,
            turns,
            reclaimer,
            clock: options.clock,
            pool,
        }))
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// The file system.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.0.disk
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Closes descriptors of logs that do without them for now, as an open does that finds none: for a socket, say, that
    /// cannot be had. Blocks for as long as closing files takes.
    pub fn spare_descriptors(&self) {
        self.0.sparing.spare();
    }

    /// How the cache of decoded frames does.
    pub fn cache_stats(&self) -> CacheStats {
        self.0.cache.stats()
    }

    /// Runs blocking work on the pool; `group` (a topic's name, say) bounds how many workers it can take. The work
    /// runs to its end even if the future is dropped, and belongs to the span of whoever asks. A panic in it goes on in the
    /// future.
    pub fn run_blocking<T, W>(&self, group: &str, work: W) -> impl Future<Output = T> + Send + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let (deliver, promise) = promise();
        let span = tracing::Span::current();
        self.spawn(&Arc::from(group), move || {
            deliver.deliver(span.in_scope(|| catch_unwind(AssertUnwindSafe(work))));
        });
        async move {
            match promise.await {
                Some(Ok(value)) => value,
                Some(Err(panic)) => resume_unwind(panic),
                // The pool ended before the work ran, and it ends with the last handle to the runtime.
                None => std::future::pending().await,
            }
        }
    }

    /// Calls the timers whose instant has come, and returns how many: for a runtime driven by hand.
    pub fn run_due(&self) -> usize {
        self.0.timer.run_due()
    }

    /// Timers that wait for their instant. None while every log is idle.
    pub fn pending_timers(&self) -> usize {
        self.0.timer.len()
    }

    pub(crate) fn spawn(&self, group: &Arc<str>, job: impl FnOnce() + Send + 'static) {
        match &self.0.pool {
            Some(pool) => pool.spawn(group, Box::new(job)),
            None => job(),
        }
    }

    pub(crate) fn schedule(&self, at: Duration, due: Weak<dyn Due>) -> TimerEntry {
        self.0.timer.schedule(at, due)
    }

    pub(crate) fn cancel(&self, entry: TimerEntry) {
        self.0.timer.cancel(entry);
    }

    /// Has `notifier` told, in order and once for equal announcements that still wait: here if it says that it is prompt,
    /// else on the runtime's own thread. For a notifier that passes on what it is told.
    pub fn announce(&self, notifier: &Arc<dyn WakeNotifier>, log: &LogIdentity, reason: WakeReason) {
        self.0.notifications.announce(notifier, log, reason);
    }

    /// Asks `holder` for descriptors where an open finds none.
    pub(crate) fn share_descriptors(&self, holder: Weak<dyn Spares>) {
        self.0.sparing.ask(holder);
    }

    /// Where commits and long reads beside them take turns.
    pub(crate) fn turns(&self) -> &Arc<Turns> {
        &self.0.turns
    }

    /// Where the space of large files that are unlinked goes.
    pub(crate) fn reclaimer(&self) -> &Reclaimer {
        &self.0.reclaimer
    }

    pub(crate) fn cache(&self) -> &FrameCache {
        &self.0.cache
    }
}

impl Default for Runtime {
    fn default() -> Self {
        Self::new(RuntimeOptions::default())
    }
}
