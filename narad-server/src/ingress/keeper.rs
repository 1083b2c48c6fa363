//! The task that writes the checkpoint down and deletes the WAL segments behind it.
//!
//! It is told how far the dispatcher has come; it can be late, never early. Segments go only behind a checkpoint
//! that is durable, so that a start never finds its checkpoint before the log's first record.

use std::{sync::Arc, time::Duration};

use narad_core::{Error, format::Offset, log::Log, runtime::Runtime};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{backlog::Backlog, checkpoint::CheckpointFile};

/// How long a written position stands before the next one is written, while there is more to do. A killed process repeats
/// what was done meanwhile.
const REST: Duration = Duration::from_millis(3);

/// Keeps the checkpoint on disk at what a channel says.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) runtime: Runtime,
    pub(super) wal: Log,
    pub(super) backlog: Arc<Backlog>,
    pub(super) file: Arc<Mutex<CheckpointFile>>,
    /// How often it is synced while it advances.
    pub(super) interval: Duration,
}

impl Keeper {
    /// Runs until the sender is gone; the last value is then written and synced.
    pub(super) async fn run(self, mut advanced: watch::Receiver<Offset>) {
        let mut written = *advanced.borrow_and_update();
        // When what was written is to be synced, or what could not be written is to be tried again.
        let mut sync_at: Option<Instant> = None;
        let (mut failing, mut rests_until) = (false, Instant::now());
        loop {
            let moved = self.moved(&mut advanced, rests_until);
            let open = tokio::select! {
                open = moved => open,
                () = sleep_until(sync_at.unwrap_or_else(Instant::now)), if sync_at.is_some() => true,
            };
            let checkpoint = *advanced.borrow_and_update();
            let due = !open || sync_at.is_some_and(|at| at <= Instant::now());
            if checkpoint != written || due {
                match self.write(checkpoint, due).await {
                    Ok(()) => (written, failing) = (checkpoint, false),
                    // Said once, not at every try.
                    Err(error) if !std::mem::replace(&mut failing, true) => {
                        tracing::error!(%error, %checkpoint, "the checkpoint cannot be written; trying again");
                    }
                    Err(_) => {}
                }
                let now = Instant::now();
                let later = now + self.interval;
                rests_until = now + REST;
                // A position that was written before and could not be synced is owed like one that was not written.
                let owed = !due || failing || written != checkpoint;
                sync_at = owed.then(|| sync_at.filter(|_| !due).unwrap_or(later));
            }
            if !open {
                return;
            }
        }
    }

    /// Waits for a position to be written: the next one if nothing is left to do, or the one that is reached at
    /// `rests_until`. Returns whether more can come.
    async fn moved(&self, advanced: &mut watch::Receiver<Offset>, rests_until: Instant) -> bool {
        let mut open = advanced.changed().await.is_ok();
        while open && self.backlog.len(self.wal.high_watermark()) > 0 {
            open = tokio::select! {
                changed = advanced.changed() => changed.is_ok(),
                () = sleep_until(rests_until) => return true,
            };
        }
        open
    }

    /// Writes the checkpoint and, when `sync` says so, makes it durable and deletes what lies behind it.
    async fn write(&self, checkpoint: Offset, sync: bool) -> Result<(), Error> {
        let (file, wal) = (Arc::clone(&self.file), self.wal.clone());
        let work = move || {
            let mut file = file.lock();
            file.write(checkpoint)?;
            if sync {
                file.sync()?;
                let done = checkpoint.get().checked_sub(1).and_then(Offset::new);
                if let Err(error) = wal.sweep(done) {
                    tracing::warn!(%error, "old segments of the produce log could not be deleted");
                }
            }
            Ok(())
        };
        self.runtime.run_blocking("ingress", work).await
    }
}
