//! One pass of a cursor: read, hold back what is not due, commit to the child, write the cursor.
//!
//! The order is the whole of it: the cursor never passes a record that the child has not committed.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

use narad_core::{
    Error,
    format::{Batch, FanoutCursor, Offset, Record},
    log::{Log, ReadBatch},
    plugin::{Incarnation, PartitionId},
    store::TopicSpec,
};

use super::{
    Found,
    cursor::{Partial, Progress},
    link::ActiveLink,
    shared::Shared,
};
use crate::{meta::Link, placement};

/// How often a log that was closed between the lookup and its use is looked up again at once.
const CLOSED_RETRIES: usize = 3;

/// What a pass has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// There was nothing more to copy.
    Idle,
    /// There is more.
    More,
    /// The next record is due at this wall time, in Unix milliseconds.
    Due(i64),
    /// Something failed; to be tried again.
    Failed,
    /// The link is no more.
    Ended,
}

/// Why a pass went no further.
enum Stop {
    Ended,
    Failed { what: &'static str, error: Error },
}

/// One pass. What it has reached is in `progress` whatever it answers.
pub(super) async fn pass(
    shared: &Shared,
    active: &ActiveLink,
    partition: PartitionId,
    progress: &mut Progress,
) -> Pass {
    let link = active.link();
    let pass = Copy { shared, active, link: &link, partition };
    match pass.run(progress).await {
        Ok(pass) => {
            if std::mem::take(&mut progress.failing) {
                tracing::info!(parent = %link.parent.name, child = %link.child, %partition, "copying goes on");
            }
            pass
        }
        Err(Stop::Ended) => Pass::Ended,
        Err(Stop::Failed { what, error }) => {
            if shared.is_closed() || pass.is_over().await {
                return Pass::Ended;
            }
            shared.runtime.metrics().error("fanout", what);
            if !std::mem::replace(&mut progress.failing, true) {
                tracing::error!(
                    parent = %link.parent.name, child = %link.child, %partition, what, %error,
                    "messages are not copied to the child for now; trying again"
                );
            }
            Pass::Failed
        }
    }
}

struct Copy<'a> {
    shared: &'a Shared,
    active: &'a ActiveLink,
    link: &'a Link,
    partition: PartitionId,
}

