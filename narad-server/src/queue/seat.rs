//! A consumer's place in line, and what it holds. Dropping it at any moment leaves nothing behind: the place is
//! given up, and everything that is held goes to the next in line.

use std::sync::Arc;

use narad_core::{Error, plugin::PartitionId};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::{
    opening::Opening,
    shared::Shared,
    topic::TopicQueue,
    waiters::{Grant, Ticket, Waiter},
};

/// A consumer's place in line.
#[derive(Debug)]
pub(super) struct Seat {
    shared: Arc<Shared>,
    queue: Arc<TopicQueue>,
    partition: Option<PartitionId>,
    max: usize,
    ticket: Ticket,
    signal: Arc<Notify>,
    /// Leases picked up and not yet handed on.
    pub(super) held: Vec<Grant>,
}

impl Seat {
    /// Takes the last place in line.
    pub(super) fn take(
        shared: &Arc<Shared>,
        queue: &Arc<TopicQueue>,
        partition: Option<PartitionId>,
        max: usize,
    ) -> Self {
        let ticket = queue.with(|state| state.waiters.ticket());
        let (shared, queue) = (Arc::clone(shared), Arc::clone(queue));
        let seat = Self { shared, queue, partition, max, ticket, signal: Arc::default(), held: Vec::new() };
        seat.join();
        seat
    }

    /// Stands in line, at the place that the seat has had from the beginning.
    pub(super) fn join(&self) {
        let waiter = Waiter { max: self.max, signal: Arc::clone(&self.signal) };
        self.queue.with(|state| state.waiters.join(self.partition, self.ticket, waiter));
    }

    /// Waits until something was handed over, `until` has come, or waiting is over for everybody.
    pub(super) async fn wait(&self, until: Instant) {
        loop {
            let over = self.queue.with(|state| state.dead || state.waiters.is_served(self.ticket));
            if over || self.shared.is_closed() {
                return;
            }
            tokio::select! {
                () = self.signal.notified() => {}
                () = sleep_until(until) => return,
            }
        }
    }

    /// Waits until something was handed over, every one of `opens` has ended, or `until` has come. Returns what kept a
    /// partition from being opened.
    pub(super) async fn wait_for_opens(&self, opens: Vec<Opening>, until: Instant) -> Option<Error> {
        let ended = async {
            let mut failure = None;
            for open in opens {
                failure = open.ended().await.err().or(failure);
            }
            failure
        };
        tokio::select! {
            biased;
            failure = ended => failure,
            () = self.wait(until) => None,
        }
    }

    /// Leaves the line with what was handed over until now.
    pub(super) fn pick_up(&mut self) {
        let grants = self.queue.with(|state| state.waiters.leave(self.partition, self.ticket));
        self.held.extend(grants);
    }

    /// Gives back all that is held.
    pub(super) fn give_back(&mut self) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            self.queue.with(|state| state.release(&held, self.shared.now()));
            self.shared.hand_out(&self.queue);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.pick_up();
        self.give_back();
    }
}
