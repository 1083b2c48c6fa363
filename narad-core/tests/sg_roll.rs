//! When a segment is full, when its successor is made, and what a failure on the way leaves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/write_path.rs"]
mod write_path;

use narad_core::testkit::{CallKind, Failure, Survival};
use write_path::{Bench, frame_len, offset, payloads, record, records, segments_of};

/// Two of the frames below pass it.
fn two_frames() -> u64 {
    2 * frame_len(&record("0123456789")) - 1
}

#[test]
fn sg_01_the_frame_that_passes_the_cap_is_written_to_its_segment_and_synced() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(10));
    log.commit(record("far larger than the cap of ten bytes")).unwrap();
    assert_eq!(
        bench.segment(0).unwrap().len() as u64,
        frame_len(&record("far larger than the cap of ten bytes"))
    );
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(payloads(&after), ["far larger than the cap of ten bytes"]);
}

#[test]
fn sg_01_a_drain_that_fills_the_segment_syncs_it() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(10));
    log.append(&record("nobody commits this")).unwrap();
    bench.disk.take_calls();
    bench.pass(std::time::Duration::from_millis(100));
    assert_eq!(bench.disk.count_on(CallKind::SyncData, "*.log"), 1, "at once, whatever the sync policy says");
}

#[test]
fn sg_02_the_commit_that_fills_a_segment_rolls_at_its_end() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(two_frames()));
    log.commit(record("0123456789")).unwrap();
    assert_eq!(bench.segments(), [0]);
    log.commit(record("0123456789")).unwrap();
    assert_eq!(bench.segments(), [0, 2], "named by its first offset");
    assert_eq!(bench.segment(2), Some(Vec::new()));
}

#[test]
fn sg_02_the_successors_name_is_durable_before_a_record_in_it_is_acknowledged() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(10));
    log.commit(record("first")).unwrap();
    log.commit(record("in the second segment")).unwrap();
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(payloads(&after), ["first", "in the second segment"]);
}

#[test]
fn sg_02_a_name_that_a_dead_process_left_unsynced_is_durable_before_a_frame_relies_on_it() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(10));
    log.commit(record("first")).unwrap();
    // The process dies between making the successor and syncing its name, the one call that is left out here.
    let skip = narad_core::testkit::Fault::skip(CallKind::SyncDir).named("p00000");
    bench.disk.inject(skip);
    log.commit(record("second")).unwrap();
    assert_eq!(bench.segments(), [0, 1, 2]);
    bench.disk.crash_process();
    let log = bench.open_with(segments_of(10));
    log.commit(record("third")).unwrap();
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(payloads(&after), ["first", "second", "third"]);
}

#[test]
fn sg_02_a_segment_with_records_above_the_watermark_is_not_sealed() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(10));
    for payload in ["a", "b", "c"] {
        log.append(&record(payload)).unwrap();
        bench.pass(std::time::Duration::from_millis(100));
    }
    assert_eq!(bench.segments(), [0], "full three times over, and nobody has committed");
    bench.fail(CallKind::Write, Failure::NoSpace, "*.log");
    log.commit(record("fails")).unwrap_err();
    assert_eq!(bench.segment(0), Some(Vec::new()), "the discard finds all of them in the active segment");
    assert_eq!(log.next_offset(), offset(0));
    log.append(&record("a")).unwrap();
    log.commit(record("b")).unwrap();
    assert_eq!(bench.segments(), [0, 2], "the roll comes with the commit");
}

#[test]
fn sg_02_a_close_rolls_a_segment_that_is_full() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(10));
    // The roll at the commit's end fails, so it is left to the close.
    bench.fail(CallKind::Create, Failure::TooManyFiles, "00000000000000000002.log");
    log.commit(records(["a", "b"])).unwrap();
    assert_eq!(bench.segments(), [0]);
    log.close().unwrap();
    assert_eq!(bench.segments(), [0, 2]);
}

#[test]
fn sg_02_a_roll_that_fails_before_the_first_frame_fails_the_commit_and_leaves_nothing() {
    for (kind, name) in [(CallKind::Create, "*.log"), (CallKind::SyncDir, "p00000")] {
        let bench = Bench::new(1);
        let log = bench.open_with(segments_of(10));
        bench
            .disk
            .inject(narad_core::testkit::Fault::fail(kind, Failure::NoSpace).named(name).at(2).onwards());
        log.commit(record("a")).unwrap();
        assert_eq!(bench.errors("roll"), 1, "{kind:?}: after the advance it is logged and counted");
        let before = bench.segment(0).unwrap();
        assert!(
            log.commit(record("b")).unwrap_err().is_disk_full(),
            "{kind:?}: before the first frame it fails the commit"
        );
        assert_eq!(bench.segment(0).unwrap(), before);
        assert_eq!((log.next_offset(), log.high_watermark()), (offset(1), offset(1)));
        bench.disk.clear_faults();
        assert_eq!(log.commit(record("b")).unwrap(), offset(1)..offset(2), "{kind:?}");
        let (_, after) = bench.after_power_loss(Survival::Nothing);
        assert_eq!(payloads(&after), ["a", "b"]);
    }
}

#[test]
fn sg_02_a_roll_that_fails_after_the_advance_does_not_fail_the_commit_and_is_tried_before_the_next_write() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(10));
    bench.fail(CallKind::Create, Failure::TooManyFiles, "00000000000000000001.log");
    assert_eq!(log.commit(record("a")).unwrap(), offset(0)..offset(1));
    assert_eq!((bench.errors("roll"), bench.segments()), (1, vec![0]));
    log.commit(record("b")).unwrap();
    assert_eq!(
        bench.segments(),
        [0, 1, 2],
        "first the roll that was owed, then the one after the next commit"
    );
    assert_eq!(payloads(&log), ["a", "b"]);
}

#[test]
fn sg_02_appended_records_go_to_the_segment_that_a_roll_makes_for_them() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(two_frames()));
    log.commit(record("0123456789")).unwrap();
    log.append(&records(["x", "y"])).unwrap();
    log.commit(record("z")).unwrap();
    log.append(&record("buffered over the roll")).unwrap();
    log.commit(Default::default()).unwrap();
    assert_eq!(payloads(&log), ["0123456789", "x", "y", "z", "buffered over the roll"]);
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(payloads(&after), payloads(&log));
}

#[test]
fn sg_06_a_reopened_segment_over_the_cap_rolls_before_its_next_frame() {
    let bench = Bench::new(1);
    bench.open_with(segments_of(1 << 20)).commit(records(["a", "b", "c"])).unwrap();
    bench.disk.crash_process();
    let before = bench.segment(0).unwrap();
    let log = bench.open_with(segments_of(10));
    assert_eq!(bench.segments(), [0], "an open writes nothing");
    log.commit(record("d")).unwrap();
    assert_eq!(bench.segment(0).unwrap(), before);
    assert_eq!(bench.segments(), [0, 3, 4]);
    assert_eq!(payloads(&log), ["a", "b", "c", "d"]);
}

#[test]
fn sg_06_the_last_frame_of_a_close_goes_to_a_new_segment_too() {
    let bench = Bench::new(1);
    bench.open_with(segments_of(1 << 20)).commit(record("a")).unwrap();
    bench.disk.crash_process();
    let before = bench.segment(0).unwrap();
    let log = bench.open_with(segments_of(10));
    log.append(&record("b")).unwrap();
    log.close().unwrap();
    assert_eq!(bench.segment(0).unwrap(), before);
    assert_eq!(bench.segments(), [0, 1]);
}
