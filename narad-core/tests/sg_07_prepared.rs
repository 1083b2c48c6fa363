//! Segments that are filled with zeros ahead of their frames: what it saves, and that nobody can tell afterwards.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/needed.rs"]
mod needed;
#[path = "common/write_path.rs"]
mod write_path;

use std::path::Path;

use narad_core::{
    disk::Disk,
    format::{FrameHeader, HEADER_LEN},
    log::{Log, LogOptions, inspect},
    plugin::{CodecSet, LogIdentity},
    testkit::{CallKind, Failure, Fault, SimDisk, Survival},
};
use needed::{Machine, file_sync, truncate};
use write_path::{Bench, frame_len, offset, payloads, record, segment_path, segments_of};

const SEGMENT: u64 = 1 << 20;
/// Small, and more than one sector.
const PAYLOAD: usize = 700;

impl Machine for Bench {
    fn new(seed: u64) -> Self {
        Self::new(seed)
    }
    fn disk(&self) -> &SimDisk {
        &self.disk
    }
}

fn payload(number: u64) -> String {
    format!("{number:0>PAYLOAD$}")
}

fn commit(log: &Log, numbers: std::ops::Range<u64>) {
    for number in numbers {
        log.commit(record(&payload(number))).unwrap();
    }
}

fn frames(count: u64) -> usize {
    usize::try_from(frame_len(&record(&payload(0))) * count).unwrap()
}

fn file_len(bench: &Bench) -> usize {
    bench.segment(0).unwrap().len()
}

/// A log whose segment has zeros behind its frames.
fn prepared(bench: &Bench) -> Log {
    let log = bench.open_with(segments_of(SEGMENT));
    commit(&log, 0..10);
    assert!(file_len(bench) > frames(10), "prepared");
    log
}

fn unprepared() -> LogOptions {
    let mut options = segments_of(SEGMENT);
    options.prepare_segments = false;
    options
}

#[test]
fn sg_07_a_busy_segment_is_longer_than_its_frames_and_they_are_written_over_zeros() {
    let bench = Bench::new(1);
    let log = prepared(&bench);
    let len = file_len(&bench);
    assert!(len <= frames(10) + (20 << 10), "a small segment stays small: {len}");
    assert!(bench.segment(0).unwrap()[frames(10)..].iter().all(|&byte| byte == 0));
    bench.disk.take_calls();
    commit(&log, 10..20);
    assert_eq!(file_len(&bench), len, "ten commits did not make it longer");
    assert_eq!(bench.disk.count(CallKind::Write), 10);
    assert_eq!(bench.syncs(), (10, 0), "a commit costs one fsync");
    assert_eq!(log.stats().bytes, frames(20) as u64, "zeros are no bytes of the log");
}

#[test]
fn sg_07_a_segment_with_few_writes_or_large_ones_has_no_zeros() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(SEGMENT));
    commit(&log, 0..4);
    assert_eq!(file_len(&bench), frames(4));
    let large = "x".repeat(40 << 10);
    for _ in 0..6 {
        log.commit(record(&large)).unwrap();
    }
    assert_eq!(file_len(&bench) as u64, frames(4) as u64 + 6 * frame_len(&record(&large)));
}

#[test]
fn sg_07_sealed_and_closed_segments_are_byte_for_byte_those_of_a_log_that_does_not_prepare() {
    let files = |options: LogOptions| {
        let bench = Bench::new(1);
        let log = bench.open_with(options);
        // Two segments and a piece of the third.
        commit(&log, 0..3200);
        let last = *bench.segments().last().unwrap();
        let sealed: Vec<_> = bench.segments().into_iter().filter(|base| *base != last).collect();
        assert_eq!(sealed.len(), 2);
        let before: Vec<_> = sealed.iter().map(|base| bench.segment(*base)).collect();
        log.close().unwrap();
        let after: Vec<_> = bench.segments().iter().map(|base| bench.segment(*base)).collect();
        assert_eq!(before, after[..2]);
        after
    };
    assert!(files(segments_of(SEGMENT)) == files(unprepared()));
}

#[test]
fn sg_07_a_power_loss_at_any_commit_leaves_every_acknowledged_record_and_none_made_up() {
    for seed in 0..30 {
        let bench = Bench::new(seed);
        let log = bench.open_with(segments_of(SEGMENT));
        for number in (0..40).step_by(2) {
            // The power goes with this commit under way: any sector of it may be there or not.
            let under_way = bench.disk.inject(Fault::skip(CallKind::SyncData).named("*.log"));
            commit(&log, number..number + 1);
            for _ in 0..4 {
                let (_, after) = bench.after_power_loss(Survival::Random);
                let found = payloads(&after);
                assert!(
                    (number..=number + 1).contains(&(found.len() as u64)),
                    "seed {seed}, commit {number}"
                );
                let expected: Vec<_> = (0..found.len() as u64).map(payload).collect();
                assert!(found == expected, "seed {seed}, commit {number}: not what was committed");
            }
            bench.disk.remove_fault(under_way);
            // The fsync of the next one covers both.
            commit(&log, number + 1..number + 2);
            for survival in [Survival::Nothing, Survival::Random, Survival::Everything] {
                let (_, after) = bench.after_power_loss(survival);
                assert_eq!(payloads(&after).len() as u64, number + 2, "seed {seed}");
            }
        }
    }
}

