//! WK-02: who subscribes before the last look misses no announcement.

use shuttle::{future::block_on, thread};

use super::{Rig, explore, record};
use crate::{error::Error, log::Log};

/// Waits until `wanted` records are committed or the log is closed. Returns whether they are.
fn wait_for(log: &Log, wanted: u64) -> bool {
    loop {
        let announced = log.subscribe();
        if log.high_watermark().get() >= wanted {
            return true;
        }
        if log.is_closed() {
            return false;
        }
        block_on(announced.changed());
    }
}

#[test]
fn wk_02_a_waiter_that_subscribes_before_its_last_look_misses_no_commit() {
    explore(8_000, || {
        let rig = Rig::new(0);
        let waiters = [1, 2].map(|wanted| {
            let log = rig.log.clone();
            thread::spawn(move || assert!(wait_for(&log, wanted)))
        });
        let committers = ["a", "b"].map(|name| {
            let log = rig.log.clone();
            thread::spawn(move || _ = log.commit(record(name)).unwrap())
        });
        for thread in waiters.into_iter().chain(committers) {
            thread.join().unwrap();
        }
    });
}

#[test]
fn wk_02_a_commit_that_a_worker_leads_is_announced_as_well() {
    explore(4_000, || {
        let rig = Rig::new(1);
        let log = rig.log.clone();
        let waiter = thread::spawn(move || assert!(wait_for(&log, 2)));
        let first = rig.log.commit_async(record("a"));
        let second = rig.log.commit_async(record("b"));
        block_on(second).unwrap();
        block_on(first).unwrap();
        waiter.join().unwrap();
    });
}

#[test]
fn wk_02_a_waiter_sees_the_log_close() {
    explore(8_000, || {
        let rig = Rig::new(0);
        let waiters = [1, 1].map(|wanted| {
            let log = rig.log.clone();
            thread::spawn(move || wait_for(&log, wanted))
        });
        let log = rig.log.clone();
        let committer = thread::spawn(move || log.commit(record("a")));
        rig.log.close().unwrap();
        let committed = committer.join().unwrap();
        assert!(matches!(committed, Ok(_) | Err(Error::Closed)), "{committed:?}");
        for waiter in waiters {
            let saw_commit = waiter.join().unwrap();
            assert!(committed.is_ok() || !saw_commit);
        }
    });
}
