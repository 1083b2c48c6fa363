//! Gives up the descriptors of a log that is idle. Never waits, and never gives up one that has something unsynced.

use super::{Inner, buffer::Gate};

impl Inner {
    /// Closes the descriptors of every segment, where nothing is under way. Answers whether none is held now.
    pub(super) fn release_files(&self) -> bool {
        // Whoever holds the lock writes: the log is not idle.
        let Some(mut writer) = self.writer.try_lock() else { return false };
        {
            let buffer = self.buffer.lock();
            match buffer.gate() {
                Gate::Open if buffer.since().is_none() => {}
                Gate::Open | Gate::Poisoned(_) => return false,
                Gate::Closed => return true,
            }
        }
        if !writer.give_up_file() {
            return false;
        }
        // No lock that a commit or a read needs is held while files are closed, but the produce lock.
        let segments: Vec<_> = self.view.read().segments.iter().map(|entry| entry.segment.clone()).collect();
        let held = segments.iter().filter(|segment| !segment.try_release_file()).count();
        held == 0
    }
}
