//! Frames that an independent implementation of the format wrote decode to its records, byte for byte.
//!
//! `data/mixed_codecs.log` is a segment of frames of both codecs; the `.json` beside it says what is in it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

use narad_codecs::{None, Zstd};
use narad_core::{
    format::{FrameHeader, HEADER_LEN, Offset, Record, StoredCodec, split_records},
    plugin::{Codec, FrameContext, LogIdentity},
};
use serde_json::Value;
use sha2::{Digest, Sha256};

#[test]
fn fm_01_frames_of_the_reference_decode_to_its_records() {
    let log = LogIdentity::named("reference");
    let expected: Value = serde_json::from_slice(include_bytes!("data/mixed_codecs.json")).unwrap();
    let mut expected = expected["records"].as_array().unwrap().iter();
    let (mut rest, mut frames) = (&include_bytes!("data/mixed_codecs.log")[..], [0, 0]);
    while let Some((head, tail)) = rest.split_first_chunk::<HEADER_LEN>() {
        let header = FrameHeader::decode(head).unwrap();
        let (stored, next) = tail.split_at(header.stored_len as usize);
        assert_eq!(header.crc_with(stored), header.crc);
        let StoredCodec::Plain(number) = header.codec() else { panic!("a plain codec") };
        let codec: &dyn Codec = if number.get() == 0 { &None } else { &Zstd::default() };
        assert_eq!(codec.number(), number);

        let context = FrameContext::new(&log, header.base, header.count, header.uncompressed_len);
        let mut raw = Vec::new();
        codec.decode(&context, stored, &mut raw).unwrap();
        assert_eq!(raw.len(), header.uncompressed_len as usize);
        check_records(&header, raw, &mut expected);
        frames[number.get() as usize] += 1;
        rest = next;
    }
    assert!(rest.is_empty() && expected.next().is_none());
    assert!(frames.iter().all(|count| *count > 0), "{frames:?}");
}

fn check_records<'a>(header: &FrameHeader, raw: Vec<u8>, expected: &mut impl Iterator<Item = &'a Value>) {
    for (offset, bytes) in (header.base.get()..).zip(split_records(&raw.into(), header.count).unwrap()) {
        let record = Record::decode(Offset::new(offset).unwrap(), &bytes).unwrap();
        let expected = expected.next().expect("no more records than expected");
        assert_eq!(expected["offset"].as_u64(), Some(offset));
        assert_eq!(expected["committed_at_ms"].as_i64(), Some(record.committed_at_ms), "record {offset}");
        assert_eq!(expected["payload_len"].as_u64(), Some(record.payload.len() as u64), "record {offset}");
        let hash: String = Sha256::digest(&record.payload).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(expected["payload_sha256"], hash, "record {offset}");
    }
}
