//! RC-04, RC-02, RC-08: damage to one frame costs that frame's offsets and no other's, wherever it hits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]
#![allow(clippy::single_range_in_vec_init, reason = "a list of lost ranges may have one")]

mod common;
#[path = "common/disk.rs"]
mod disk;

use disk::{Made, Rig, assert_recovers, none, segment, zstd};
use narad_core::plugin::Codec;

const COUNTS: [u64; 5] = [3, 1, 4, 2, 3];

/// Damages the frame of that index and sees what an open makes of it.
fn check(made: &Made, index: usize, why: &str, damage: impl FnOnce(&mut [u8])) {
    let mut bytes = made.bytes.clone();
    damage(&mut bytes);
    let rig = Rig::with([(0, &bytes[..])]);
    let hit = made.frames[index].offsets.clone();
    if index + 1 < made.frames.len() {
        assert_recovers(&rig, &made.truth, &[hit], made.next(), why);
    } else {
        // The last frame: a torn tail.
        assert_recovers(&rig, &made.truth, &[], hit.start, why);
        assert!(
            rig.disk.contents(segment(0)).unwrap().starts_with(&made.bytes[..made.frames[index].at.start])
        );
    }
}

fn each_bit(codec: &dyn Codec) {
    let made = Made::frames(codec, 0, &COUNTS, 40);
    for index in [0, 2, COUNTS.len() - 1] {
        let body = made.body(index);
        let some_of_the_body = body.clone().step_by(body.len() / 7).chain([body.end - 1]);
        for at in made.header(index).chain(some_of_the_body) {
            for bit in 0..8 {
                let why = format!("{}: frame {index}, byte {at}, bit {bit}", codec.name());
                check(&made, index, &why, |bytes| bytes[at] ^= 1 << bit);
            }
        }
    }
}

#[test]
fn rc_04_each_flipped_bit_costs_its_frame_alone_uncompressed() {
    each_bit(&*none());
}

#[test]
fn rc_04_each_flipped_bit_costs_its_frame_alone_compressed() {
    each_bit(&*zstd());
}

#[test]
fn rc_04_damage_that_an_open_finds_is_counted() {
    let made = Made::frames(&*none(), 0, &COUNTS, 40);
    let counted = |damaged: &[usize]| {
        let mut bytes = made.bytes.clone();
        for &index in damaged {
            bytes[made.body(index).start] ^= 1;
        }
        let rig = Rig::with([(0, &bytes[..])]);
        drop(rig.open());
        rig.runtime.metrics().error_count("storage", "damage")
    };
    // The last frame is a torn tail, and none of it was acknowledged.
    let last = COUNTS.len() - 1;
    assert_eq!([counted(&[]), counted(&[1]), counted(&[1, 3]), counted(&[last])], [0, 1, 2, 0]);
    assert_eq!(counted(&[1, last]), 1, "the walk that is repeated without the tail counts once");
}

#[test]
fn rc_04_each_overwritten_field_costs_its_frame_alone() {
    const FIELDS: [(usize, usize); 7] = [(0, 2), (2, 3), (3, 7), (7, 15), (15, 19), (19, 23), (23, 27)];
    for codec in [none(), zstd()] {
        let made = Made::frames(&*codec, 0, &COUNTS, 40);
        for index in 0..COUNTS.len() {
            let start = made.frames[index].at.start;
            for (from, to) in FIELDS.into_iter().chain([(0, 27), (3, 23), (0, 60)]) {
                for value in [0, 0xFF, 0x7F, 0x55] {
                    let why = format!("{}: frame {index}, bytes {from}..{to} = {value:#x}", codec.name());
                    if made.bytes[start + from..start + to].iter().all(|&byte| byte == value) {
                        continue;
                    }
                    check(&made, index, &why, |bytes| bytes[start + from..start + to].fill(value));
                }
            }
        }
    }
}

#[test]
fn rc_04_a_whole_frame_of_zeros_costs_its_offsets_alone() {
    for codec in [none(), zstd()] {
        let made = Made::frames(&*codec, 0, &COUNTS, 200);
        for index in 0..COUNTS.len() {
            let why = format!("{}: frame {index}", codec.name());
            check(&made, index, &why, |bytes| bytes[made.frames[index].at.clone()].fill(0));
        }
    }
}

#[test]
fn rc_04_a_lost_sector_costs_the_frames_that_it_touches() {
    for codec in [none(), zstd()] {
        for len in [40, 700] {
            let made = Made::frames(&*codec, 0, &[2, 3, 1, 2, 2, 1, 3, 2], len);
            for start in (0..made.bytes.len()).step_by(13) {
                for scramble in [false, true] {
                    let sector = start..(start + 512).min(made.bytes.len());
                    let mut bytes = made.bytes.clone();
                    for at in sector.clone() {
                        bytes[at] = if scramble { (at as u8).wrapping_mul(151) ^ 0x5A } else { 0 };
                    }
                    let touched = |frame: &&disk::MadeFrame| {
                        let part = frame.at.start.max(sector.start)..frame.at.end.min(sector.end);
                        !part.is_empty() && bytes[part.clone()] != made.bytes[part]
                    };
                    let hit: Vec<_> = made.frames.iter().filter(touched).map(|f| f.offsets.clone()).collect();
                    let Some(last) = hit.last() else { continue };
                    let is_tail = last.end == made.next();
                    let (lost, end) =
                        if is_tail { (vec![], hit[0].start) } else { (hit.clone(), made.next()) };
                    let why = format!("{} {len}: sector at {start}, scrambled: {scramble}", codec.name());
                    let rig = Rig::with([(0, &bytes[..])]);
                    assert_recovers(&rig, &made.truth, &lost, end, &why);
                }
            }
        }
    }
}
