//! Both codecs keep the contract, at every kind of level.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::sync::Arc;

use narad_codecs::{None, Zstd};
use narad_core::{plugin::Codec, testkit::conformance};

#[test]
fn none() {
    conformance::codec(|| Arc::new(None));
}

#[test]
fn zstd_at_its_default_level() {
    conformance::codec(|| Arc::new(Zstd::default()));
}

#[test]
fn zstd_at_a_high_level() {
    conformance::codec(|| Arc::new(Zstd::new(19).unwrap()));
}

#[test]
fn each_level_of_zstd_reads_what_the_others_wrote() {
    let level = |level| -> Arc<dyn Codec> { Arc::new(Zstd::new(level).unwrap()) };
    conformance::codec_reads(&level(1), &level(19));
    conformance::codec_reads(&level(19), &level(1));
}
