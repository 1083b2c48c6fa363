//! The notifier: takes announcements, and leaves the rest to its thread.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    thread,
};

use narad_core::plugin::{LogIdentity, WakeNotifier, WakeReason};

use crate::{
    config::{HttpWakeConfig, HttpWakeError},
    sender::{Settings, Shared},
};

/// Posts to a URL which partitions may have records to deliver. See the [crate](crate) for what is posted, and for what
/// becomes of it when nobody answers.
///
/// Nothing of it is kept on disk: what was announced and not posted is lost with the process.
#[derive(Debug)]
pub struct HttpWake {
    shared: Arc<Shared>,
    settings: Arc<Settings>,
    /// Absent: every topic.
    topics: Option<BTreeSet<String>>,
}

/// What a notifier has done since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpWakeCounts {
    /// Notifications that the receiver has taken.
    pub taken: u64,
    /// Posts that have failed, and are tried again.
    pub failed: u64,
    /// Notifications that the receiver has refused for good.
    pub refused: u64,
}

impl HttpWake {
    /// A notifier that says who it is as `from`. Its thread starts with the first announcement.
    ///
    /// # Errors
    /// A URL that nothing can be posted to, or a setting that is out of its bounds. Nothing is sent: whether somebody
    /// listens there is not known.
    pub fn new(from: impl Into<String>, config: HttpWakeConfig) -> Result<Self, HttpWakeError> {
        let topics = config.topics.clone();
        let settings = Arc::new(config.settings(from.into())?);
        Ok(Self { shared: Arc::default(), settings, topics })
    }

    /// What it has done so far.
    pub fn counts(&self) -> HttpWakeCounts {
        let counts = &self.shared.counts;
        HttpWakeCounts {
            taken: counts.taken.load(Ordering::Relaxed),
            failed: counts.failed.load(Ordering::Relaxed),
            refused: counts.refused.load(Ordering::Relaxed),
        }
    }

    fn start(&self) -> bool {
        let (shared, settings) = (Arc::clone(&self.shared), Arc::clone(&self.settings));
        let spawned =
            thread::Builder::new().name("narad-wake-http".to_owned()).spawn(move || shared.run(&settings));
        if let Err(error) = &spawned {
            tracing::warn!(%error, "no thread for notifications; trying again with the next");
        }
        spawned.is_ok()
    }
}

impl WakeNotifier for HttpWake {
    fn name(&self) -> &str {
        "http"
    }

    fn wake(&self, log: &LogIdentity, reason: WakeReason) {
        let has_records = matches!(reason, WakeReason::Committed | WakeReason::Requested);
        if !has_records || self.topics.as_ref().is_some_and(|topics| !topics.contains(&*log.name)) {
            return;
        }
        self.shared.change(|state| {
            state.pending.add(log, self.settings.max_pending);
            if !state.started {
                state.started = self.start();
            }
        });
    }

    /// A short lock, which the thread never holds for longer than it takes to swap two pointers.
    fn is_prompt(&self) -> bool {
        true
    }
}

impl Drop for HttpWake {
    fn drop(&mut self) {
        self.shared.stop();
    }
}
