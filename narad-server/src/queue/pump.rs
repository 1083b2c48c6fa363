//! The one task that looks for records on behalf of everybody who waits.
//!
//! It sleeps until a log announces something or the earliest lease ends that somebody waits for. It does no I/O: a
//! partition that has to be opened is opened by a task beside it.

use std::sync::{Arc, Weak};

use super::{shared::Shared, signals::Signals};

/// Runs until the queues are gone.
pub(super) async fn run(shared: Weak<Shared>, signals: Arc<Signals>) {
    loop {
        let sleep = {
            let Some(shared) = shared.upgrade() else { return };
            for id in signals.due(shared.now()) {
                shared.look_at(id);
            }
            signals.next_alarm().map(|at| at.saturating_sub(shared.now()))
        };
        let timer = tokio::time::sleep(sleep.unwrap_or_default());
        tokio::select! {
            () = signals.woken() => {}
            () = timer, if sleep.is_some() => {}
        }
    }
}
