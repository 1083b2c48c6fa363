//! One process a data directory: the advisory lock on `LOCK`.
//!
//! The lock is the file system's, so a file left behind by a dead process is harmless. The pid inside is there for
//! people, and is never what decides.

use std::io;

use crate::{
    Error, Result,
    disk::{Disk, DiskExt, File, FileExt},
    store::layout::Layout,
};

/// Takes the lock; it is held for as long as the returned file lives.
///
/// # Errors
/// `Locked` with the holder's pid when the directory is in use.
pub(super) fn take(disk: &dyn Disk, layout: &Layout) -> Result<Box<dyn File>> {
    let path = layout.lock_file();
    match disk.lock(&path) {
        Ok(file) => {
            note_pid(&*file);
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(Error::Locked { path: layout.root().to_owned(), holder: holder(disk, layout) })
        }
        Err(error) => Err(Error::io("lock", path, error)),
    }
}

/// Best effort: a full disk is no reason not to start.
fn note_pid(file: &dyn File) {
    let pid = format!("{}\n", std::process::id());
    if file.write_all_at(pid.as_bytes(), 0).is_err() || file.set_len(pid.len() as u64).is_err() {
        tracing::debug!("could not note the pid in LOCK");
    }
}

fn holder(disk: &dyn Disk, layout: &Layout) -> String {
    let bytes = disk.read_small(&layout.lock_file(), 32).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    match text.lines().next().and_then(|line| line.trim().parse::<u32>().ok()) {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}
