//! Every path below a data directory is built here, and every name found there is recognised here. Nothing in this
//! file touches the disk.
//!
//! ```text
//! <data>/LOCK
//!        meta/                       the metastore's
//!        ingress/produce/            the produce log's
//!        topics/<name>/incarnation
//!                      plugins/      a directory of each plugin that keeps something
//!                      p00003/       a log, and consumer.offset, consumer.ahead, fanout-<child>.offset
//!        topics/<name>.stale-<id>    quarantined: another incarnation's leftover, kept
//!        topics/<name>.deleted-<id>  on its way out: removed by whoever finds it
//! ```
//!
//! A quarantined or deleted directory whose name is taken gets `-1`, `-2`, ... behind the id.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use crate::{
    Error, Result,
    plugin::{Incarnation, PartitionId},
};

const MAX_NAME_BYTES: usize = 200;
const STALE: &str = ".stale-";
const DELETED: &str = ".deleted-";
const ID_DIGITS: usize = 16;
const PARTITION_DIGITS: usize = 5;

/// Whether `name` can be a topic's: one path component of 1 to 200 bytes that is neither `.` nor `..`, holds no
/// `/` and no NUL, and does not look like the name of a quarantined or deleted topic's directory.
///
/// # Errors
/// `InvalidArgument` says what is wrong with it.
pub fn check_topic_name(name: &str) -> Result<()> {
    let reason = if name.is_empty() || name.len() > MAX_NAME_BYTES {
        format!("a topic's name has 1 to {MAX_NAME_BYTES} bytes")
    } else if name == "." || name == ".." || name.contains(['/', '\0']) {
        format!("{name:?} is not a single path component")
    } else if is_set_aside(name, STALE) || is_set_aside(name, DELETED) {
        format!("{name:?} is reserved for directories of topics that are gone")
    } else {
        return Ok(());
    };
    Err(Error::InvalidArgument { name: "topic", reason })
}

/// The paths of a data directory.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    root: PathBuf,
}

impl Layout {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn lock_file(&self) -> PathBuf {
        self.root.join("LOCK")
    }

    pub(super) fn meta(&self) -> PathBuf {
        self.root.join("meta")
    }

    pub(super) fn ingress(&self) -> PathBuf {
        self.root.join("ingress")
    }

    pub(super) fn produce_wal(&self) -> PathBuf {
        self.ingress().join("produce")
    }

    pub(super) fn topics(&self) -> PathBuf {
        self.root.join("topics")
    }

    /// The paths of a topic; refused for a name that could lead elsewhere.
    pub(super) fn topic(&self, name: &str) -> Result<TopicPaths> {
        check_topic_name(name)?;
        Ok(TopicPaths { dir: self.topics().join(name) })
    }

    /// The paths of an entry of `topics/` that was listed, whatever its name.
    pub(super) fn entry(&self, entry: &str) -> TopicPaths {
        TopicPaths { dir: self.topics().join(entry) }
    }

    /// Where another incarnation's directory goes, kept and never served.
    pub(super) fn quarantine(&self, name: &str, old: Incarnation) -> impl Iterator<Item = PathBuf> {
        self.set_aside(name, STALE, old)
    }

    /// Where a deleted topic's directory goes until its files are gone.
    pub(super) fn deleted(&self, name: &str, id: Incarnation) -> impl Iterator<Item = PathBuf> {
        self.set_aside(name, DELETED, id)
    }

    fn set_aside(&self, name: &str, mark: &str, id: Incarnation) -> impl Iterator<Item = PathBuf> {
        let first = self.topics().join(format!("{name}{mark}{id}"));
        let more = first.clone();
        std::iter::once(first).chain((1u32..=9999).map(move |n| {
            let mut numbered = more.clone().into_os_string();
            numbered.push(format!("-{n}"));
            numbered.into()
        }))
    }
}

/// Whether an entry of `topics/` is what a delete left behind when it was interrupted.
pub(super) fn is_deleted_leftover(entry: &OsStr) -> bool {
    entry.to_str().is_some_and(|name| is_set_aside(name, DELETED))
}

