//! Commits that arrive together become one: a caller leads, takes every batch queued by then, and all of them share
//! the outcome. Batches that arrive meanwhile form the next cycle.
//!
//! Knows nothing of disks: what a cycle does is handed in.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use parking_lot::{Condvar, Mutex};

use crate::{
    error::{Error, Result},
    format::{Batch, Offset},
    runtime::Deliver,
};

/// What a committed batch got.
pub(super) type Outcome = Result<Range<Offset>>;

/// The queue of batches, and whether somebody leads.
#[derive(Debug, Default)]
pub(super) struct Combiner {
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Member>,
    leading: bool,
}

/// A batch in a cycle, and who waits for its outcome.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) batch: Batch,
    waiter: Waiter,
}

#[derive(Debug)]
enum Waiter {
    /// A thread that blocks, and can be asked to lead.
    Thread(Arc<Seat>),
    /// A future, whose cycle a worker leads.
    Future(Deliver<Outcome>),
}

/// Where a blocked caller waits: for its outcome, or to be asked to lead.
#[derive(Debug, Default)]
pub(super) struct Seat {
    call: Mutex<Option<Call>>,
    called: Condvar,
}

#[derive(Debug)]
enum Call {
    Lead,
    Done(Outcome),
}

/// Who leads the next cycle.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nobody needs to: the queue is empty, or one of the blocked callers was asked.
    Settled,
    /// A worker: the first in the queue is a future.
    Worker,
}

/// How a blocked caller goes on.
pub(super) enum Turn {
    /// It leads a cycle, in which its own batch is.
    Lead,
    /// Somebody else led.
    Done(Outcome),
}

impl Member {
    /// Tells whoever waits.
    pub(super) fn finish(self, outcome: Outcome) {
        match self.waiter {
            Waiter::Thread(seat) => seat.call(Call::Done(outcome)),
            Waiter::Future(deliver) => deliver.deliver(outcome),
        }
    }

    fn is_abandoned(&self) -> bool {
        matches!(&self.waiter, Waiter::Future(deliver) if deliver.is_abandoned())
    }
}

impl Seat {
    fn call(&self, call: Call) {
        *self.call.lock() = Some(call);
        self.called.notify_one();
    }

    fn wait(&self) -> Call {
        let mut slot = self.call.lock();
        loop {
            match slot.take() {
                Some(call) => return call,
                None => self.called.wait(&mut slot),
            }
        }
    }

    /// The outcome of a cycle that this caller led itself.
    pub(super) fn outcome(&self) -> Outcome {
        match self.call.lock().take() {
            Some(Call::Done(outcome)) => outcome,
            // A leader finishes every member of its cycle, itself included.
            Some(Call::Lead) | None => Err(Error::Closed),
        }
    }
}

impl Combiner {
    /// Queues the batch of a thread and blocks until it is done or this thread is to lead.
    pub(super) fn enter_blocking(&self, batch: Batch) -> (Arc<Seat>, Turn) {
        let seat = Arc::new(Seat::default());
        {
            let mut queue = self.queue.lock();
            queue.waiting.push_back(Member { batch, waiter: Waiter::Thread(Arc::clone(&seat)) });
            if !queue.leading {
                queue.leading = true;
                return (seat, Turn::Lead);
            }
        }
        match seat.wait() {
            Call::Lead => (seat, Turn::Lead),
            Call::Done(outcome) => (seat, Turn::Done(outcome)),
        }
    }

    /// Queues the batch of a future. Returns whether a worker must lead.
    pub(super) fn enter(&self, batch: Batch, deliver: Deliver<Outcome>) -> Next {
        let mut queue = self.queue.lock();
        queue.waiting.push_back(Member { batch, waiter: Waiter::Future(deliver) });
        if queue.leading {
            return Next::Settled;
        }
        queue.leading = true;
        Next::Worker
    }

    /// Everything queued by now, but for batches whose caller has gone. For the one who leads.
    pub(super) fn take(&self) -> Vec<Member> {
        let waiting = std::mem::take(&mut self.queue.lock().waiting);
        waiting.into_iter().filter(|member| !member.is_abandoned()).collect()
    }

    /// Gives the lead up: to the first in the queue, or to nobody.
    pub(super) fn hand_over(&self) -> Next {
        let mut queue = self.queue.lock();
        match queue.waiting.front() {
            None => {
                queue.leading = false;
                Next::Settled
            }
            Some(Member { waiter: Waiter::Thread(seat), .. }) => {
                seat.call(Call::Lead);
                Next::Settled
            }
            Some(Member { waiter: Waiter::Future(_), .. }) => Next::Worker,
        }
    }

    /// Gives the lead up if the queue is empty; otherwise a worker goes on leading.
    pub(super) fn is_drained(&self) -> bool {
        let mut queue = self.queue.lock();
        queue.leading = !queue.waiting.is_empty();
        !queue.leading
    }
}
