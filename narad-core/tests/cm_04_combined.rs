//! Commits that arrive together: one leads, all share the outcome, and whoever leads leaves nobody waiting.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/threads.rs"]
mod threads;
#[path = "common/write_path.rs"]
mod write_path;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Wake, Waker},
    thread,
};

use narad_core::{
    Error,
    disk::Disk,
    format::Batch,
    log::Log,
    testkit::{CallKind, Failure, Fault, Gate, SimDisk, Survival},
};
use threads::{bounded, runtime, wait};
use write_path::{Bench, DIR, offset, options, payloads, record, records};

fn open(disk: Arc<dyn Disk>, workers: usize) -> Log {
    Log::open(&runtime(disk, workers), Path::new(DIR), options()).unwrap()
}

/// A log whose next fsync of a segment waits at the gate.
fn held() -> (SimDisk, Log, Gate) {
    let (disk, gate) = (SimDisk::new(1), Gate::new());
    let log = open(Arc::new(disk.clone()), 4);
    disk.inject(Fault::hold(CallKind::SyncData, &gate).named("*.log"));
    (disk, log, gate)
}

/// A commit of `payload` in a thread of its own.
fn commit_in_thread(log: &Log, payload: &'static str) -> thread::JoinHandle<narad_core::Result<u64>> {
    let log = log.clone();
    thread::spawn(move || log.commit(record(payload)).map(|offsets| offsets.start.get()))
}

#[test]
fn cm_04_batches_that_arrive_during_a_cycle_form_the_next_one() {
    let (disk, log, gate) = held();
    let first = commit_in_thread(&log, "first");
    gate.wait_for(1);
    let futures: Vec<_> = (0..15).map(|_| log.commit_async(records(["x", "y"]))).collect();
    disk.take_calls();
    gate.open();
    let offsets: Vec<_> = futures.into_iter().map(|future| wait(future).unwrap()).collect();
    assert_eq!(first.join().unwrap().unwrap(), 0);
    for (index, offsets) in offsets.into_iter().enumerate() {
        let start = 1 + 2 * index as u64;
        assert_eq!(offsets, offset(start)..offset(start + 2), "contiguous, in the order of arrival");
    }
    assert_eq!(disk.count(CallKind::SyncData), 1, "one for the fifteen");
    assert_eq!(disk.count(CallKind::Write), 1);
}

#[test]
fn cm_04_a_batch_whose_caller_has_gone_before_its_cycle_is_left_out() {
    let (_, log, gate) = held();
    let first = commit_in_thread(&log, "first");
    gate.wait_for(1);
    let kept = log.commit_async(record("kept"));
    drop(log.commit_async(record("gone")));
    let also_kept = log.commit_async(record("also kept"));
    gate.open();
    first.join().unwrap().unwrap();
    assert_eq!(wait(kept).unwrap(), offset(1)..offset(2));
    assert_eq!(wait(also_kept).unwrap(), offset(2)..offset(3));
    assert_eq!(payloads(&log), ["first", "kept", "also kept"]);
}

#[test]
fn cm_04_a_batch_whose_caller_goes_after_its_cycle_has_started_is_committed() {
    let (_, log, gate) = held();
    let future = log.commit_async(record("in the cycle"));
    gate.wait_for(1);
    drop(future);
    gate.open();
    log.commit(record("next")).unwrap();
    assert_eq!(payloads(&log), ["in the cycle", "next"]);
}

#[test]
fn cm_04_all_members_share_a_failure_and_the_queue_goes_on() {
    let (disk, log, gate) = held();
    let first = commit_in_thread(&log, "first");
    gate.wait_for(1);
    disk.inject(Fault::fail(CallKind::Write, Failure::NoSpace).named("*.log"));
    let futures: Vec<_> = (0..5).map(|_| log.commit_async(record("refused"))).collect();
    gate.open();
    first.join().unwrap().unwrap();
    for future in futures {
        assert!(wait(future).unwrap_err().is_disk_full());
    }
    assert_eq!(wait(log.commit_async(record("second"))).unwrap(), offset(1)..offset(2));
    assert_eq!(payloads(&log), ["first", "second"]);
}

