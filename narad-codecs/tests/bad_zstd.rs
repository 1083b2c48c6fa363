//! Stored bytes that nobody honest wrote: `zstd` refuses each, in bounded memory, and appends nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

use narad_codecs::{Zstd, ZstdError};
use narad_core::{
    format::Offset,
    plugin::{Codec, FrameContext, LogIdentity},
};

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// Descriptor bits: the content is the window; its length takes 1, 4 or 8 bytes.
const SINGLE_SEGMENT: u8 = 0x20;
const LEN_4: u8 = 0x80;
const LEN_8: u8 = 0xC0;

fn decode(stored: &[u8], stated: u32) -> Result<Vec<u8>, ZstdError> {
    let log = LogIdentity::named("orders");
    let mut out = b"front".to_vec();
    let decoded = Zstd::default().decode(&FrameContext::new(&log, Offset::ZERO, 1, stated), stored, &mut out);
    assert!(out.capacity() <= 64.max(2 * (stated as usize + 5)), "{} bytes allocated", out.capacity());
    match decoded {
        Ok(()) => Ok(out.strip_prefix(b"front").unwrap().to_vec()),
        Err(error) => {
            assert_eq!(out, b"front", "an error appends nothing");
            Err(*error.downcast::<ZstdError>().unwrap())
        }
    }
}

fn encode(raw: &[u8]) -> Vec<u8> {
    let log = LogIdentity::named("orders");
    let mut out = Vec::new();
    let context = FrameContext::new(&log, Offset::ZERO, 1, raw.len() as u32);
    Zstd::default().encode(&context, raw, &mut out).unwrap();
    out
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
fn a_frame_made_by_hand_decodes() {
    assert_eq!(decode(&by_hand(&[SINGLE_SEGMENT, 3], b"abc"), 3).unwrap(), b"abc");
    let window_of_1_kib = by_hand(&[0, 0], b"abc");
    assert_eq!(decode(&window_of_1_kib, 3).unwrap(), b"abc");
}

#[test]
fn two_frames_are_refused() {
    let twice = [encode(b"abc"), encode(b"abc")].concat();
    assert!(matches!(decode(&twice, 6), Err(ZstdError::Length { actual: 3, stated: 6 })));
    assert!(matches!(decode(&twice, 3), Err(ZstdError::Trailing { .. })));
    let unsized_twice = [by_hand(&[0, 0], b"abc"), by_hand(&[0, 0], b"abc")].concat();
    assert!(matches!(decode(&unsized_twice, 6), Err(ZstdError::Trailing { .. })));
}

#[test]
fn trailing_bytes_are_refused() {
    let frame = encode(b"abc");
    for tail in [&[0][..], &MAGIC, &[0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0]] {
        let stored = [&frame, tail].concat();
        assert!(matches!(decode(&stored, 3), Err(ZstdError::Trailing { frame: n, .. }) if n == frame.len()));
    }
}

#[test]
fn a_skippable_frame_is_refused_in_front_and_alone() {
    let skippable = [0x50, 0x2A, 0x4D, 0x18, 2, 0, 0, 0, 9, 9];
    assert!(matches!(decode(&skippable, 3), Err(ZstdError::NotAFrame)));
    assert!(matches!(decode(&[&skippable[..], &encode(b"abc")].concat(), 3), Err(ZstdError::NotAFrame)));
}

#[test]
fn a_window_above_256_mib_is_refused() {
    let largest_allowed = 18 << 3;
    assert_eq!(decode(&by_hand(&[0, largest_allowed], b"abc"), 3).unwrap(), b"abc");
    for window in [largest_allowed | 1, 19 << 3, 0xFF] {
        assert!(matches!(decode(&by_hand(&[0, window], b"abc"), 3), Err(ZstdError::Window { .. })));
    }
}

#[test]
fn a_claimed_length_is_never_believed() {
    let claims_4_gib = by_hand(&[&[SINGLE_SEGMENT | LEN_4], &u32::MAX.to_le_bytes()[..]].concat(), b"abc");
    assert!(matches!(decode(&claims_4_gib, 3), Err(ZstdError::Length { stated: 3, .. })));
    let claims_all =
        by_hand(&[&[SINGLE_SEGMENT | LEN_8], &(u64::MAX - 2).to_le_bytes()[..]].concat(), b"abc");
    decode(&claims_all, 3).unwrap_err();
    let claims_less = by_hand(&[SINGLE_SEGMENT, 2], b"abc");
    decode(&claims_less, 2).unwrap_err();
    decode(&claims_less, 3).unwrap_err();
    let claims_more = by_hand(&[SINGLE_SEGMENT, 9], b"abc");
    decode(&claims_more, 9).unwrap_err();
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
fn room_in_the_callers_buffer_is_no_licence_to_fill_it() {
    let log = LogIdentity::named("orders");
    let mut out = Vec::with_capacity(10_000);
    let stored = by_hand(&[0, 0x50], &[7; 5_000]);
    let decoded = Zstd::default().decode(&FrameContext::new(&log, Offset::ZERO, 1, 100), &stored, &mut out);
    assert!(decoded.is_err() && out.is_empty());
}

#[test]
fn another_length_than_stated_is_refused() {
    let unsized_frame = by_hand(&[0, 0], b"abc");
    assert!(matches!(decode(&unsized_frame, 4), Err(ZstdError::Length { actual: 3, stated: 4 })));
    decode(&unsized_frame, 2).unwrap_err();
    assert!(matches!(decode(&encode(b"abc"), 4), Err(ZstdError::Length { actual: 3, stated: 4 })));
}

#[test]
fn a_frame_that_needs_a_dictionary_is_refused() {
    let wants_dictionary_1 = by_hand(&[SINGLE_SEGMENT | 1, 1, 3], b"abc");
    assert!(matches!(decode(&wants_dictionary_1, 3), Err(ZstdError::Library(_))));
}

#[test]
fn every_cut_and_every_flipped_bit_ends_in_an_error_or_within_bounds() {
    let raw: Vec<u8> = (0..2_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
    let stored = encode(&raw);
    for keep in 0..stored.len() {
        decode(&stored[..keep], raw.len() as u32).unwrap_err();
    }
    for at in 0..stored.len() {
        for bit in 0..8 {
            let mut damaged = stored.clone();
            damaged[at] ^= 1 << bit;
            if let Ok(decoded) = decode(&damaged, raw.len() as u32) {
                assert_eq!(decoded.len(), raw.len());
            }
        }
    }
}

#[test]
fn a_refused_frame_does_not_spoil_the_next() {
    for _ in 0..20 {
        decode(&by_hand(&[0, 0], b"abc"), 2).unwrap_err();
        assert_eq!(decode(&encode(b"abc"), 3).unwrap(), b"abc");
    }
}
