//! One consume call: stand in line, read what was handed over, lease it.

use std::{ops::Range, sync::Arc, time::Duration};

use futures_util::future::join_all;
use narad_core::{
    Error,
    format::{Offset, Record},
    log::ReadBatch,
    plugin::PartitionId,
};
use tokio::time::Instant;

use super::{
    Consume, Delivery, QueueError, Receipt, opening::Opening, seat::Seat, shared::Shared, topic::TopicQueue,
    waiters::Grant,
};

/// How long a consumer that asks for what is there waits for partitions to be opened. They go on opening without it,
/// and it is told that nothing is there: a disk that hangs must not hang a consumer that is not willing to wait.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long one that takes several does so before it is given what is open.
const MOMENT: Duration = Duration::from_millis(50);

/// Leases the next records. See [`Queues::consume`](super::Queues::consume).
pub(super) async fn consume(
    shared: &Arc<Shared>,
    queue: &Arc<TopicQueue>,
    request: Consume,
) -> Result<Vec<Delivery>, QueueError> {
    let now = Instant::now();
    let until = now.checked_add(request.wait).unwrap_or(now);
    if let Some(partition) = request.partition {
        check(queue, partition)?;
    }
    let opens = shared.open_shut(queue, request.partition);
    if request.max > 1 {
        // Most opens take less than this, and a batch is to be full when it can be.
        let opened = join_all(opens.iter().cloned().map(Opening::ended));
        _ = tokio::time::timeout(MOMENT, opened).await;
    }
    let mut reader = Reader {
        shared,
        queue,
        // In line before the look, so that nothing is missed between the look and the wait.
        seat: Seat::take(shared, queue, request.partition, request.max.max(1)),
        max_bytes: request.max_bytes,
        bytes: 0,
        read: Vec::new(),
    };
    if !opens.is_empty() {
        // What is open gives what it has at once; only who gets nothing of it waits for the rest.
        shared.hand_out(queue);
        let patience = now.checked_add(PATIENCE).unwrap_or(now);
        if let Some(error) = reader.seat.wait_for_opens(opens, patience).await
            && !queue.with(|state| state.dead || state.is_usable(request.partition))
        {
            return Err(QueueError::Storage(error));
        }
    }
    loop {
        shared.hand_out(queue);
        reader.seat.wait(until).await;
        reader.seat.pick_up();
        if reader.seat.held.is_empty() {
            return Ok(Vec::new());
        }
        let failure = reader.read_all().await.err();
        let deliveries = reader.lease();
        match failure {
            _ if !deliveries.is_empty() => return Ok(deliveries),
            Some(_) if queue.with(|state| state.dead) => return Ok(Vec::new()),
            Some(Error::Closed) if shared.is_closed() => return Err(QueueError::Closed),
            Some(error) => return Err(QueueError::Storage(error)),
            // Nothing of it could be read, and it was passed over: on to what comes behind it.
            None => reader.seat.join(),
        }
    }
}

fn check(queue: &TopicQueue, partition: PartitionId) -> Result<(), Error> {
    queue.with(|state| {
        if state.dead || state.cell(partition).is_some() {
            return Ok(());
        }
        let spec = &state.topic.spec;
        let reason = format!("{partition}: topic {} has {}", spec.name, spec.partitions);
        Err(Error::InvalidArgument { name: "partition", reason })
    })
}

/// Reads the records that a seat was handed. What the seat holds stays with it until [`lease`](Self::lease), so that
/// a consumer that goes away in the middle gives all of it back.
struct Reader<'a> {
    shared: &'a Arc<Shared>,
    queue: &'a Arc<TopicQueue>,
    seat: Seat,
    max_bytes: usize,
    /// Bytes of keys and payloads in `read`.
    bytes: usize,
    read: Vec<(Grant, Record)>,
}