/// Whether an entry of `topics/` is the file system's own, as when the directory is a mount point. It may not even be
/// readable.
pub(super) fn is_of_the_file_system(entry: &str) -> bool {
    entry == "lost+found"
}

/// The topic whose quarantined directory has this name.
pub(super) fn quarantined_topic(entry: &str) -> Option<&str> {
    entry.rsplit_once(STALE).map(|(topic, _)| topic).filter(|_| is_set_aside(entry, STALE))
}

/// The partition whose directory has this name.
pub(super) fn partition_number(entry: &str) -> Option<PartitionId> {
    let digits = entry.strip_prefix('p').filter(|digits| digits.len() >= PARTITION_DIGITS)?;
    let number = PartitionId(digits.parse().ok()?);
    (partition_name(number) == entry).then_some(number)
}

fn partition_name(partition: PartitionId) -> String {
    format!("p{:0PARTITION_DIGITS$}", partition.0)
}

/// `<name><mark><16 hex>` with or without a number behind it.
fn is_set_aside(name: &str, mark: &str) -> bool {
    let Some((before, id)) = name.rsplit_once(mark) else { return false };
    let (id, number) = id.split_once('-').map_or((id, None), |(id, number)| (id, Some(number)));
    let numbered = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    !before.is_empty()
        && id.len() == ID_DIGITS
        && id.bytes().all(|byte| byte.is_ascii_hexdigit())
        && number.is_none_or(numbered)
}

/// The paths of one topic.
#[derive(Debug, Clone)]
pub(super) struct TopicPaths {
    dir: PathBuf,
}

impl TopicPaths {
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn marker(&self) -> PathBuf {
        self.dir.join("incarnation")
    }

    /// What holds the directories of plugins.
    pub(super) fn plugins(&self) -> PathBuf {
        self.dir.join("plugins")
    }

    pub(super) fn partition(&self, partition: PartitionId) -> PartitionPaths {
        PartitionPaths { dir: self.dir.join(partition_name(partition)) }
    }
}

/// The paths of one partition.
#[derive(Debug, Clone)]
pub(super) struct PartitionPaths {
    dir: PathBuf,
}

impl PartitionPaths {
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn consumer_offset(&self) -> PathBuf {
        self.dir.join("consumer.offset")
    }

    pub(super) fn consumer_ahead(&self) -> PathBuf {
        self.dir.join("consumer.ahead")
    }

    /// How far a child of the topic is; refused for a name that could lead elsewhere.
    pub(super) fn fanout_cursor(&self, child: &str) -> Result<PathBuf> {
        check_topic_name(child)?;
        Ok(self.dir.join(format!("fanout-{child}.offset")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for bad in ["", ".", "..", "a/b", "/", "a\0", &"x".repeat(201)] {
            assert!(check_topic_name(bad).is_err(), "{bad:?}");
        }
        for reserved in ["a.stale-0123456789abcdef", "a.deleted-0123456789abcdef-12"] {
            assert!(check_topic_name(reserved).is_err(), "{reserved:?}");
        }
        for good in ["orders", "..a", "a..", "a.stale-123", "a.deleted-0123456789abcdeg", &"x".repeat(200)] {
            assert!(check_topic_name(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn what_a_delete_leaves_is_recognised_and_nothing_else() {
        let layout = Layout::new(Path::new("/data"));
        for path in layout.deleted("a.b", Incarnation::new(7)).take(3) {
            assert!(is_deleted_leftover(path.file_name().unwrap()), "{path:?}");
        }
        let stale = layout.quarantine("a", Incarnation::new(7)).next().unwrap();
        assert_eq!(stale, Path::new("/data/topics/a.stale-0000000000000007"));
        for other in
            ["a.stale-0000000000000007", ".deleted-0000000000000007", "a.deleted-7", "a", "lost+found"]
        {
            assert!(!is_deleted_leftover(OsStr::new(other)), "{other}");
        }
    }
}