/// The format page alone: frame after frame from the start, up to what is none.
fn frames_of_an_engine_that_knows_no_preparation(mut bytes: &[u8]) -> u64 {
    let mut records = 0;
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() {
        let Ok(decoded) = FrameHeader::decode(header) else { break };
        let Some((stored, rest)) = rest.split_at_checked(decoded.stored_len as usize) else { break };
        if crc32c::crc32c_append(crc32c::crc32c(&header[2..23]), stored) != decoded.crc {
            break;
        }
        records += u64::from(decoded.count);
        bytes = rest;
    }
    records
}

#[test]
fn sg_07_an_engine_that_knows_no_preparation_finds_every_acknowledged_record_after_a_crash() {
    for seed in 0..20 {
        let bench = Bench::new(seed);
        let log = prepared(&bench);
        commit(&log, 10..40);
        let fork = bench.fork();
        fork.disk.power_loss();
        let bytes = fork.segment(0).unwrap();
        assert!(bytes.len() > frames(40), "seed {seed}: the crash left it prepared");
        assert_eq!(frames_of_an_engine_that_knows_no_preparation(&bytes), 40, "seed {seed}");
        // And one that does not prepare opens what one that does has left, and the other way round.
        let log = fork.open_with(unprepared());
        assert_eq!(payloads(&log).len(), 40);
        assert_eq!(file_len(&fork), frames(40), "the zeros are cut");
    }
}

#[test]
fn sg_07_damage_in_front_of_zeros_costs_the_damaged_frame_alone() {
    for damaged in [0, 3, 8, 9] {
        let bench = Bench::new(1);
        let log = prepared(&bench);
        commit(&log, 10..11);
        let fork = bench.fork();
        drop(log);
        // The magic, a field of the header, the payload.
        for at in [0, 9, 20, 300] {
            let case = fork.fork();
            case.disk.alter(segment_path(0), |bytes| bytes[frames(damaged) + at] ^= 0x55);
            case.disk.power_loss();
            let log = case.open_with(segments_of(SEGMENT));
            assert_eq!(log.next_offset(), offset(11), "frame {damaged}, byte {at}");
            let batch = log.read_batch(offset(0), 100, 1 << 20).unwrap();
            let offsets: Vec<_> = batch.records.iter().map(|record| record.offset.get()).collect();
            let expected: Vec<_> = (0..11).filter(|offset| *offset != damaged).collect();
            assert_eq!(offsets, expected, "frame {damaged}, byte {at}");
        }
    }
}

#[test]
fn sg_07_a_full_disk_has_no_room_for_zeros_and_all_of_it_for_records() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(SEGMENT));
    commit(&log, 0..4);
    let room = frames(20) as u64;
    bench.disk.set_capacity(Some(bench.disk.used_bytes() + room));
    let mut landed = 0;
    while log.commit(record(&payload(4 + landed))).is_ok() {
        landed += 1;
    }
    assert_eq!(landed, 20, "what the zeros took, the frames got");
    assert_eq!(payloads(&log).len(), 24);
    bench.disk.set_capacity(None);
    commit(&log, 24..30);
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(payloads(&after).len(), 30);
}

#[test]
fn sg_07_a_failed_commit_leaves_neither_frames_nor_zeros() {
    let bench = Bench::new(1);
    let log = prepared(&bench);
    let fault = bench.disk.inject(Fault::flip_bit(CallKind::Read).named("*.log"));
    log.commit(record("what is read back is not this")).unwrap_err();
    bench.disk.remove_fault(fault);
    assert_eq!(file_len(&bench), frames(10));
    commit(&log, 10..20);
    assert_eq!(payloads(&log).len(), 20);
}

#[test]
fn sg_07_zeros_that_cannot_be_cut_hold_up_no_commit_and_hide_no_record() {
    let bench = Bench::new(1);
    let log = prepared(&bench);
    bench.fail(CallKind::SetLen, Failure::Io, "*.log");
    log.close().unwrap();
    bench.disk.clear_faults();
    assert!(file_len(&bench) > frames(10));
    let log = bench.open_with(segments_of(SEGMENT));
    assert_eq!((payloads(&log).len(), file_len(&bench)), (10, frames(10)));
}

