//! What becomes of frames that were damaged, cut, moved or encrypted with other keys.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod support;

use std::{collections::BTreeSet, sync::Arc};

use narad_codec_aead::{Aead, AeadError, Cipher};
use narad_codecs::{None as NoCodec, Zstd};
use narad_core::{
    format::{CodecNumber, Offset},
    plugin::{Codec, CodecSet, FrameContext, LogIdentity, PluginError},
};
use support::{
    CIPHERS, ONE, OTHER_ONE, RECORDS, Said, TWO, aead, frame, log, orders, place, read, read_at, ring,
};

#[test]
fn every_changed_bit_is_found() {
    for cipher in CIPHERS {
        let codec = aead(&[ONE], cipher);
        let stored = frame(&codec);
        assert_eq!(read(&codec, &stored).unwrap(), RECORDS);
        for bit in 0..stored.len() * 8 {
            let mut changed = stored.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let said = read(&codec, &changed).expect_err("a changed bit");
            match bit / 8 {
                0 => {
                    assert!(matches!(said, Said::Lacking(AeadError::UnknownCipher { .. }) | Said::Corrupt(_)))
                }
                1..5 => assert!(matches!(said, Said::Lacking(AeadError::UnknownKey { .. })), "{said:?}"),
                5..9 => assert_eq!(said, Said::Lacking(AeadError::OtherKey { id: 1 })),
                _ => assert_eq!(said, Said::Corrupt(AeadError::Forged { key_id: 1 }), "byte {}", bit / 8),
            }
        }
    }
}

#[test]
fn a_frame_that_was_cut_or_grew_is_found() {
    let codec = aead(&[ONE], Cipher::Aes256Gcm);
    let stored = frame(&codec);
    for len in 0..stored.len() {
        let said = read(&codec, &stored[..len]).expect_err("a cut frame");
        let expected = if len < 33 + 16 { AeadError::TooShort } else { AeadError::Forged { key_id: 1 } };
        assert_eq!(said, Said::Corrupt(expected), "{len} bytes");
    }
    let grown = [&stored[..], &[0]].concat();
    assert_eq!(read(&codec, &grown).unwrap_err(), Said::Corrupt(AeadError::Forged { key_id: 1 }));
}

#[test]
fn a_frame_is_read_in_its_own_place_alone() {
    for cipher in CIPHERS {
        let codec = aead(&[ONE], cipher);
        let stored = frame(&codec);
        let len = RECORDS.len();
        let orders = orders();
        let (partition, incarnation, alone) =
            (log("orders", 7, 4), log("orders", 8, 3), LogIdentity::named("orders"));
        for (what, elsewhere) in [
            ("another offset", place(&orders, 43, 2, len)),
            ("another count", place(&orders, 42, 1, len)),
            ("another length", place(&orders, 42, 2, len + 1)),
            ("another partition", place(&partition, 42, 2, len)),
            ("another topic, or another life of this one", place(&incarnation, 42, 2, len)),
            ("a log that stands alone", place(&alone, 42, 2, len)),
        ] {
            let said = read_at(&codec, &elsewhere, &stored).expect_err(what);
            assert_eq!(said, Said::Corrupt(AeadError::Forged { key_id: 1 }), "{what}");
        }
        // A directory that was adopted under another name keeps its incarnation.
        let renamed = log("orders-of-2025", 7, 3);
        assert_eq!(read_at(&codec, &place(&renamed, 42, 2, len), &stored).unwrap(), RECORDS);
    }
}

#[test]
fn logs_that_stand_alone_are_told_apart_by_name() {
    let codec = aead(&[ONE], Cipher::Aes256Gcm);
    let (a, b) = (LogIdentity::named("a"), LogIdentity::named("b"));
    let mut stored = Vec::new();
    codec.encode(&place(&a, 0, 1, RECORDS.len()), RECORDS, &mut stored).unwrap();
    assert_eq!(read_at(&codec, &place(&a, 0, 1, RECORDS.len()), &stored).unwrap(), RECORDS);
    assert!(read_at(&codec, &place(&b, 0, 1, RECORDS.len()), &stored).is_err());
}

