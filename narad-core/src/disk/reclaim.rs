//! The space of unlinked files, given back a little at a time: where a file system frees much at once, every fsync beside
//! it waits for that.
//!
//! Touches only files that no name leads to any more, so a crash leaves nothing of them, and no recovery and no other
//! engine ever meets a file that is half gone. Never needed for correctness: whatever fails here, the file's space comes
//! back when it is closed.

use std::{collections::VecDeque, io, path::Path, sync::Arc, time::Duration};

use super::{
    Disk, File, FileKind, Metadata, OpenMode, Spares,
    turns::{Beside, Turns},
};
use crate::sync::{Condvar, Mutex, thread};

/// Bytes freed at a time beside commits. On ext4 that discards what it frees, a commit waits for a step of 32 MiB for up
/// to 7 ms, and for one of this size no longer than for another commit.
const GENTLE: u64 = 1 << 20;
/// The same while nobody commits.
const BRISK: u64 = 4 << 20;
/// How long commits have the disk to themselves after a gentle step.
const PAUSE: Duration = Duration::from_millis(1);
/// Files that wait, at most: each holds a descriptor.
const MOST: usize = 1024;

/// Gives back the space of unlinked files, one after another.
#[derive(Debug)]
pub(crate) struct Reclaimer {
    shared: Arc<Shared>,
    threaded: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    turns: Arc<Turns>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Box<dyn File>>,
    /// Whether there is a thread: only while there is work.
    running: bool,
    ended: bool,
}

/// A file that is about to be unlinked, held so that its space does not come back with the unlink. Dropped, it does.
#[derive(Debug)]
pub(crate) struct Doomed(Option<Box<dyn File>>);

impl Doomed {
    /// Takes hold of the file at `path`, if it is large enough to matter. What keeps it from being opened keeps nobody
    /// from unlinking it.
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Self {
        let is_large = |found: Metadata| found.kind == FileKind::File && found.len > GENTLE;
        let matters = disk.metadata(path).is_ok_and(is_large);
        Self(matters.then(|| disk.open(path, OpenMode::ReadWrite).ok()).flatten())
    }
}

impl Reclaimer {
    /// With a thread while there is work, or at work in the calling thread.
    pub(crate) fn new(threaded: bool, turns: Arc<Turns>) -> Self {
        let shared = Shared { state: Mutex::default(), changed: Condvar::new(), turns };
        Self { shared: Arc::new(shared), threaded }
    }

    /// Who can be asked for the descriptors of files that wait.
    pub(crate) fn spares(&self) -> Arc<dyn Spares> {
        Arc::<Shared>::clone(&self.shared)
    }

    /// Gives back the space of a file that was unlinked. Where the name could come back after a power loss and be taken
    /// for a sound file, the unlink is durable by now. Never waits; with too many files waiting, this one goes at once.
    pub(crate) fn reclaim(&self, doomed: Doomed) {
        let Some(file) = doomed.0 else { return };
        if !self.threaded {
            return self.shared.free(&*file);
        }
        let mut state = self.shared.state.lock();
        if state.waiting.len() >= MOST {
            // The file is closed behind the lock.
            drop(state);
            return;
        }
        state.waiting.push_back(file);
        if !state.running {
            let shared = Arc::clone(&self.shared);
            state.running =
                thread::Builder::new().name("narad-reclaim".into()).spawn(move || shared.run()).is_ok();
            if !state.running {
                drop(state);
                self.shared.give_back();
            }
        }
    }
}

impl Drop for Reclaimer {
    fn drop(&mut self) {
        self.shared.state.lock().ended = true;
        self.shared.changed.notify_all();
        self.shared.give_back();
    }
}

impl Spares for Shared {
    fn give_back(&self) -> bool {
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        !waiting.is_empty()
    }
}

impl Shared {
    fn run(&self) {
        loop {
            let file = {
                let mut state = self.state.lock();
                let Some(file) = state.waiting.pop_front() else {
                    state.running = false;
                    return;
                };
                file
            };
            self.free(&*file);
        }
    }

    fn free(&self, file: &dyn File) {
        if let Err(error) = self.shorten(file) {
            tracing::debug!(%error, "the space of an unlinked file comes back at once");
        }
    }

