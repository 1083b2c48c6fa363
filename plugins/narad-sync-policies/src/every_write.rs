//! The policy that syncs after each write.

use narad_core::plugin::{SyncDecision, SyncPolicy, Unsynced};

/// Syncs after every write.
///
/// Survives: whatever was drained outlives the process, the system and the power. What was appended within the last
/// 100 ms (1,000 records, 1 MiB) may not have been drained, and is lost with the process.
///
/// Costs an fsync for each drain of each log, at most ten a second where little is written and one a MiB where much is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EveryWrite;

impl SyncPolicy for EveryWrite {
    fn name(&self) -> &str {
        "every-write"
    }

    fn decide(&self, _: &Unsynced) -> SyncDecision {
        SyncDecision::Now
    }
}
