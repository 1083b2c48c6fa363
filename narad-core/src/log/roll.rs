//! The file of the next segment.
//!
//! Its name is durable before a frame relies on it. A step that fails leaves the former segment the last one, and is tried
//! again.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    disk::{Disk, File, OpenMode, parent_of},
    error::{Error, Result},
    format::HEADER_LEN,
};

/// Makes the file, its name durable.
pub(super) fn create_segment(path: &Path, disk: &dyn Disk) -> Result<Arc<dyn File>> {
    let file = match disk.open(path, OpenMode::CreateNew) {
        // Left by a roll whose last step failed: empty, and then as good as new.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => reuse_empty(disk, path)?,
        created => created.map_err(|error| Error::io("create", path, error))?,
    };
    let dir = parent_of(path);
    if let Err(error) = disk.sync_dir(dir) {
        // The next try makes it anew. Frames may go to the former segment until then, and must find it the last.
        _ = disk.remove_file(path);
        return Err(Error::io("fsync", dir, error));
    }
    Ok(file.into())
}

/// Gives a passed-over file a name that is no segment's, durably: with a segment behind it, it would seem to end
/// the one in front of it. Nothing of it is lost.
pub(super) fn set_aside(path: &Path, disk: &dyn Disk) -> Result<()> {
    let aside = free_name(disk, path);
    match disk.rename(path, &aside) {
        // An earlier try renamed it and could not make that durable.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("rename", path, error));
        }
        _ => {}
    }
    let dir = parent_of(path);
    disk.sync_dir(dir).map_err(|error| Error::io("fsync", dir, error))?;
    tracing::warn!(from = %path.display(), to = %aside.display(), "set a segment aside that does not belong where it was");
    Ok(())
}

fn reuse_empty(disk: &dyn Disk, path: &Path) -> Result<Box<dyn File>> {
    let file = disk.open(path, OpenMode::ReadWrite).map_err(|error| Error::io("open", path, error))?;
    match file.len() {
        // No truncate: the first frame covers what is there, and until then it reads as nothing.
        Ok(len) if len < HEADER_LEN as u64 => Ok(file),
        Ok(_) => {
            Err(Error::Unusable { path: path.to_owned(), reason: "a segment of that name exists".to_owned() })
        }
        Err(error) => Err(Error::io("stat", path, error)),
    }
}

/// A name beside `path` that is no segment's and that nothing has.
fn free_name(disk: &dyn Disk, path: &Path) -> PathBuf {
    let named = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".passed-over-{number}"));
        PathBuf::from(name)
    };
    let is_free =
        |name: &PathBuf| disk.metadata(name).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    (1..100).map(named).find(is_free).unwrap_or_else(|| named(0))
}