#[test]
fn old_frames_are_read_after_a_rotation_and_new_ones_have_the_new_key() {
    let before = aead(&[ONE], Cipher::Aes256Gcm);
    let old = frame(&before);
    // The cipher changes with it.
    let after = aead(&[ONE, TWO], Cipher::ChaCha20Poly1305);
    let new = frame(&after);
    assert_eq!(read(&after, &old).unwrap(), RECORDS);
    assert_eq!(read(&after, &new).unwrap(), RECORDS);
    let missing = Said::Lacking(AeadError::UnknownKey { id: 2, known: vec![1] });
    assert_eq!(read(&before, &new).unwrap_err(), missing);
    // Once the old key is taken away, its frames name it.
    let later = aead(&[TWO], Cipher::Aes256Gcm);
    let missing = Said::Lacking(AeadError::UnknownKey { id: 1, known: vec![2] });
    assert_eq!(read(&later, &old).unwrap_err(), missing);
    // A new key can be handed out before it is used.
    let prepared =
        Aead::new(ring(&[ONE, TWO]).with_active(1).unwrap(), Cipher::Aes256Gcm, Arc::new(Zstd::default()));
    assert_eq!(read(&before, &frame(&prepared.unwrap())).unwrap(), RECORDS);
}

#[test]
fn another_key_of_the_same_number_is_told_apart_from_damage() {
    let stored = frame(&aead(&[ONE], Cipher::Aes256Gcm));
    let said = read(&aead(&[OTHER_ONE], Cipher::Aes256Gcm), &stored).unwrap_err();
    assert_eq!(said, Said::Lacking(AeadError::OtherKey { id: 1 }));
}

#[test]
fn the_codec_that_stood_underneath_before_is_read_if_it_is_there() {
    let old = frame(&aead(&[ONE], Cipher::Aes256Gcm));
    let now = || Aead::new(ring(&[ONE]), Cipher::Aes256Gcm, Arc::new(NoCodec)).unwrap();
    let zstd = CodecNumber::new(1).unwrap();
    assert_eq!(read(&now(), &old).unwrap_err(), Said::Lacking(AeadError::UnknownNested { number: zstd }));
    let mut readable = CodecSet::new();
    readable.insert(Arc::new(Zstd::default())).unwrap();
    let now = now().reading(readable);
    assert_eq!(read(&now, &old).unwrap(), RECORDS);
    assert_eq!(read(&now, &frame(&now)).unwrap(), RECORDS);
}

#[test]
fn aead_stands_under_no_aead() {
    let inner = Arc::new(aead(&[ONE], Cipher::Aes256Gcm));
    assert_eq!(Aead::new(ring(&[TWO]), Cipher::Aes256Gcm, inner).unwrap_err(), AeadError::OverItself);
}

#[test]
fn the_same_records_at_the_same_place_never_get_the_same_bytes() {
    for cipher in CIPHERS {
        let codec = aead(&[ONE], cipher);
        let salts: BTreeSet<Vec<u8>> = (0..1000).map(|_| frame(&codec)[9..33].to_vec()).collect();
        assert_eq!(salts.len(), 1000);
        let (a, b) = (frame(&codec), frame(&codec));
        assert_eq!(a.len(), b.len());
        let equal = a[33..].iter().zip(&b[33..]).filter(|(a, b)| a == b).count();
        assert!(equal < 12, "{equal} of {} bytes", a.len() - 33);
    }
}

#[test]
fn nothing_of_the_records_or_the_keys_is_in_a_frame_or_in_debug() {
    let none = Aead::new(ring(&[ONE]), Cipher::Aes256Gcm, Arc::new(NoCodec)).unwrap();
    let stored = frame(&none);
    assert!(!stored.windows(5).any(|window| window == b"order"));
    assert!(!stored.windows(6).any(|window| window == b"oneone"));
    let shown = format!("{none:?} {none:#?}");
    assert!(
        !shown.contains("oneone") && !shown.contains("b25lb25") && !shown.contains("111, 110, 101"),
        "{shown}"
    );
    assert_eq!(stored.len(), RECORDS.len() + Aead::OVERHEAD);
}

/// Fails after it has put records into the buffer.
#[derive(Debug)]
struct FailsLate;

impl Codec for FailsLate {
    fn number(&self) -> CodecNumber {
        CodecNumber::new(5000).unwrap()
    }
    fn name(&self) -> &str {
        "fails-late"
    }
    fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        out.extend_from_slice(raw);
        Err("on purpose".into())
    }
    fn decode(&self, _: &FrameContext<'_>, _: &[u8], _: &mut Vec<u8>) -> Result<(), PluginError> {
        Err("on purpose".into())
    }
}

#[test]
fn a_nested_codec_that_fails_leaves_nothing_and_its_error_is_the_error() {
    let codec = Aead::new(ring(&[ONE]), Cipher::Aes256Gcm, Arc::new(FailsLate)).unwrap();
    let (log, mut out) = (orders(), b"before".to_vec());
    let frame = FrameContext::new(&log, Offset::ZERO, 1, RECORDS.len() as u32);
    let error = codec.encode(&frame, RECORDS, &mut out).unwrap_err();
    assert_eq!((error.to_string().as_str(), &out[..]), ("on purpose", &b"before"[..]));
}
