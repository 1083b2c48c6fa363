//! The file of the next segment, filled with zeros while the present one is written.
//!
//! Commits do not wait for its pages, which are another file's, and the segment that it becomes needs no zeros of its own:
//! see `prepare`. Nothing waits for it either: where it is not ready when the segment is full, the next one begins as an
//! empty file. It has a name that is no segment's until it is renamed, so that no open ever reads it, and a crash leaves
//! a file that the next open removes. What fails here fails no commit.

use std::{
    ffi::OsStr,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::prepare::ZEROS;
use crate::{
    disk::{Disk, Doomed, File, FileExt, OpenMode},
    runtime::Runtime,
    sync::Mutex,
};

/// Bytes written by one job: what a commit that wants the same worker waits for.
const PIECE: u64 = 1 << 20;
/// A disk with room for fewer files of this size than that is left to the records.
const ROOM: u64 = 8;

const PREFIX: &str = "spare-";
const SUFFIX: &str = ".zeros";

/// Tells the files of one process apart: whoever is late never finds another log's.
static NUMBERS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// A log's spare file: none, or one.
#[derive(Debug)]
pub(super) struct Spare {
    dir: PathBuf,
    /// Held across single calls to the disk, never across the filling; taken by a commit only if it is free.
    state: Mutex<State>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    None,
    Filling {
        path: PathBuf,
    },
    /// Durable, `len` bytes of zeros.
    Ready {
        path: PathBuf,
        len: u64,
    },
    Closed,
}

/// Whether a file of that name is a spare one, of this log or of one that is no more.
pub(super) fn is_spare(name: &OsStr) -> bool {
    let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Removes a spare file; what a crash leaves of that is removed by the next open. Its space comes back in steps.
pub(super) fn remove(runtime: &Runtime, path: &Path) {
    let disk = &**runtime.disk();
    let doomed = Doomed::open(disk, path);
    match disk.remove_file(path) {
        Ok(()) => runtime.reclaimer().reclaim(doomed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::debug!(path = %path.display(), %error, "a spare file stays until the next open");
        }
    }
}

impl Spare {
    /// That of the log in `dir`.
    pub(super) fn new(dir: &Path) -> Arc<Self> {
        Arc::new(Self { dir: dir.to_owned(), state: Mutex::new(State::None) })
    }

    /// Has a file of `len` bytes filled on the runtime's workers, as `group`, unless there is one.
    pub(super) fn begin(self: &Arc<Self>, runtime: &Runtime, group: &Arc<str>, len: u64) {
        let path = {
            let Some(mut state) = self.state.try_lock().filter(|state| **state == State::None) else {
                return;
            };
            let number = NUMBERS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let path = self.dir.join(format!("{PREFIX}{number}{SUFFIX}"));
            *state = State::Filling { path: path.clone() };
            path
        };
        let filling = Filling {
            spare: Arc::clone(self),
            runtime: runtime.clone(),
            group: Arc::clone(group),
            path,
            file: None,
            at: 0,
            len,
        };
        filling.go_on();
    }

    /// Gives the file the name `to`, which nothing has, if it is ready; answers it with its length. The name is durable
    /// with the next sync of the directory. Never waits.
    pub(super) fn take(&self, to: &Path, disk: &dyn Disk) -> Option<(Box<dyn File>, u64)> {
        let mut state = self.state.try_lock()?;
        let State::Ready { path, len } = &*state else { return None };
        let is_free = disk.metadata(to).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if !is_free {
            return None;
        }
        let (path, len) = (path.clone(), *len);
        *state = State::None;
        match take_file(disk, &path, len, to) {
            Ok(file) => Some((file, len)),
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "the next segment does without its spare file");
                _ = disk.remove_file(&path);
                None
            }
        }
    }

    /// Removes the file, or gives up filling it: whoever fills it lets go of it, nameless by then, with the end of a piece.
    pub(super) fn discard(&self, runtime: &Runtime) {
        self.leave(runtime, State::None);
    }

    /// The same, and there will be none: the directory may be another log's from now on.
    pub(super) fn close(&self, runtime: &Runtime) {
        self.leave(runtime, State::Closed);
    }

    fn leave(&self, runtime: &Runtime, to: State) {
        let mut state = self.state.lock();
        if *state == State::Closed {
            return;
        }
        match std::mem::replace(&mut *state, to) {
            State::Filling { path } | State::Ready { path, .. } => remove(runtime, &path),
            State::None | State::Closed => {}
        }
    }
}