impl Copy<'_> {
    async fn run(&self, progress: &mut Progress) -> Result<Pass, Stop> {
        let parent = self.topic(&self.link.parent.name, self.link.parent.id).await?;
        let Some(next) = self.position(&parent, progress).await? else { return Ok(Pass::Idle) };
        let (log, batch) = self.read(&parent, next, progress).await?;
        let Some(next) = progress.next.filter(|&next| batch.next > next) else {
            progress.head_due_ms = None;
            self.save(&parent, progress).await?;
            return Ok(Pass::Idle);
        };
        let now_ms = self.shared.runtime.clock().unix_ms();
        let (records, gate, due) = self.split_at_gate(batch.records, batch.next, now_ms);
        let reached = progress.partial.as_ref().map_or(gate, |partial| gate.min(partial.end));
        // Behind an older batch that is finished first there may be more that is due.
        let due = due.filter(|_| reached == gate);
        if reached <= next {
            progress.head_due_ms = due;
            self.save(&parent, progress).await?;
            return Ok(due.map_or(Pass::Failed, Pass::Due));
        }
        let records: Vec<Record> = records.into_iter().filter(|record| record.offset < reached).collect();
        progress.head_due_ms = records.first().map(|record| self.due_ms(record));
        let Some(_committing) = self.active.may_commit().await else { return Err(Stop::Ended) };
        if !records.is_empty() {
            self.commit(&records, reached, progress).await?;
        }
        let lost = batch.unreadable.iter().map(|range| below(range, reached)).sum();
        self.drop_behind(lost, "records of the parent cannot be read; the child never gets them");
        self.active.committed.fetch_add(records.len() as u64, Ordering::Relaxed);
        progress.partial.take_if(|partial| partial.end <= reached);
        (progress.next, progress.unsaved, progress.head_due_ms) = (Some(reached), true, due);
        self.save(&parent, progress).await?;
        Ok(match due {
            Some(due) => Pass::Due(due),
            _ if reached < log.high_watermark() => Pass::More,
            _ => Pass::Idle,
        })
    }

    /// Whether what failed did so because there is nothing to copy any more.
    async fn is_over(&self) -> bool {
        let ends = [(&self.link.parent.name, self.link.parent.id), (&self.link.child, self.link.child_id)];
        for (name, id) in ends {
            if self.active.has_ended() || matches!(self.shared.topics.topic(name, id).await, Found::Gone) {
                return true;
            }
        }
        false
    }

    async fn topic(&self, name: &str, id: Incarnation) -> Result<Arc<TopicSpec>, Stop> {
        match self.shared.topics.topic(name, id).await {
            Found::Here(spec) => Ok(spec),
            Found::Gone => Err(Stop::Ended),
            Found::Unavailable(error) => Err(failed("lookup")(error)),
        }
    }

    /// Where the cursor is, read on first use; `None` when the parent's files say that there is nothing behind it.
    async fn position(
        &self,
        parent: &Arc<TopicSpec>,
        progress: &mut Progress,
    ) -> Result<Option<Offset>, Stop> {
        if let Some(next) = progress.next {
            return Ok(Some(next));
        }
        let (store, spec, partition) = (self.shared.store.clone(), Arc::clone(parent), self.partition);
        if partition.0 >= spec.partitions {
            return Ok(None);
        }
        let (link, start) = (self.link.clone(), ActiveLink::start(self.link, partition));
        let look = move || {
            let cursor = store.fanout_cursor(&spec, partition, &link.child)?;
            Ok((cursor_of(cursor, &link, start), store.stats(&spec, partition)?.high_watermark))
        };
        let looked: Result<_, Error> = self.shared.runtime.run_blocking(&parent.name, look).await;
        let (next, end) = looked.map_err(failed("cursor"))?;
        progress.next = Some(next);
        // A closed log that has nothing to copy stays closed.
        Ok(Some(next).filter(|&next| end != Some(next)))
    }

    /// Reads from the cursor on, which is brought within the log's bounds first.
    async fn read(
        &self,
        parent: &TopicSpec,
        mut next: Offset,
        progress: &mut Progress,
    ) -> Result<(Log, ReadBatch), Stop> {
        let (mut retries, options) = (CLOSED_RETRIES, &self.shared.options);
        loop {
            let log = self.shared.store.log_async(parent, self.partition).await.map_err(failed("open"))?;
            let end = log.high_watermark();
            if next > end {
                tracing::warn!(
                    parent = %self.link.parent.name, child = %self.link.child, partition = %self.partition,
                    cursor = %next, %end, "a child's cursor lies beyond the end of the log; it goes on there"
                );
                self.shared.runtime.metrics().error("fanout", "cursor_clamped");
                next = end;
                (progress.next, progress.partial, progress.unsaved) = (Some(next), None, true);
            }
            match log.read_batch_async(next, options.batch_records, options.batch_bytes).await {
                Ok(batch) => return Ok((log, batch)),
                Err(Error::Expired { oldest, .. }) if oldest > next => {
                    self.drop_behind(
                        oldest.since(next),
                        "retention has passed a child; it never gets what was taken",
                    );
                    next = oldest;
                    progress.partial.take_if(|partial| partial.end <= oldest);
                    (progress.next, progress.unsaved) = (Some(next), true);
                }
                Err(Error::Closed) if retries > 0 => retries -= 1,
                Err(error) => return Err(failed("read")(error)),
            }
        }
    }

    /// Those of `records` that are due, the offset behind them, and when the first of the others is.
    fn split_at_gate(
        &self,
        mut records: Vec<Record>,
        end: Offset,
        now_ms: i64,
    ) -> (Vec<Record>, Offset, Option<i64>) {
        // Without a delay there is no gate: a clock that was stepped back must not hold anything up.
        if self.link.parent.delay_ms == 0 {
            return (records, end, None);
        }
        let due = records.iter().take_while(|record| self.due_ms(record) <= now_ms).count();
        let Some(head) = records.get(due) else { return (records, end, None) };
        let (reached, head_due) = (head.offset, self.due_ms(head));
        records.truncate(due);
        (records, reached, Some(head_due))
    }

    fn due_ms(&self, record: &Record) -> i64 {
        let delay = i64::try_from(self.link.parent.delay_ms).unwrap_or(i64::MAX);
        record.committed_at_ms.saturating_add(delay)
    }

    /// Commits records to the child's partitions, those apart that have theirs from an earlier try.
    async fn commit(&self, records: &[Record], end: Offset, progress: &mut Progress) -> Result<(), Stop> {
        let child = self.topic(&self.link.child, self.link.child_id).await?;
        let before = progress.partial.take();
        let mut partial = before.clone().unwrap_or_else(|| Partial {
            end,
            partitions: child.partitions,
            done: Default::default(),
        });
        // What is taken now is taken up to here, however far an earlier try went: a clock may have been stepped back.
        partial.end = partial.end.min(end);
        let mut groups: BTreeMap<PartitionId, Vec<&Record>> = BTreeMap::new();
        for record in records {
            let partition = self.place(&record.key, partial.partitions);
            groups.entry(partition).or_default().push(record);
        }
        groups.retain(|partition, _| !partial.done.contains(partition));
        let mut failure = None;
        for _ in 0..=CLOSED_RETRIES {
            let mut commits = Vec::new();
            for (&partition, records) in &groups {
                let batch: Batch = records.iter().map(|record| (&record.key, &record.payload)).collect();
                match self.shared.store.log_async(&child, partition).await {
                    // Queued here, so that the child's partitions sync side by side.
                    Ok(log) => commits.push((partition, log.commit_async(batch))),
                    Err(error) => failure = Some(error),
                }
            }
            for (partition, commit) in commits {
                match commit.await {
                    Ok(_) => {
                        groups.remove(&partition);
                        partial.done.insert(partition);
                    }
                    Err(error) => failure = Some(error),
                }
            }
            if groups.is_empty() {
                progress.partial = before.filter(|before| before.end > end);
                return Ok(());
            }
            if !matches!(failure, Some(Error::Closed)) {
                break;
            }
        }
        progress.partial = Some(partial);
        Err(failed("commit")(failure.unwrap_or(Error::Closed)))
    }

    /// The child's partition for a record: that of its key, else the one of the parent's number.
    fn place(&self, key: &[u8], partitions: u32) -> PartitionId {
        match key {
            [] => PartitionId(self.partition.0.checked_rem(partitions).unwrap_or(0)),
            key => placement::of_key(key, partitions),
        }
    }

    /// Writes the cursor, if it moved. When that fails, copying goes on: a crash then repeats more than one batch.
    async fn save(&self, parent: &Arc<TopicSpec>, progress: &mut Progress) -> Result<(), Stop> {
        let Some(next) = progress.next.filter(|_| progress.unsaved) else { return Ok(()) };
        let (store, spec, partition) = (self.shared.store.clone(), Arc::clone(parent), self.partition);
        let (child, cursor) = (Arc::clone(&self.link.child), FanoutCursor { epoch: self.active.epoch, next });
        let write = move || store.record_fanout_cursor(&spec, partition, &child, cursor);
        let written = self.shared.runtime.run_blocking(&parent.name, write).await;
        progress.unsaved = written.is_err();
        written.map_err(failed("cursor"))
    }

    fn drop_behind(&self, messages: u64, why: &'static str) {
        if messages > 0 {
            tracing::warn!(
                parent = %self.link.parent.name, child = %self.link.child, partition = %self.partition, messages, "{why}"
            );
            self.active.dropped.fetch_add(messages, Ordering::Relaxed);
        }
    }
}

/// Where a link's copying goes on, by what its file says. Of another attachment, or from before this one, it says
/// nothing.
pub(super) fn cursor_of(cursor: Option<FanoutCursor>, link: &Link, start: Offset) -> Offset {
    let ours = cursor.filter(|cursor| cursor.epoch == link.parent.epoch && cursor.next >= start);
    ours.map_or(start, |cursor| cursor.next)
}

fn failed(what: &'static str) -> impl Fn(Error) -> Stop {
    move |error| Stop::Failed { what, error }
}

/// How many offsets of `range` lie below `end`.
fn below(range: &Range<Offset>, end: Offset) -> u64 {
    range.end.min(end).since(range.start.min(end))
}
