//! The codec keeps its trait's contract, with each cipher and over each kind of codec.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

mod support;

use std::sync::Arc;

use narad_codec_aead::{Aead, Cipher};
use narad_core::testkit::conformance;
use support::{ONE, TWO, aead, ring};

#[test]
fn aes_over_zstd() {
    conformance::codec(|| Arc::new(aead(&[ONE, TWO], Cipher::Aes256Gcm)));
}

#[test]
fn chacha_over_none() {
    let none = || Arc::new(narad_codecs::None);
    conformance::codec(|| Arc::new(Aead::new(ring(&[ONE]), Cipher::ChaCha20Poly1305, none()).unwrap()));
}
