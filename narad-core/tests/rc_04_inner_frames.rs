//! RC-04: a payload that holds whole valid frames whose offsets fit is a payload, whatever happens to the frame around
//! it: somebody's segment, sent as a message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]
#![allow(clippy::single_range_in_vec_init, reason = "a list of lost ranges may have one")]

mod common;
#[path = "common/disk.rs"]
mod disk;

use std::sync::Arc;

use disk::{Made, Rig, Said, assert_recovers, frame, none, payload, read_all, say, segment, zstd};
use narad_core::{format::HEADER_LEN, plugin::Codec};

const OUTER: u64 = 6;

/// Where in the outer frame's payload the inner frames lie.
#[derive(Debug, Clone, Copy)]
enum Inside {
    /// Behind other bytes, and in front of some.
    Middle,
    /// The last bytes of the last record: what follows is what follows the outer frame.
    End,
    /// The only bytes of the first record.
    Whole,
}

/// Three frames, then one whose records contain `inner`, then `behind` more.
fn made(codec: &dyn Codec, inner: &[u8], inside: Inside, behind: usize) -> Made {
    let mut made = Made::frames(codec, 0, &[2, 2, 2], 30);
    let mut records: Vec<_> = (OUTER..OUTER + 4).map(|n| payload(n, 30)).collect();
    match inside {
        Inside::Middle => records[1] = [b"head", inner, &payload(99, 45)].concat(),
        Inside::End => records[3] = [b"head", inner].concat(),
        Inside::Whole => records[0] = inner.to_vec(),
    }
    made.push(codec, OUTER, records);
    for _ in 0..behind {
        let next = made.next();
        made.push(codec, next, vec![payload(next, 30), payload(next + 1, 30)]);
    }
    made
}

/// Frames with offsets that fit between the neighbours of the outer frame, in every way there is.
fn inners() -> Vec<(String, Vec<u8>)> {
    let codec = none();
    let mut inners = Vec::new();
    for base in OUTER..OUTER + 8 {
        for frames in 1..=4 {
            let chain: Vec<u8> =
                (0..frames).flat_map(|n| frame(&*codec, base + n, &[b"an inner record".to_vec()])).collect();
            inners.push((format!("{frames} inner frames from {base}"), chain));
        }
        inners.push((format!("two records at {base}"), frame(&*codec, base, &[b"inner 1", b"inner 2"])));
    }
    inners
}

fn assert_none_served(rig: &Rig, why: &str) {
    let log = rig.open();
    let (records, _) = read_all(&log);
    for (at, bytes) in records {
        assert!(
            !bytes.starts_with(b"inner") && !bytes.starts_with(b"an inner"),
            "{why}: {at} is an inner frame"
        );
    }
}

/// A codec that stores what it is given, like `none`, under another number: nothing of its payload can be parsed.
fn stored() -> Arc<dyn Codec> {
    #[derive(Debug)]
    struct Stored;
    impl Codec for Stored {
        fn number(&self) -> narad_core::format::CodecNumber {
            narad_core::format::CodecNumber::new(1).unwrap()
        }
        fn name(&self) -> &str {
            "zstd"
        }
        fn encode(
            &self,
            _: &narad_core::plugin::FrameContext<'_>,
            raw: &[u8],
            out: &mut Vec<u8>,
        ) -> Result<(), narad_core::plugin::PluginError> {
            out.extend_from_slice(raw);
            Ok(())
        }
        fn decode(
            &self,
            _: &narad_core::plugin::FrameContext<'_>,
            stored: &[u8],
            out: &mut Vec<u8>,
        ) -> Result<(), narad_core::plugin::PluginError> {
            out.extend_from_slice(stored);
            Ok(())
        }
    }
    Arc::new(Stored)
}

fn open_stored(rig: &Rig) -> narad_core::log::Log {
    let mut options = narad_core::log::LogOptions::new("test", stored());
    options.readable.insert(none()).unwrap();
    rig.open_with(options)
}

