//! The task that moves records from the WAL to their partitions.
//!
//! One loop decides everything and waits for nothing but events; reads and commits run as jobs beside it. At most
//! one commit runs for a partition at a time, so a partition keeps the order of the WAL.

use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use narad_core::{
    Error,
    format::{Offset, Record},
    log::{Log, ReadBatch},
};
use tokio::{
    sync::watch,
    task::{Id, JoinError, JoinSet},
    time::{Instant, sleep_until},
};

use super::{
    IngressOptions, Partitions,
    backlog::Backlog,
    job::{self, End, Report},
    lane::{Lane, Pending},
    progress::Progress,
    route::{self, Route},
};

/// What one read of the WAL asks for, at most.
const READ_RECORDS: usize = 4096;
const READ_BYTES: usize = 1 << 20;
/// The part of the memory bounds that one partition may take, so that one that hangs leaves room for others.
const LANE_SHARE: usize = 8;

/// What a job of the dispatcher brings back.
enum Done {
    Read(Result<ReadBatch, Error>),
    Commit(Report),
}

/// The dispatcher's state. Make one with [`new`](Self::new), then [`run`](Self::run) it.
pub(super) struct Dispatcher {
    wal: Log,
    partitions: Arc<dyn Partitions>,
    options: Arc<IngressOptions>,
    backlog: Arc<Backlog>,
    /// Told how far everything is done.
    advanced: watch::Sender<Offset>,
    progress: Progress,
    lanes: HashMap<Arc<Route>, Lane>,
    /// The lanes that have records waiting and no commit running, each once, in the order of their turns.
    turns: VecDeque<Arc<Route>>,
    jobs: JoinSet<Done>,
    /// Which lane a running commit belongs to.
    commits: HashMap<Id, Arc<Route>>,
    /// Whether a read of the WAL runs.
    reading: bool,
    /// Not to be read before; set when a read failed.
    read_at: Option<Instant>,
    /// Whether the last read failed, so that it is said once and not at every try.
    read_failing: bool,
    /// Records and bytes held by all lanes.
    held: (usize, usize),
}

impl Dispatcher {
    /// A dispatcher that begins at `checkpoint`.
    pub(super) fn new(
        wal: Log,
        partitions: Arc<dyn Partitions>,
        options: Arc<IngressOptions>,
        backlog: Arc<Backlog>,
        advanced: watch::Sender<Offset>,
    ) -> Self {
        let progress = Progress::new(*advanced.borrow());
        Self {
            wal,
            partitions,
            options,
            backlog,
            advanced,
            progress,
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            jobs: JoinSet::new(),
            commits: HashMap::new(),
            reading: false,
            read_at: None,
            read_failing: false,
            held: (0, 0),
        }
    }

