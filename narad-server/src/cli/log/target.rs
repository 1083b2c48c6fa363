//! What a directory is: a partition, a topic or a whole data directory. Told by its content, not by its name.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use narad_core::disk::{DirEntry, Disk, FileKind};

use crate::cli::error::CliError;

/// A partition to be examined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// Where it is.
    pub(super) dir: PathBuf,
    /// What it is called in a report: its path from the directory that was given, or that directory itself.
    pub(super) name: String,
    /// Bytes of its segment files, as far as they could be told.
    pub(super) bytes: u64,
}

/// The partitions in `dir`, in order of topic and number; the produce log of a data directory is one of them.
pub(super) fn find(disk: &dyn Disk, dir: &Path) -> Result<Vec<Target>, CliError> {
    let cannot = |reason: String| CliError::CannotLook { dir: dir.to_owned(), reason };
    let logs = log_dirs(disk, dir).map_err(|error| cannot(error.to_string()))?.ok_or_else(|| {
        cannot(
            "it is no partition (NNNNNNNNNNNNNNNNNNNN.log), topic (p00000) or data directory (topics)".into(),
        )
    })?;
    logs.into_iter()
        .map(|log| {
            let name = match log.strip_prefix(dir) {
                Ok(below) if below != Path::new("") => below.display().to_string(),
                _ => dir.display().to_string(),
            };
            let bytes = segment_bytes(disk, &log).map_err(|error| cannot(format!("{name}: {error}")))?;
            Ok(Target { dir: log, name, bytes })
        })
        .collect()
}

/// Refuses a directory of several partitions, whose dump would look like that of an empty one.
pub(super) fn require_single(disk: &dyn Disk, dir: &Path) -> Result<(), CliError> {
    let cannot = |reason: String| CliError::CannotLook { dir: dir.to_owned(), reason };
    match log_dirs(disk, dir).map_err(|error| cannot(error.to_string()))? {
        Some(logs) if logs != [dir] => {
            let one = logs.first().map(|log| format!(", as {}", log.display())).unwrap_or_default();
            Err(cannot(format!("it is no partition; give the directory of one{one}")))
        }
        _ => Ok(()),
    }
}

/// The directories below `dir` that hold a log; `None` when it is nothing that can be told.
fn log_dirs(disk: &dyn Disk, dir: &Path) -> io::Result<Option<Vec<PathBuf>>> {
    let entries = disk.list(dir)?;
    if entries.is_empty() || is_partition(&entries) {
        return Ok(Some(vec![dir.to_owned()]));
    }
    if let Some(partitions) = partitions(dir, &entries) {
        return Ok(Some(partitions));
    }
    if !entries.iter().any(|entry| entry.name == "topics" && entry.kind == FileKind::Directory) {
        return Ok(None);
    }
    let mut logs = Vec::new();
    let wal = dir.join("ingress").join("produce");
    match disk.list(&wal) {
        Ok(entries) if is_partition(&entries) => logs.push(wal),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let topics = dir.join("topics");
    for topic in sorted(disk.list(&topics)?) {
        if topic.kind == FileKind::Directory {
            let topic = topics.join(topic.name);
            logs.extend(partitions(&topic, &disk.list(&topic)?).unwrap_or_default());
        }
    }
    Ok(Some(logs))
}

/// Whether something in a directory is what only a log keeps.
fn is_partition(entries: &[DirEntry]) -> bool {
    let of_a_log = |name: &OsStr| {
        is_segment(name)
            || ["hwm", "consumer.offset", "consumer.ahead", "checkpoint"].iter().any(|own| name == *own)
    };
    entries.iter().any(|entry| entry.kind == FileKind::File && of_a_log(&entry.name))
}

/// The partitions of the topic at `dir`, by number; `None` when it is no topic.
fn partitions(dir: &Path, entries: &[DirEntry]) -> Option<Vec<PathBuf>> {
    let mut found: Vec<(u64, &OsStr)> = entries
        .iter()
        .filter(|entry| entry.kind == FileKind::Directory && is_partition_name(&entry.name))
        .map(|entry| (partition_number(&entry.name), entry.name.as_os_str()))
        .collect();
    found.sort_unstable();
    let is_topic = !found.is_empty() || entries.iter().any(|entry| entry.name == "incarnation");
    is_topic.then(|| found.into_iter().map(|(_, name)| dir.join(name)).collect())
}

fn segment_bytes(disk: &dyn Disk, dir: &Path) -> io::Result<u64> {
    let mut bytes = 0u64;
    for entry in disk.list(dir)? {
        // Retention may take a segment in between: the directory can be in use.
        if entry.kind == FileKind::File
            && is_segment(&entry.name)
            && let Ok(metadata) = disk.metadata(&dir.join(&entry.name))
        {
            bytes = bytes.saturating_add(metadata.len);
        }
    }
    Ok(bytes)
}

fn sorted(mut entries: Vec<DirEntry>) -> Vec<DirEntry> {
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    entries
}

/// 20 digits and `.log`.
fn is_segment(name: &OsStr) -> bool {
    let stem = name.to_str().and_then(|name| name.strip_suffix(".log"));
    stem.is_some_and(|stem| stem.len() == 20 && stem.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `p` and at least five digits.
fn is_partition_name(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix('p'));
    digits.is_some_and(|digits| digits.len() >= 5 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn partition_number(name: &OsStr) -> u64 {
    name.to_str().and_then(|name| name.strip_prefix('p')?.parse().ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use narad_core::disk::OsDisk;

    use super::*;

    fn make(root: &Path, files: &[&str]) {
        for file in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"1234567").unwrap();
        }
    }

    fn names(dir: &Path) -> Vec<String> {
        find(&OsDisk, dir).unwrap().into_iter().map(|target| target.name).collect()
    }

    #[test]
    fn a_directory_is_told_by_its_content() {
        let root = tempfile::tempdir().unwrap();
        make(
            root.path(),
            &[
                "topics/b/p00010/00000000000000000000.log",
                "topics/b/p00002/00000000000000000000.log",
                "topics/b/p00002/hwm",
                "topics/b/p00002/00000000000000000000.log.swp",
                "topics/b/incarnation",
                "topics/a/p00000/hwm",
                "topics/a/lost+found/x",
                "topics/empty/incarnation",
                "ingress/produce/00000000000000000000.log",
            ],
        );
        let all = ["ingress/produce", "topics/a/p00000", "topics/b/p00002", "topics/b/p00010"];
        assert_eq!(names(root.path()), all);
        assert_eq!(names(&root.path().join("topics/b")), ["p00002", "p00010"]);
        assert!(names(&root.path().join("topics/empty")).is_empty());
        let partition = root.path().join("topics/b/p00002");
        let found = find(&OsDisk, &partition).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].bytes, 7, "only segments count");
        assert!(require_single(&OsDisk, &partition).is_ok());
        for several in
            [root.path().to_owned(), root.path().join("topics/b"), root.path().join("topics/empty")]
        {
            assert!(require_single(&OsDisk, &several).is_err(), "{several:?}");
        }
    }

    #[test]
    fn anything_else_cannot_be_looked_into() {
        let root = tempfile::tempdir().unwrap();
        make(root.path(), &["notes.txt"]);
        for dir in [root.path().to_owned(), root.path().join("absent"), root.path().join("notes.txt")] {
            assert!(matches!(find(&OsDisk, &dir), Err(CliError::CannotLook { .. })), "{dir:?}");
        }
    }
}
