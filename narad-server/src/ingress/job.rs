//! One commit to one partition: fetch what is to be committed, find the partition, commit.
//!
//! A job says what became of every record it was given; it never decides when to try again.

use std::ops::Range;

use narad_core::{
    Error,
    format::{Batch, Offset},
    log::Log,
};

use tracing::Instrument;

use super::{
    IngressOptions, Lookup, Partitions,
    lane::{Pending, Work},
    origins::Origins,
    route::{self, Address, Route},
};
use crate::telemetry::spans::{self, Operation};

/// How often a log that was closed between the lookup and the commit is looked up again at once.
const CLOSED_RETRIES: usize = 3;

/// What became of the records of a job. Each is either in `done` or in `back`.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Committed, or dropped for good.
    pub(super) done: Vec<Offset>,
    /// To be committed later, ascending.
    pub(super) back: Vec<Offset>,
    pub(super) end: End,
}

/// How a job ended.
#[derive(Debug, Default)]
pub(super) enum End {
    /// Everything that was tried was taken.
    #[default]
    Good,
    /// The partition is no more.
    Gone,
    /// The partition did not take its records.
    Failed(Error),
    /// The produce log did not give the records back, which says nothing of the partition.
    Unread(Error),
}

/// Carries out `work` with the partition that `route` names, be it the one that the records are for or one that stands in
/// for it.
pub(super) async fn run(
    wal: Log,
    partitions: &dyn Partitions,
    route: &Route,
    work: Work,
    options: &IngressOptions,
    origins: &Origins,
) -> Report {
    let mut report = Report::default();
    let records = match work {
        Work::Loaded(records) => records,
        Work::Reread(offsets) => match reread(&wal, &offsets, options, &mut report).await {
            Ok(records) => records,
            Err(error) => {
                let done = std::mem::take(&mut report.done);
                let back = offsets.into_iter().filter(|offset| !done.contains(offset)).collect();
                return Report { done, back, end: End::Unread(error) };
            }
        },
    };
    if !records.is_empty() {
        let span = spans::messaging(Operation::Commit, &route.topic);
        let partition = route.partition.0;
        spans::messages(&span, records.iter().map(|record| (partition, record.payload.len())));
        let offsets: Vec<Offset> = if span.is_disabled() {
            Vec::new()
        } else {
            records.iter().map(|record| record.offset).collect()
        };
        commit(partitions, route, records, &mut report).instrument(span.clone()).await;
        // Afterwards: a produce may learn of its own success later than the dispatcher does.
        for cause in origins.of(&offsets) {
            spans::link(&span, cause);
        }
    }
    report
}

/// Reads records again. What does not fit one batch goes to `report.back`, what cannot be read to `report.done`.
async fn reread(
    wal: &Log,
    offsets: &[Offset],
    options: &IngressOptions,
    report: &mut Report,
) -> Result<Vec<Pending>, Error> {
    let (mut records, mut cost) = (Vec::new(), 0usize);
    let mut rest = offsets;
    while let Some((run, later)) = first_run(rest) {
        if cost >= options.batch_bytes {
            break;
        }
        let read = wal.read_batch_async(run.start, run_len(&run), options.batch_bytes - cost).await?;
        let reached = read.next.min(run.end);
        if reached <= run.start {
            return Err(Error::NotYet { offset: run.start, high_watermark: wal.high_watermark() });
        }
        let mut expected = run.start;
        for record in read.records.into_iter().filter(|record| record.offset < reached) {
            lose(expected..record.offset, report);
            expected = record.offset.saturating_add(1);
            match route::decode(&record.key) {
                Some(Address { pinned, key, .. }) => {
                    let pending = Pending::new(record.offset, pinned, key, record.payload);
                    cost += pending.cost();
                    records.push(pending);
                }
                None => lose(record.offset..expected, report),
            }
        }
        lose(expected..reached, report);
        let taken = usize::try_from(reached.since(run.start)).unwrap_or(usize::MAX);
        rest = if reached < run.end { rest.get(taken..).unwrap_or_default() } else { later };
    }
    report.back.extend_from_slice(rest);
    Ok(records)
}

