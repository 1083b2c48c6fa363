//! Both codecs keep the contract, at every kind of level.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::sync::Arc;

use narad_codecs::{None, Zstd};
use narad_core::testkit::conformance;

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
