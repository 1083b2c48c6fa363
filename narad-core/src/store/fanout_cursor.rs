//! Cursors of a topic's children: one small file a partition and child, in the partition's directory, so that a deleted
//! topic's cursors go with it.
//!
//! A file is opened under the topic's guard, while the directory is known to be this incarnation's, and overwritten in
//! place: whatever becomes of a write, what is found later was a cursor at some time.

use std::io;

use super::{Inner, Store, TopicSpec, files};
use crate::{
    Error, Result,
    disk::{DiskExt, File, FileExt, FileKind, OpenMode},
    format::{FANOUT_CURSOR_LEN, FanoutCursor, decode_fanout_cursor, encode_fanout_cursor},
    plugin::PartitionId,
};

/// Longer than any cursor that anybody writes.
const READ_LIMIT: usize = 512;

impl Store {
    /// How far `child` is in a partition of its parent `spec`, as its file says; `None` when it says nothing, which is
    /// logged and counted unless there is no file. Blocking; opens no log and creates nothing.
    ///
    /// # Errors
    /// `Io` when the file cannot be read: that is not taken for an empty one.
    pub fn fanout_cursor(
        &self,
        spec: &TopicSpec,
        partition: PartitionId,
        child: &str,
    ) -> Result<Option<FanoutCursor>> {
        let store = &*self.inner;
        store.check_open()?;
        spec.check(partition)?;
        let topic = store.topic(&spec.name)?;
        let guarded = topic.directory.lock();
        let Some(paths) = guarded.existing(store, spec.incarnation, partition)? else { return Ok(None) };
        let (disk, path) = (&**store.runtime.disk(), paths.fanout_cursor(child)?);
        match files::kind(disk, &path)? {
            None => return Ok(None),
            Some(FileKind::File) => {}
            Some(_) => return Ok(store.no_cursor(&path)),
        }
        let bytes = disk.read_small(&path, READ_LIMIT).map_err(|error| Error::io("read", &path, error))?;
        // Whoever made the file may have died before its name was durable.
        files::sync_dir(disk, paths.dir())?;
        Ok(decode_fanout_cursor(&bytes).or_else(|| store.no_cursor(&path)))
    }

    /// Writes how far `child` is, durably. A crash at any moment leaves the cursor before or this one. Blocking.
    ///
    /// # Errors
    /// `InvalidArgument` when the partition's directory is not this incarnation's, or not there; `Io`, `DiskFull`.
    pub fn record_fanout_cursor(
        &self,
        spec: &TopicSpec,
        partition: PartitionId,
        child: &str,
        cursor: FanoutCursor,
    ) -> Result<()> {
        let store = &*self.inner;
        store.check_open()?;
        spec.check(partition)?;
        let topic = store.topic(&spec.name)?;
        let disk = &**store.runtime.disk();
        let guarded = topic.directory.lock();
        let Some(paths) = guarded.owned(store, spec.incarnation, partition)? else {
            let reason = format!("{} of topic {} has no such partition here", spec.incarnation, spec.name);
            return Err(Error::InvalidArgument { name: "partition", reason });
        };
        let path = paths.fanout_cursor(child)?;
        let write = |file: &dyn File| {
            file.write_all_at(&encode_fanout_cursor(cursor), 0)
                .map_err(|(_, error)| Error::io("write", &path, error))?;
            if file.len().map_err(|error| Error::io("stat", &path, error))? != FANOUT_CURSOR_LEN as u64 {
                let cut = file.set_len(FANOUT_CURSOR_LEN as u64);
                cut.map_err(|error| Error::io("truncate", &path, error))?;
            }
            file.sync_data().map_err(|error| Error::io("fsync", &path, error))
        };
        match disk.open(&path, OpenMode::ReadWrite) {
            Ok(file) => {
                // Nobody needs to wait for this sync: the file is this incarnation's wherever it goes now.
                drop(guarded);
                write(&*file)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = files::open_or_create(disk, &path)?;
                write(&*file).and_then(|()| files::sync_dir(disk, paths.dir())).inspect_err(|_| {
                    // The next write makes it anew: who finds a file takes its name for durable.
                    let _ = disk.remove_file(&path);
                })
            }
            Err(error) => Err(Error::io("open", &path, error)),
        }
    }

    /// Removes the cursor of an attachment that has ended; one of another epoch stays. What a crash leaves is told from
    /// a later attachment's by its epoch. Idempotent, blocking.
    ///
    /// # Errors
    /// `Io`.
    pub fn forget_fanout_cursor(
        &self,
        spec: &TopicSpec,
        partition: PartitionId,
        child: &str,
        epoch: u64,
    ) -> Result<()> {
        let store = &*self.inner;
        store.check_open()?;
        let topic = store.topic(&spec.name)?;
        let guarded = topic.directory.lock();
        let Some(paths) = guarded.owned(store, spec.incarnation, partition)? else { return Ok(()) };
        let (disk, path) = (&**store.runtime.disk(), paths.fanout_cursor(child)?);
        if files::kind(disk, &path)? != Some(FileKind::File) {
            return Ok(());
        }
        let bytes = disk.read_small(&path, READ_LIMIT).map_err(|error| Error::io("read", &path, error))?;
        if decode_fanout_cursor(&bytes).is_some_and(|cursor| cursor.epoch != epoch) {
            return Ok(());
        }
        disk.remove_file(&path).map_err(|error| Error::io("unlink", &path, error))
    }
}

impl Inner {
    fn no_cursor(&self, path: &std::path::Path) -> Option<FanoutCursor> {
        tracing::warn!(file = %path.display(), "no cursor in it; passed over");
        self.count_error("state_file");
        None
    }
}
