//! Commits of a whole log by threads and futures at once, on a pool with a single worker.

use shuttle::{future::block_on, thread};

use super::{Rig, explore, options, record};
use crate::{
    error::Error,
    format::Batch,
    log::Log,
    testkit::{CallKind, Failure, Fault},
};

/// Commits "a" and "b" in threads of their own and "c" as a future, and returns which of them succeeded.
fn crowd(rig: &Rig) -> Vec<(&'static str, Result<(), Error>)> {
    let threads = ["a", "b"].map(|name| {
        let log = rig.log.clone();
        (
            name,
            thread::spawn(move || log.commit(record(name)).map(|offsets| check(&log, name, offsets.start))),
        )
    });
    let third = block_on(rig.log.commit_async(record("c")));
    let third = third.map(|offsets| check(&rig.log, "c", offsets.start));
    let mut answers = Vec::from(threads.map(|(name, thread)| (name, thread.join().unwrap())));
    answers.push(("c", third));
    answers
}

/// A committed record can be read at once, at its offset.
fn check(log: &Log, name: &str, at: crate::format::Offset) {
    assert_eq!(log.read(at).unwrap().payload, name.as_bytes());
}

/// What is visible is what was acknowledged, once each.
fn settle(rig: &Rig, answers: &[(&'static str, Result<(), Error>)]) {
    let mut seen = rig.visible();
    seen.sort_unstable();
    let acked: Vec<&str> = answers.iter().filter(|(_, told)| told.is_ok()).map(|(name, _)| *name).collect();
    assert_eq!(seen, acked, "{answers:?}");
}

#[test]
fn cm_04_everybody_gets_the_offsets_of_its_own_batch() {
    explore(3_000, || {
        let rig = Rig::new(1);
        let answers = crowd(&rig);
        assert!(answers.iter().all(|(_, told)| told.is_ok()), "{answers:?}");
        settle(&rig, &answers);
    });
}

#[test]
fn cm_04_a_thread_leads_where_the_worker_that_was_asked_never_comes() {
    explore(3_000, || {
        let rig = Rig::new(1);
        // The only worker blocks in a commit while a future waits for a worker to lead.
        let log = rig.log.clone();
        let on_worker = rig.runtime.run_blocking("modelled", move || log.commit(record("on the worker")));
        let asking = rig.log.commit_async(record("future"));
        block_on(on_worker).unwrap();
        block_on(asking).unwrap();
        assert_eq!(rig.log.high_watermark().get(), 2);
    });
}

#[test]
fn cm_04_a_caller_that_goes_away_takes_nobody_with_it() {
    explore(3_000, || {
        let rig = Rig::new(1);
        let log = rig.log.clone();
        let leaving = thread::spawn(move || {
            let future = log.commit_async(record("gone"));
            thread::yield_now();
            drop(future);
        });
        let answers = crowd(&rig);
        leaving.join().unwrap();
        assert!(answers.iter().all(|(_, told)| told.is_ok()), "{answers:?}");
        // A worker may be about to commit it still; this commit comes behind that.
        rig.log.commit(Batch::new()).unwrap();
        let seen = rig.visible();
        let count = |name: &str| seen.iter().filter(|other| **other == name).count();
        assert_eq!(["a", "b", "c"].map(count), [1, 1, 1], "{seen:?}");
        assert!(count("gone") <= 1, "{seen:?}");
    });
}

#[test]
fn cm_03_a_failed_cycle_fails_all_its_members_and_no_other() {
    explore(3_000, || {
        let rig = Rig::new(1);
        rig.disk.inject(Fault::fail(CallKind::Write, Failure::Io).named("*.log"));
        let answers = crowd(&rig);
        assert!(answers.iter().any(|(_, told)| told.is_err()), "{answers:?}");
        assert!(
            answers.iter().all(|(_, told)| matches!(told, Ok(()) | Err(Error::Io { .. }))),
            "{answers:?}"
        );
        settle(&rig, &answers);
        assert_eq!(rig.log.commit(record("d")).unwrap().start.get() as usize, rig.visible().len() - 1);
    });
}

#[test]
fn po_01_a_poisoned_log_leaves_no_caller_waiting_and_takes_commits_once_it_is_reopened() {
    explore(3_000, || {
        let rig = Rig::with(1, options());
        rig.disk.inject(Fault::fail(CallKind::SyncData, Failure::Io).named("*.log"));
        let answers = crowd(&rig);
        assert!(answers.iter().all(|(_, told)| matches!(told, Err(Error::Poisoned { .. }))), "{answers:?}");
        rig.log.reopen().unwrap();
        settle(&rig, &answers);
        rig.log.commit(record("d")).unwrap();
        assert_eq!(rig.visible(), ["d"]);
    });
}
