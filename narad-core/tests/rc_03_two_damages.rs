//! RC-03, RC-09: two damaged frames, and damage in the middle together with a torn tail. Exactly what was hit is lost, and
//! no frame whose CRC holds is cut.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]
#![allow(clippy::single_range_in_vec_init, reason = "a list of lost ranges may have one")]

mod common;
#[path = "common/disk.rs"]
mod disk;

use disk::{Made, Rig, assert_recovers, none, segment, zstd};
use narad_core::{format::HEADER_LEN, plugin::Codec};

/// Ways to damage a frame.
const WAYS: [(&str, usize, usize); 8] = [
    ("payload", 30, 34),
    ("magic", 0, 2),
    ("count", 3, 7),
    ("base", 7, 15),
    ("uncompressed length", 15, 19),
    ("stored length", 19, 23),
    ("checksum", 23, 27),
    ("header", 0, 27),
];

fn hit(bytes: &mut [u8], made: &Made, frame: usize, way: (&str, usize, usize)) {
    let start = made.frames[frame].at.start;
    for byte in &mut bytes[start + way.1..start + way.2] {
        *byte ^= 0x41;
    }
}

#[test]
fn rc_03_two_damaged_frames_cost_their_own_offsets() {
    for codec in [none(), zstd()] {
        let made = Made::frames(&*codec, 0, &[2, 3, 1, 2, 2, 3, 2], 50);
        for first in 0..made.frames.len() - 2 {
            for second in first + 1..made.frames.len() - 1 {
                for one in WAYS {
                    for other in WAYS {
                        // Between two headers that are gone nothing tells a frame from a payload's content, unless
                        // the records themselves do.
                        let alone = second == first + 2 && [one.0, other.0] == ["header", "header"];
                        if alone && codec.name() != "none" {
                            continue;
                        }
                        let mut bytes = made.bytes.clone();
                        hit(&mut bytes, &made, first, one);
                        hit(&mut bytes, &made, second, other);
                        let rig = Rig::with([(0, &bytes[..])]);
                        let why = format!("{}: {} of {first}, {} of {second}", codec.name(), one.0, other.0);
                        let lost = [first, second].map(|frame| made.frames[frame].offsets.clone());
                        assert_recovers(&rig, &made.truth, &lost, made.next(), &why);
                    }
                }
            }
        }
    }
}

#[test]
fn rc_02_damage_in_the_middle_and_a_torn_tail_at_once() {
    for codec in [none(), zstd()] {
        let made = Made::frames(&*codec, 0, &[2, 3, 1, 2, 2], 50);
        let last = made.frames.last().unwrap().clone();
        for middle in 0..made.frames.len() - 2 {
            for way in WAYS {
                for cut in (last.at.start..last.at.end).step_by(3) {
                    let mut bytes = made.bytes[..cut].to_vec();
                    hit(&mut bytes, &made, middle, way);
                    let rig = Rig::with([(0, &bytes[..])]);
                    let why = format!("{}: {} of {middle}, cut at {cut}", codec.name(), way.0);
                    let lost = [made.frames[middle].offsets.clone()];
                    assert_recovers(&rig, &made.truth, &lost, last.offsets.start, &why);
                }
            }
        }
    }
}

/// Whether every frame of the original that is whole in `before` is still whole in `after`.
fn assert_no_valid_frame_cut(made: &Made, damaged: &[u8], after: &[u8], why: &str) {
    for frame in &made.frames {
        let whole = damaged.get(frame.at.clone()) == Some(&made.bytes[frame.at.clone()]);
        assert!(
            !whole || after.get(frame.at.clone()) == Some(&made.bytes[frame.at.clone()]),
            "{why}: {frame:?}"
        );
    }
}

#[test]
fn rc_09_no_whole_frame_is_cut_whatever_two_others_suffer() {
    for codec in [none(), zstd()] {
        let made = Made::frames(&*codec, 0, &[2, 3, 1, 2], 50);
        for first in 0..made.frames.len() {
            for second in 0..made.frames.len() {
                for one in WAYS {
                    for other in WAYS {
                        for cut in [0, 1, HEADER_LEN + 40, 60] {
                            let mut bytes = made.bytes.clone();
                            hit(&mut bytes, &made, first, one);
                            hit(&mut bytes, &made, second, other);
                            bytes.truncate(bytes.len() - cut);
                            let rig = Rig::with([(0, &bytes[..])]);
                            let why = format!("{} {first} {one:?} {second} {other:?} {cut}", codec.name());
                            let log = rig.open();
                            drop(log);
                            let after = rig.disk.contents(segment(0)).unwrap();
                            assert_no_valid_frame_cut(&made, &bytes, &after, &why);
                            let once = rig.files();
                            drop(rig.open());
                            assert!(once == rig.files(), "rc_08 {why}");
                        }
                    }
                }
            }
        }
    }
}

/// A stretch of several frames that is gone as a whole.
#[test]
fn rc_03_a_destroyed_stretch_costs_the_frames_in_it() {
    fn check(codec: &dyn Codec) {
        let made = Made::frames(codec, 0, &[2, 3, 1, 2, 2, 1], 50);
        for first in 0..made.frames.len() - 1 {
            for last in first..made.frames.len() - 1 {
                for value in [0, 0xCA, 0xFE] {
                    let mut bytes = made.bytes.clone();
                    bytes[made.frames[first].at.start..made.frames[last].at.end].fill(value);
                    let rig = Rig::with([(0, &bytes[..])]);
                    let lost = made.frames[first].offsets.start..made.frames[last].offsets.end;
                    let why = format!("{}: {first} to {last} = {value:#x}", codec.name());
                    assert_recovers(&rig, &made.truth, &[lost], made.next(), &why);
                }
            }
        }
    }
    check(&*none());
    check(&*zstd());
}