/// Records that the WAL no longer gives out: acknowledged and lost to damage. Said at error, since nothing else can
/// be done.
fn lose(range: Range<Offset>, report: &mut Report) {
    if range.is_empty() {
        return;
    }
    tracing::error!(from = %range.start, to = %range.end, "messages in the produce log cannot be read and are lost");
    report.done.extend((0..range.end.since(range.start)).map(|n| range.start.saturating_add(n)));
}

/// The run of consecutive offsets at the front, and what follows it.
fn first_run(offsets: &[Offset]) -> Option<(Range<Offset>, &[Offset])> {
    let start = *offsets.first()?;
    let len =
        offsets.iter().zip(0u64..).take_while(|&(&offset, n)| offset == start.saturating_add(n)).count();
    Some((start..start.saturating_add(len as u64), offsets.get(len..)?))
}

fn run_len(run: &Range<Offset>) -> usize {
    usize::try_from(run.end.since(run.start)).unwrap_or(usize::MAX)
}

async fn commit(partitions: &dyn Partitions, route: &Route, records: Vec<Pending>, report: &mut Report) {
    match commit_once(partitions, route, &records).await {
        End::Failed(Error::RecordTooLarge { .. }) => commit_each(partitions, route, records, report).await,
        end @ End::Failed(_) => put_back(&records, report, end),
        end => {
            report.done.extend(records.iter().map(|record| record.offset));
            report.end = end;
        }
    }
}

/// One record among many was refused for good: commit them one by one, so that it takes no other with it.
async fn commit_each(partitions: &dyn Partitions, route: &Route, records: Vec<Pending>, report: &mut Report) {
    for (index, record) in records.iter().enumerate() {
        match commit_once(partitions, route, std::slice::from_ref(record)).await {
            End::Failed(error @ Error::RecordTooLarge { .. }) => {
                tracing::error!(
                    topic = &*route.topic, partition = %route.partition, wal_offset = %record.offset, %error,
                    "a message is refused by its partition for good and is dropped"
                );
            }
            end @ End::Failed(_) => {
                return put_back(records.get(index..).unwrap_or_default(), report, end);
            }
            end => report.end = end,
        }
        report.done.push(record.offset);
    }
}

/// `records` come before all that a reread left over.
fn put_back(records: &[Pending], report: &mut Report, end: End) {
    let later = std::mem::take(&mut report.back);
    report.back.extend(records.iter().map(|record| record.offset));
    report.back.extend(later);
    report.end = end;
}

async fn commit_once(partitions: &dyn Partitions, route: &Route, records: &[Pending]) -> End {
    let mut end = End::Failed(Error::Closed);
    for _ in 0..CLOSED_RETRIES {
        let log = match partitions.partition(&route.topic, route.id, route.partition).await {
            Lookup::Open(log) => log,
            Lookup::Gone => return End::Gone,
            Lookup::Unavailable(error) => return End::Failed(error),
        };
        let bytes = records.iter().map(|record| record.key.len() + record.payload.len()).sum();
        let mut batch = Batch::with_room(records.len(), bytes);
        records.iter().for_each(|record| batch.push(&record.key, &record.payload));
        match log.commit_async(batch).await {
            Ok(_) => return End::Good,
            // An idle log may be closed between the lookup and the commit; nothing was written then.
            Err(Error::Closed) => end = End::Failed(Error::Closed),
            Err(error) => return End::Failed(error),
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_cut_where_offsets_skip() {
        let offsets = [3u32, 4, 5, 9, 10].map(Offset::from);
        let (run, rest) = first_run(&offsets).unwrap();
        assert_eq!((run.start, run.end, rest.len()), (Offset::from(3), Offset::from(6), 2));
        assert!(first_run(&[]).is_none());
    }
}
