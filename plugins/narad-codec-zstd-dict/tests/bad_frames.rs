//! Stored bytes that nobody honest wrote, with a dictionary and without: each is refused, in bounded memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod support;

use narad_codec_zstd_dict::{ZstdDict, ZstdDictConfig, ZstdDictError};
use narad_core::testkit::SimDisk;
use support::{Said, codec, decode as decode_with, encode as encode_with, maintain, raw, records};

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// Descriptor bits: the content is the window; its length takes 1, 4 or 8 bytes.
const SINGLE_SEGMENT: u8 = 0x20;
const LEN_4: u8 = 0x80;
const LEN_8: u8 = 0xC0;

fn plain() -> ZstdDict {
    ZstdDict::new(ZstdDictConfig::default(), None).unwrap()
}

fn trained() -> ZstdDict {
    let codec = codec(&SimDisk::new(1));
    maintain(&codec, &records("order", 0..1000));
    codec
}

fn decode(stored: &[u8], stated: u32) -> Result<Vec<u8>, ZstdDictError> {
    decode_with(&plain(), stored, stated as usize).map_err(|said| match said {
        Said::Corrupt(error) | Said::Lacking(error) => error,
    })
}

fn encode(raw: &[u8]) -> Vec<u8> {
    encode_with(&plain(), raw)
}

/// A zstd frame by hand: descriptor and what follows it, then one last block of raw bytes.
fn by_hand(head: &[u8], raw: &[u8]) -> Vec<u8> {
    let block = ((raw.len() as u32) << 3 | 1).to_le_bytes();
    [&MAGIC, head, &block[..3], raw].concat()
}

/// A block that says: repeat one byte `times` times. Up to 128 KiB from four bytes.
fn run(byte: u8, times: u32, last: bool) -> [u8; 4] {
    let [a, b, c, _] = (times << 3 | 1 << 1 | u32::from(last)).to_le_bytes();
    [a, b, c, byte]
}

#[test]
fn more_than_one_frame_is_refused() {
    let twice = [encode(b"abc"), encode(b"abc")].concat();
    assert!(matches!(decode(&twice, 6), Err(ZstdDictError::Length { actual: 3, stated: 6 })));
    assert!(matches!(decode(&twice, 3), Err(ZstdDictError::Trailing { .. })));
    for tail in [&[0][..], &MAGIC, &[0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0]] {
        let stored = [&encode(b"abc"), tail].concat();
        assert!(matches!(decode(&stored, 3), Err(ZstdDictError::Trailing { .. })));
    }
    let skippable = [0x50, 0x2A, 0x4D, 0x18, 2, 0, 0, 0, 9, 9];
    assert!(matches!(decode(&skippable, 3), Err(ZstdDictError::NotAFrame)));
}

#[test]
fn a_window_above_256_mib_is_refused() {
    let largest_allowed = 18 << 3;
    assert_eq!(decode(&by_hand(&[0, largest_allowed], b"abc"), 3).unwrap(), b"abc");
    for window in [largest_allowed | 1, 19 << 3, 0xFF] {
        assert!(matches!(decode(&by_hand(&[0, window], b"abc"), 3), Err(ZstdDictError::Window { .. })));
    }
}

#[test]
fn a_claimed_length_is_never_believed() {
    let claims_4_gib = by_hand(&[&[SINGLE_SEGMENT | LEN_4], &u32::MAX.to_le_bytes()[..]].concat(), b"abc");
    assert!(matches!(decode(&claims_4_gib, 3), Err(ZstdDictError::Length { stated: 3, .. })));
    let claims_all =
        by_hand(&[&[SINGLE_SEGMENT | LEN_8], &(u64::MAX - 2).to_le_bytes()[..]].concat(), b"abc");
    decode(&claims_all, 3).unwrap_err();
    for claim in [2, 9] {
        let claims = by_hand(&[SINGLE_SEGMENT, claim], b"abc");
        decode(&claims, 3).unwrap_err();
        decode(&claims, claim.into()).unwrap_err();
    }
}

#[test]
fn a_small_frame_that_unfolds_to_much_stops_at_the_stated_length() {
    let mut bomb = [&MAGIC[..], &[0, 0x50]].concat();
    for block in 0..1_000 {
        bomb.extend(run(7, 128 << 10, block == 999));
    }
    assert!(bomb.len() < 5_000);
    decode(&bomb, 100).unwrap_err();
}

#[test]
fn a_frame_of_another_dictionary_is_named() {
    let wants = by_hand(&[SINGLE_SEGMENT | 3, 0xDD, 0xCC, 0xBB, 0x7A, 3], b"abc");
    for codec in [plain(), trained()] {
        let said = decode_with(&codec, &wants, 3).unwrap_err();
        assert!(matches!(
            said,
            Said::Lacking(ZstdDictError::NoDictionary { id: 0x7ABB_CCDD, damaged: false })
        ));
    }
}

#[test]
fn every_cut_and_every_flipped_bit_ends_in_an_error_or_within_bounds() {
    let codec = trained();
    for count in [1, 30] {
        let raw: Vec<u8> = records("order", 0..count).iter().flat_map(raw).collect();
        let stored = encode_with(&codec, &raw);
        assert_eq!(decode_with(&codec, &stored, raw.len()).unwrap(), raw);
        for keep in 0..stored.len() {
            decode_with(&codec, &stored[..keep], raw.len()).unwrap_err();
        }
        for bit in 0..stored.len() * 8 {
            let mut damaged = stored.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            if let Ok(decoded) = decode_with(&codec, &damaged, raw.len()) {
                assert_eq!(decoded.len(), raw.len());
            }
        }
    }
}

#[test]
fn a_refused_frame_does_not_spoil_the_next() {
    let codec = trained();
    let record = raw(&records("order", 7..8)[0]);
    let with = encode_with(&codec, &record);
    for _ in 0..20 {
        decode_with(&codec, &by_hand(&[0, 0], b"abc"), 2).unwrap_err();
        assert_eq!(decode_with(&codec, &with, record.len()).unwrap(), record);
        assert_eq!(decode_with(&codec, &encode(b"abc"), 3).unwrap(), b"abc");
    }
}
