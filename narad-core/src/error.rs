//! The crate's error: a kind to match on, the offset or path it concerns, and the source.
//!
//! An error can be shared by every member of a combined commit, so it is cheap to clone.

use std::{io, path::PathBuf, sync::Arc};

use rustix::io::Errno;

use crate::format::{CodecNumber, Offset};

/// A `Result` of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation of the engine did not succeed. Each variant says what the caller should do about it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed. Transient unless the disk is broken: retry, and look at the source.
    #[error("{op} {}: {source}", path.display())]
    Io {
        /// The operation, in the words of the system call: `open`, `read`, `write`, `fsync`, ...
        op: &'static str,
        /// The file or directory it was about.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },

    /// The disk (or the quota) is full. Free space and retry; nothing of the refused operation was kept.
    #[error("no space left to {op} {}", path.display())]
    DiskFull {
        /// The operation that found no space.
        op: &'static str,
        /// The file or directory it was about.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },

    /// The log was closed. Open it again.
    #[error("the log is closed")]
    Closed,

    /// An earlier fsync failed, so what lies behind the last good one is of unknown content. The log takes no
    /// writes until [`Log::reopen`](crate::log::Log::reopen) or a new open has scanned it again; committed
    /// records stay readable.
    #[error("the log is poisoned until it is reopened: {source}")]
    Poisoned {
        /// The failure that poisoned it.
        source: Arc<Error>,
    },

    /// The bytes of a committed record are damaged. They are lost unless a copy of the directory has them.
    #[error("record {offset} is corrupt in {}: {reason}", segment.display())]
    Corrupt {
        /// The record, or the first one of the damaged frame.
        offset: Offset,
        /// The segment file that holds the damage.
        segment: PathBuf,
        /// What did not check out.
        reason: &'static str,
    },

    /// The frame is intact, and needs a codec that was not registered at open. Open with that codec.
    #[error("record {offset} needs codec {number}, which is not registered")]
    UnknownCodec {
        /// The first record of the frame.
        offset: Offset,
        /// The codec's number.
        number: CodecNumber,
    },

    /// The frame is intact, and its codec lacks what it needs to decode it: a key, a dictionary. The source says which.
    /// Give it that and open the log again; nothing is lost.
    #[error("record {offset} cannot be decoded yet, {codec}: {source}")]
    Lacking {
        /// The record asked for.
        offset: Offset,
        /// The codec's name.
        codec: Arc<str>,
        /// What the codec said: a [`Lacking`](crate::plugin::Lacking).
        source: Arc<dyn std::error::Error + Send + Sync>,
    },

    /// The offset lies below the oldest record that is kept: retention took it.
    #[error("offset {offset} has expired; the oldest kept is {oldest}")]
    Expired {
        /// The offset asked for.
        offset: Offset,
        /// The oldest offset that is kept.
        oldest: Offset,
    },

    /// The offset is at or above the high watermark: there is nothing there yet.
    #[error("offset {offset} is not there yet; the high watermark is {high_watermark}")]
    NotYet {
        /// The offset asked for.
        offset: Offset,
        /// The exclusive bound of what can be read.
        high_watermark: Offset,
    },

    /// One record alone exceeds what a frame may hold. Nothing was written; make the record smaller.
    #[error("a record of {bytes} bytes exceeds the bound of {limit} bytes")]
    RecordTooLarge {
        /// The record's size as it would be stored, uncompressed.
        bytes: u64,
        /// The largest size a frame can hold.
        limit: u64,
    },

    /// Too much appended data waits for the disk. Commit, or wait and retry.
    #[error("{bytes} bytes of appended records already wait for the disk; the bound is {limit}")]
    BufferFull {
        /// Bytes that wait.
        bytes: u64,
        /// The bound.
        limit: u64,
    },

    /// A failed commit dropped records that had been appended and not committed. Append them again.
    #[error("the appended records from {first} on were dropped by a failed commit")]
    Discarded {
        /// The first offset of the append that was dropped.
        first: Offset,
    },

    /// An argument or a setting cannot be used. Fix the caller or the configuration.
    #[error("{name}: {reason}")]
    InvalidArgument {
        /// The argument or setting.
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },

    /// A plugin failed or broke its contract. The plugin's author should know.
    #[error("{plugin}: {operation} failed: {source}")]
    Plugin {
        /// The plugin's name.
        plugin: String,
        /// What it was asked to do.
        operation: &'static str,
        /// What it answered.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },

    /// The engine failed in a way it should not. Reopen the log and report it; nothing committed is affected.
    #[error("internal failure: {what}")]
    Internal {
        /// What happened.
        what: &'static str,
    },

    /// Another process has the data directory open. Stop it, or use another directory.
    #[error("{} is in use by {holder}", path.display())]
    Locked {
        /// The data directory.
        path: PathBuf,
        /// Who holds it, as far as it could be told: `process 4711`.
        holder: String,
    },

    /// Files on disk contradict the format in a way that opening cannot decide. Restore or move them.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    /// Wraps what the operating system said, telling a full disk from everything else.
    pub fn io(op: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        let (path, full) = (path.into(), is_disk_full(&source));
        let source = Arc::new(source);
        if full { Self::DiskFull { op, path, source } } else { Self::Io { op, path, source } }
    }

    /// Whether freeing disk space would help.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::Poisoned { source } => source.is_disk_full(),
            _ => false,
        }
    }

    /// Whether this process, or the whole system, has no file descriptor left: closing some would help.
    pub fn is_out_of_descriptors(&self) -> bool {
        match self {
            Self::Io { source, .. } => is_out_of_descriptors(source),
            Self::Poisoned { source } => source.is_out_of_descriptors(),
            _ => false,
        }
    }

    /// Whether the record asked for exists and cannot be read: damaged, or written by an unknown codec.
    pub fn is_unreadable_record(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::UnknownCodec { .. })
    }
}

fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether the system refused a call for want of a file descriptor, of this process or of its own.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}
