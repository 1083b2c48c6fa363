//! What tests with real threads need: a runtime with workers, a blocking wait for a future, bounded waits.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use narad_core::{
    clock::SystemClock,
    disk::Disk,
    runtime::{Runtime, RuntimeOptions},
};

/// Nothing in a test should take longer; it bounds every wait, so that a failed test ends.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub fn runtime(disk: Arc<dyn Disk>, workers: usize) -> Runtime {
    let mut options = RuntimeOptions::default();
    (options.disk, options.clock, options.workers) = (disk, Arc::new(SystemClock::new()), workers);
    Runtime::new(options)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future in this thread.
pub fn wait<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    let (started, mut parked) = (SystemClock::new(), 0);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        parked += 1;
        let waited = narad_core::clock::Clock::monotonic(&started);
        assert!(waited < PATIENCE, "the future was never woken ({parked} times parked)");
        thread::park_timeout(PATIENCE);
    }
}

/// Runs `work` in a thread of its own and waits for it, but not for ever.
pub fn bounded<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, finished) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    finished.recv_timeout(PATIENCE).expect("it neither hangs nor panics")
}