    fn shorten(&self, file: &dyn File) -> io::Result<()> {
        // Another name may lead to it, such as one in a backup that was made of links.
        if !file.is_unlinked()? {
            return Ok(());
        }
        let beside = Beside::new(Arc::clone(&self.turns));
        let mut left = file.len()?;
        while left > 0 {
            let is_beside_commits = beside.commits();
            left = left.saturating_sub(if is_beside_commits { GENTLE } else { BRISK });
            file.set_len(left)?;
            if is_beside_commits && !self.pause() {
                break;
            }
        }
        Ok(())
    }

    /// Waits a little; answers whether to go on.
    fn pause(&self) -> bool {
        let mut state = self.state.lock();
        if !state.ended {
            self.changed.wait_for(&mut state, PAUSE);
        }
        !state.ended
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use super::*;

    /// A file that has no name, and remembers the lengths that it was given.
    #[derive(Debug)]
    struct Nameless {
        lens: Mutex<Vec<u64>>,
        /// Told of every file that is closed.
        closed: std::sync::mpsc::Sender<Vec<u64>>,
        is_named: bool,
    }

    impl Drop for Nameless {
        fn drop(&mut self) {
            _ = self.closed.send(std::mem::take(&mut self.lens.lock()));
        }
    }

    impl File for Nameless {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.lens.lock().push(len);
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(self.lens.lock().last().copied().unwrap_or(10 << 20))
        }

        fn is_unlinked(&self) -> io::Result<bool> {
            Ok(!self.is_named)
        }
    }

    fn nameless(closed: &std::sync::mpsc::Sender<Vec<u64>>) -> Doomed {
        let closed = closed.clone();
        Doomed(Some(Box::new(Nameless { lens: Mutex::default(), closed, is_named: false })))
    }

    const SOON: Duration = Duration::from_secs(60);

    #[test]
    fn steps_are_small_beside_commits_and_larger_without() {
        let (closed, files) = std::sync::mpsc::channel();
        let turns = Arc::new(Turns::default());
        let reclaimer = Reclaimer::new(true, Arc::clone(&turns));
        reclaimer.reclaim(nameless(&closed));
        assert_eq!(files.recv_timeout(SOON).unwrap(), [6 << 20, 2 << 20, 0]);
        let commit = turns.commit();
        reclaimer.reclaim(nameless(&closed));
        assert_eq!(
            files.recv_timeout(SOON).unwrap(),
            (0..10).rev().map(|mib| mib << 20).collect::<Vec<u64>>()
        );
        drop(commit);
    }

    #[test]
    fn a_file_that_still_has_a_name_is_only_closed() {
        let (closed, files) = std::sync::mpsc::channel();
        let reclaimer = Reclaimer::new(true, Arc::default());
        reclaimer.reclaim(Doomed(Some(Box::new(Nameless {
            lens: Mutex::default(),
            closed,
            is_named: true,
        }))));
        assert_eq!(files.recv_timeout(SOON).unwrap(), [0; 0]);
    }

    /// A file whose first step does not end before it is told to.
    #[derive(Debug)]
    struct Slow(Nameless, Arc<AtomicBool>);

    impl File for Slow {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            self.0.read_at(buf, offset)
        }

        fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
            self.0.write_at(buf, offset)
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            while self.1.load(Relaxed) {
                thread::yield_now();
            }
            self.0.set_len(len)
        }

        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }

        fn is_unlinked(&self) -> io::Result<bool> {
            Ok(true)
        }
    }

    #[test]
    fn those_that_wait_are_bounded_and_closed_when_descriptors_are_wanted() {
        let (closed, files) = std::sync::mpsc::channel();
        let reclaimer = Reclaimer::new(true, Arc::default());
        let spares = reclaimer.spares();
        assert!(!spares.give_back(), "nothing to give");
        let hangs = Arc::new(AtomicBool::new(true));
        let (first, ended) = std::sync::mpsc::channel();
        let slow = Nameless { lens: Mutex::default(), closed: first, is_named: false };
        reclaimer.reclaim(Doomed(Some(Box::new(Slow(slow, Arc::clone(&hangs))))));
        while !reclaimer.shared.state.lock().waiting.is_empty() {
            thread::yield_now();
        }
        for _ in 0..MOST {
            reclaimer.reclaim(nameless(&closed));
        }
        assert!(files.try_recv().is_err(), "all of them wait");
        reclaimer.reclaim(nameless(&closed));
        assert_eq!(files.try_recv().unwrap(), [0; 0], "one too many goes at once");
        assert!(spares.give_back());
        assert_eq!(files.try_iter().count(), MOST);
        hangs.store(false, Relaxed);
        assert_eq!(ended.recv_timeout(SOON).unwrap().last(), Some(&0), "the one under way goes on");
    }
}
