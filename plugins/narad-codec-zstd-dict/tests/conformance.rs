//! The codec keeps its trait's contract, with a directory and without.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod support;

use std::sync::Arc;

use narad_codec_zstd_dict::{ZstdDict, ZstdDictConfig};
use narad_core::testkit::{SimDisk, conformance};

#[test]
fn with_a_directory() {
    let disk = SimDisk::new(1);
    conformance::codec(|| Arc::new(support::codec(&disk)));
    assert!(support::codec(&disk).dictionary().is_some(), "the suite's sample was trained on");
}

#[test]
fn with_nowhere_to_keep_dictionaries_and_a_high_level() {
    let config = ZstdDictConfig { level: 19, ..ZstdDictConfig::default() };
    conformance::codec(|| Arc::new(ZstdDict::new(config, None).unwrap()));
}
