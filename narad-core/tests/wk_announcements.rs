//! Announcements: when there is one, who hears it, and what it costs and cannot do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/threads.rs"]
mod threads;
#[path = "common/write_path.rs"]
mod write_path;

use std::{
    path::Path,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use narad_core::{
    format::Batch,
    log::{Log, LogOptions},
    plugin::{LogIdentity, WakeNotifier, WakeReason},
    testkit::{CallKind, Failure, SimDisk},
};
use parking_lot::Mutex;
use threads::{PATIENCE, bounded, runtime, wait};
use write_path::{Bench, DIR, offset, options, payloads, record};

/// Notes what it is told.
#[derive(Debug, Default)]
struct Notes(Mutex<Vec<WakeReason>>);

impl WakeNotifier for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    fn wake(&self, log: &LogIdentity, reason: WakeReason) {
        assert_eq!(log.to_string(), "test");
        self.0.lock().push(reason);
    }
}

impl Notes {
    fn take(&self) -> Vec<WakeReason> {
        std::mem::take(&mut *self.0.lock())
    }
}

fn told_by(notifier: Arc<dyn WakeNotifier>) -> LogOptions {
    let mut options = options();
    options.wake = notifier;
    options
}

#[test]
fn wk_01_an_advance_a_wake_and_a_close_are_announced_and_nothing_else_is() {
    let (bench, notes) = (Bench::new(1), Arc::new(Notes::default()));
    let log = bench.open_with(told_by(notes.clone()));
    log.append(&record("a")).unwrap();
    bench.pass(Duration::from_millis(100));
    bench.pass(Duration::from_secs(1));
    log.commit(Batch::new()).unwrap();
    assert_eq!(notes.take(), [WakeReason::Committed], "buffering and flushing announce nothing");
    log.commit(record("b")).unwrap();
    assert_eq!(notes.take(), [WakeReason::Committed]);
    log.commit(Batch::new()).unwrap();
    assert_eq!(notes.take(), [], "the watermark did not move");
    bench.fail(CallKind::Write, Failure::NoSpace, "*.log");
    log.commit(record("refused")).unwrap_err();
    assert_eq!(notes.take(), []);
    log.wake();
    assert_eq!(notes.take(), [WakeReason::Requested]);
    log.close().unwrap();
    log.close().unwrap();
    assert_eq!(notes.take(), [WakeReason::Closed]);
}

#[test]
fn wk_01_a_subscriber_hears_of_appended_records_that_an_empty_commit_commits() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    let appended = log.append(&record("a")).unwrap();
    let subscription = log.subscribe();
    log.commit_appended(&appended).unwrap();
    assert!(subscription.wait(Duration::ZERO));
}

#[test]
fn wk_01_every_subscriber_hears_it_blocking_or_not() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    let blocking: Vec<_> = (0..5).map(|_| log.subscribe()).collect();
    let futures: Vec<_> = (0..5).map(|_| log.subscribe()).collect();
    log.commit(record("a")).unwrap();
    assert!(blocking.into_iter().all(|subscription| subscription.wait(Duration::ZERO)));
    futures.into_iter().for_each(|subscription| wait(subscription.changed()));
    assert!(!log.subscribe().wait(Duration::ZERO), "one that was taken later waits for the next");
    let subscription = log.subscribe();
    log.close().unwrap();
    assert!(subscription.wait(Duration::ZERO));
}

#[test]
fn wk_02_a_subscription_taken_before_the_check_never_misses_a_commit() {
    const RECORDS: u64 = 5_000;
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let log = log.clone();
            thread::spawn(move || {
                let mut seen = 0;
                while seen < RECORDS {
                    let subscription = log.subscribe();
                    let now = log.high_watermark().get();
                    if now == seen {
                        assert!(subscription.wait(PATIENCE), "a wake-up was lost at {seen}");
                    }
                    seen = now;
                }
            })
        })
        .collect();
    for _ in 0..RECORDS {
        log.commit(record("a")).unwrap();
    }
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
}

#[test]
fn wk_03_an_announcement_that_nobody_waits_for_allocates_nothing() {
    for runtime in [Bench::new(1).runtime, runtime(Arc::new(SimDisk::new(1)), 2)] {
        let log = Log::open(&runtime, Path::new(DIR), options()).unwrap();
        let announce = || allocation_counter::measure(|| (0..100).for_each(|_| log.wake())).count_total;
        assert_eq!(announce(), 0, "nobody has ever subscribed");
        drop(log.subscribe());
        assert_eq!(announce(), 0, "nobody does any more");
        let subscription = log.subscribe();
        log.wake();
        assert!(subscription.wait(Duration::ZERO), "and it was an announcement");
    }
}

/// Waits at a gate of the test, or panics.
#[derive(Debug)]
struct Slow {
    entered: mpsc::Sender<WakeReason>,
    gate: Mutex<mpsc::Receiver<()>>,
}

impl WakeNotifier for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn wake(&self, _: &LogIdentity, reason: WakeReason) {
        _ = self.entered.send(reason);
        _ = self.gate.lock().recv();
    }
}