fn take_file(disk: &dyn Disk, path: &Path, len: u64, to: &Path) -> io::Result<Box<dyn File>> {
    let file = disk.open(path, OpenMode::ReadWrite)?;
    if file.len()? != len {
        return Err(io::Error::other("somebody has changed its length"));
    }
    disk.rename(path, to)?;
    Ok(file)
}

/// A file that is being filled, a piece by each job: between two of them others have the worker.
struct Filling {
    spare: Arc<Spare>,
    runtime: Runtime,
    group: Arc<str>,
    path: PathBuf,
    file: Option<Box<dyn File>>,
    at: u64,
    len: u64,
}

impl Filling {
    fn go_on(mut self) {
        let (runtime, group) = (self.runtime.clone(), Arc::clone(&self.group));
        runtime.spawn(&group, move || {
            let done = catch_unwind(AssertUnwindSafe(|| self.piece()));
            match done.unwrap_or_else(|_| Err(io::Error::other("a disk panicked"))) {
                Ok(true) => {}
                Ok(false) => self.go_on(),
                Err(error) => {
                    tracing::debug!(path = %self.path.display(), %error, "no spare file for the next segment");
                    self.give_up();
                }
            }
        });
    }

    /// Writes a piece; the last one makes the file durable and ready. Answers whether that was the last one, or nobody
    /// wants it any more.
    fn piece(&mut self) -> io::Result<bool> {
        if self.file.is_none() {
            self.check_room()?;
        }
        let spare = Arc::clone(&self.spare);
        let mut state = spare.state.lock();
        if !self.is_wanted(&state) {
            return Ok(true);
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => self.runtime.disk().open(&self.path, OpenMode::CreateNew)?,
        };
        drop(state);
        let file = self.file.insert(file);
        let to = self.len.min(self.at + PIECE);
        while self.at < to {
            let bytes = usize::try_from(to - self.at).map_or(ZEROS.len(), |left| left.min(ZEROS.len()));
            file.write_all_at(ZEROS.get(..bytes).unwrap_or_default(), self.at).map_err(|(_, error)| error)?;
            self.at += bytes as u64;
        }
        if self.at < self.len {
            return Ok(false);
        }
        // The commits that write over it find its blocks and its length on disk; and what cannot be written fails here.
        file.sync_data()?;
        state = spare.state.lock();
        if self.is_wanted(&state) {
            *state = State::Ready { path: self.path.clone(), len: self.len };
        }
        Ok(true)
    }

    fn check_room(&self) -> io::Result<()> {
        let available = self.runtime.disk().available_bytes(&self.spare.dir)?;
        if available / ROOM < self.len { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn is_wanted(&self, state: &State) -> bool {
        matches!(state, State::Filling { path } if *path == self.path)
    }

    fn give_up(&self) {
        let mut state = self.spare.state.lock();
        if self.is_wanted(&state) {
            *state = State::None;
            remove(&self.runtime, &self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_as_strictly_as_they_are_written() {
        assert!(is_spare(OsStr::new("spare-1.zeros")));
        for foreign in
            ["spare-.zeros", "spare-1", "spare-1.zeros.bak", "spare-x1.zeros", "1.zeros", "spare-1.log"]
        {
            assert!(!is_spare(OsStr::new(foreign)), "{foreign}");
        }
    }
}
