//! Commits that arrive together become one: a caller leads, takes every batch queued by then, and all of them share
//! the outcome. Batches that arrive meanwhile form the next cycle.
//!
//! Knows nothing of disks: what a cycle does is handed in.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use tracing::Span;

use crate::{
    error::{Error, Result},
    format::{Batch, Offset},
    runtime::Deliver,
    sync::{Condvar, Mutex},
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
    lead: Lead,
}

/// Who sees to the queue.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// Nobody: it is empty.
    #[default]
    Nobody,
    /// A worker was asked and has not begun. A thread that comes meanwhile leads instead: it may hold the very worker
    /// that is waited for.
    Asked,
    /// Somebody does.
    Taken,
}

/// A batch in a cycle, and who waits for its outcome.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) batch: Batch,
    /// What its caller was at.
    pub(super) span: Span,
    waiter: Waiter,
}

#[derive(Debug)]
enum Waiter {
    /// A thread that blocks, and can be asked to lead.
    Thread(Seated),
    /// A future, whose cycle a worker leads.
    Future(Deliver<Outcome>),
}

/// A blocked caller that has not been told its outcome. It is told even if the leader panics.
#[derive(Debug)]
struct Seated(Option<Arc<Seat>>);

impl Seated {
    fn finish(mut self, outcome: Outcome) {
        if let Some(seat) = self.0.take() {
            seat.call(Call::Done(outcome));
        }
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        if let Some(seat) = self.0.take() {
            seat.call(Call::Done(Err(Error::Internal { what: "the leader of a commit panicked" })));
        }
    }
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

/// The lead of one cycle by a blocked caller; given up when this goes, even in a panic.
pub(super) struct Leading<'a, F: FnMut()> {
    pub(super) combiner: &'a Combiner,
    /// Has a worker lead.
    pub(super) ask_worker: F,
}

impl<F: FnMut()> Drop for Leading<'_, F> {
    fn drop(&mut self) {
        if self.combiner.hand_over() == Next::Worker {
            (self.ask_worker)();
        }
    }
}

/// Who leads the next cycle.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nobody needs to: the queue is empty, or one of the blocked callers was asked.
    Settled,
    /// A worker: there are futures in the queue alone.
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
    fn new(batch: Batch, waiter: Waiter) -> Self {
        Self { batch, span: Span::current(), waiter }
    }

    /// Tells whoever waits.
    pub(super) fn finish(self, outcome: Outcome) {
        match self.waiter {
            Waiter::Thread(seated) => seated.finish(outcome),
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
            queue.waiting.push_back(Member::new(batch, Waiter::Thread(Seated(Some(Arc::clone(&seat))))));
            if queue.lead != Lead::Taken {
                queue.lead = Lead::Taken;
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
        queue.waiting.push_back(Member::new(batch, Waiter::Future(deliver)));
        if queue.lead != Lead::Nobody {
            return Next::Settled;
        }
        queue.lead = Lead::Asked;
        Next::Worker
    }

    /// A worker that was asked to lead begins. Returns whether it is still needed.
    pub(super) fn begin(&self) -> bool {
        let mut queue = self.queue.lock();
        let needed = queue.lead == Lead::Asked;
        if needed {
            queue.lead = Lead::Taken;
        }
        needed
    }

    /// Everything queued by now, but for batches whose caller has gone. For the one who leads.
    pub(super) fn take(&self) -> Vec<Member> {
        let waiting = std::mem::take(&mut self.queue.lock().waiting);
        waiting.into_iter().filter(|member| !member.is_abandoned()).collect()
    }

    /// How many batches are queued.
    pub(super) fn waiting(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    /// Gives the lead up: to the first thread in the queue, else to a worker, else to nobody.
    fn hand_over(&self) -> Next {
        let mut queue = self.queue.lock();
        let thread = queue.waiting.iter().find_map(|member| match &member.waiter {
            Waiter::Thread(seated) => seated.0.as_ref(),
            Waiter::Future(_) => None,
        });
        if let Some(seat) = thread {
            seat.call(Call::Lead);
            return Next::Settled;
        }
        let (lead, next) = if queue.waiting.is_empty() {
            (Lead::Nobody, Next::Settled)
        } else {
            (Lead::Asked, Next::Worker)
        };
        queue.lead = lead;
        next
    }

    /// Gives the lead up if the queue is empty; otherwise a worker goes on leading.
    pub(super) fn is_drained(&self) -> bool {
        let mut queue = self.queue.lock();
        let drained = queue.waiting.is_empty();
        if drained {
            queue.lead = Lead::Nobody;
        }
        drained
    }
}