    /// Runs until `drain` turns true and everything is done that the partitions take.
    pub(super) async fn run(mut self, mut drain: watch::Receiver<bool>) {
        let mut announcement: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
        loop {
            // Taken before the look at the watermark, so that no commit falls between the look and the wait.
            let announced = announcement.get_or_insert_with(|| Box::pin(self.wal.subscribe().changed()));
            let now = Instant::now();
            let read_at = {
                self.read_ahead(now);
                self.read_at.filter(|&at| at > now)
            };
            let start_at = self.start_commits(now);
            self.publish();
            if *drain.borrow() && self.is_drained() {
                return;
            }
            let wake_at = [read_at, start_at].into_iter().flatten().min();
            tokio::select! {
                Some(done) = self.jobs.join_next_with_id(), if !self.jobs.is_empty() => self.finish(done),
                () = announced => announcement = None,
                () = sleep_until(wake_at.unwrap_or(now)), if wake_at.is_some() => {}
                changed = drain.changed(), if !*drain.borrow() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
            if self.wal.is_closed() {
                return;
            }
        }
    }

    /// Starts a read of the WAL when there is something to read and room for it.
    fn read_ahead(&mut self, now: Instant) {
        let (records, bytes) = self.held;
        let full = records >= self.options.memory_records || bytes >= self.options.memory_bytes;
        let from = self.progress.read_to();
        let early = self.read_at.is_some_and(|at| at > now);
        if self.reading || full || early || from >= self.wal.high_watermark() {
            return;
        }
        (self.reading, self.read_at) = (true, None);
        let read = self.wal.read_batch_async(from, READ_RECORDS, READ_BYTES);
        self.jobs.spawn(async move { Done::Read(read.await) });
    }

    /// Starts commits while there is a slot and a lane that may start. Returns when to look again for one that
    /// lingers or waits.
    fn start_commits(&mut self, now: Instant) -> Option<Instant> {
        let mut look_at: Option<Instant> = None;
        for _ in 0..self.turns.len() {
            if self.commits.len() >= self.options.parallel_commits {
                return look_at;
            }
            let Some(route) = self.turns.pop_front() else { break };
            let Some(lane) = self.lanes.get_mut(&route) else { continue };
            if let Some(at) = lane.not_before(!self.commits.is_empty(), &self.options, now) {
                look_at = Some(look_at.map_or(at, |earlier| earlier.min(at)));
                self.turns.push_back(route);
                continue;
            }
            let before = lane.held();
            let work = lane.start(&self.options, now);
            let after = lane.held();
            self.release(before, after);
            let (wal, partitions) = (self.wal.clone(), Arc::clone(&self.partitions));
            let (options, of) = (Arc::clone(&self.options), Arc::clone(&route));
            let task = self.jobs.spawn(async move {
                Done::Commit(job::run(wal, partitions.as_ref(), &of, work, &options).await)
            });
            self.commits.insert(task.id(), route);
        }
        look_at
    }

    fn finish(&mut self, done: Result<(Id, Done), JoinError>) {
        let now = Instant::now();
        match done {
            Ok((_, Done::Read(read))) => {
                self.reading = false;
                self.absorb(read, now);
            }
            Ok((id, Done::Commit(report))) => self.settle(id, Some(report), now),
            // A panic in a plugin or in `Partitions`: that partition waits, everything else goes on.
            Err(panic) if self.commits.contains_key(&panic.id()) => {
                tracing::error!(%panic, "a commit to a partition panicked");
                self.settle(panic.id(), None, now);
            }
            Err(panic) => {
                tracing::error!(%panic, "a read of the produce log panicked");
                self.reading = false;
                self.read_at = now.checked_add(self.options.retry);
            }
        }
    }

    /// Takes in what a read of the WAL brought.
    fn absorb(&mut self, read: Result<ReadBatch, Error>, now: Instant) {
        let from = self.progress.read_to();
        match read {
            Ok(batch) if batch.next > from => {
                self.read_failing = false;
                self.progress.read(batch.next);
                let mut expected = from;
                for record in batch.records {
                    self.lose(expected, record.offset);
                    expected = record.offset.saturating_add(1);
                    self.accept(record, now);
                }
                self.lose(expected, batch.next);
            }
            Err(Error::Expired { oldest, .. }) => {
                self.progress.read(oldest);
                self.lose(from, oldest);
            }
            Ok(_) | Err(Error::NotYet { .. }) => self.read_at = now.checked_add(self.options.retry),
            Err(error) => {
                if !std::mem::replace(&mut self.read_failing, true) {
                    tracing::error!(%error, %from, "the produce log cannot be read; trying again");
                }
                self.read_at = now.checked_add(self.options.retry);
            }
        }
    }

    /// Puts a record into its partition's lane.
    fn accept(&mut self, record: Record, now: Instant) {
        let Some((route, key)) = route::decode(&record.key) else {
            return self.lose(record.offset, record.offset.saturating_add(1));
        };
        let pending = Pending { offset: record.offset, key, payload: record.payload };
        let route = Arc::new(route);
        let lane = self.lanes.entry(Arc::clone(&route)).or_default();
        if lane.is_idle() {
            self.turns.push_back(route);
        }
        let before = lane.held();
        let keep = before.0 < self.options.memory_records / LANE_SHARE
            && before.1 < self.options.memory_bytes / LANE_SHARE;
        lane.push(pending, keep, now);
        let after = lane.held();
        self.release(before, after);
    }

    /// Acknowledged messages that the WAL cannot give back: they are lost to damage, which is said and not hidden.
    fn lose(&mut self, from: Offset, to: Offset) {
        if from >= to {
            return;
        }
        tracing::error!(%from, %to, "messages in the produce log cannot be read and are lost");
        for n in 0..to.since(from) {
            self.progress.finish(from.saturating_add(n));
        }
    }

    /// Takes in what became of a commit; without a report all of it remains to be done.
    fn settle(&mut self, id: Id, report: Option<Report>, now: Instant) {
        let Some(route) = self.commits.remove(&id) else { return };
        let Some(lane) = self.lanes.get_mut(&route) else { return };
        let report = report.unwrap_or_else(|| Report {
            done: Vec::new(),
            back: lane.in_flight().to_vec(),
            end: End::Failed(Error::Closed),
        });
        let before = lane.held();
        let mut done = report.done;
        match report.end {
            End::Good => {
                if lane.is_failing() {
                    tracing::info!(topic = &*route.topic, partition = %route.partition, "partition takes messages again");
                }
                lane.end(report.back, None, now);
            }
            End::Gone => {
                lane.end(report.back, None, now);
                done.extend(lane.discard());
                tracing::warn!(
                    topic = &*route.topic, id = %route.id, partition = %route.partition, messages = done.len(),
                    "messages of a topic that is no more were dropped"
                );
            }
            End::Failed(error) => {
                if !lane.is_failing() {
                    tracing::error!(
                        topic = &*route.topic, partition = %route.partition, %error,
                        "partition does not take messages; they wait in the produce log"
                    );
                }
                lane.end(report.back, Some(later(now, self.options.retry)), now);
            }
        }
        let (after, waits) = (lane.held(), lane.is_waiting());
        self.release(before, after);
        if waits {
            self.turns.push_back(route);
        } else {
            self.lanes.remove(&route);
        }
        for offset in done {
            self.progress.finish(offset);
        }
    }

    /// Accounts for a lane that held `before` and now holds `after`.
    fn release(&mut self, before: (usize, usize), after: (usize, usize)) {
        self.held.0 = (self.held.0 + after.0).saturating_sub(before.0);
        self.held.1 = (self.held.1 + after.1).saturating_sub(before.1);
    }

    fn publish(&self) {
        let checkpoint = self.progress.checkpoint();
        self.advanced.send_if_modified(|sent| std::mem::replace(sent, checkpoint) != checkpoint);
        self.backlog.set(self.progress.read_to(), self.progress.undone());
    }

    /// Whether nothing is left but what failing partitions do not take.
    fn is_drained(&self) -> bool {
        let stuck = |route: &Arc<Route>| self.lanes.get(route).is_none_or(Lane::is_failing);
        self.jobs.is_empty()
            && (self.progress.read_to() >= self.wal.high_watermark() || self.read_at.is_some())
            && self.turns.iter().all(stuck)
    }
}

fn later(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or(now)
}
