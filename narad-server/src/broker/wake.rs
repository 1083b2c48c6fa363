//! Who is told of what a log announces: the queues and the fan-out at once, and then whoever the configuration names, on
//! the engine's own thread, so that nobody waits for a stranger.

use std::{any::Any, sync::Arc};

use narad_core::{
    plugin::{LogIdentity, SilentWake, WakeNotifier, WakeReason},
    runtime::Runtime,
};

/// Tells all of them, the broker's own first.
#[derive(Debug)]
pub(super) struct Told {
    own: [Arc<dyn WakeNotifier>; 2],
    configured: Option<(Runtime, Arc<dyn WakeNotifier>)>,
}

impl Told {
    /// `own` are prompt.
    pub(super) fn new(
        own: [Arc<dyn WakeNotifier>; 2],
        runtime: &Runtime,
        configured: Arc<dyn WakeNotifier>,
    ) -> Self {
        let is_silent = {
            let configured: &dyn Any = &*configured;
            configured.is::<SilentWake>()
        };
        let configured = (!is_silent).then(|| (runtime.clone(), runtime.metrics().timed_wake(configured)));
        Self { own, configured }
    }
}

impl WakeNotifier for Told {
    fn name(&self) -> &str {
        "broker"
    }

    fn wake(&self, log: &LogIdentity, reason: WakeReason) {
        self.own.iter().for_each(|notifier| notifier.wake(log, reason));
        if let Some((runtime, configured)) = &self.configured {
            runtime.announce(configured, log, reason);
        }
    }

    fn is_prompt(&self) -> bool {
        self.own.iter().all(|notifier| notifier.is_prompt())
    }
}