#[test]
fn rc_04_no_flipped_header_bit_lets_an_inner_frame_out() {
    for codec in [none(), zstd()] {
        for inside in [Inside::Middle, Inside::End, Inside::Whole] {
            for behind in [0, 1, 2] {
                for (name, inner) in inners() {
                    let made = made(&*codec, &inner, inside, behind);
                    let hit = made.frames[3].offsets.clone();
                    for at in made.header(3) {
                        for bit in [0, 3, 7] {
                            let mut bytes = made.bytes.clone();
                            bytes[at] ^= 1 << bit;
                            let rig = Rig::with([(0, &bytes[..])]);
                            let why = format!(
                                "{} {name} {inside:?}, {behind} behind, byte {at} bit {bit}",
                                codec.name()
                            );
                            let (lost, end) = if behind > 0 {
                                (vec![hit.clone()], made.next())
                            } else {
                                (vec![], hit.start)
                            };
                            assert_recovers(&rig, &made.truth, &lost, end, &why);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn rc_04_no_overwritten_field_lets_an_inner_frame_out() {
    const FIELDS: [(usize, usize); 7] = [(0, 2), (2, 3), (3, 7), (7, 15), (15, 19), (19, 23), (23, 27)];
    for codec in [none(), stored()] {
        for inside in [Inside::Middle, Inside::End, Inside::Whole] {
            for behind in [0, 1] {
                for (name, inner) in inners() {
                    let made = made(&*codec, &inner, inside, behind);
                    let start = made.frames[3].at.start;
                    for (from, to) in FIELDS {
                        for value in [0, 0x01, 0x7F, 0xFF] {
                            let mut bytes = made.bytes.clone();
                            bytes[start + from..start + to].fill(value);
                            if bytes == made.bytes {
                                continue;
                            }
                            let rig = Rig::with([(0, &bytes[..])]);
                            let why = format!("{name} {inside:?}, {behind} behind, {from}..{to} = {value}");
                            let log = open_stored(&rig);
                            let end = if behind > 0 { made.next() } else { made.frames[3].offsets.start };
                            let lost = made.frames[3].offsets.clone();
                            disk::assert_reads(&log, &made.truth, &[lost], end, &why);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn rc_04_a_stored_length_that_points_at_an_inner_frame_is_not_believed() {
    // A payload full of frames, one at each place that a flipped bit of the stored length can point at.
    let inner = frame(&*none(), OUTER + 4, &[b"inner"]);
    let mut made = Made::frames(&*none(), 0, &[2, 2, 2], 30);
    let filler: Vec<u8> = inner.iter().copied().cycle().take(inner.len() * 40).collect();
    for shift in 0..inner.len() {
        let record = [&vec![0; shift][..], &filler].concat();
        let mut made = made.clone();
        made.push(&*none(), OUTER, vec![payload(6, 30), record, payload(8, 30), payload(9, 30)]);
        for behind in [0, 2] {
            let mut made = made.clone();
            if behind > 0 {
                made.push(&*none(), OUTER + 4, vec![payload(10, 30), payload(11, 30)]);
            }
            for bit in 0..32 {
                let mut bytes = made.bytes.clone();
                bytes[made.frames[3].at.start + 19 + bit / 8] ^= 1 << (bit % 8);
                let rig = Rig::with([(0, &bytes[..])]);
                let why = format!("shift {shift}, stored length bit {bit}, {behind} behind");
                let lost = made.frames[3].offsets.clone();
                let (lost, end) = if behind > 0 { (vec![lost], made.next()) } else { (vec![], lost.start) };
                let log = rig.open();
                disk::assert_reads(&log, &made.truth, &lost, end, &why);
            }
        }
    }
    made.frames.clear();
}

#[test]
fn rc_04_a_torn_frame_hides_what_its_payload_contains() {
    for codec in [none(), zstd(), stored()] {
        for inside in [Inside::Middle, Inside::End, Inside::Whole] {
            for (name, inner) in inners() {
                let made = made(&*codec, &inner, inside, 0);
                let frame = made.frames[3].clone();
                for cut in (frame.at.start..frame.at.end).step_by(3) {
                    let rig = Rig::with([(0, &made.bytes[..cut])]);
                    let why = format!("{} {name} {inside:?} cut at {cut}", codec.name());
                    let log = open_stored(&rig);
                    assert_eq!(log.next_offset().get(), OUTER, "{why}");
                    drop(log);
                    assert_eq!(
                        rig.disk.contents(segment(0)).unwrap(),
                        &made.bytes[..frame.at.start],
                        "{why}"
                    );
                }
            }
        }
    }
}

#[test]
fn rc_04_a_torn_frame_behind_a_gap_hides_its_payload_too() {
    for (name, inner) in inners() {
        // Offsets 2 to 5 are missing: a frame was lost at some time.
        let mut made = Made::frames(&*none(), 0, &[2], 30);
        made.push(&*none(), OUTER, vec![[b"head", &inner[..]].concat()]);
        let frame = made.frames[1].clone();
        for cut in frame.at.start + HEADER_LEN..frame.at.end {
            let rig = Rig::with([(0, &made.bytes[..cut])]);
            let log = rig.open();
            assert_eq!(log.next_offset().get(), 2, "{name} cut at {cut}");
        }
    }
}

#[test]
fn rc_04_a_damaged_payload_hides_the_rest_of_it() {
    for inside in [Inside::Middle, Inside::End, Inside::Whole] {
        for behind in [0, 1] {
            for (name, inner) in inners() {
                let made = made(&*none(), &inner, inside, behind);
                let body = made.body(3);
                for at in [body.start, body.start + 6, body.start + body.len() / 2, body.end - 1] {
                    let mut bytes = made.bytes.clone();
                    bytes[at] ^= 0x20;
                    let rig = Rig::with([(0, &bytes[..])]);
                    let hit = made.frames[3].offsets.clone();
                    let (lost, end) = if behind > 0 { (vec![hit], made.next()) } else { (vec![], hit.start) };
                    let why = format!("{name} {inside:?}, {behind} behind, byte {at}");
                    assert_recovers(&rig, &made.truth, &lost, end, &why);
                }
            }
        }
    }
}

#[test]
fn rc_04_a_destroyed_header_of_an_uncompressed_frame_lets_no_inner_frame_out() {
    for inside in [Inside::Middle, Inside::End, Inside::Whole] {
        for behind in [0, 1, 2] {
            for (name, inner) in inners() {
                let made = made(&*none(), &inner, inside, behind);
                for value in [0, 0xAA] {
                    let mut bytes = made.bytes.clone();
                    bytes[made.header(3)].fill(value);
                    let rig = Rig::with([(0, &bytes[..])]);
                    assert_none_served(&rig, &format!("{name} {inside:?} {behind} behind"));
                    let log = rig.open();
                    for at in (0..made.next()).filter(|at| !made.frames[3].offsets.contains(at)) {
                        if behind > 0 || at < OUTER {
                            assert_eq!(say(&log, at), Said::Record(made.truth[&at].clone()), "{name} {at}");
                        }
                    }
                }
            }
        }
    }
}
