//! Whatever records come back as they were; whatever bytes decode to no more than is stated.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

use narad_codec_lz4::{Lz4, Lz4Error};
use narad_core::{
    format::Offset,
    plugin::{Codec, FrameContext, LogIdentity},
};
use proptest::{collection::vec, prelude::*, sample::Index};

fn context(log: &LogIdentity, len: usize) -> FrameContext<'_> {
    FrameContext::new(log, Offset::ZERO, 1, len as u32)
}

/// Bytes that repeat themselves in part, as records do.
fn records() -> impl Strategy<Value = Vec<u8>> {
    (vec(any::<u8>(), 1..200), 1..600_usize, vec(any::<u8>(), 0..200)).prop_map(|(unit, times, noise)| {
        let mut bytes: Vec<u8> = unit.iter().copied().cycle().take(unit.len() * times).collect();
        bytes.extend(noise);
        bytes
    })
}

fn encoded(raw: &[u8]) -> Vec<u8> {
    let (log, mut stored) = (LogIdentity::named("test"), Vec::new());
    Lz4.encode(&context(&log, raw.len()), raw, &mut stored).unwrap();
    stored
}

fn decoded(stored: &[u8], len: usize) -> Result<Vec<u8>, Lz4Error> {
    let (log, mut out) = (LogIdentity::named("test"), b"before".to_vec());
    let result = Lz4.decode(&context(&log, len), stored, &mut out);
    let appended = out.strip_prefix(b"before").expect("what was there").to_vec();
    match result {
        Ok(()) => Ok(appended),
        Err(error) => {
            assert!(appended.is_empty(), "an error leaves nothing behind");
            Err(*error.downcast::<Lz4Error>().expect("an error of the codec's own"))
        }
    }
}

proptest! {
    #[test]
    fn records_come_back(raw in records()) {
        prop_assert_eq!(decoded(&encoded(&raw), raw.len()).unwrap(), raw);
    }

    #[test]
    fn changed_bytes_give_the_stated_length_or_an_error(
        raw in records(),
        changes in vec((any::<Index>(), any::<u8>()), 1..4),
        cut in any::<Index>(),
        stated in 1..200_000_usize,
    ) {
        let mut stored = encoded(&raw);
        for (at, byte) in changes {
            let at = at.index(stored.len());
            stored[at] = byte;
        }
        for stored in [&stored[..], &stored[..cut.index(stored.len())]] {
            for len in [raw.len(), stated] {
                if let Ok(out) = decoded(stored, len) {
                    prop_assert_eq!(out.len(), len);
                }
            }
        }
    }

    #[test]
    fn arbitrary_bytes_give_the_stated_length_or_an_error(stored in vec(any::<u8>(), 0..300), stated in 1..1_000_000_usize) {
        if let Ok(out) = decoded(&stored, stated) {
            prop_assert_eq!(out.len(), stated);
        }
    }
}

#[test]
fn a_length_that_the_block_cannot_have_is_refused_before_anything_is_allocated() {
    let stored = encoded(&[7; 1000]);
    assert!(matches!(decoded(&stored, 256 << 20), Err(Lz4Error::TooShort { .. })));
}

#[test]
fn the_highest_ratio_that_lz4_has_is_accepted() {
    let raw = vec![0; 8 << 20];
    assert_eq!(decoded(&encoded(&raw), raw.len()).unwrap(), raw);
}

#[test]
fn a_block_from_elsewhere_is_read() {
    // "aaaaaaaaaaaaaaaaaaaa" as liblz4 writes it: one literal, a match of 14 at distance 1, five literals.
    let stored = [0x1A, b'a', 1, 0, 0x50, b'a', b'a', b'a', b'a', b'a'];
    assert_eq!(decoded(&stored, 20).unwrap(), vec![b'a'; 20]);
}
