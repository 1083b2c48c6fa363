//! What several tests need: golden directories and their manifests.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "golden directories are real ones")]

use std::{
    collections::BTreeMap,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use narad_codecs::{None as NoCodec, Zstd};
use narad_core::{
    format::{Offset, Record},
    log::LogOptions,
    plugin::CodecSet,
};
use serde::Deserialize;
use sha2::{Digest, Sha256};

pub fn offset(value: u64) -> Offset {
    Offset::new(value).unwrap()
}

pub fn offsets(range: Range<u64>) -> Range<Offset> {
    offset(range.start)..offset(range.end)
}

/// Options that write with codec none and read zstd too.
pub fn options() -> LogOptions {
    let mut options = LogOptions::new("test", Arc::new(NoCodec));
    options.readable = codecs();
    options
}

pub fn codecs() -> CodecSet {
    let mut set = CodecSet::new();
    set.insert(Arc::new(NoCodec)).unwrap();
    set.insert(Arc::new(Zstd::default())).unwrap();
    set
}

#[derive(Debug, Deserialize)]
pub struct Manifest {
    pub name: String,
    pub codec: String,
    pub oldest_offset: u64,
    pub next_offset: u64,
    pub high_watermark: u64,
    pub consumer_frontier_file: Option<i64>,
    pub records: Vec<ExpectedRecord>,
    pub lost: Vec<[u64; 2]>,
    pub unknown_codec: Vec<[u64; 2]>,
}

#[derive(Debug, Deserialize)]
pub struct ExpectedRecord {
    pub offset: u64,
    pub key_b64: String,
    pub committed_at_ms: i64,
    pub payload_len: usize,
    pub payload_sha256: String,
}

impl ExpectedRecord {
    pub fn key(&self) -> Vec<u8> {
        BASE64_STANDARD.decode(&self.key_b64).unwrap()
    }

    pub fn assert_is(&self, record: &Record) {
        assert_eq!(record.offset.get(), self.offset);
        assert_eq!(record.key, self.key(), "key of {}", self.offset);
        assert_eq!(record.committed_at_ms, self.committed_at_ms, "commit time of {}", self.offset);
        assert_eq!(record.payload.len(), self.payload_len, "payload length of {}", self.offset);
        let digest: String =
            Sha256::digest(&record.payload).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, self.payload_sha256, "payload of {}", self.offset);
    }
}

/// A golden directory with its manifest.
pub struct Golden {
    pub manifest: Manifest,
    pub dir: PathBuf,
}

/// Every golden directory that the repository keeps, and those of a shared folder beside it where there is one.
pub fn golden() -> Vec<Golden> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/golden");
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/golden");
    let mut found = golden_in(&own);
    if shared.is_dir() {
        found.extend(golden_in(&shared));
    } else {
        eprintln!("notice: no ../shared/golden; using the repository's own fixtures alone");
    }
    assert!(found.len() >= 30, "{} golden directories", found.len());
    found
}

fn golden_in(root: &Path) -> Vec<Golden> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let manifest: Manifest = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            found.push(Golden { dir: root.join(&manifest.name), manifest });
        }
    }
    found.sort_by(|a, b| a.dir.cmp(&b.dir));
    found
}

/// A copy of a directory that may be written to.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        // By content, not by `fs::copy`: the originals may be read-only.
        fs::write(to.join(entry.file_name()), fs::read(entry.path()).unwrap()).unwrap();
    }
}

/// Name and content of every file in a directory.
pub fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}
