//! Long reads give way to commits: a recovery that takes in a cold file as fast as the disk gives it has every fsync
//! beside it wait for milliseconds behind what the system reads ahead.
//!
//! While nobody commits, a long read goes at full speed. Knows no clock; a wait here is bounded and never needed for
//! correctness.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{Access, File};
use crate::sync::{Condvar, Mutex};

/// Bytes read at a time beside commits: what a commit waits for, at most.
const STEP: usize = 32 << 10;
/// No commit is waited for longer than this: one that hangs does not hang a recovery.
const LONGEST_WAIT: Duration = Duration::from_millis(5);

/// Who commits, told to those who read much.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    committing: AtomicUsize,
    committed: AtomicU64,
    /// Long reads that wait for a commit to end.
    waiting: AtomicUsize,
    lock: Mutex<()>,
    ended: Condvar,
}

impl Turns {
    /// A commit writes and syncs for as long as the returned value lives.
    pub(crate) fn commit(&self) -> CommitTurn<'_> {
        self.committing.fetch_add(1, Relaxed);
        CommitTurn(self)
    }

    /// Waits for a commit that is under way to end, if there is one.
    fn give_way(&self) {
        if self.committing.load(Relaxed) == 0 {
            return;
        }
        self.waiting.fetch_add(1, Relaxed);
        let mut held = self.lock.lock();
        if self.committing.load(Relaxed) > 0 {
            self.ended.wait_for(&mut held, LONGEST_WAIT);
        }
        drop(held);
        self.waiting.fetch_sub(1, Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct CommitTurn<'a>(&'a Turns);

impl Drop for CommitTurn<'_> {
    fn drop(&mut self) {
        self.0.committing.fetch_sub(1, Relaxed);
        self.0.committed.fetch_add(1, Relaxed);
        if self.0.waiting.load(Relaxed) > 0 {
            drop(self.0.lock.lock());
            self.0.ended.notify_all();
        }
    }
}

/// Tells somebody who works in steps whether commits go on beside them.
#[derive(Debug)]
pub(super) struct Beside {
    turns: Arc<Turns>,
    /// The commits that had ended at the last step.
    seen: AtomicU64,
}

impl Beside {
    pub(super) fn new(turns: Arc<Turns>) -> Self {
        let seen = AtomicU64::new(turns.committed.load(Relaxed));
        Self { turns, seen }
    }

    /// Whether somebody commits, or has since the last step.
    pub(super) fn commits(&self) -> bool {
        let committed = self.turns.committed.load(Relaxed);
        self.seen.swap(committed, Relaxed) != committed || self.turns.committing.load(Relaxed) > 0
    }
}

/// A file whose reads give way to commits.
#[derive(Debug)]
pub(crate) struct GivingWay {
    file: Arc<dyn File>,
    beside: Beside,
    /// Whether the system was told not to read ahead.
    is_sparing: AtomicBool,
}

impl GivingWay {
    pub(crate) fn new(file: Arc<dyn File>, turns: Arc<Turns>) -> Self {
        Self { file, beside: Beside::new(turns), is_sparing: AtomicBool::new(false) }
    }

    fn read_ahead(&self, wanted: bool) {
        if self.is_sparing.swap(!wanted, Relaxed) == wanted {
            self.file.advise(if wanted { Access::Ahead } else { Access::AsAsked });
        }
    }
}

impl Drop for GivingWay {
    fn drop(&mut self) {
        self.read_ahead(true);
    }
}

impl File for GivingWay {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let gently = self.beside.commits();
        self.read_ahead(!gently);
        if !gently {
            return self.file.read_at(buf, offset);
        }
        self.beside.turns.give_way();
        let step = buf.len().min(STEP);
        self.file.read_at(buf.get_mut(..step).unwrap_or_default(), offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(buf, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn is_unlinked(&self) -> io::Result<bool> {
        self.file.is_unlinked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Remembers the lengths of its reads and what it was advised.
    #[derive(Debug, Default)]
    struct Noting {
        reads: Mutex<Vec<usize>>,
        advice: Mutex<Vec<Access>>,
    }

    impl File for Noting {
        fn read_at(&self, buf: &mut [u8], _: u64) -> io::Result<usize> {
            self.reads.lock().push(buf.len());
            Ok(buf.len())
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(u64::MAX)
        }

        fn advise(&self, access: Access) {
            self.advice.lock().push(access);
        }
    }

    #[test]
    fn a_long_read_takes_small_steps_beside_commits_and_large_ones_without() {
        let (noting, turns) = (Arc::new(Noting::default()), Arc::new(Turns::default()));
        let file = GivingWay::new(Arc::<Noting>::clone(&noting), Arc::clone(&turns));
        let mut buf = vec![0; 256 << 10];
        let mut read = || file.read_at(&mut buf, 0).unwrap();
        assert_eq!(read(), 256 << 10);
        let commit = turns.commit();
        assert_eq!(read(), STEP, "the commit under way ends after the wait's limit at the latest");
        drop(commit);
        assert_eq!(read(), STEP, "a commit has ended since the last read");
        assert_eq!(read(), 256 << 10);
        assert_eq!(*noting.advice.lock(), [Access::AsAsked, Access::Ahead]);
        turns.commit();
        read();
        drop(file);
        assert_eq!(noting.advice.lock().last(), Some(&Access::Ahead), "later readers get what they expect");
    }

    #[test]
    fn a_wait_ends_with_the_commit() {
        let turns = Arc::new(Turns::default());
        let commit = turns.commit();
        std::thread::scope(|scope| {
            scope.spawn(|| turns.give_way());
            drop(commit);
        });
        assert_eq!(turns.waiting.load(Relaxed), 0);
    }
}
