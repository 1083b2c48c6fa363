//! One cursor in memory: how far a child is in a partition of its parent, and whether somebody sees to it.

use std::collections::BTreeSet;

use narad_core::{format::Offset, plugin::PartitionId};
use parking_lot::Mutex;

/// A cursor.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    phase: Mutex<Phase>,
    progress: Mutex<Progress>,
}

/// Who sees to a cursor. At every moment at most one alarm or one pass does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    /// Nobody: there was nothing to copy when it was last looked at.
    #[default]
    Idle,
    /// A time is set.
    Waiting,
    /// A pass runs. Something may have come since it looked.
    Running { again: bool },
}

/// How far a cursor is.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// Everything below was copied; `None` until that was read.
    pub(super) next: Option<Offset>,
    /// A batch of which some partitions of the child have their part.
    pub(super) partial: Option<Partial>,
    /// The file does not say `next` yet.
    pub(super) unsaved: bool,
    /// When the record at `next` became due or will, in Unix milliseconds, if there is one that was seen.
    pub(super) head_due_ms: Option<i64>,
    /// The last pass failed, which was said then.
    pub(super) failing: bool,
}

/// The records from the cursor to `end`, when it was cut in parts for the child's partitions and not all of them
/// were taken. The rest is tried again in the same parts.
#[derive(Debug, Clone)]
pub(super) struct Partial {
    pub(super) end: Offset,
    /// How many partitions the child had.
    pub(super) partitions: u32,
    /// Those that have their part.
    pub(super) done: BTreeSet<PartitionId>,
}

impl Cursor {
    /// Something was announced. Answers whether a time has to be set for it.
    pub(super) fn announce(&self) -> bool {
        let mut phase = self.phase.lock();
        match *phase {
            Phase::Idle => {
                *phase = Phase::Waiting;
                true
            }
            Phase::Waiting => false,
            Phase::Running { .. } => {
                *phase = Phase::Running { again: true };
                false
            }
        }
    }

    /// The time has come. Answers whether a pass has to be begun.
    pub(super) fn begin(&self) -> bool {
        let mut phase = self.phase.lock();
        let begins = *phase == Phase::Waiting;
        if begins {
            *phase = Phase::Running { again: false };
        }
        begins
    }

    /// A pass looks at the log from here on.
    pub(super) fn looks(&self) {
        *self.phase.lock() = Phase::Running { again: false };
    }

    /// A pass has ended and found nothing more. Answers whether something came meanwhile; then a time has to be set.
    pub(super) fn rest(&self) -> bool {
        let mut phase = self.phase.lock();
        let again = *phase == Phase::Running { again: true };
        *phase = if again { Phase::Waiting } else { Phase::Idle };
        again
    }

    /// A pass has ended, and the caller sets a time for the next.
    pub(super) fn wait(&self) {
        *self.phase.lock() = Phase::Waiting;
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress.lock().clone()
    }

    /// Everything below was copied, if it is known up to where.
    pub(super) fn next(&self) -> Option<Offset> {
        self.progress.lock().next
    }

    pub(super) fn publish(&self, progress: &Progress) {
        self.progress.lock().clone_from(progress);
    }
}
