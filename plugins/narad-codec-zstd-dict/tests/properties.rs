//! Whatever records come back as they were, with a dictionary or without; whatever is changed ends within bounds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod support;

use std::sync::LazyLock;

use narad_codec_zstd_dict::{ZstdDict, ZstdDictConfig};
use narad_core::testkit::SimDisk;
use proptest::{collection::vec, prelude::*, sample::Index};
use support::{codec, decode, encode, maintain, raw, records};

static CODECS: LazyLock<[ZstdDict; 2]> = LazyLock::new(|| {
    let trained = codec(&SimDisk::new(1));
    maintain(&trained, &records("order", 0..1000));
    [trained, ZstdDict::new(ZstdDictConfig::default(), None).unwrap()]
});

/// Records of the trained kind among bytes of none.
fn content() -> impl Strategy<Value = Vec<u8>> {
    (0..5000_u32, 0..50_u32, vec(any::<u8>(), 1..300)).prop_map(|(from, count, noise)| {
        let mut bytes: Vec<u8> = records("order", from..from + count).iter().flat_map(raw).collect();
        bytes.extend(noise);
        bytes
    })
}

proptest! {
    #[test]
    fn content_comes_back(content in content()) {
        for codec in &*CODECS {
            prop_assert_eq!(&decode(codec, &encode(codec, &content), content.len()).unwrap(), &content);
        }
    }

    #[test]
    fn changed_bytes_give_the_stated_length_or_an_error(
        content in content(),
        changes in vec((any::<Index>(), any::<u8>()), 1..4),
        cut in any::<Index>(),
        stated in 1..100_000_usize,
    ) {
        for codec in &*CODECS {
            let mut stored = encode(codec, &content);
            for (at, byte) in &changes {
                let at = at.index(stored.len());
                stored[at] = *byte;
            }
            for stored in [&stored[..], &stored[..cut.index(stored.len())]] {
                for len in [content.len(), stated] {
                    if let Ok(decoded) = decode(codec, stored, len) {
                        prop_assert_eq!(decoded.len(), len);
                    }
                }
            }
        }
    }
}