#[test]
fn cm_04_sixteen_threads_blocking_and_async_mixed_lose_and_double_nothing() {
    const THREADS: usize = 16;
    const COMMITS: usize = 60;
    let disk = SimDisk::new(1);
    let log = open(Arc::new(disk.clone()), 4);
    let workers: Vec<_> = (0..THREADS)
        .map(|number| {
            let log = log.clone();
            thread::spawn(move || {
                (0..COMMITS)
                    .map(|commit| {
                        let payload = format!("{number}/{commit}");
                        let batch = records([payload.as_str(), payload.as_str()]);
                        if commit % 7 == 3 {
                            drop(log.commit_async(record("dropped at once")));
                        }
                        let offsets = match (number + commit) % 3 {
                            0 => log.commit(batch),
                            1 => wait(log.commit_async(batch)),
                            _ => log.append(&batch).and_then(|appended| {
                                log.commit_appended(&appended).map(|()| appended.offsets)
                            }),
                        };
                        (payload, offsets.unwrap())
                    })
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let acknowledged: Vec<_> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    let found = payloads(&log);
    for (payload, offsets) in &acknowledged {
        assert_eq!(offsets.end.since(offsets.start), 2);
        for place in offsets.start.get()..offsets.end.get() {
            assert_eq!(found[place as usize], *payload, "at its offset");
        }
        assert_eq!(found.iter().filter(|other| *other == payload).count(), 2, "{payload} is there once");
    }
    assert_eq!(acknowledged.len(), THREADS * COMMITS);
    let fork = Bench::on(disk.fork(), Default::default());
    fork.disk.power_loss_keeping(Survival::Nothing);
    assert_eq!(payloads(&fork.open()), found);
}

/// Many threads commit until each batch is acknowledged, while `sabotage` is done to the disk again and again and
/// somebody reopens the log whenever it is poisoned. Afterwards each batch is there once.
fn under_sabotage(sabotage: impl Fn(&SimDisk) + Send + 'static) {
    const THREADS: usize = 8;
    const COMMITS: usize = 40;
    let disk = SimDisk::new(3);
    let log = open(Arc::new(disk.clone()), 4);
    let stop = Arc::new(AtomicBool::new(false));
    let saboteur = {
        let (disk, log, stop) = (disk.clone(), log.clone(), Arc::clone(&stop));
        thread::spawn(move || {
            let mut rounds = 0;
            while !stop.load(Ordering::Relaxed) {
                // Bounded, so that the workers get through.
                if rounds < 100 {
                    disk.clear_faults();
                    sabotage(&disk);
                    rounds += 1;
                } else {
                    disk.clear_faults();
                }
                let before = disk.count(CallKind::SyncData);
                while disk.count(CallKind::SyncData) < before + 3
                    && !log.is_poisoned()
                    && !stop.load(Ordering::Relaxed)
                {
                    thread::yield_now();
                }
                // Fails where the sabotage hits it, and is tried again.
                _ = log.reopen();
            }
            disk.clear_faults();
            log.reopen().unwrap();
        })
    };
    let workers: Vec<_> = (0..THREADS)
        .map(|number| {
            let log = log.clone();
            thread::spawn(move || {
                for commit in 0..COMMITS {
                    let payload = format!("{number}/{commit}");
                    let commit = || match number % 2 {
                        0 => log.commit(record(&payload)),
                        _ => wait(log.commit_async(record(&payload))),
                    };
                    let offsets = std::iter::repeat_with(commit).find_map(Result::ok).unwrap();
                    let read =
                        std::iter::repeat_with(|| log.read(offsets.start)).find_map(Result::ok).unwrap();
                    assert_eq!(read.payload, payload.as_bytes());
                    _ = log.append(&record("nobody commits this but others"));
                }
            })
        })
        .collect();
    let outcome: Vec<_> = workers.into_iter().map(thread::JoinHandle::join).collect();
    stop.store(true, Ordering::Relaxed);
    saboteur.join().unwrap();
    assert!(outcome.iter().all(Result::is_ok));
    let fork = Bench::on(disk.fork(), Default::default());
    fork.disk.power_loss_keeping(Survival::Nothing);
    for mut found in [payloads(&log), payloads(&fork.open())] {
        found.retain(|payload| payload.contains('/'));
        assert_eq!(found.len(), THREADS * COMMITS);
        found.sort();
        found.dedup();
        assert_eq!(found.len(), THREADS * COMMITS, "each once");
    }
}

#[test]
fn cm_04_failing_writes_under_many_threads_leave_each_acknowledged_batch_once() {
    under_sabotage(|disk| {
        disk.inject(Fault::shorten(CallKind::Write, 20).named("*.log").at(3));
        disk.inject(Fault::fail(CallKind::Write, Failure::NoSpace).named("*.log").at(4));
    });
}

#[test]
fn po_03_failing_fsyncs_and_reopens_under_many_threads_leave_each_acknowledged_batch_once() {
    under_sabotage(|disk| {
        disk.inject(Fault::fail(CallKind::SyncData, Failure::Io).named("*.log").at(3));
        disk.inject(Fault::fail(CallKind::Read, Failure::Io).named("*.log").at(7));
    });
}

#[test]
fn cm_04_a_commit_that_blocks_the_worker_that_was_to_lead_leads_itself() {
    let outcome = bounded(|| {
        let runtime = runtime(Arc::new(SimDisk::new(1)), 1);
        let log = Log::open(&runtime, Path::new(DIR), options()).unwrap();
        let (release, released) = mpsc::channel::<()>();
        let blocking = log.clone();
        // Takes the only worker, and commits on it while the async commit waits for that worker to lead.
        let busy = runtime.run_blocking("test", move || {
            released.recv().unwrap();
            blocking.commit(record("blocking"))
        });
        let queued = log.commit_async(record("async"));
        release.send(()).unwrap();
        (wait(busy).unwrap(), wait(queued).unwrap(), payloads(&log))
    });
    assert_eq!(outcome.2, ["async", "blocking"]);
}

#[test]
fn st_02_a_close_lands_between_two_commits_and_later_ones_answer_closed() {
    let (disk, log, gate) = held();
    let first = commit_in_thread(&log, "first");
    gate.wait_for(1);
    let closing = log.clone();
    let close = thread::spawn(move || closing.close());
    let queued: Vec<_> = (0..5).map(|_| log.commit_async(record("queued"))).collect();
    gate.open();
    assert_eq!(first.join().unwrap().unwrap(), 0);
    close.join().unwrap().unwrap();
    let outcomes: Vec<_> = queued.into_iter().map(wait).collect();
    let committed = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(_) | Err(Error::Closed))), "{outcomes:?}");
    assert!(matches!(log.commit(record("late")), Err(Error::Closed)));
    assert!(matches!(wait(log.commit_async(record("late"))), Err(Error::Closed)));
    assert!(matches!(log.append(&record("late")), Err(Error::Closed)));
    let fork = Bench::on(disk.fork(), Default::default());
    fork.disk.power_loss_keeping(Survival::Nothing);
    assert_eq!(payloads(&fork.open()).len(), 1 + committed, "what was acknowledged, and nothing else");
}

#[test]
fn cm_04_a_leader_that_panics_leaves_no_waiter_hanging() {
    bounded(|| {
        for leader_is_thread in [true, false] {
            let (disk, gate) = (SimDisk::new(1), Gate::new());
            let log = open(Arc::new(disk.clone()), 2);
            log.commit(record("a")).unwrap();
            disk.inject(Fault::hold(CallKind::Write, &gate).named("*.log"));
            let panics = disk.inject(Fault::panic(CallKind::SyncData).named("*.log").onwards());
            let leader = leader_is_thread.then(|| commit_in_thread(&log, "leads"));
            let led = (!leader_is_thread).then(|| log.commit_async(record("leads")));
            gate.wait_for(1);
            let futures: Vec<_> = (0..4).map(|_| log.commit_async(record("waits"))).collect();
            let blocked: Vec<_> = (0..4).map(|_| commit_in_thread(&log, "waits")).collect();
            gate.open();
            let poisoned =
                |outcome: Result<(), Error>| assert!(matches!(outcome, Err(Error::Poisoned { .. })));
            leader.into_iter().for_each(|leader| poisoned(leader.join().unwrap().map(drop)));
            led.into_iter().for_each(|led| poisoned(wait(led).map(drop)));
            futures.into_iter().for_each(|future| poisoned(wait(future).map(drop)));
            blocked.into_iter().for_each(|thread| poisoned(thread.join().unwrap().map(drop)));
            disk.remove_fault(panics);
            log.reopen().unwrap();
            assert_eq!(log.commit(record("b")).unwrap(), offset(1)..offset(2));
            assert_eq!(payloads(&log), ["a", "b"]);
        }
    });
}

struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

#[test]
fn cm_04_a_caller_whose_waker_panics_hurts_nobody_else() {
    bounded(|| {
        let (_, log, gate) = held();
        let mut rude = Box::pin(log.commit_async(record("rude")));
        let waker = Waker::from(Arc::new(PanickingWaker));
        assert!(rude.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        gate.wait_for(1);
        let futures: Vec<_> = (0..4).map(|_| log.commit_async(record("waits"))).collect();
        gate.open();
        for future in futures {
            wait(future).unwrap();
        }
        log.commit(Batch::of(b"", b"next")).unwrap();
        assert_eq!(wait(rude).unwrap(), offset(0)..offset(1));
    });
}
