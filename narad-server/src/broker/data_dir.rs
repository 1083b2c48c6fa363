//! How much the data directory holds: looked at once a minute at most, since that takes a look at every file.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use narad_core::{
    disk::{Disk, FileKind},
    runtime::Runtime,
};
use parking_lot::Mutex;

/// How long what was seen is good for.
const GOOD_FOR: Duration = Duration::from_secs(60);
/// How long whoever asks waits for a look.
const PATIENCE: Duration = Duration::from_secs(1);
/// What the name of a directory has that was set aside.
const QUARANTINED: &str = ".stale-";

/// The directory, and what was seen of it.
#[derive(Debug)]
pub(super) struct DataDir {
    dir: PathBuf,
    looked: Arc<Mutex<Looked>>,
}

#[derive(Debug, Default)]
struct Looked {
    seen: Option<(Duration, Seen)>,
    /// A look is under way; it may hang in the disk, and one that hangs is enough.
    looking: bool,
}

/// What a look has found.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    /// Bytes of all files.
    pub(super) bytes: u64,
    /// Directories of topics that were set aside.
    pub(super) quarantined: u64,
}

impl DataDir {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, looked: Arc::default() }
    }

    /// What was seen last, after another look if that was long ago; `None` before the first look has ended.
    pub(super) async fn look(&self, runtime: &Runtime) -> Option<Seen> {
        let now = runtime.clock().monotonic();
        let due = {
            let mut looked = self.looked.lock();
            let is_good = looked.seen.is_some_and(|(at, _)| now.saturating_sub(at) < GOOD_FOR);
            !is_good && !std::mem::replace(&mut looked.looking, true)
        };
        if due {
            let (disk, dir, looked) =
                (Arc::clone(runtime.disk()), self.dir.clone(), Arc::clone(&self.looked));
            let look = runtime.run_blocking("metrics", move || {
                let mut seen = Seen::default();
                walk(&*disk, &dir, &mut seen);
                let mut looked = looked.lock();
                (looked.seen, looked.looking) = (Some((now, seen)), false);
            });
            // It goes on when nobody waits for it any more.
            let _ = tokio::time::timeout(PATIENCE, look).await;
        }
        self.looked.lock().seen.map(|(_, seen)| seen)
    }
}

/// Adds what is below `dir`. What goes away meanwhile, or cannot be looked at, counts as nothing.
fn walk(disk: &dyn Disk, dir: &Path, seen: &mut Seen) {
    for entry in disk.list(dir).unwrap_or_default() {
        let path = dir.join(&entry.name);
        match entry.kind {
            FileKind::Directory => {
                seen.quarantined += u64::from(entry.name.to_string_lossy().contains(QUARANTINED));
                walk(disk, &path, seen);
            }
            FileKind::File => {
                let bytes = disk.metadata(&path).map_or(0, |metadata| metadata.len);
                seen.bytes = seen.bytes.saturating_add(bytes);
            }
            FileKind::Other => {}
        }
    }
}
