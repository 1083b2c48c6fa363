//! What is known of a failed WAL, and the task that reopens it.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering},
};

use narad_core::{Error, log::Log, runtime::Runtime};
use parking_lot::Mutex;

use super::{IngressError, IngressOptions};

/// The health of the WAL.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Why the last commit failed; none once a later one or a reopen has succeeded.
    failure: Mutex<Option<Error>>,
    /// Whether the WAL is poisoned and takes nothing until it is reopened.
    healing: AtomicBool,
}

impl Health {
    /// Why the WAL does not work, if it does not.
    pub(super) fn failure(&self) -> Option<Error> {
        self.failure.lock().clone()
    }

    /// The answer to a producer while the WAL waits to be reopened.
    pub(super) fn refusal(&self) -> Option<IngressError> {
        if !self.healing.load(Ordering::Acquire) {
            return None;
        }
        self.failure().map(refuse)
    }

    /// A commit has succeeded.
    pub(super) fn worked(&self) {
        if !self.healing.load(Ordering::Acquire) {
            *self.failure.lock() = None;
        }
    }

    /// A commit has failed. If that poisoned the WAL, a task begins to reopen it, unless one does already.
    pub(super) fn failed(
        self: &Arc<Self>,
        error: &Error,
        wal: &Log,
        runtime: &Runtime,
        options: &IngressOptions,
    ) {
        let poisoned = wal.is_poisoned();
        let mut failure = self.failure.lock();
        // The second is the late answer of a commit from before a reopen that has worked meanwhile.
        if self.healing.load(Ordering::Acquire) || (matches!(error, Error::Poisoned { .. }) && !poisoned) {
            return;
        }
        *failure = Some(error.clone());
        if poisoned {
            self.healing.store(true, Ordering::Release);
            tracing::error!(%error, "the produce log failed; it will be reopened");
            tokio::spawn(heal(Arc::downgrade(self), wal.clone(), runtime.clone(), options.clone()));
        }
    }
}

/// Reopens the WAL, each try later than the one before, until it works, the log is closed or its owner is gone.
async fn heal(health: Weak<Health>, wal: Log, runtime: Runtime, options: IngressOptions) {
    let mut wait = options.heal_first;
    loop {
        tokio::time::sleep(wait).await;
        if wal.is_closed() || health.strong_count() == 0 {
            return;
        }
        let reopening = wal.clone();
        match runtime.run_blocking("ingress", move || reopening.reopen()).await {
            Ok(()) => break,
            Err(error) => tracing::error!(%error, retry_in = ?wait, "the produce log could not be reopened"),
        }
        wait = wait.saturating_mul(2).min(options.heal_longest);
    }
    tracing::info!("the produce log was reopened and takes messages again");
    let Some(health) = health.upgrade() else { return };
    let mut failure = health.failure.lock();
    *failure = None;
    health.healing.store(false, Ordering::Release);
}

/// The answer to a producer whose commit failed with `error`.
pub(super) fn refuse(error: Error) -> IngressError {
    match error {
        Error::Closed => IngressError::Closed,
        Error::BufferFull { .. } => IngressError::Full,
        error if error.is_disk_full() => IngressError::DiskFull(error),
        error => IngressError::Failed(error),
    }
}
