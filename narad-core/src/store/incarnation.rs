//! Whose a topic's directory is: the marker that ties it to one life of the topic's name.
//!
//! Called under the topic's guard. A directory is renamed on the word of a marker that names somebody else, and
//! never removed here.

use std::path::{Path, PathBuf};

use crate::{
    Error, Result,
    disk::{Disk, DiskExt, FileExt, FileKind, OpenMode},
    plugin::Incarnation,
    store::{
        files::{create_dir, kind, open_or_create, sync_dir, unusable},
        layout::{Layout, TopicPaths},
    },
};

/// Longer than any marker, so that a file which only begins like one is told apart.
const MARKER_LIMIT: usize = 32;

/// What a topic's directory says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// There is no such directory.
    NoDirectory,
    /// A directory without a marker.
    Unmarked,
    /// A directory whose marker names nobody: a crash cut its writing short, or it was damaged.
    Illegible,
    /// The directory of this incarnation.
    Of(Incarnation),
}

/// Reads the marker.
///
/// # Errors
/// `Unusable` for a symbolic link or file in the directory's place, and for a marker that is no file.
pub(super) fn owner(disk: &dyn Disk, paths: &TopicPaths) -> Result<Owner> {
    match kind(disk, paths.dir())? {
        None => return Ok(Owner::NoDirectory),
        Some(FileKind::Directory) => {}
        Some(_) => return Err(unusable(paths.dir(), "a topic is a directory, and links are not followed")),
    }
    let marker = paths.marker();
    match kind(disk, &marker)? {
        None => return Ok(Owner::Unmarked),
        Some(FileKind::File) => {}
        Some(_) => return Err(unusable(&marker, "the incarnation marker is not a regular file")),
    }
    let bytes = disk.read_small(&marker, MARKER_LIMIT).map_err(|error| Error::io("read", &marker, error))?;
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    match text.strip_suffix('\n').unwrap_or(text).trim_end_matches('\r').parse() {
        Ok(id) => Ok(Owner::Of(id)),
        Err(_) => {
            tracing::warn!(marker = %marker.display(), "the incarnation marker names nobody");
            Ok(Owner::Illegible)
        }
    }
}

/// Makes sure that the directory `topics/<name>` is there, durably, and belongs to `id`. What another incarnation
/// left under the name is quarantined; `retire` is called with its id before it is moved, so that its logs are
/// closed and its consumer state forgotten before a fresh directory exists. Answers whose it was.
pub(super) fn claim(
    disk: &dyn Disk,
    layout: &Layout,
    name: &str,
    id: Incarnation,
    retire: impl FnOnce(Incarnation),
) -> Result<Owner> {
    let paths = layout.topic(name)?;
    let before = owner(disk, &paths)?;
    match before {
        Owner::Of(found) if found == id => {
            settle(disk, &paths)?;
            sync_dir(disk, &layout.topics())?;
            return Ok(before);
        }
        Owner::Of(found) => {
            tracing::error!(topic = name, expected = %id, %found, "the directory belongs to another incarnation");
            retire(found);
            quarantine(disk, layout, name, found)?;
            create_dir(disk, paths.dir())?;
        }
        Owner::Unmarked | Owner::Illegible => {
            tracing::info!(topic = name, incarnation = %id, "adopting a directory without a marker")
        }
        Owner::NoDirectory => _ = create_dir(disk, paths.dir())?,
    }
    sync_dir(disk, &layout.topics())?;
    stamp(disk, &paths, id)?;
    Ok(before)
}

/// Sets the directory of `name` aside as `old`'s, never to be served.
pub(super) fn quarantine(disk: &dyn Disk, layout: &Layout, name: &str, old: Incarnation) -> Result<PathBuf> {
    let to = set_aside(disk, layout, layout.topic(name)?.dir(), layout.quarantine(name, old))?;
    tracing::error!(topic = name, incarnation = %old, to = %to.display(), "quarantined a directory");
    Ok(to)
}

/// Renames a topic's directory to the first free one of `places`, durably.
pub(super) fn set_aside(
    disk: &dyn Disk,
    layout: &Layout,
    dir: &Path,
    places: impl Iterator<Item = PathBuf>,
) -> Result<PathBuf> {
    for to in places {
        if kind(disk, &to)?.is_some() {
            continue;
        }
        disk.rename(dir, &to).map_err(|error| Error::io("rename", dir, error))?;
        sync_dir(disk, &layout.topics())?;
        return Ok(to);
    }
    Err(unusable(dir, "no free name to set it aside under"))
}

/// In place and not through a temporary file: a marker cut short names nobody, no record can be there yet, and the
/// next claim writes it again, so neither a crash nor a full disk leaves anything that has to be cleaned up.
pub(super) fn stamp(disk: &dyn Disk, paths: &TopicPaths, id: Incarnation) -> Result<()> {
    let marker = paths.marker();
    let io = |op: &'static str| {
        let marker = marker.clone();
        move |error| Error::io(op, marker, error)
    };
    let file = open_or_create(disk, &marker)?;
    let text = id.to_string();
    let write = || {
        file.write_all_at(text.as_bytes(), 0).map_err(|(_, error)| io("write")(error))?;
        file.set_len(text.len() as u64).map_err(io("truncate"))?;
        file.sync_data().map_err(io("fsync"))
    };
    if let Err(error) = write() {
        // It may read well now and be gone after a power loss, and a later sync would not say so.
        let _ = file.set_len(0);
        return Err(error);
    }
    sync_dir(disk, paths.dir())
}

/// Makes a marker that is there durable, and the names beside it: whoever made them may have died before that. A topic
/// whose marker a power loss takes is nobody's, and the next one of its name would get its records.
pub(super) fn settle(disk: &dyn Disk, paths: &TopicPaths) -> Result<()> {
    let marker = paths.marker();
    let file = disk.open(&marker, OpenMode::Read).map_err(|error| Error::io("open", &marker, error))?;
    file.sync_data().map_err(|error| Error::io("fsync", &marker, error))?;
    sync_dir(disk, paths.dir())
}
