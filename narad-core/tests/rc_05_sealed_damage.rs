//! RC-05, SG-04: damage in sealed segments, and segments that overlap, were swapped or renamed. Each offset yields its
//! true record or is unreadable, never another's bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]
#![allow(clippy::single_range_in_vec_init, reason = "a list of lost ranges may have one")]

mod common;
#[path = "common/disk.rs"]
mod disk;

use common::offset;
use disk::{Made, Rig, Said, assert_reads, none, read_all, say, segment, zstd};
use narad_core::{
    Error,
    format::Batch,
    testkit::{CallKind, Failure, Fault},
};

/// Three segments of 8 records each.
fn three() -> [Made; 3] {
    [0, 8, 16].map(|base| Made::frames(&*none(), base, &[2, 3, 1, 2], 50))
}

fn truth(parts: &[Made]) -> std::collections::BTreeMap<u64, Vec<u8>> {
    parts.iter().flat_map(|made| made.truth.clone()).collect()
}

#[test]
fn rc_05_damage_in_a_sealed_segment_costs_its_frame_at_the_read() {
    for codec in [none(), zstd()] {
        let parts = [0, 8, 16].map(|base| Made::frames(&*codec, base, &[2, 3, 1, 2], 50));
        let truth = truth(&parts);
        for part in 0..2 {
            for index in 0..4 {
                let made = &parts[part];
                for at in made.header(index).chain([made.body(index).start + 9, made.body(index).end - 1]) {
                    let rig =
                        Rig::with(parts.iter().map(|made| (made.frames[0].offsets.start, &made.bytes[..])));
                    rig.disk.alter(segment(8 * part as u64), |bytes| bytes[at] ^= 0x11);
                    let why = format!("{} part {part} frame {index} byte {at}", codec.name());
                    let log = rig.open();
                    let lost = [made.frames[index].offsets.clone()];
                    assert_reads(&log, &truth, &lost, 24, &why);
                    // In whatever order it is read.
                    drop(log);
                    let log = rig.open();
                    for at in (0..24).rev() {
                        assert_eq!(say(&log, at) == Said::Corrupt, lost[0].contains(&at), "{why}: {at}");
                    }
                }
            }
        }
    }
}

#[test]
fn rc_05_damage_that_comes_after_the_open_costs_its_frame_alone() {
    for sealed in [false, true] {
        for index in 0..4 {
            for read_before in [None, Some(0), Some(7)] {
                let parts = three();
                let truth = truth(&parts);
                let made = &parts[if sealed { 1 } else { 2 }];
                let base = made.frames[0].offsets.start;
                for at in made.header(index).chain([made.body(index).start + 9]) {
                    for bit in [0x01, 0x80] {
                        let rig = Rig::with(
                            parts.iter().map(|made| (made.frames[0].offsets.start, &made.bytes[..])),
                        );
                        let log = rig.open();
                        if let Some(before) = read_before {
                            say(&log, base + before);
                        }
                        rig.disk.alter(segment(base), |bytes| bytes[at] ^= bit);
                        let lost = made.frames[index].offsets.clone();
                        for at_offset in base..base + 8 {
                            let said = say(&log, at_offset);
                            let why =
                                format!("sealed {sealed}, frame {index}, byte {at}, offset {at_offset}");
                            if lost.contains(&at_offset) {
                                // A frame that was read before may still be in memory.
                                let cached = Said::Record(truth[&at_offset].clone());
                                assert!(
                                    said == Said::Corrupt || (read_before.is_some() && said == cached),
                                    "{why}"
                                );
                            } else {
                                assert_eq!(said, Said::Record(truth[&at_offset].clone()), "{why}");
                            }
                        }
                        let (records, lost_in_batch) = read_all(&log);
                        assert!(
                            lost_in_batch.iter().all(|at| lost.contains(at)),
                            "{index} {at}: {lost_in_batch:?}"
                        );
                        assert_eq!(records.len() + lost_in_batch.len(), 24);
                    }
                }
            }
        }
    }
}

#[test]
fn rc_05_an_io_error_fails_that_read_and_says_nothing_else() {
    let parts = three();
    for reads in 1..6 {
        let rig = Rig::with(parts.iter().map(|made| (made.frames[0].offsets.start, &made.bytes[..])));
        let log = rig.open();
        let fault = rig.disk.inject(Fault::fail(CallKind::Read, Failure::Io).named("*8.log").at(reads));
        let mut failed = 0;
        for at in 0..24 {
            match log.read(offset(at)) {
                Ok(record) => assert_eq!(record.payload, truth(&parts)[&at]),
                Err(Error::Io { .. }) => failed += 1,
                Err(other) => panic!("{at}: {other}"),
            }
        }
        assert_eq!(failed, rig.disk.fired(fault), "read {reads}");
        assert_reads(&log, &truth(&parts), &[], 24, "afterwards");
    }
}