impl Reader<'_> {
    /// Reads what the seat holds, as far as the bytes allow. What cannot be read is passed over.
    async fn read_all(&mut self) -> Result<(), Error> {
        let mut wanted = self.seat.held.clone();
        wanted.sort_unstable_by_key(|grant| (grant.partition, grant.offset));
        let mut rest = wanted.as_slice();
        let mut reopened = false;
        while let Some((partition, run)) = first_run(rest).filter(|_| self.has_room()) {
            let reached = match self.read_run(partition, &run).await {
                Ok(batch) => self.take_in(partition, &run, batch)?,
                Err(Error::Expired { oldest, .. }) => {
                    self.queue.with(|state| state.jump(partition, oldest, &self.shared.store));
                    oldest.max(run.start.saturating_add(1))
                }
                Err(error) if error.is_unreadable_record() => {
                    let next = run.start.saturating_add(1);
                    self.pass_over(partition, run.start..next);
                    next
                }
                // Closed for being idle, between the hand-out and the read.
                Err(Error::Closed) if !reopened => {
                    reopened = true;
                    self.shared.open(self.queue, partition).ended().await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let done = rest.partition_point(|grant| (grant.partition, grant.offset) < (partition, reached));
            rest = rest.get(done..).unwrap_or_default();
        }
        Ok(())
    }

    /// Whether another record may be read: the first one always.
    fn has_room(&self) -> bool {
        self.read.is_empty() || self.bytes < self.max_bytes
    }

    async fn read_run(&self, partition: PartitionId, run: &Range<Offset>) -> Result<ReadBatch, Error> {
        let log = self.queue.with(|state| state.cell(partition)?.log.clone()).ok_or(Error::Closed)?;
        let records = usize::try_from(run.end.since(run.start)).unwrap_or(usize::MAX);
        if records == 1 {
            // Answered from memory when the record was just committed.
            match log.read_async(run.start).await {
                Ok(record) => {
                    let mut batch = ReadBatch::default();
                    (batch.next, batch.records) = (run.end, vec![record]);
                    return Ok(batch);
                }
                // The batch read knows how far the damage reaches.
                Err(error) if error.is_unreadable_record() => {}
                Err(error) => return Err(error),
            }
        }
        let bytes = self.max_bytes.saturating_sub(self.bytes).max(1);
        log.read_batch_async(run.start, records, bytes).await
    }

    /// Takes in what a read of `run` brought. Returns where the next one begins.
    fn take_in(
        &mut self,
        partition: PartitionId,
        run: &Range<Offset>,
        batch: ReadBatch,
    ) -> Result<Offset, Error> {
        if batch.next <= run.start {
            return Err(Error::NotYet { offset: run.start, high_watermark: batch.next });
        }
        for range in batch.unreadable {
            self.pass_over(partition, range);
        }
        for record in batch.records {
            let of_record = |grant: &&Grant| (grant.partition, grant.offset) == (partition, record.offset);
            let Some(&grant) = self.seat.held.iter().find(of_record) else { continue };
            let bytes = self.bytes.saturating_add(record.key.len()).saturating_add(record.payload.len());
            if bytes > self.max_bytes && !self.read.is_empty() {
                // Full: this one and what follows go back.
                self.bytes = self.max_bytes;
                return Ok(record.offset);
            }
            self.bytes = bytes;
            self.read.push((grant, record));
        }
        Ok(batch.next)
    }

    /// Passes over a range that cannot be read.
    fn pass_over(&mut self, partition: PartitionId, range: Range<Offset>) {
        let inside = |grant: &Grant| grant.partition == partition && range.contains(&grant.offset);
        let (lost, held) = self.seat.held.iter().partition(|grant| inside(grant));
        self.seat.held = held;
        let (now, store) = (self.shared.now(), &self.shared.store);
        let lost: Vec<Grant> = lost;
        if self.queue.with(|state| state.skip(partition, range, &lost, store, now)) > 0 {
            self.shared.runtime.metrics().error("queue", "damage");
        }
    }

    /// Begins the leases of what was read, and gives the rest back.
    fn lease(&mut self) -> Vec<Delivery> {
        let read = std::mem::take(&mut self.read);
        self.bytes = 0;
        let now = self.shared.now();
        self.seat.held.retain(|held| !read.iter().any(|(grant, _)| grant == held));
        let deliveries = self.queue.with(|state| {
            let begun = read.into_iter().filter(|(grant, _)| state.begin(grant, now));
            let deliveries = begun.map(|(grant, record)| delivery(grant, record)).collect();
            state.arm(self.queue.id, &self.shared.signals, now);
            deliveries
        });
        self.seat.give_back();
        deliveries
    }
}

fn delivery(grant: Grant, record: Record) -> Delivery {
    let Grant { partition, offset, nonce } = grant;
    Delivery { partition, record, nonce: Receipt { partition, offset, nonce } }
}

/// The consecutive offsets at the front, all of one partition.
fn first_run(grants: &[Grant]) -> Option<(PartitionId, Range<Offset>)> {
    let &Grant { partition, offset: start, .. } = grants.first()?;
    let follows =
        |&(grant, n): &(&Grant, u64)| grant.partition == partition && grant.offset == start.saturating_add(n);
    let len = grants.iter().zip(0u64..).take_while(follows).count() as u64;
    Some((partition, start..start.saturating_add(len)))
}
