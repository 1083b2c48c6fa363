//! RC-04, RC-07: a payload made to mislead a scan costs time in proportion to its length, and memory too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]
#![allow(clippy::single_range_in_vec_init, reason = "a list of lost ranges may have one")]

mod common;
#[path = "common/disk.rs"]
mod disk;

use disk::{Made, Rig, assert_reads, frame, none, payload, sealed};
use narad_core::{
    format::{FrameHeader, HEADER_LEN},
    testkit::CallKind,
};

const LEN: usize = 8 << 20;

fn fill(unit: &[u8]) -> Vec<u8> {
    fill_up(unit, LEN)
}

fn fill_up(unit: &[u8], len: usize) -> Vec<u8> {
    unit.iter().copied().cycle().take(len).collect()
}

/// Damages the frame around `record` in several ways, and bounds the bytes that an open reads.
///
/// A scan that was quadratic would take hours over 8 MiB, so that it ends at all is what tells; the reads are counted.
fn check(name: &str, record: Vec<u8>) {
    let mut made = Made::frames(&*none(), 0, &[2], 30);
    made.push(&*none(), 2, vec![payload(2, 30), record, payload(4, 30)]);
    made.push(&*none(), 5, vec![payload(5, 30)]);
    let outer = made.frames[1].clone();
    let ways: [(&str, usize, usize); 4] =
        [("payload", 40, 41), ("stored", 19, 23), ("header", 0, 27), ("count", 3, 7)];
    for (way, from, to) in ways {
        for torn in [false, true] {
            let mut bytes = made.bytes.clone();
            bytes[outer.at.start + from..outer.at.start + to].fill(0xFF);
            if torn {
                bytes.truncate(outer.at.end - 7);
            }
            let rig = Rig::with([(0, &bytes[..])]);
            rig.disk.take_calls();
            let log = rig.open();
            let read: u64 = rig
                .disk
                .take_calls()
                .iter()
                .filter(|call| call.kind == CallKind::Read)
                .map(|call| call.bytes)
                .sum();
            assert!(read < 4 * bytes.len() as u64, "{name}, {way}: {read} bytes read of {}", bytes.len());
            if !torn {
                let lost = outer.offsets.clone();
                assert_reads(&log, &made.truth, &[lost], 6, &format!("{name}, {way}"));
            }
        }
    }
}

#[test]
fn rc_04_a_payload_of_magics() {
    check("magics", fill(&[0xCA, 0xFE]));
}

#[test]
fn rc_04_a_payload_of_plausible_headers_with_huge_lengths() {
    for stored_len in [LEN as u32 / 2, 1 << 20, 268_435_456] {
        let header = FrameHeader {
            flags: 0,
            count: 1,
            base: common::offset(6),
            uncompressed_len: stored_len,
            stored_len,
            crc: 0x1234_5678,
        };
        check("headers", fill(&header.encode()));
    }
}

#[test]
fn rc_04_a_payload_of_valid_frames() {
    let some = LEN / 8;
    check("frames that fit", fill_up(&frame(&*none(), 3, &[b""]), some));
    check("frames that are due", fill_up(&frame(&*none(), 5, &[b""]), some));
    check("frames that fit, apart", fill_up(&[&frame(&*none(), 3, &[b""])[..], b"between"].concat(), some));
}

#[test]
fn rc_04_a_payload_of_nested_frames_in_front_of_zeros() {
    let mut nested = frame(&*none(), 3, &[b"inner"]);
    for _ in 0..2_000 {
        nested = sealed(0, 3, 1, nested.len() as u32, &nested);
    }
    let mut record = nested;
    record.resize(LEN, 0);
    check("nested frames", record);
}

#[test]
fn rc_07_a_file_of_damaged_frames_between_valid_ones() {
    // 40,000 frames, every other one damaged.
    let mut made = Made::default();
    for n in 0..40_000 {
        made.push(&*none(), n, vec![payload(n, 20)]);
    }
    let mut bytes = made.bytes.clone();
    for frame in made.frames.iter().step_by(2) {
        bytes[frame.at.start + HEADER_LEN + 8] ^= 0xFF;
    }
    let rig = Rig::with([(0, &bytes[..])]);
    rig.disk.take_calls();
    let log = rig.open();
    let calls = rig.disk.take_calls();
    let read: u64 = calls.iter().filter(|call| call.kind == CallKind::Read).map(|call| call.bytes).sum();
    assert!(read < 8 * bytes.len() as u64, "{read} bytes read of {}", bytes.len());
    assert_eq!(log.next_offset().get(), 40_000);
    for at in (0..40_000).step_by(997) {
        let damaged = at % 2 == 0;
        assert_eq!(disk::say(&log, at) == disk::Said::Corrupt, damaged, "{at}");
    }
}
