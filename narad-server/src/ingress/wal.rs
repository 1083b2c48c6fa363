//! The produce WAL and the handle on the whole ingress: open, produce, close.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use narad_core::{
    Error,
    format::{Batch, Offset},
    log::{Log, LogOptions},
    runtime::Runtime,
};
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};

use super::{
    FailingPartition, IngressError, IngressOptions, Partitions, Staged,
    backlog::Backlog,
    bulk::Bulk,
    checkpoint::CheckpointFile,
    direct::{Direct, Handover, Tried},
    dispatcher::Dispatcher,
    heal::{Health, refuse},
    keeper::Keeper,
    origins::Origins,
    retention::DoneSegments,
    route,
    trail::Trail,
};
use crate::telemetry::spans;

/// The part of the commits to partitions at one time that large requests make themselves, beside those of the dispatcher:
/// together they leave half of a topic's share of the workers.
const BULK_SHARE: usize = 4;

/// The ingress of a server. Cloning gives another handle; dropping the last one stops its tasks where they are, as a
/// crash would: use [`close`](Self::close).
#[derive(Debug, Clone)]
pub struct Ingress {
    inner: Arc<Inner>,
}

struct Inner {
    runtime: Runtime,
    wal: Log,
    options: Arc<IngressOptions>,
    health: Arc<Health>,
    backlog: Arc<Backlog>,
    origins: Arc<Origins>,
    partitions: Arc<dyn Partitions>,
    direct: Arc<Direct>,
    bulk: Bulk,
    trail: Trail,
    /// One permit for each byte that may wait for an fsync.
    pending: Semaphore,
    closed: AtomicBool,
    drain: watch::Sender<bool>,
    tasks: Mutex<Option<Tasks>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ingress").field("wal", &self.wal).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Tasks {
    dispatcher: JoinHandle<()>,
    keeper: JoinHandle<()>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(tasks) = self.tasks.get_mut() {
            tasks.dispatcher.abort();
            tasks.keeper.abort();
        }
    }
}

