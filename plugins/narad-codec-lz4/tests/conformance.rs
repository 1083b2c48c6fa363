//! The codec keeps its trait's contract.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::sync::Arc;

use narad_codec_lz4::Lz4;
use narad_core::testkit::conformance;

#[test]
fn lz4() {
    conformance::codec(|| Arc::new(Lz4));
}
