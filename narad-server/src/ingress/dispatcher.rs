//! The task that moves records from the WAL to their partitions.
//!
//! One loop decides everything and waits for nothing but events; reads and commits run as jobs beside it. At most
//! one commit runs to a partition at a time, so a partition keeps the order of the WAL.
//!
//! A partition that fails waits alone. After a while its messages, those apart whose producer named it, go to the next
//! partition of the topic that works; once a probe of it succeeds, it gets what comes then. A message is in one lane
//! and at most one commit all the time, so none is committed twice, unless a commit that was answered with an error
//! turns out to be on disk after a crash.

use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
    sync::Arc,
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
    direct::Direct,
    failing::{Failing, later, siblings},
    job::{self, End, Report},
    lane::{Lane, Pending},
    origins::Origins,
    progress::Progress,
    reads::Reads,
    route::{self, Address, Route, Routes},
};

/// What one read of the WAL asks for, at most.
const READ_RECORDS: usize = 4096;
const READ_BYTES: usize = 1 << 20;
/// The part of the memory bounds that one partition may take, so that one that hangs leaves room for others.
const LANE_SHARE: usize = 8;

/// Records of one read of the WAL after the other, from which on a small batch lingers even if no commit runs.
const COMPANY: usize = 8;

/// What a job of the dispatcher brings back.
enum Done {
    Read(Result<ReadBatch, Error>),
    Commit(Report),
    /// The commit of a message that was under way to its partition before the WAL took it.
    Handed(Result<(), Error>),
}

/// A commit that runs.
struct Running {
    /// The lane whose records it carries.
    lane: Arc<Route>,
    /// The partition it goes to.
    target: Arc<Route>,
    since: Instant,
}

/// A message whose commit ran before the WAL had it.
struct Handed {
    task: Id,
    route: Arc<Route>,
    pending: Pending,
    since: Instant,
}

/// What a lane does next.
enum Plan {
    /// A commit to its own partition.
    Own,
    /// A commit to one that stands in for it.
    Elsewhere(Arc<Route>),
    /// Nothing before then; without a time, before another commit has ended.
    Wait(Option<Instant>),
}