#[test]
fn sg_07_a_segment_is_not_sealed_before_its_zeros_are_cut() {
    let bench = Bench::new(1);
    let log = prepared(&bench);
    let mut next = 10;
    while bench.segment(0).unwrap().len() as u64 >= frames(next) as u64 && bench.segments() == [0] {
        // From here on the cut at the roll fails.
        bench.fail(CallKind::SetLen, Failure::Io, "*.log");
        if log.commit(record(&payload(next))).is_err() {
            break;
        }
        next += 1;
    }
    bench.disk.clear_faults();
    assert!(frames(next) as u64 >= SEGMENT, "the segment is full: {next}");
    commit(&log, next..next + 1);
    assert_eq!(bench.segment(0).unwrap().len(), frames(next), "sealed without zeros");
    assert_eq!(bench.segments(), [0, next]);
    assert_eq!(payloads(&log).len() as u64, next + 1);
}

#[test]
fn sg_07_an_idle_log_gives_its_space_back_and_goes_on() {
    let bench = Bench::new(1);
    let log = prepared(&bench);
    log.append(&record("under way")).unwrap();
    log.release_space();
    assert!(file_len(&bench) > frames(10), "not while something is under way");
    log.commit(record("done")).unwrap();
    let written = log.stats().bytes as usize;
    log.release_space();
    assert_eq!(file_len(&bench), written);
    bench.disk.take_calls();
    log.release_space();
    assert_eq!(bench.disk.calls().len(), 0, "nothing to give back");
    assert!(log.release_files());
    commit(&log, 0..10);
    assert_eq!(payloads(&log).len(), 22);
}

#[test]
fn sg_07_the_cut_before_the_seal_is_needed_and_so_is_its_sync() {
    let full = |bench: &Bench| {
        let log = bench.open_with(segments_of(32 << 10));
        commit(&log, 0..44);
        assert_eq!(bench.segments(), [0]);
        assert_eq!(file_len(bench), 32 << 10, "prepared up to the cap");
        log
    };
    // The frame after these passes the cap.
    let roll = |bench: &Bench, log: &Log| {
        bench.pass(std::time::Duration::from_millis(2));
        log.set_retention(std::sync::Arc::new(RollsAlways));
        commit(log, 44..45);
    };
    let is_exact = |bench: &Bench, _: &Log| {
        let fork = bench.fork();
        fork.disk.power_loss_keeping(Survival::Nothing);
        fork.segments() == [0, 44] && fork.segment(0).unwrap().len() == frames(44)
    };
    truncate("*.log").is_needed(full, roll, is_exact);
    file_sync("*.log").is_needed(full, roll, is_exact);
}

/// Seals a segment before the next write, however young it is.
#[derive(Debug)]
struct RollsAlways;

impl narad_core::plugin::RetentionPolicy for RollsAlways {
    fn name(&self) -> &str {
        "rolls-always"
    }
    fn roll_age(&self) -> Option<std::time::Duration> {
        Some(std::time::Duration::ZERO)
    }
    fn decide(&self, _: &narad_core::plugin::RetentionView<'_>) -> narad_core::plugin::RetentionDecision {
        narad_core::plugin::RetentionDecision::KEEP
    }
}

#[test]
fn sg_07_an_inspection_tells_zeros_from_a_torn_tail() {
    let bench = Bench::new(1);
    let log = prepared(&bench);
    let disk: &dyn Disk = &bench.disk;
    let mut codecs = CodecSet::new();
    codecs.insert(std::sync::Arc::new(narad_codecs::None)).unwrap();
    let look = || {
        let dir = Path::new(segment_path(0).as_str()).parent().unwrap().to_owned();
        let nobody = &mut |_: inspect::Inspected<'_>| std::ops::ControlFlow::Continue(());
        let found = inspect::inspect(disk, &dir, &LogIdentity::named("test"), &codecs, nobody).unwrap();
        (found.next_offset.get(), found.torn_tail_bytes, found.prepared_bytes)
    };
    let (next, torn, zeros) = look();
    assert!((next, torn) == (10, 0) && zeros > 0, "{zeros}");
    bench.disk.alter(segment_path(0), |bytes| bytes[frames(10) + 50] = 1);
    assert_eq!(look(), (10, zeros, 0), "something is there that is no frame");
    drop(log);
}

#[test]
fn sg_07_an_fsync_that_fails_while_idle_space_is_given_back_costs_no_later_commit() {
    let bench = Bench::new(1);
    let log = prepared(&bench);
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    log.release_space();
    log.release_files();
    bench.disk.clear_faults();
    commit(&log, 10..14);
    assert_eq!(payloads(&log).len(), 14);
}

#[test]
fn sg_07_a_log_that_is_idle_between_its_messages_pays_for_no_zeros() {
    let costs = |options: LogOptions| {
        let bench = Bench::new(1);
        let log = bench.open_with(options);
        commit(&log, 0..10);
        log.release_space();
        bench.disk.take_calls();
        for number in 10..20 {
            commit(&log, number..number + 1);
            log.release_space();
            log.release_files();
        }
        [CallKind::Write, CallKind::SyncData, CallKind::SetLen].map(|kind| bench.disk.count_on(kind, "*.log"))
    };
    assert_eq!(costs(segments_of(SEGMENT)), costs(unprepared()));
}
