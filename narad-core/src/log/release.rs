//! Gives up what a log that is idle does not need: the space prepared behind its frames, and its descriptors. Touches
//! nothing that has something unsynced, and waits for nobody who uses the log.

use super::{Inner, buffer::Gate};

impl Inner {
    /// Cuts the zeros behind the frames of the active segment, where nothing is under way. They come back once the log is
    /// busy again.
    pub(super) fn release_space(&self) {
        let Some(mut writer) = self.writer.try_lock() else { return };
        let is_idle = {
            let buffer = self.buffer.lock();
            matches!(buffer.gate(), Gate::Open) && buffer.since().is_none()
        };
        if is_idle
            && !writer.has_uncommitted()
            && let Err(error) = writer.trim(&**self.runtime.disk())
        {
            tracing::warn!(log = %self.options.identity, %error, "could not give back the space of an idle log");
        }
    }

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