#[test]
fn wk_04_a_slow_notifier_stalls_no_commit_and_sees_what_came_meanwhile() {
    bounded(|| {
        let (entered, calls) = mpsc::channel();
        let (open, gate) = mpsc::channel();
        let slow = Arc::new(Slow { entered, gate: Mutex::new(gate) });
        let runtime = runtime(Arc::new(SimDisk::new(1)), 2);
        let log = Log::open(&runtime, Path::new(DIR), told_by(slow)).unwrap();
        log.commit(record("0")).unwrap();
        assert_eq!(calls.recv().unwrap(), WakeReason::Committed);
        for number in 1..50u64 {
            assert_eq!(log.commit(record("x")).unwrap(), offset(number)..offset(number + 1));
            wait(log.commit_async(Batch::new())).unwrap();
        }
        log.wake();
        open.send(()).unwrap();
        assert_eq!(
            calls.recv().unwrap(),
            WakeReason::Committed,
            "those that waited were merged, and none was lost"
        );
        open.send(()).unwrap();
        assert_eq!(calls.recv().unwrap(), WakeReason::Requested);
        open.send(()).unwrap();
        log.close().unwrap();
        assert_eq!(calls.recv().unwrap(), WakeReason::Closed);
    });
}

#[derive(Debug)]
struct Panics(mpsc::Sender<()>);

impl WakeNotifier for Panics {
    fn name(&self) -> &str {
        "panics"
    }

    fn wake(&self, _: &LogIdentity, _: WakeReason) {
        _ = self.0.send(());
        panic!("on purpose");
    }
}

#[test]
fn wk_04_a_panicking_notifier_corrupts_nothing_and_is_called_again() {
    bounded(|| {
        let (called, calls) = mpsc::channel();
        let runtime = runtime(Arc::new(SimDisk::new(1)), 2);
        let log = Log::open(&runtime, Path::new(DIR), told_by(Arc::new(Panics(called.clone())))).unwrap();
        for _ in 0..3 {
            log.commit(record("a")).unwrap();
            calls.recv().unwrap();
        }
        assert_eq!(payloads(&log), ["a"; 3]);
        let bench = Bench::new(1);
        let log = bench.open_with(told_by(Arc::new(Panics(called))));
        log.commit(record("a")).unwrap();
        assert_eq!((payloads(&log), calls.recv()), (vec!["a".to_owned()], Ok(())));
    });
}

/// Says that it does little, and notes the thread that calls it before it panics.
#[derive(Debug, Default)]
struct Prompt(Mutex<Vec<thread::ThreadId>>);

impl WakeNotifier for Prompt {
    fn name(&self) -> &str {
        "prompt"
    }

    fn wake(&self, _: &LogIdentity, _: WakeReason) {
        self.0.lock().push(thread::current().id());
        panic!("in the committing thread");
    }

    fn is_prompt(&self) -> bool {
        true
    }
}

#[test]
fn wk_04_a_prompt_notifier_is_called_by_whoever_commits_and_its_panic_costs_nothing() {
    bounded(|| {
        let prompt = Arc::new(Prompt::default());
        let runtime = runtime(Arc::new(SimDisk::new(1)), 2);
        let log = Log::open(&runtime, Path::new(DIR), told_by(Arc::<Prompt>::clone(&prompt))).unwrap();
        for _ in 0..2 {
            log.commit(record("a")).unwrap();
        }
        assert_eq!(*prompt.0.lock(), [thread::current().id(); 2]);
        assert_eq!(payloads(&log), ["a"; 2]);
    });
}

/// Looks into the log when it is called.
#[derive(Debug, Default)]
struct Looks(Mutex<Option<Log>>, Mutex<Vec<u64>>);

impl WakeNotifier for Looks {
    fn name(&self) -> &str {
        "looks"
    }

    fn wake(&self, _: &LogIdentity, _: WakeReason) {
        if let Some(log) = &*self.0.lock() {
            _ = log.append(&record("from the notifier"));
            self.1.lock().push(log.stats().high_watermark.get());
        }
    }
}

#[test]
fn wk_04_it_is_called_outside_every_lock_of_the_log() {
    bounded(|| {
        let (bench, looks) = (Bench::new(1), Arc::new(Looks::default()));
        let log = bench.open_with(told_by(looks.clone()));
        *looks.0.lock() = Some(log.clone());
        log.commit(record("a")).unwrap();
        log.commit(record("b")).unwrap();
        assert_eq!(*looks.1.lock(), [1, 3]);
        *looks.0.lock() = None;
        log.close().unwrap();
    });
}

/// Commits from within the first call.
#[derive(Debug, Default)]
struct Commits(Mutex<Option<Log>>);

impl WakeNotifier for Commits {
    fn name(&self) -> &str {
        "commits"
    }

    fn wake(&self, _: &LogIdentity, _: WakeReason) {
        let log = self.0.lock().take();
        if let Some(log) = log {
            log.commit(record("from the notifier")).unwrap();
        }
    }
}

#[test]
fn wk_04_it_may_commit() {
    bounded(|| {
        for asynchronous in [false, true] {
            let (bench, commits) = (Bench::new(1), Arc::new(Commits::default()));
            let log = bench.open_with(told_by(commits.clone()));
            *commits.0.lock() = Some(log.clone());
            let batch = record("a");
            if asynchronous { wait(log.commit_async(batch)) } else { log.commit(batch) }.unwrap();
            assert_eq!(payloads(&log), ["a", "from the notifier"]);
        }
    });
}
