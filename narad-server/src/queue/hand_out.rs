//! The hand-out: what brings the records of a topic's partitions and its line of consumers together.
//!
//! It runs under the topic's lock and does no I/O.

use std::time::Duration;

use narad_core::{
    plugin::{Incarnation, PartitionId},
    store::Store,
};

use super::{partition::Caps, signals::Signals, topic::State, waiters::Grant};

impl State {
    /// Hands out until no line's first can be served.
    pub(super) fn hand_out(&mut self, store: &Store, now: Duration) {
        let mut exhausted: Vec<PartitionId> = Vec::new();
        loop {
            let first = self
                .waiters
                .heads()
                .filter(|(partition, ..)| partition.is_none_or(|partition| !exhausted.contains(&partition)))
                .min_by_key(|&(_, ticket, _)| ticket);
            let Some((partition, ticket, max)) = first else { return };
            let grants = match partition {
                Some(partition) => self.collect_pinned(partition, max, store, now),
                None => self.collect_any(max, store, now),
            };
            match (grants.is_empty(), partition) {
                (false, _) => self.waiters.serve(partition, ticket, grants),
                (true, Some(partition)) => exhausted.push(partition),
                // Who takes anything gets nothing: so would everybody.
                (true, None) => return,
            }
        }
    }

    fn collect_pinned(
        &mut self,
        partition: PartitionId,
        max: usize,
        store: &Store,
        now: Duration,
    ) -> Vec<Grant> {
        std::iter::from_fn(|| self.take(partition, store, now)).take(max).collect()
    }

    /// One record from each partition in turn, so that a busy one does not starve the others.
    fn collect_any(&mut self, max: usize, store: &Store, now: Duration) -> Vec<Grant> {
        let (mut grants, mut misses) = (Vec::new(), 0);
        while grants.len() < max && misses < self.cells.len() {
            let index = self.turn % self.cells.len();
            self.turn = index + 1;
            let partition = u32::try_from(index).map_or(PartitionId(u32::MAX), PartitionId);
            match self.take(partition, store, now) {
                Some(grant) => {
                    grants.push(grant);
                    misses = 0;
                }
                None => misses += 1,
            }
        }
        grants
    }

    /// Leases the next record of a partition.
    fn take(&mut self, partition: PartitionId, store: &Store, now: Duration) -> Option<Grant> {
        let caps =
            Caps { max_in_flight: self.topic.max_in_flight, max_acked_ahead: self.topic.max_acked_ahead };
        let (oldest, end) = {
            let cell = self.cell(partition).filter(|cell| !cell.is_shut())?;
            let log = cell.log.as_ref()?;
            (log.oldest_offset(), log.high_watermark())
        };
        self.jump(partition, oldest, store);
        let nonce = rand::random();
        let offset = self.queue(partition)?.take(now, end, caps, nonce)?;
        Some(Grant { partition, offset, nonce })
    }

    /// Sees to it that the pump looks here when the next lease ends, if somebody waits.
    pub(super) fn arm(&mut self, id: Incarnation, signals: &Signals, now: Duration) {
        self.alarm = self.alarm.filter(|&at| at > now);
        if self.waiters.is_empty() {
            return;
        }
        let expiries = self.cells.iter().filter_map(|cell| cell.queue.as_ref()?.next_expiry());
        if let Some(at) = expiries.min().filter(|&at| self.alarm.is_none_or(|alarm| at < alarm)) {
            self.alarm = Some(at);
            signals.set_alarm(at, id);
        }
    }
}
