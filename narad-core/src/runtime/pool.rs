//! The workers for blocking file I/O: a bounded number of threads, and a bound for each group of jobs, so that one
//! slow disk or topic cannot take all of them.

use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::sync::{Condvar, Mutex, thread};

type Job = Box<dyn FnOnce() + Send>;

/// The pool. Threads start when there is work and end with the pool.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    threads: usize,
    per_group: usize,
}

#[derive(Default)]
struct State {
    ready: VecDeque<(Arc<str>, Job)>,
    groups: HashMap<Arc<str>, Group>,
    started: usize,
    /// The workers that wait for a job, the one that has worked last on top: it is the next to work, so that under a light
    /// load few threads do all of it, with warm caches. One that is woken is no longer among them.
    idle: Vec<Arc<Condvar>>,
    ended: bool,
}

#[derive(Default)]
struct Group {
    running: usize,
    waiting: VecDeque<Job>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool of at most `threads`, of which one group takes at most half (one at the least).
    pub(crate) fn new(threads: usize) -> Self {
        let threads = threads.max(1);
        let shared = Shared { state: Mutex::default(), threads, per_group: threads.div_ceil(2) };
        Self { shared: Arc::new(shared) }
    }

    /// Queues a job. Jobs of one group start in the order in which they came.
    pub(crate) fn spawn(&self, group: &Arc<str>, job: Job) {
        let mut state = self.shared.state.lock();
        let slot = state.groups.entry(Arc::clone(group)).or_default();
        if slot.running >= self.shared.per_group {
            slot.waiting.push_back(job);
            return;
        }
        slot.running += 1;
        state.ready.push_back((Arc::clone(group), job));
        if let Some(worker) = state.idle.pop() {
            drop(state);
            worker.notify_one();
        } else if state.started < self.shared.threads {
            let shared = Arc::clone(&self.shared);
            let name = format!("narad-io-{}", state.started);
            if thread::Builder::new().name(name).spawn(move || shared.work()).is_ok() {
                state.started += 1;
            } else if state.started == 0 {
                // Without a new thread the job waits for one of those that run; without any, it runs here.
                drop(state);
                self.shared.run_here();
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.ended = true;
        for worker in state.idle.drain(..) {
            worker.notify_one();
        }
    }
}

impl Shared {
    fn work(&self) {
        let woken = Arc::new(Condvar::new());
        let mut state = self.state.lock();
        loop {
            if let Some((group, job)) = state.ready.pop_front() {
                drop(state);
                run(job);
                state = self.state.lock();
                finish(&mut state, group);
            } else if state.ended {
                return;
            } else {
                state.idle.push(Arc::clone(&woken));
                woken.wait(&mut state);
                // Nobody woke it, where it is still among them.
                state.idle.retain(|idle| !Arc::ptr_eq(idle, &woken));
            }
        }
    }

    fn run_here(&self) {
        loop {
            let Some((group, job)) = self.state.lock().ready.pop_front() else { return };
            run(job);
            finish(&mut self.state.lock(), group);
        }
    }
}

fn run(job: Job) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("a job of the storage pool panicked");
    }
}

/// Lets the group's next job take the place of the one that ended.
fn finish(state: &mut State, group: Arc<str>) {
    let Some(slot) = state.groups.get_mut(&group) else { return };
    match slot.waiting.pop_front() {
        Some(job) => state.ready.push_back((group, job)),
        None => {
            slot.running -= 1;
            if slot.running == 0 {
                state.groups.remove(&group);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn one_group_cannot_take_every_worker() {
        let pool = Pool::new(4);
        let (slow, fast): (Arc<str>, Arc<str>) = ("slow".into(), "fast".into());
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for _ in 0..8 {
            let gate = Arc::clone(&gate);
            pool.spawn(&slow, Box::new(move || _ = gate.lock().recv()));
        }
        let (done, finished) = mpsc::channel();
        pool.spawn(&fast, Box::new(move || done.send(()).unwrap()));
        finished.recv_timeout(std::time::Duration::from_secs(10)).expect("the other group got a worker");
        for _ in 0..8 {
            release.send(()).unwrap();
        }
    }

    #[test]
    fn a_job_does_not_wait_for_a_worker_that_was_woken_for_another() {
        let pool = Pool::new(2);
        let group = |name: &str| -> Arc<str> { name.into() };
        for round in 0..200 {
            let (done, finished) = mpsc::channel();
            // One worker is idle again, or about to be; the first job then needs the second one to end.
            pool.spawn(&group("warm"), Box::new(move || done.send(()).unwrap()));
            finished.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
            let (second, first) = mpsc::channel();
            let (done, finished) = mpsc::channel();
            pool.spawn(&group("first"), Box::new(move || done.send(first.recv()).unwrap()));
            pool.spawn(&group("second"), Box::new(move || second.send(()).unwrap()));
            let ended = finished.recv_timeout(std::time::Duration::from_secs(10));
            ended
                .unwrap_or_else(|_| panic!("round {round}: the second job waits for the first one"))
                .unwrap();
        }
    }

    #[test]
    fn a_panic_takes_no_worker_with_it() {
        let pool = Pool::new(1);
        let group: Arc<str> = "g".into();
        pool.spawn(&group, Box::new(|| panic!("on purpose")));
        let (done, finished) = mpsc::channel();
        pool.spawn(&group, Box::new(move || done.send(()).unwrap()));
        finished.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
    }
}
