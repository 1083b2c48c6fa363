//! `WakeNotifier`: told that a log may have records to deliver.

use std::{any::Any, fmt::Debug};

use super::LogIdentity;

/// Why records may be deliverable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WakeReason {
    /// The high watermark advanced.
    Committed,
    /// Somebody called `wake`: a lease expired, a record was given back, a cap was lifted.
    Requested,
    /// The log closed; whoever waits on it should look again.
    Closed,
}

/// Told that records of a log may be deliverable.
///
/// # Contract
/// 1. Called once for each announcement, in order, outside every lock of the log, on a thread of its own kind:
///    never on the thread that commits, unless [`is_prompt`](Self::is_prompt) says that this is safe.
/// 2. Announcements of one log with the same reason that arrive while an earlier one still waits for this notifier
///    are merged, so a slow notifier sees fewer of them and none is lost.
/// 3. It must not block: all logs of the process share the thread. A panic is contained and logged.
/// 4. It may call the log, but for `close`.
///
/// # Example
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use narad_core::plugin::{LogIdentity, WakeNotifier, WakeReason};
///
/// #[derive(Debug, Default)]
/// struct Count(AtomicU64);
///
/// impl WakeNotifier for Count {
///     fn name(&self) -> &str {
///         "count"
///     }
///     fn wake(&self, _log: &LogIdentity, _reason: WakeReason) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
/// ```
///
/// # The usual mistake
///
/// Sending over the network inside `wake`. Put the notification into a bounded queue and let a task of the plugin's
/// own send it.
pub trait WakeNotifier: Any + Debug + Send + Sync + 'static {
    /// The notifier's name in configuration and metrics.
    fn name(&self) -> &str;

    /// Records of `log` may be deliverable.
    fn wake(&self, log: &LogIdentity, reason: WakeReason);

    /// Whether `wake` does so little, such as setting a flag and waking a task, that whoever announces can call it: a
    /// consumer then hears of a record one change of threads earlier. Such a notifier is called for each announcement,
    /// from several threads at once, and commits wait for it. Its answer never changes.
    fn is_prompt(&self) -> bool {
        false
    }
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilentWake;

impl WakeNotifier for SilentWake {
    fn name(&self) -> &str {
        "silent"
    }

    fn wake(&self, _log: &LogIdentity, _reason: WakeReason) {}
}
