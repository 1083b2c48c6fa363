//! A partition's directory in memory, before it is put on a simulated disk.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use bolero::TypeGenerator;
use narad_core::testkit::SimDisk;

use crate::golden::{GOLDEN, Golden};

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A regular file.
    File(Vec<u8>),
    /// A directory.
    Directory,
    /// Something that is neither: a FIFO, a socket, a link.
    Other,
}

/// The entries of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directory(pub BTreeMap<String, Entry>);

impl Directory {
    /// The regular files whose names are those of segments, oldest first: base and content.
    pub fn segments(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.0.iter().filter_map(|(name, entry)| match entry {
            Entry::File(bytes) => Some((segment_base(name)?, bytes.as_slice())),
            Entry::Directory | Entry::Other => None,
        })
    }

    /// The content of a regular file.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        match self.0.get(name) {
            Some(Entry::File(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Whether a segment has the one name that cannot be opened: the largest offset.
    pub fn has_segment_at_the_end_of_offsets(&self) -> bool {
        self.segments().any(|(base, _)| base == i64::MAX as u64)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.0.values().map(|entry| if let Entry::File(bytes) = entry { bytes.len() as u64 } else { 0 }).sum()
    }

    /// Puts it all at `path`, durably.
    pub fn plant(&self, disk: &SimDisk, path: &Path) {
        disk.plant_dir(path);
        for (name, entry) in &self.0 {
            match entry {
                Entry::File(bytes) => disk.plant(path.join(name), bytes.clone()),
                Entry::Directory => disk.plant_dir(path.join(name)),
                Entry::Other => disk.plant_other(path.join(name)),
            }
        }
    }
}

/// The first offset of a segment of that name.
fn segment_base(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log").filter(|digits| digits.len() == 20)?;
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
        .filter(|base| *base <= i64::MAX as u64)
}

/// The name of the segment that begins at `base`.
pub fn segment_name(base: u64) -> String {
    format!("{base:020}.log")
}

/// Everything on a disk: paths, and the content of what is a file.
pub fn contents(disk: &SimDisk) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    disk.paths().into_iter().map(|path| (path.clone(), disk.contents(&path))).collect()
}

/// One of the golden directories.
#[derive(Clone, Copy, PartialEq, Eq, TypeGenerator)]
pub struct Start(u8);

impl Start {
    /// The golden directory of that name.
    ///
    /// # Panics
    /// When there is none.
    pub fn named(name: &str) -> Self {
        let index = GOLDEN.iter().position(|golden| golden.name == name).expect("a golden directory");
        Self(u8::try_from(index).expect("few of them"))
    }

    /// Each of them.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..GOLDEN.len()).map(|index| Self(u8::try_from(index).expect("few of them")))
    }

    /// Its files.
    pub fn golden(self) -> &'static Golden {
        &GOLDEN[usize::from(self.0) % GOLDEN.len()]
    }

    /// A copy of it.
    pub fn directory(self) -> Directory {
        let files = self.golden().files.iter();
        Directory(files.map(|(name, bytes)| (name.clone(), Entry::File(bytes.clone()))).collect())
    }
}

impl fmt::Debug for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Start::named({:?})", self.golden().name)
    }
}

/// One of all golden segment files.
#[derive(Debug, Clone, Copy, TypeGenerator)]
pub struct Source(pub u8);

impl Source {
    /// Its bytes.
    pub fn bytes(self) -> &'static [u8] {
        static SEGMENTS: LazyLock<Vec<&'static [u8]>> = LazyLock::new(|| {
            let segments = GOLDEN.iter().flat_map(|golden| golden.segments().map(|(_, bytes)| bytes));
            segments.filter(|bytes| !bytes.is_empty()).collect()
        });
        SEGMENTS[usize::from(self.0) % SEGMENTS.len()]
    }
}
