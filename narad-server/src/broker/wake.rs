//! Two who are told of what a log announces.

use std::sync::Arc;

use narad_core::plugin::{LogIdentity, WakeNotifier, WakeReason};

/// Tells both, the first one first.
#[derive(Debug)]
pub(super) struct Both(pub(super) Arc<dyn WakeNotifier>, pub(super) Arc<dyn WakeNotifier>);

impl WakeNotifier for Both {
    fn name(&self) -> &str {
        "broker"
    }

    fn wake(&self, log: &LogIdentity, reason: WakeReason) {
        self.0.wake(log, reason);
        self.1.wake(log, reason);
    }

    fn is_prompt(&self) -> bool {
        self.0.is_prompt() && self.1.is_prompt()
    }
}