impl Ingress {
    /// Opens the WAL in `dir`, which is created if need be, and starts to dispatch what the checkpoint says is not
    /// done. Must be called within a tokio runtime, which the tasks then run on.
    ///
    /// # Errors
    /// What keeps the WAL from being opened. An unusable checkpoint does not: it costs duplicates.
    pub async fn open(
        runtime: &Runtime,
        dir: PathBuf,
        partitions: Arc<dyn Partitions>,
        options: IngressOptions,
    ) -> Result<Self, Error> {
        let options = Arc::new(options);
        let (opening, bounds) = (runtime.clone(), Arc::clone(&options));
        let work = move || open_wal(&opening, &dir, &bounds);
        let (wal, file, checkpoint) = runtime.run_blocking("ingress", work).await?;

        let (advanced, advancing) = watch::channel(checkpoint);
        let (drain, draining) = watch::channel(false);
        let (backlog, origins) = (Arc::new(Backlog::default()), Arc::<Origins>::default());
        backlog.set(checkpoint, 0, checkpoint);
        let keeper = Keeper {
            runtime: runtime.clone(),
            wal: wal.clone(),
            backlog: Arc::clone(&backlog),
            file: Arc::new(Mutex::new(file)),
            interval: options.checkpoint_sync,
        };
        let direct = Arc::new(Direct::new(options.direct_rest));
        let dispatcher = Dispatcher::new(
            wal.clone(),
            Arc::clone(&partitions),
            Arc::clone(&options),
            Arc::clone(&backlog),
            Arc::clone(&origins),
            Arc::clone(&direct),
            advanced,
        );
        let tasks = Tasks {
            dispatcher: tokio::spawn(dispatcher.run(draining)),
            keeper: tokio::spawn(keeper.run(advancing)),
        };
        let inner = Inner {
            runtime: runtime.clone(),
            bulk: Bulk::new((options.parallel_commits / BULK_SHARE).max(1)),
            trail: Trail::new(wal.high_watermark()),
            wal,
            pending: Semaphore::new(options.pending_bytes as usize),
            options,
            health: Arc::default(),
            backlog,
            origins,
            partitions,
            direct,
            closed: AtomicBool::new(false),
            drain,
            tasks: Mutex::new(Some(tasks)),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Takes messages: all of them, in this order, or none. `Ok` means that they are synced to disk and survive a
    /// power loss; each then reaches its partition at least once. Whatever arrives during one fsync shares the next. A
    /// message that comes alone, and a large request for one partition, may be in their partition when this returns.
    ///
    /// Dropping the future leaves open whether the messages were taken, and disturbs no other producer.
    ///
    /// # Errors
    /// See [`IngressError`]; nothing was kept then.
    pub async fn produce(&self, mut messages: Vec<Staged>) -> Result<(), IngressError> {
        let inner = &*self.inner;
        if messages.is_empty() {
            return Ok(());
        }
        let bytes: usize = messages.iter().map(route::stored_len).sum();
        let wait_until = Instant::now().checked_add(inner.options.produce_wait).unwrap_or_else(Instant::now);
        let room = timeout_at(wait_until, inner.room_for(bytes)).await.map_err(|_| IngressError::Full)??;
        let is_idle = || inner.is_idle_but_for(room.num_permits());
        match inner.direct.try_commit(&messages, &*inner.partitions, is_idle).await {
            Tried::Done => return Ok(()),
            Tried::No => {}
            Tried::Slow(handover) => {
                let (inner, batch) = (Arc::clone(&self.inner), encode(&messages, bytes)?);
                handover.begin();
                // To the end, even if the producer goes away: the dispatcher waits for it.
                let handed =
                    tokio::spawn(async move { inner.take_as_well(&messages, batch, handover).await });
                return handed.await.unwrap_or(Err(IngressError::Closed));
            }
        }
        let is_clear = |one: &Staged| inner.is_clear_for(one);
        if inner.bulk.try_commit(&messages, &*inner.partitions, is_clear).await {
            return Ok(());
        }
        let batch = encode(&messages, bytes)?;
        for message in &mut messages {
            // Where they go is all that is needed of them while the batch waits.
            (message.key, message.payload) = (Bytes::new(), Bytes::new());
        }
        inner.commit(&messages, batch).await.map(drop)
    }

    /// Messages that are acknowledged and not yet committed to their partitions.
    pub fn backlog(&self) -> u64 {
        self.inner.backlog.len(self.inner.wal.high_watermark())
    }

    /// The partitions that do not take messages, as far as that was tried in the last seconds.
    pub fn failing(&self) -> Vec<FailingPartition> {
        self.inner.backlog.failing()
    }

    /// Why the last commit to the WAL failed, as long as none has succeeded since and it was not reopened.
    pub fn failure(&self) -> Option<Error> {
        self.inner.health.failure()
    }

    /// For how long the commit to the WAL that runs now has been at it, if one runs.
    pub fn committing_for(&self) -> Option<Duration> {
        self.inner.wal.committing_for()
    }

    /// Takes no more messages, finishes what is under way and what the partitions take within `deadline`, then
    /// writes the checkpoint, durably, and closes the WAL. What is left is dispatched after the next open.
    /// A failure of the WAL's close is logged: nothing acknowledged is lost by it. A second call does nothing.
    pub async fn close(&self, deadline: Duration) {
        let inner = &*self.inner;
        let until = Instant::now().checked_add(deadline).unwrap_or_else(Instant::now);
        inner.closed.store(true, Ordering::SeqCst);
        let Some(mut tasks) = inner.tasks.lock().take() else { return };
        // Producers that wait for the backlog see that it is over.
        inner.backlog.fewer.notify_waiters();
        // All permits: every producer has either been answered or has not begun.
        if timeout_at(until, inner.pending.acquire_many(inner.options.pending_bytes)).await.is_err() {
            tracing::warn!("closing the produce log under running producers");
        }
        inner.drain.send_replace(true);
        if timeout_at(until, &mut tasks.dispatcher).await.is_err() {
            tracing::warn!(left = self.backlog(), "messages are left for the next start");
            tasks.dispatcher.abort();
            // The sender of the checkpoint is gone when it has ended; the keeper then writes the last one.
            _ = tasks.dispatcher.await;
        }
        if let Err(error) = tasks.keeper.await {
            tracing::error!(%error, "the checkpoint was not written");
        }
        if let Err(error) = inner.wal.close_async().await {
            tracing::error!(%error, "the produce log was not closed cleanly");
        }
    }
}

impl Inner {
    /// Commits `messages`, as they stand in the batch, to the WAL; returns the offset of the first record.
    async fn commit(&self, messages: &[Staged], batch: Batch) -> Result<Offset, IngressError> {
        match self.wal.commit_async(batch).await {
            Ok(offsets) => {
                let start = offsets.start;
                self.trail.note(messages, offsets.end, self.backlog.done());
                if let Some(trace) = spans::current() {
                    self.origins.note(offsets, trace);
                }
                self.health.worked();
                Ok(start)
            }
            Err(error) => {
                let refused_alone =
                    matches!(error, Error::RecordTooLarge { .. } | Error::InvalidArgument { .. });
                if !refused_alone && !matches!(error, Error::Closed) {
                    self.health.failed(&error, &self.wal, &self.runtime, &self.options);
                }
                Err(refuse(error))
            }
        }
    }

    /// The same for a message whose commit to its partition takes long: the dispatcher gets that commit. If the WAL does
    /// not take the message, it is the commit that counts, for as long as a producer waits for room; whether a message whose
    /// commit hangs longer was taken is then open.
    async fn take_as_well(
        &self,
        messages: &[Staged],
        batch: Batch,
        handover: Handover,
    ) -> Result<(), IngressError> {
        match self.commit(messages, batch).await {
            Ok(offset) => {
                handover.hand_over(offset);
                Ok(())
            }
            Err(refused) => match timeout(self.options.produce_wait, handover.outcome()).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) | Err(_) => Err(refused),
            },
        }
    }

