//! Whatever records come back as they were; whatever is changed is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod support;

use narad_codec_aead::Cipher;
use narad_core::plugin::Codec;
use proptest::{collection::vec, prelude::*, sample::Index};
use support::{CIPHERS, ONE, TWO, aead, log, place, read_at};

fn cipher() -> impl Strategy<Value = Cipher> {
    prop::sample::select(CIPHERS.to_vec())
}

proptest! {
    #[test]
    fn records_come_back_in_their_place_and_no_other(
        raw in vec(any::<u8>(), 1..5000),
        cipher in cipher(),
        (incarnation, partition, offset) in (any::<u64>(), any::<u32>(), 0..u32::MAX),
        other in any::<(u64, u32)>(),
    ) {
        let codec = aead(&[ONE, TWO], cipher);
        let (here, there) = (log("orders", incarnation, partition), log("orders", other.0, other.1));
        let mut stored = Vec::new();
        codec.encode(&place(&here, offset, 1, raw.len()), &raw, &mut stored).unwrap();
        prop_assert_eq!(read_at(&codec, &place(&here, offset, 1, raw.len()), &stored).unwrap(), raw.clone());
        prop_assert!(read_at(&codec, &place(&here, offset + 1, 1, raw.len()), &stored).is_err());
        if here != there {
            prop_assert!(read_at(&codec, &place(&there, offset, 1, raw.len()), &stored).is_err());
        }
    }

    #[test]
    fn changed_bytes_are_refused(
        raw in vec(any::<u8>(), 1..500),
        cipher in cipher(),
        changes in vec((any::<Index>(), any::<u8>()), 1..4),
        cut in any::<Index>(),
    ) {
        let (codec, here) = (aead(&[ONE, TWO], cipher), log("orders", 1, 1));
        let here = place(&here, 0, 1, raw.len());
        let mut stored = Vec::new();
        codec.encode(&here, &raw, &mut stored).unwrap();
        let mut changed = stored.clone();
        for (at, byte) in changes {
            let at = at.index(changed.len());
            changed[at] = byte;
        }
        if changed != stored {
            prop_assert!(read_at(&codec, &here, &changed).is_err());
        }
        prop_assert!(read_at(&codec, &here, &stored[..cut.index(stored.len())]).is_err());
    }

    #[test]
    fn arbitrary_bytes_are_refused(stored in vec(any::<u8>(), 0..300), cipher in 0..4_u8, key in 0..3_u8) {
        let (codec, here) = (aead(&[ONE, TWO], Cipher::Aes256Gcm), log("orders", 1, 1));
        let here = place(&here, 0, 1, 100);
        prop_assert!(read_at(&codec, &here, &stored).is_err());
        let likely = [&[cipher, 0, 0, 0, key], &stored[..]].concat();
        prop_assert!(read_at(&codec, &here, &likely).is_err());
    }
}
