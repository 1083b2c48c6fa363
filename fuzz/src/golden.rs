//! The golden directories of `narad-core/tests/fixtures`, in memory. Read once; never written.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// A golden partition directory.
#[derive(Debug)]
pub struct Golden {
    /// The directory's name.
    pub name: String,
    /// Its files: name and content.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Golden {
    /// The segment files, oldest first.
    pub fn segments(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let segments = self.files.iter().filter(|(name, _)| name.ends_with(".log"));
        segments.map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }
}

/// Every golden directory, by name.
pub static GOLDEN: LazyLock<Vec<Golden>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../narad-core/tests/fixtures/golden");
    let mut dirs: Vec<PathBuf> = entries(&root).into_iter().filter(|path| path.is_dir()).collect();
    dirs.sort();
    assert!(dirs.len() > 20, "{} golden directories", dirs.len());
    dirs.iter().map(|dir| Golden { name: name(dir), files: files(dir) }).collect()
});

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    entries(dir).iter().map(|path| (name(path), fs::read(path).expect("a golden file"))).collect()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("the golden directories");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

fn name(path: &Path) -> String {
    path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned()
}
