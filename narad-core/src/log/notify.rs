//! Waiting for an announcement without missing one.

use std::time::Duration;

use event_listener::{Event, EventListener, Listener};

use super::Inner;
use crate::plugin::{SilentWake, WakeNotifier, WakeReason};

/// A wait for the next announcement: take it before the last look for data, so that nothing in between is missed.
#[derive(Debug)]
pub struct Subscription(pub(super) EventListener);

impl Subscription {
    /// Waits in this thread, at most `timeout`. Returns whether something was announced.
    pub fn wait(self, timeout: Duration) -> bool {
        self.0.wait_timeout(timeout).is_some()
    }

    /// Waits without blocking the executor.
    pub async fn changed(self) {
        self.0.await;
    }
}

impl Inner {
    /// Tells everybody that records may be deliverable. Called outside every lock of the log.
    pub(super) fn announce(&self, reason: WakeReason) {
        self.announced.notify(usize::MAX);
        if !self.is_silent {
            self.runtime.announce(&self.options.wake, &self.options.identity, reason);
        }
    }
}

/// The event that subscribers wait for. It is given its memory here: otherwise the first announcement would be the one
/// to allocate it, subscribers or not.
pub(super) fn announcements() -> Event {
    let event = Event::new();
    event.notify(0);
    event
}

/// Whether the notifier is the one that tells nobody, and need not be called.
pub(super) fn is_silent(notifier: &dyn WakeNotifier) -> bool {
    let notifier: &dyn std::any::Any = notifier;
    notifier.is::<SilentWake>()
}
