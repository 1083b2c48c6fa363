//! The combiner alone, around a cycle that may panic as the engine's own never should: outside of everything that
//! catches a panic in a commit.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

use shuttle::{future::block_on, thread};

use super::explore;
use crate::{
    error::Error,
    format::{Batch, Offset},
    log::combine::{Combiner, Leading, Member, Next, Outcome, Turn},
    runtime::promise,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// Commits as a log does, to a list.
#[derive(Default)]
struct Line {
    combiner: Combiner,
    led: AtomicBool,
    committed: Mutex<Vec<u8>>,
    /// So many cycles from now, one panics.
    panics_after: Option<AtomicUsize>,
}

/// What a caller was told.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Committed(u64),
    /// That the leader panicked, which a caller that led itself notices by the panic.
    Panicked,
}

impl Line {
    fn that_panics_after(cycles: usize) -> Arc<Self> {
        Arc::new(Self { panics_after: Some(AtomicUsize::new(cycles)), ..Self::default() })
    }

    fn commit(self: &Arc<Self>, id: u8) -> Told {
        let (seat, turn) = self.combiner.enter_blocking(batch(id));
        let outcome = match turn {
            Turn::Done(outcome) => Some(outcome),
            Turn::Lead => catch_unwind(AssertUnwindSafe(|| {
                let lead = Leading { combiner: &self.combiner, ask_worker: || self.lead_on_worker() };
                self.cycle(self.combiner.take());
                drop(lead);
                seat.outcome()
            }))
            .ok(),
        };
        told(outcome)
    }

    async fn commit_async(self: Arc<Self>, id: u8) -> Told {
        let (deliver, outcome) = promise();
        if self.combiner.enter(batch(id), deliver) == Next::Worker {
            self.lead_on_worker();
        }
        told(outcome.await)
    }

    fn lead_on_worker(self: &Arc<Self>) {
        let line = Arc::clone(self);
        thread::spawn(move || {
            if !line.combiner.begin() {
                return;
            }
            loop {
                let members = line.combiner.take();
                _ = catch_unwind(AssertUnwindSafe(|| line.cycle(members)));
                if line.combiner.is_drained() {
                    return;
                }
            }
        });
    }

    fn cycle(&self, members: Vec<Member>) {
        assert!(!self.led.swap(true, Ordering::SeqCst), "two lead at a time");
        let panics = self.panics_after.as_ref().is_some_and(|left| left.fetch_sub(1, Ordering::SeqCst) == 0);
        if panics {
            self.led.store(false, Ordering::SeqCst);
            // Not reported as a panic of the test, and otherwise one like any other.
            resume_unwind(Box::new("on purpose"));
        }
        let mut outcomes = Vec::new();
        for member in &members {
            let mut committed = self.committed.lock();
            let base = Offset::new(committed.len() as u64).unwrap();
            committed.push(*member.batch.as_bytes().last().unwrap());
            outcomes.push(base..base.saturating_add(1));
        }
        self.led.store(false, Ordering::SeqCst);
        for (member, range) in members.into_iter().zip(outcomes) {
            member.finish(Ok(range));
        }
    }
}

fn batch(id: u8) -> Batch {
    Batch::of(b"", &[id])
}

/// Of a future, nothing is what it gets when its leader panicked.
fn told(outcome: Option<Outcome>) -> Told {
    match outcome {
        Some(Ok(range)) => Told::Committed(range.start.get()),
        Some(Err(Error::Internal { .. })) | None => Told::Panicked,
        Some(Err(error)) => panic!("{error}"),
    }
}

/// Two threads and two futures commit at once; returns how many were told of a panic.
fn crowd(line: &Arc<Line>) -> usize {
    let threads = [1, 2].map(|id| {
        let line = Arc::clone(line);
        (id, thread::spawn(move || line.commit(id)))
    });
    let futures = [3, 4].map(|id| (id, shuttle::future::spawn(Arc::clone(line).commit_async(id))));
    let mut answers: Vec<(u8, Told)> = Vec::new();
    answers.extend(threads.map(|(id, thread)| (id, thread.join().unwrap())));
    answers.extend(futures.map(|(id, future)| (id, block_on(future).unwrap())));

    let committed = line.committed.lock().clone();
    let mut panicked = 0;
    for (id, told) in answers {
        let places: Vec<u64> =
            (0..).zip(&committed).filter(|(_, other)| **other == id).map(|(at, _)| at).collect();
        match told {
            Told::Committed(at) => assert_eq!(places, [at], "caller {id} of {committed:?}"),
            Told::Panicked => {
                assert!(places.is_empty(), "caller {id} of {committed:?}");
                panicked += 1;
            }
        }
    }
    panicked
}

#[test]
fn one_leads_at_a_time_and_everybody_is_told_once() {
    explore(30_000, || {
        let line = Arc::<Line>::default();
        assert_eq!(crowd(&line), 0);
    });
}

#[test]
fn a_leader_that_panics_leaves_nobody_waiting_and_gives_the_lead_up() {
    for cycles in 0..3 {
        explore(15_000, move || {
            let line = Line::that_panics_after(cycles);
            let panicked = crowd(&line);
            assert!(cycles > 0 || panicked > 0, "the first cycle panicked, and somebody was in it");
            // Used up by now or not, it takes one more panic at most until the next commit succeeds.
            let tries = (0..4).filter(|id| line.commit(10 + id) == Told::Panicked).count();
            assert!(tries <= 1);
        });
    }
}
