//! The one task that begins passes, and what becomes of a pass.

use std::sync::{Arc, Weak};

use narad_core::plugin::PartitionId;
use tokio::time::{Instant, sleep};

use super::{
    copy::{self, Pass},
    cursor::Cursor,
    link::ActiveLink,
    shared::Shared,
    signals::Signals,
};

/// Runs until the fan-out is gone or closed.
pub(super) async fn run(shared: Weak<Shared>, signals: Arc<Signals>) {
    loop {
        let wait = {
            let Some(shared) = shared.upgrade().filter(|shared| !shared.is_closed()) else { return };
            let (ready, wait) = signals.take(Instant::now(), shared.runtime.clock().unix_ms());
            for (parent, partition) in ready.logs {
                for link in shared.children_of(parent) {
                    shared.look_later(&link, partition);
                }
            }
            for (epoch, partition) in ready.cursors {
                begin(&shared, epoch, partition);
            }
            wait
        };
        tokio::select! {
            () = signals.notified() => {}
            () = sleep(wait.unwrap_or_default()), if wait.is_some() => {}
        }
    }
}

fn begin(shared: &Arc<Shared>, epoch: u64, partition: PartitionId) {
    let Some(link) = shared.link(epoch) else { return };
    let cursor = link.cursor(partition);
    if cursor.begin() {
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            // A panic in a plugin costs a try, not the cursor.
            let guard = Unwinding { shared: &shared, link: &link, cursor: &cursor, partition };
            copy_all(&shared, &link, &cursor, partition).await;
            std::mem::forget(guard);
        });
    }
}

/// Sets the time for another try when a pass panics.
struct Unwinding<'a> {
    shared: &'a Shared,
    link: &'a ActiveLink,
    cursor: &'a Cursor,
    partition: PartitionId,
}

impl Drop for Unwinding<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.cursor.wait();
            self.shared.set_alarm(self.shared.options.retry, self.link.epoch, self.partition);
        }
    }
}

/// Passes until there is nothing to copy now.
async fn copy_all(shared: &Shared, link: &ActiveLink, cursor: &Cursor, partition: PartitionId) {
    loop {
        // In this order: a child that hangs takes its own first, and not everybody's.
        let Ok(_own) = link.slots.acquire().await else { return };
        let Ok(_slot) = shared.slots.acquire().await else { return };
        if shared.is_closed() || link.has_ended() {
            return;
        }
        cursor.looks();
        let mut progress = cursor.progress();
        let pass = copy::pass(shared, link, partition, &mut progress).await;
        cursor.publish(&progress);
        match pass {
            Pass::More => {}
            Pass::Idle => {
                if cursor.rest() {
                    shared.set_alarm(shared.options.linger, link.epoch, partition);
                }
                return;
            }
            Pass::Due(unix_ms) => {
                cursor.wait();
                return shared.signals.set_due(unix_ms, (link.epoch, partition));
            }
            Pass::Failed => {
                cursor.wait();
                return shared.set_alarm(shared.options.retry, link.epoch, partition);
            }
            Pass::Ended => return,
        }
    }
}