    /// Whether there is nothing to do but for a producer that holds so many permits: no other one is on its way,
    /// everything that the WAL has taken is done, and it and every partition take messages.
    fn is_idle_but_for(&self, held: usize) -> bool {
        self.is_sound()
            && self.pending.available_permits() + held >= self.options.pending_bytes as usize
            && self.wal.committing_for().is_none()
            && self.backlog.len(self.wal.high_watermark()) == 0
    }

    /// Whether messages may go past the WAL at all: it and every partition take messages.
    fn is_sound(&self) -> bool {
        self.options.direct && self.health.failure().is_none() && self.backlog.failing().is_empty()
    }

    /// Whether nothing that was acknowledged before the message waits for the message's partition, as far as is known, and the
    /// WAL and every partition take messages.
    fn is_clear_for(&self, message: &Staged) -> bool {
        self.is_sound() && self.trail.is_clear(message.id, message.partition, self.backlog.done())
    }

    /// Waits until the messages may go to the WAL.
    async fn room_for(&self, bytes: usize) -> Result<tokio::sync::SemaphorePermit<'_>, IngressError> {
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.options.pending_bytes);
        let permit = self.pending.acquire_many(permits).await.map_err(|_| IngressError::Closed)?;
        loop {
            // Before the look at the backlog, so that no change falls between the look and the wait.
            let fewer = self.backlog.fewer.notified();
            if self.closed.load(Ordering::SeqCst) {
                return Err(IngressError::Closed);
            }
            if let Some(refusal) = self.health.refusal() {
                return Err(refusal);
            }
            if self.backlog.len(self.wal.high_watermark()) < self.options.backlog_records {
                return Ok(permit);
            }
            fewer.await;
        }
    }
}

/// Opens the log and finds its checkpoint. Blocks.
fn open_wal(
    runtime: &Runtime,
    dir: &std::path::Path,
    options: &IngressOptions,
) -> Result<(Log, CheckpointFile, Offset), Error> {
    let mut log_options = LogOptions::new("ingress", Arc::new(narad_codecs::None));
    log_options.retention = Arc::new(DoneSegments);
    log_options.segment_bytes = options.segment_bytes;
    log_options.prepare_segments = options.prepare_segments;
    let wal = Log::open(runtime, dir, log_options)?;
    let mut file = CheckpointFile::new(Arc::clone(runtime.disk()), dir);
    let checkpoint = file.load(wal.oldest_offset(), wal.high_watermark(), runtime.metrics());
    // On a full disk the server starts all the same; the keeper tries again.
    if let Err(error) = file.write(checkpoint) {
        tracing::error!(%error, "the checkpoint of the produce log could not be written");
    }
    Ok((wal, file, checkpoint))
}

fn encode(messages: &[Staged], bytes: usize) -> Result<Batch, IngressError> {
    let mut batch = Batch::with_room(messages.len(), bytes);
    let mut field = Vec::new();
    for message in messages {
        route::encode(message, &mut field).ok_or_else(|| {
            let reason = format!("{} bytes do not fit the produce log", message.topic.len());
            IngressError::Failed(Error::InvalidArgument { name: "topic", reason })
        })?;
        batch.push(&field, &message.payload);
    }
    Ok(batch)
}
