//! Cursors of a topic's children: one small file a partition and child, in the partition's directory, so that a deleted
//! topic's cursors go with it.
//!
//! A file is opened under the topic's guard, while the directory is known to be this incarnation's, and overwritten in
//! place: whatever becomes of a write, what is found later was a cursor at some time.

use std::io;

use super::{Inner, TopicSpec, files};
use crate::{
    Error, Result,
    disk::{DiskExt, File, FileExt, FileKind, OpenMode},
    format::{FANOUT_CURSOR_LEN, FanoutCursor, decode_fanout_cursor, encode_fanout_cursor},
    plugin::PartitionId,
};

/// Longer than any cursor that anybody writes.
const READ_LIMIT: usize = 512;

impl Inner {
    pub(super) fn fanout_cursor(
        &self,
        spec: &TopicSpec,
        partition: PartitionId,
        child: &str,
    ) -> Result<Option<FanoutCursor>> {
        self.check_open()?;
        spec.check(partition)?;
        let topic = self.topic(&spec.name)?;
        let guarded = topic.directory.lock();
        let Some(paths) = guarded.existing(self, spec.incarnation, partition)? else { return Ok(None) };
        let (disk, path) = (&**self.runtime.disk(), paths.fanout_cursor(child)?);
        match files::kind(disk, &path)? {
            None => return Ok(None),
            Some(FileKind::File) => {}
            Some(_) => return Ok(self.no_cursor(&path)),
        }
        let bytes = disk.read_small(&path, READ_LIMIT).map_err(|error| Error::io("read", &path, error))?;
        // Whoever made the file may have died before its name was durable.
        files::sync_dir(disk, paths.dir())?;
        Ok(decode_fanout_cursor(&bytes).or_else(|| self.no_cursor(&path)))
    }

    fn no_cursor(&self, path: &std::path::Path) -> Option<FanoutCursor> {
        tracing::warn!(file = %path.display(), "no cursor in it; passed over");
        self.count_error("state_file");
        None
    }

    pub(super) fn record_fanout_cursor(
        &self,
        spec: &TopicSpec,
        partition: PartitionId,
        child: &str,
        cursor: FanoutCursor,
    ) -> Result<()> {
        self.check_open()?;
        spec.check(partition)?;
        let topic = self.topic(&spec.name)?;
        let disk = &**self.runtime.disk();
        let guarded = topic.directory.lock();
        let Some(paths) = guarded.owned(self, spec.incarnation, partition)? else {
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

    pub(super) fn forget_fanout_cursor(
        &self,
        spec: &TopicSpec,
        partition: PartitionId,
        child: &str,
        epoch: u64,
    ) -> Result<()> {
        self.check_open()?;
        let topic = self.topic(&spec.name)?;
        let guarded = topic.directory.lock();
        let Some(paths) = guarded.owned(self, spec.incarnation, partition)? else { return Ok(()) };
        let (disk, path) = (&**self.runtime.disk(), paths.fanout_cursor(child)?);
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
