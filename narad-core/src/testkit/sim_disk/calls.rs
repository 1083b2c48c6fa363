//! What was asked of the disk: the kinds of calls, and the log of them.

use std::{path::Path, sync::Arc};

/// The kinds of calls that a fault can hit and that the log tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CallKind {
    /// `open` of an existing file.
    Open,
    /// `open` in `CreateNew` mode.
    Create,
    /// `create_dir`.
    CreateDir,
    /// `File::read_at`.
    Read,
    /// `File::write_at`.
    Write,
    /// `File::sync_data`.
    SyncData,
    /// `sync_dir`.
    SyncDir,
    /// `File::set_len`.
    SetLen,
    /// `rename`; its path is the one renamed to.
    Rename,
    /// `remove_file` and `remove_dir`.
    Remove,
    /// `list`.
    List,
    /// `metadata`, `File::len` and `File::is_unlinked`.
    Metadata,
    /// `lock`.
    Lock,
    /// `available_bytes`.
    Available,
}

/// One call to the disk, whatever became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// What was called.
    pub kind: CallKind,
    /// On which path; for a call on an open file, the path it was opened by.
    pub path: Arc<Path>,
    /// Bytes asked for, of a read or a write; the new length, of `SetLen`; else 0.
    pub bytes: u64,
}

impl Call {
    /// Whether the call concerns a file whose name matches `pattern`: a name, or `*.log` for all that end so.
    pub fn is_on(&self, pattern: &str) -> bool {
        name_matches(&self.path, pattern)
    }
}

/// Whether the last component of `path` is `pattern`, or begins and ends with what stands around its `*`.
pub(super) fn name_matches(path: &Path, pattern: &str) -> bool {
    if let Some((dirs, name)) = pattern.rsplit_once('/') {
        return name_matches(path, name) && path.parent().is_some_and(|dir| name_matches(dir, dirs));
    }
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    match pattern.split_once('*') {
        None => name == pattern,
        Some((head, tail)) => {
            name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_the_last_component_alone() {
        let path = Path::new("/data/topics.log/0/00000000000000000000.log");
        assert!(name_matches(path, "*.log"));
        assert!(name_matches(path, "0000*"));
        assert!(name_matches(path, "*"));
        assert!(!name_matches(path, "hwm"));
        assert!(!name_matches(Path::new("a"), "a*a"));
    }

    #[test]
    fn a_pattern_with_a_slash_matches_the_directories_too() {
        let path = Path::new("/data/p00001/00000000000000000000.log");
        assert!(name_matches(path, "p00001/*.log"));
        assert!(name_matches(path, "data/*/0*"));
        assert!(!name_matches(path, "p00000/*.log"));
        assert!(!name_matches(Path::new("/a.log"), "a/*.log"));
    }
}
