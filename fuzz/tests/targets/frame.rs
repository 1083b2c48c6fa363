//! The frame header, and the codec number in front of an extended payload.

use bolero::check;
use narad_core::format::{
    FRAME_MAGIC, FrameHeader, HEADER_LEN, HeaderError, MAX_FRAME_BYTES, Offset, StoredCodec, frame_crc,
    read_extended_codec, write_extended_codec,
};
use narad_fuzz::{golden::GOLDEN, harm::make_valid, slow::candidates};

use crate::DECODER_TIME;

#[test]
fn fuzz_frame() {
    for (_, bytes) in GOLDEN.iter().flat_map(|golden| golden.segments()) {
        for frame in candidates(bytes) {
            check_frame(&bytes[frame.at.clone()]);
        }
    }
    check!().with_test_time(DECODER_TIME).with_max_len(256).for_each(|input: &[u8]| {
        check_frame(input);
        check_frame(&plausible(input));
        check_extended(input);
    });
}

/// The input as a frame whose fields are in range and whose CRC holds: nobody guesses those.
fn plausible(input: &[u8]) -> Vec<u8> {
    let mut frame = [&FRAME_MAGIC[..], input].concat();
    frame.resize(frame.len().max(HEADER_LEN + 1), 0);
    let stored = (frame.len() - HEADER_LEN) as u32;
    frame[19..23].copy_from_slice(&stored.to_be_bytes());
    for (at, mask) in [(3, 0x7F), (7, 0x7F), (15, 0x0F)] {
        frame[at] &= mask;
    }
    make_valid(&mut frame, 0);
    frame
}

fn check_frame(bytes: &[u8]) {
    let Some((header_bytes, stored)) = bytes.split_first_chunk::<HEADER_LEN>() else { return };
    let header = match FrameHeader::decode(header_bytes) {
        Ok(header) => header,
        Err(HeaderError::Magic) => return assert_ne!(header_bytes[..2], FRAME_MAGIC),
        Err(_) => return,
    };
    assert_eq!(header.encode(), *header_bytes, "what was decoded encodes to the same bytes");
    assert!((1..=i32::MAX as u32).contains(&header.count));
    assert_eq!(
        header.end().since(header.base),
        u64::from(header.count),
        "no record passes the largest offset"
    );
    assert!(header.end() <= Offset::MAX);
    for len in [header.stored_len, header.uncompressed_len] {
        assert!((1..=MAX_FRAME_BYTES).contains(&len));
    }
    assert_eq!(header.frame_len(), HEADER_LEN as u64 + u64::from(header.stored_len));
    match header.codec() {
        StoredCodec::Plain(number) => {
            assert_eq!((number.header_id(), number.is_extended()), (header.flags, false))
        }
        StoredCodec::Extended => assert_eq!(header.flags, 7),
        StoredCodec::Reserved(flags) => assert!(flags == header.flags && flags > 7),
    }
    // The CRC that is looked up byte by byte, and the one that is composed.
    let slow = stored.iter().chain(&[]).fold(frame_crc(header_bytes), |crc, byte| crc32c_byte(crc, *byte));
    assert_eq!(header.crc_with(stored), slow);
}

/// One more byte under a Castagnoli CRC, bit by bit.
fn crc32c_byte(crc: u32, byte: u8) -> u32 {
    let shifted =
        (0..8).fold(!crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg()));
    !shifted
}

fn check_extended(bytes: &[u8]) {
    let Some((number, rest)) = read_extended_codec(bytes) else { return };
    assert!(number.get() >= 8);
    let mut again = Vec::new();
    write_extended_codec(number, &mut again);
    assert!(again.len() <= bytes.len() - rest.len(), "the shortest form is written");
    again.extend_from_slice(rest);
    assert_eq!(read_extended_codec(&again), Some((number, rest)));
    if again.len() == bytes.len() {
        assert_eq!(again, bytes);
    }
}