#[test]
fn rc_05_a_segment_that_became_shorter_is_damage_and_no_error() {
    for base in [0, 8, 16] {
        let parts = three();
        for cut in 0..parts[0].bytes.len() {
            let rig = Rig::with(parts.iter().map(|made| (made.frames[0].offsets.start, &made.bytes[..])));
            let log = rig.open();
            rig.disk.alter(segment(base), |bytes| bytes.truncate(cut));
            let made = &parts[base as usize / 8];
            let kept = made.frames.iter().rfind(|frame| frame.at.end <= cut).map(|frame| frame.offsets.end);
            assert_reads(
                &log,
                &truth(&parts),
                &[kept.unwrap_or(base)..base + 8],
                24,
                &format!("{base} cut at {cut}"),
            );
        }
    }
}

/// Whatever was done to the files: what is served is true, or nothing is.
fn assert_true_or_nothing(rig: &Rig, truth: &std::collections::BTreeMap<u64, Vec<u8>>, why: &str) -> usize {
    let log = rig.open();
    let (records, _) = read_all(&log);
    for (at, bytes) in &records {
        assert_eq!(truth.get(at), Some(bytes), "{why}: offset {at}");
    }
    for at in 0..30 {
        if let Said::Record(bytes) = say(&log, at) {
            assert_eq!(truth.get(&at), Some(&bytes), "{why}: offset {at}");
        }
    }
    let next = log.next_offset();
    let before = rig.files();
    drop(log);
    let log = rig.open();
    assert!(before == rig.files(), "rc_08 {why}");
    assert_eq!(log.commit(Batch::of(b"", b"new")).unwrap().start, next, "{why}");
    assert_eq!(say(&log, next.get()), Said::Record(b"new".to_vec()), "{why}");
    records.len()
}

#[test]
fn rc_05_swapped_and_renamed_segments_serve_no_other_records() {
    let parts = three();
    let truth = truth(&parts);
    let orders =
        [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0], [0, 0, 0], [2, 2, 2], [1, 1, 2]];
    for order in orders {
        let rig =
            Rig::with([0, 8, 16].into_iter().zip(order).map(|(base, part)| (base, &parts[part].bytes[..])));
        let served = assert_true_or_nothing(&rig, &truth, &format!("{order:?}"));
        if order == [0, 1, 2] {
            assert_eq!(served, 24);
        }
    }
    for name in 0..30 {
        for (part, made) in parts.iter().enumerate() {
            let rig = Rig::with([(name, &made.bytes[..])]);
            assert_true_or_nothing(&rig, &truth, &format!("part {part} as {name}"));
        }
    }
}

#[test]
fn rc_09_a_segment_under_a_wrong_name_is_not_cut_behind_its_damage() {
    let part = &three()[0];
    for name in [3, 8, 40] {
        for index in 1..3 {
            let mut bytes = part.bytes.clone();
            bytes[part.frames[index].at.start + 40] ^= 1;
            let rig = Rig::with([(name, &bytes[..])]);
            let served = assert_true_or_nothing(&rig, &part.truth, &format!("{name} {index}"));
            assert!(served == 0 || name == 3);
            assert!(rig.disk.contents(segment(name)).unwrap().starts_with(&bytes), "{name} {index}");
        }
    }
}

#[test]
fn rc_05_overlapping_segments_serve_each_record_once() {
    // One long segment, and a later one that begins in its midst: an older copy was put back.
    let long = Made::frames(&*none(), 0, &[2, 3, 1, 2, 2, 3, 1, 2], 50);
    for base in 1..16 {
        let later = Made::frames(&*none(), base, &[2, 3], 50);
        let truth = long.truth.iter().chain(&later.truth).map(|(at, bytes)| (*at, bytes.clone())).collect();
        let rig = Rig::with([(0, &long.bytes[..]), (base, &later.bytes[..])]);
        let served = assert_true_or_nothing(&rig, &truth, &format!("from {base}"));
        assert!(served >= 5, "from {base}: {served}");
    }
}

#[test]
fn sg_04_sealed_segments_hold_a_descriptor_only_while_recently_read() {
    let counts = [2; 2];
    let parts: Vec<Made> = (0..6).map(|n| Made::frames(&*none(), 4 * n, &counts, 50)).collect();
    let rig = Rig::with(parts.iter().map(|made| (made.frames[0].offsets.start, &made.bytes[..])));
    let before = rig.files();
    let log = rig.open();
    assert_eq!(rig.disk.open_files(), 1, "the active segment's alone");
    for part in [0, 1, 2, 3, 4, 0, 3, 1] {
        say(&log, 4 * part + 1);
        assert!(rig.disk.open_files() <= 3, "{} open after a read of part {part}", rig.disk.open_files());
    }
    assert_eq!(rig.disk.open_files(), 3);
    log.sweep(None).unwrap();
    assert_eq!(rig.disk.open_files(), 3, "a sweep keeps no descriptor");
    log.close().unwrap();
    assert_eq!(rig.disk.open_files(), 0);
    let after = rig.files();
    assert!(before.iter().all(|(path, content)| after[path] == *content), "no sealed segment was written");
}