/// The dispatcher's state. Make one with [`new`](Self::new), then [`run`](Self::run) it.
pub(super) struct Dispatcher {
    wal: Log,
    partitions: Arc<dyn Partitions>,
    options: Arc<IngressOptions>,
    backlog: Arc<Backlog>,
    origins: Arc<Origins>,
    direct: Arc<Direct>,
    /// The message whose commit was handed over, while it runs.
    handed: Option<Handed>,
    /// Told how far everything is done.
    advanced: watch::Sender<Offset>,
    progress: Progress,
    routes: Routes,
    lanes: HashMap<Arc<Route>, Lane>,
    /// The lanes that have records waiting and no commit running, each once, in the order of their turns.
    turns: VecDeque<Arc<Route>>,
    jobs: JoinSet<Done>,
    commits: HashMap<Id, Running>,
    failing: Failing,
    reads: Reads,
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
        origins: Arc<Origins>,
        direct: Arc<Direct>,
        advanced: watch::Sender<Offset>,
    ) -> Self {
        let progress = Progress::new(*advanced.borrow());
        Self {
            wal,
            partitions,
            options,
            backlog,
            origins,
            direct,
            handed: None,
            advanced,
            progress,
            routes: Routes::default(),
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            jobs: JoinSet::new(),
            commits: HashMap::new(),
            failing: Failing::default(),
            reads: Reads::default(),
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
                self.reads.rests_until().filter(|&at| at > now)
            };
            let start_at = self.start_commits(now);
            self.publish();
            // Looked at once: what comes later is a change to wake up for.
            let draining = *drain.borrow_and_update();
            if draining && self.is_drained() {
                return;
            }
            let wake_at = [read_at, start_at].into_iter().flatten().min();
            tokio::select! {
                Some(done) = self.jobs.join_next_with_id(), if !self.jobs.is_empty() => self.finish(done),
                () = announced => announcement = None,
                () = self.direct.changed() => {}
                () = sleep_until(wake_at.unwrap_or(now)), if wake_at.is_some() => {}
                changed = drain.changed(), if !draining => {
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
        let settled = self.direct.is_settled();
        if full || !settled || !self.reads.may_begin(now) || from >= self.wal.high_watermark() {
            return;
        }
        self.reads.begin();
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
            let Some(lane) = self.lanes.get(&route) else { continue };
            let plan = self.plan(&route, lane, now);
            match plan {
                Plan::Own => self.start(route, None, now),
                Plan::Elsewhere(target) => self.start(route, Some(target), now),
                Plan::Wait(at) => {
                    look_at = [look_at, at.filter(|&at| at > now)].into_iter().flatten().min();
                    self.turns.push_back(route);
                }
            }
        }
        look_at
    }

    fn plan(&self, route: &Route, lane: &Lane, now: Instant) -> Plan {
        if let Some(at) = lane.read_at().filter(|&at| at > now) {
            return Plan::Wait(Some(at));
        }
        if self.handed_to(route).is_some() {
            // Nothing overtakes the message whose commit was handed over.
            return Plan::Wait(None);
        }
        let (Some(probe_at), Some(reroute_at)) =
            (self.failing.probe_at(route), self.failing.reroute_at(route, &self.options))
        else {
            if self.running_to(route).is_some() {
                return Plan::Wait(None);
            }
            let at = lane.not_before(
                self.reads.come_in_numbers(COMPANY, !self.commits.is_empty()),
                &self.options,
                now,
            );
            return at.map_or(Plan::Own, |at| Plan::Wait(Some(at)));
        };
        if probe_at <= now && self.running_to(route).is_none() {
            return Plan::Own;
        }
        if !lane.may_go_elsewhere() {
            return Plan::Wait(Some(probe_at));
        }
        if reroute_at > now {
            return Plan::Wait(Some(probe_at.min(reroute_at)));
        }
        match self.stand_in(route, now) {
            Some(target) if self.running_to(&target).is_none() && self.handed_to(&target).is_none() => {
                Plan::Elsewhere(Arc::new(target))
            }
            _ => Plan::Wait(Some(probe_at)),
        }
    }

    fn handed_to(&self, target: &Route) -> Option<&Handed> {
        self.handed.as_ref().filter(|handed| *handed.route == *target)
    }

    fn running_to(&self, target: &Route) -> Option<&Running> {
        self.commits.values().find(|running| *running.target == *target)
    }

    /// The partition that takes the messages of `home`, which fails: the next one that neither fails nor hangs, or else
    /// one whose turn to be tried again it is and that has no messages of its own to be tried with.
    fn stand_in(&self, home: &Route, now: Instant) -> Option<Route> {
        let count = self.partitions.count(&home.topic, home.id);
        let hangs = |target: &Route| {
            let running = self.running_to(target).map(|running| running.since);
            let since = running.or_else(|| self.handed_to(target).map(|handed| handed.since));
            // At a commit that it was not asked for here, such as that of a large request.
            let log = self.partitions.open_log(&target.topic, target.id, target.partition);
            since.is_some_and(|since| later(since, self.options.reroute_after) <= now)
                || log
                    .and_then(|log| log.committing_for())
                    .is_some_and(|time| time >= self.options.reroute_after)
        };
        siblings(home, count).find(|target| !self.failing.contains(target) && !hangs(target)).or_else(|| {
            siblings(home, count).find(|target| {
                let due = self.failing.probe_at(target).is_some_and(|at| at <= now);
                due && !self.lanes.contains_key(target) && self.running_to(target).is_none()
            })
        })
    }

    /// Starts a commit of a lane's records, to its own partition or to the one that stands in for it.
    fn start(&mut self, route: Arc<Route>, elsewhere: Option<Arc<Route>>, now: Instant) {
        let Some(lane) = self.lanes.get_mut(&route) else { return };
        let before = lane.held();
        let (work, target) = match elsewhere {
            Some(target) => (lane.start_elsewhere(&self.options, now), target),
            None => (lane.start(&self.options, now), Arc::clone(&route)),
        };
        let after = lane.held();
        self.release(before, after);
        if target != route && self.failing.rerouted(&route) {
            tracing::warn!(
                topic = &*route.topic, partition = %route.partition, to = %target.partition,
                "messages go to another partition until theirs takes messages again"
            );
        }
        let (wal, partitions) = (self.wal.clone(), Arc::clone(&self.partitions));
        let (options, of, origins) =
            (Arc::clone(&self.options), Arc::clone(&target), Arc::clone(&self.origins));
        let task = self.jobs.spawn(async move {
            Done::Commit(job::run(wal, partitions.as_ref(), &of, work, &options, &origins).await)
        });
        self.commits.insert(task.id(), Running { lane: route, target, since: now });
    }

    fn finish(&mut self, done: Result<(Id, Done), JoinError>) {
        let now = Instant::now();
        match done {
            Ok((_, Done::Read(read))) => {
                self.reads.end();
                // A message on its way here may be among what was read: it is read again when it is known which.
                if self.direct.is_settled() {
                    self.absorb(read, now);
                    self.direct.passed(self.progress.read_to());
                }
            }
            Ok((_, Done::Handed(outcome))) => self.settle_handed(outcome, now),
            Ok((id, Done::Commit(report))) => self.settle(id, Some(report), now),
            // A panic in a plugin or in `Partitions`: that partition waits, everything else goes on.
            Err(panic) if self.commits.contains_key(&panic.id()) => {
                tracing::error!(%panic, "a commit to a partition panicked");
                self.settle(panic.id(), None, now);
            }
            Err(panic) if self.handed.as_ref().is_some_and(|handed| handed.task == panic.id()) => {
                tracing::error!(%panic, "a commit to a partition panicked");
                self.settle_handed(Err(Error::Closed), now);
            }
            Err(panic) => {
                tracing::error!(%panic, "a read of the produce log panicked");
                self.reads.end();
                self.reads.rest(now.checked_add(self.options.retry));
            }
        }
    }

    /// Takes in what a read of the WAL brought.
    fn absorb(&mut self, read: Result<ReadBatch, Error>, now: Instant) {
        let from = self.progress.read_to();
        match read {
            Ok(batch) if batch.next > from => {
                self.reads.worked(batch.records.len(), now, self.options.linger);
                for record in batch.records {
                    self.lose_up_to(record.offset);
                    self.accept(record, now);
                }
                self.lose_up_to(batch.next);
            }
            Err(Error::Expired { oldest, .. }) => self.lose_up_to(oldest),
            Ok(_) | Err(Error::NotYet { .. }) => self.reads.rest(now.checked_add(self.options.retry)),
            Err(error) => {
                if self.reads.failed() {
                    tracing::error!(%error, %from, "the produce log cannot be read; trying again");
                }
                self.reads.rest(now.checked_add(self.options.retry));
            }
        }
    }

    /// Puts a record into its partition's lane.
    fn accept(&mut self, record: Record, now: Instant) {
        let address = route::decode(&record.key);
        let route = address.as_ref().and_then(|address| self.routes.of(address));
        let Some((Address { pinned, key, .. }, route)) = address.zip(route) else {
            return self.lose_up_to(record.offset.saturating_add(1));
        };
        self.progress.read();
        let pending = Pending::new(record.offset, pinned, key, record.payload);
        match self.direct.take(record.offset) {
            Some(commit) => {
                let task = self.jobs.spawn(async move { Done::Handed(commit.await) });
                self.handed = Some(Handed { task: task.id(), route, pending, since: now });
            }
            None => self.queue(route, pending, now),
        }
    }

    /// The commit that was handed over has ended. One that failed has left nothing: the message waits for its turn.
    fn settle_handed(&mut self, outcome: Result<(), Error>, now: Instant) {
        let Some(Handed { route, pending, .. }) = self.handed.take() else { return };
        if outcome.is_ok() {
            return self.progress.finish(pending.offset);
        }
        // Those behind it have waited: it comes first.
        self.fill(route, |lane| lane.put_back(&pending, now));
    }

    /// Puts a record behind those that wait for its partition.
    fn queue(&mut self, route: Arc<Route>, pending: Pending, now: Instant) {
        let fails = self.failing.contains(&route);
        let most = (self.options.memory_records / LANE_SHARE, self.options.memory_bytes / LANE_SHARE);
        self.fill(route, |lane| {
            let (records, bytes) = lane.held();
            lane.push(pending, !fails && records < most.0 && bytes < most.1, now);
        });
    }

    /// Puts something into a lane, which then has a turn to come.
    fn fill(&mut self, route: Arc<Route>, put: impl FnOnce(&mut Lane)) {
        let lane = self.lanes.entry(Arc::clone(&route)).or_default();
        if lane.is_idle() {
            self.turns.push_back(route);
        }
        let before = lane.held();
        put(lane);
        let after = lane.held();
        self.release(before, after);
    }

    /// Acknowledged messages that the WAL cannot give back: they are lost to damage, which is said and not hidden.
    fn lose_up_to(&mut self, next: Offset) {
        let from = self.progress.read_to();
        if from < next {
            tracing::error!(%from, to = %next, "messages in the produce log cannot be read and are lost");
            self.progress.skip(next);
        }
    }

    /// Takes in what became of a commit; without a report all of it remains to be done.
    fn settle(&mut self, id: Id, report: Option<Report>, now: Instant) {
        let Some(Running { lane: route, target, .. }) = self.commits.remove(&id) else { return };
        let Some(lane) = self.lanes.get_mut(&route) else { return };
        let Report { mut done, back, end } = report.unwrap_or_else(|| Report {
            done: Vec::new(),
            back: lane.in_flight(),
            end: End::Failed(Error::Closed),
        });
        let (before, gone) = (lane.held(), matches!(end, End::Gone));
        lane.set_read_at(matches!(end, End::Unread(_)).then(|| later(now, self.options.retry)));
        let (topic, partition) = (&*target.topic, target.partition);
        match end {
            End::Good => {
                if self.failing.remove(&target) {
                    tracing::info!(topic, %partition, "partition takes messages again");
                    self.backlog.set_failing(self.failing.list());
                }
            }
            End::Gone => {
                if self.failing.remove(&target) {
                    self.backlog.set_failing(self.failing.list());
                }
            }
            End::Failed(error) => {
                if self.failing.failed(&target, error.clone(), &self.options, now) {
                    tracing::error!(
                        topic, %partition, %error,
                        "partition does not take messages; they wait in the produce log"
                    );
                }
                self.backlog.set_failing(self.failing.list());
            }
            End::Unread(error) => {
                tracing::error!(topic, %partition, %error, "messages cannot be read from the produce log; trying again");
            }
        }
        lane.end(&back, self.failing.contains(&route), now);
        if gone {
            done.extend(lane.discard());
            tracing::warn!(
                topic, id = %route.id, partition = %route.partition, messages = done.len(),
                "messages of a topic that is no more were dropped"
            );
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
        // In this order: who hears of the checkpoint asks what is left.
        let checkpoint = self.progress.checkpoint();
        self.backlog.set(self.progress.read_to(), self.progress.undone(), checkpoint);
        self.advanced.send_if_modified(|sent| std::mem::replace(sent, checkpoint) != checkpoint);
    }

    /// Whether nothing is left but what failing partitions do not take.
    fn is_drained(&self) -> bool {
        let stuck = |route: &Arc<Route>| {
            self.failing.contains(route) || self.lanes.get(route).is_none_or(|lane| lane.read_at().is_some())
        };
        self.jobs.is_empty()
            && self.direct.is_settled()
            && (self.progress.read_to() >= self.wal.high_watermark() || self.reads.rests_until().is_some())
            && self.turns.iter().all(stuck)
    }
}
