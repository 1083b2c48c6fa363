//! The short way of a lone message: on a broker that has nothing else to do it is committed to its partition at once,
//! without the WAL before it. One fsync instead of two makes it durable, acknowledged and visible.
//!
//! One message at a time goes this way, and only while the WAL holds nothing that is not done: so nothing overtakes
//! what was acknowledged before it, and as soon as there is company the WAL's group commit serves all of it.
//!
//! A partition whose commit takes long holds up no producer: the WAL then takes the message as well, and the dispatcher
//! is handed the commit that runs. Until it knows which WAL record that is, it reads nothing, so that no message is
//! committed twice.

use std::{pin::Pin, sync::Arc, time::Duration};

use narad_core::{
    Error,
    format::{Batch, Offset},
    log::Log,
};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};
use tracing::Instrument;

use super::{Partitions, Staged};
use crate::telemetry::spans::{self, Operation};

/// How long a producer waits for a partition before the WAL takes the message as well.
const PATIENCE: Duration = Duration::from_millis(20);
/// Larger messages go the way of large requests, or through the WAL, where the memory that waits is bounded.
const MOST_BYTES: usize = 64 << 10;

/// A commit to a partition that runs.
pub(super) type Commit = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// Who goes the short way, and what it has left for the dispatcher.
#[derive(Debug)]
pub(super) struct Direct {
    state: Mutex<State>,
    /// How long nobody tries the short way after a partition was slow.
    rest: Duration,
    /// Not to be tried before.
    rests_until: Mutex<Option<Instant>>,
    /// The dispatcher may read on.
    changed: Notify,
}

#[derive(Default)]
enum State {
    #[default]
    Free,
    /// A message is being committed, and is in no WAL.
    Claimed,
    /// The WAL takes it as well. The dispatcher reads nothing.
    Handing,
    /// It is the WAL record at `offset`, and its commit runs.
    Handed { offset: Offset, commit: Commit },
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Free => "Free",
            Self::Claimed => "Claimed",
            Self::Handing => "Handing",
            Self::Handed { .. } => "Handed",
        })
    }
}

/// What became of a message on the short way.
pub(super) enum Tried {
    /// It is durable and visible.
    Done,
    /// It was not taken, and nothing of it was kept.
    No,
    /// Its commit takes long.
    Slow(Handover),
}

/// The right to go the short way, given back when it goes, unless it was passed on to the dispatcher.
#[derive(Debug)]
struct Claim(Option<Arc<Direct>>);

impl Claim {
    /// Sets what is under way, for as long as the claim lasts.
    fn set(&self, state: State) {
        if let Some(direct) = &self.0 {
            *direct.state.lock() = state;
        }
    }

    /// Passes it on: the dispatcher gives it back, and may have done so, and another producer taken it, before this ends.
    fn pass_on(mut self, state: State) {
        self.set(state);
        if let Some(direct) = self.0.take() {
            direct.changed.notify_one();
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(direct) = &self.0 else { return };
        let before = std::mem::take(&mut *direct.state.lock());
        if matches!(before, State::Handing) {
            direct.changed.notify_one();
        }
    }
}

/// A commit that takes long, on its way to the dispatcher. Dropped before that, the message is the producer's alone:
/// whether it was taken is open.
pub(super) struct Handover {
    claim: Claim,
    commit: Commit,
}

impl Handover {
    /// The WAL is about to take the message: the dispatcher waits until [`hand_over`](Self::hand_over), or until this
    /// goes.
    pub(super) fn begin(&self) {
        self.claim.set(State::Handing);
    }

    /// The message is the WAL's record at `offset`: the dispatcher sees its commit through.
    pub(super) fn hand_over(self, offset: Offset) {
        self.claim.pass_on(State::Handed { offset, commit: self.commit });
    }

    /// The WAL did not take the message: waits for the commit after all.
    pub(super) async fn outcome(self) -> Result<(), Error> {
        let Self { claim, commit } = self;
        drop(claim);
        commit.await
    }
}

impl Direct {
    /// Nobody goes the short way yet.
    pub(super) fn new(rest: Duration) -> Self {
        Self { state: Mutex::default(), rest, rests_until: Mutex::default(), changed: Notify::new() }
    }

    fn claim(self: &Arc<Self>) -> Option<Claim> {
        if self.rests_until.lock().is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let mut state = self.state.lock();
        if !matches!(*state, State::Free) {
            return None;
        }
        *state = State::Claimed;
        Some(Claim(Some(Arc::clone(self))))
    }

    /// Commits a message to its partition, if nothing else is under way there. `is_idle` is asked once nobody else can
    /// go this way.
    pub(super) async fn try_commit(
        self: &Arc<Self>,
        messages: &[Staged],
        partitions: &dyn Partitions,
        is_idle: impl FnOnce() -> bool,
    ) -> Tried {
        let [message] = messages else { return Tried::No };
        if message.payload.len() > MOST_BYTES {
            return Tried::No;
        }
        let Some(claim) = self.claim().filter(|_| is_idle()) else { return Tried::No };
        let Some(log) = partitions.open_log(&message.topic, message.id, message.partition) else {
            return Tried::No;
        };
        if log.committing_for().is_some() {
            return Tried::No;
        }
        let mut commit = commit(&log, messages);
        match timeout(PATIENCE, &mut commit).await {
            Ok(Ok(())) => Tried::Done,
            // Whatever the partition has, the WAL takes the message and the dispatcher meets the partition.
            Ok(Err(_)) => Tried::No,
            Err(_) => {
                *self.rests_until.lock() = Instant::now().checked_add(self.rest);
                Tried::Slow(Handover { claim, commit })
            }
        }
    }

    /// Whether the dispatcher may take in what it has read: no message is on its way to it.
    pub(super) fn is_settled(&self) -> bool {
        !matches!(*self.state.lock(), State::Handing)
    }

    /// Ends once the dispatcher should look again.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The dispatcher has passed every WAL record below `read_to`: one that was handed over and could not be read is given
    /// up by it, and its commit ends by itself.
    pub(super) fn passed(&self, read_to: Offset) {
        let mut state = self.state.lock();
        if matches!(&*state, State::Handed { offset, .. } if *offset < read_to) {
            *state = State::Free;
        }
    }

    /// The commit that runs for the WAL's record at `offset`, if one does. It is the dispatcher's from here on.
    pub(super) fn take(&self, offset: Offset) -> Option<Commit> {
        let mut state = self.state.lock();
        match std::mem::take(&mut *state) {
            State::Handed { offset: handed, commit } if handed == offset => Some(commit),
            other => {
                *state = other;
                None
            }
        }
    }
}

/// Commits messages to the one partition that they are for: all or none, in this order.
pub(super) fn commit(log: &Log, messages: &[Staged]) -> Commit {
    let topic = messages.first().map_or("", |message| &*message.topic);
    let span = spans::messaging(Operation::Commit, topic);
    spans::messages(&span, messages.iter().map(|one| (one.partition.0, one.payload.len())));
    let bytes = messages.iter().map(|one| one.key.len() + one.payload.len()).sum();
    let mut batch = Batch::with_room(messages.len(), bytes);
    for message in messages {
        batch.push(&message.key, &message.payload);
    }
    let committed = span.in_scope(|| log.commit_async(batch));
    Box::pin(async move { committed.await.map(drop) }.instrument(span))
}
