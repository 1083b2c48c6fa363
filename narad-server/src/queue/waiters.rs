//! The line of consumers of one topic: first come, first served. Those that wait for one partition stand in a line
//! of their own, and a record goes to whoever of both lines came first.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use narad_core::{format::Offset, plugin::PartitionId};
use tokio::sync::Notify;

/// A place in line; lower ones came first.
pub(super) type Ticket = u64;

/// One lease given to one consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) partition: PartitionId,
    pub(super) offset: Offset,
    pub(super) nonce: u64,
}

/// A consumer that stands in line.
#[derive(Debug)]
pub(super) struct Waiter {
    /// Records it takes, at most.
    pub(super) max: usize,
    /// Signalled when it was served, or when it should look why it is not.
    pub(super) signal: Arc<Notify>,
}

/// All consumers of a topic that wait, and what was handed to those that have not picked it up.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    next_ticket: Ticket,
    /// By the partition they wait for; `None`: any.
    lines: BTreeMap<Option<PartitionId>, BTreeMap<Ticket, Waiter>>,
    served: HashMap<Ticket, Vec<Grant>>,
}

impl Waiters {
    /// A new last place in line.
    pub(super) fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Takes the place of `ticket`, be it a new one or one from before.
    pub(super) fn join(&mut self, partition: Option<PartitionId>, ticket: Ticket, waiter: Waiter) {
        self.lines.entry(partition).or_default().insert(ticket, waiter);
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The first in each line: its partition, its ticket, and how many records it takes. At most one more than
    /// there are partitions.
    pub(super) fn heads(&self) -> impl Iterator<Item = (Option<PartitionId>, Ticket, usize)> {
        self.lines.iter().filter_map(|(&partition, line)| {
            line.first_key_value().map(|(&ticket, waiter)| (partition, ticket, waiter.max))
        })
    }

    /// The first of a line leaves it with `grants`, and is told.
    pub(super) fn serve(&mut self, partition: Option<PartitionId>, ticket: Ticket, grants: Vec<Grant>) {
        if let Some(waiter) = self.remove(partition, ticket) {
            self.served.insert(ticket, grants);
            waiter.signal.notify_one();
        }
    }

    /// Whether something lies ready for `ticket`.
    pub(super) fn is_served(&self, ticket: Ticket) -> bool {
        self.served.contains_key(&ticket)
    }

    /// Leaves the line, with what lies ready.
    pub(super) fn leave(&mut self, partition: Option<PartitionId>, ticket: Ticket) -> Vec<Grant> {
        self.remove(partition, ticket);
        self.served.remove(&ticket).unwrap_or_default()
    }

    /// Tells everybody to look again.
    pub(super) fn signal_all(&self) {
        for waiter in self.lines.values().flat_map(BTreeMap::values) {
            waiter.signal.notify_one();
        }
    }

    fn remove(&mut self, partition: Option<PartitionId>, ticket: Ticket) -> Option<Waiter> {
        let line = self.lines.get_mut(&partition)?;
        let waiter = line.remove(&ticket);
        if line.is_empty() {
            self.lines.remove(&partition);
        }
        waiter
    }
}
