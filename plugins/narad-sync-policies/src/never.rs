//! The policy that leaves syncing to others.

use narad_core::plugin::{SyncDecision, SyncPolicy, Unsynced};

/// Never asks for a sync: for caches, and for tests that wait for none.
///
/// Survives: what was drained outlives the process, since the system has it. A power loss or a crash of the system takes
/// what was written since the last sync that happened for another reason: a commit, a segment that is full or sealed, a
/// close. That is a segment at most, 64 MiB by default. What is left is a sound log: a torn tail is cut off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Never;

impl SyncPolicy for Never {
    fn name(&self) -> &str {
        "never"
    }

    fn decide(&self, _: &Unsynced) -> SyncDecision {
        SyncDecision::NotYet
    }
}
