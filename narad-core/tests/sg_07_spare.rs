//! The file of the next segment, filled with zeros in the background: when there is one, what it costs nobody, and that
//! nobody can tell afterwards.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/needed.rs"]
mod needed;
#[path = "common/write_path.rs"]
mod write_path;

use std::{ops::Range, path::Path, time::Duration};

use narad_core::{
    Error,
    log::{Log, LogOptions, inspect, peek},
    plugin::{CodecSet, LogIdentity},
    testkit::{Call, CallKind, Failure, Fault, SimDisk, Survival},
};
use needed::{Machine, dir_sync};
use write_path::{Bench, DIR, frame_len, offset, payloads, record, segment_path, segments_of};

const SEGMENT: u64 = 1 << 20;
const PAYLOAD: usize = 20_000;
const SPARE: &str = "spare-*.zeros";

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

fn commit(log: &Log, numbers: Range<u64>) {
    for number in numbers {
        log.commit(record(&payload(number))).unwrap();
    }
}

/// Commits that fill a segment.
fn full() -> u64 {
    SEGMENT.div_ceil(frame_len(&record(&payload(0))))
}

/// Commits after which a busy log has a spare file.
fn enough() -> u64 {
    full() / 3
}

fn open(bench: &Bench) -> Log {
    bench.open_with(segments_of(SEGMENT))
}

/// A log with a spare file.
fn with_spare(bench: &Bench) -> Log {
    let log = open(bench);
    commit(&log, 0..enough());
    assert_eq!(spares(bench), [SEGMENT]);
    log
}

fn unprepared() -> LogOptions {
    let mut options = segments_of(SEGMENT);
    options.prepare_segments = false;
    options
}

/// The lengths of the spare files.
fn spares(bench: &Bench) -> Vec<u64> {
    let number = |path: &Path| {
        path.file_name()?.to_str()?.strip_prefix("spare-")?.strip_suffix(".zeros")?.parse().ok()
    };
    let is_spare = |path: &Path| number(path).is_some_and(|_: u64| bench.disk.contents(path).is_some());
    let paths = bench.disk.paths().into_iter().filter(|path| is_spare(path));
    paths.map(|path| bench.disk.contents(path).unwrap().len() as u64).collect()
}

/// After a crash: every acknowledged record is there, at most one more, none is made up, and no spare file is left.
fn check(bench: &Bench, acked: u64, context: &str) {
    let log = open(bench);
    let found = payloads(&log);
    assert!((acked..=acked + 1).contains(&(found.len() as u64)), "{context}: {} of {acked}", found.len());
    assert!(found.iter().zip(0..).all(|(found, number)| *found == payload(number)), "{context}");
    assert_eq!(spares(bench), [0; 0], "{context}");
}

fn check_after_power_loss(bench: &Bench, acked: u64, context: &str) {
    for survival in [Survival::Nothing, Survival::Random, Survival::Everything] {
        let fork = bench.fork();
        fork.disk.power_loss_keeping(survival);
        check(&fork, acked, &format!("{context}, {survival:?}"));
    }
}

#[test]
fn sg_07_the_next_segments_file_is_filled_while_this_one_is_written_and_takes_its_name() {
    let bench = Bench::new(1);
    let log = with_spare(&bench);
    commit(&log, enough()..full());
    assert_eq!((bench.segments(), spares(&bench)), (vec![0, full()], vec![]));
    assert_eq!(bench.disk.count_on(CallKind::Create, "*.log"), 1, "the second one was there");
    let second = bench.segment(full()).unwrap();
    assert!(second.len() as u64 == SEGMENT && second.iter().all(|&byte| byte == 0));
    bench.disk.take_calls();
    commit(&log, full()..full() + 10);
    assert_eq!(bench.segment(full()).unwrap().len() as u64, SEGMENT, "no commit makes it longer");
    assert_eq!((bench.disk.count(CallKind::Write), bench.syncs()), (10, (10, 0)), "nor writes zeros");
    assert_eq!(
        log.stats().bytes,
        (full() + 10) * frame_len(&record(&payload(0))),
        "zeros are no bytes of the log"
    );
    assert_eq!(payloads(&log).len() as u64, full() + 10);
}

#[test]
fn sg_07_a_log_has_no_spare_file_unless_it_is_busy_with_small_commits() {
    let has_one = |options: LogOptions, payload: &str, pause: Duration| {
        let bench = Bench::new(1);
        let log = bench.open_with(options);
        let mut seen = false;
        while bench.segments().len() < 3 {
            log.commit(record(payload)).unwrap();
            bench.clock.advance(pause);
            seen |= !spares(&bench).is_empty();
        }
        assert_eq!(bench.disk.count_on(CallKind::Create, SPARE) > 0, seen);
        seen
    };
    // 53 commits fill a segment: in a minute, or in more than that.
    assert!(has_one(segments_of(SEGMENT), &payload(0), Duration::from_millis(1100)));
    assert!(!has_one(segments_of(SEGMENT), &payload(0), Duration::from_millis(1200)), "a slow log");
    assert!(!has_one(segments_of(SEGMENT), &"x".repeat(40_000), Duration::ZERO), "large commits");
    assert!(!has_one(segments_of(SEGMENT - 1), &payload(0), Duration::ZERO), "small segments");
    assert!(!has_one(unprepared(), &payload(0), Duration::ZERO), "opted out");
}

#[test]
fn sg_07_what_was_written_over_a_spare_file_is_sealed_and_closed_byte_for_byte_as_without() {
    let files = |options: LogOptions| {
        let bench = Bench::new(1);
        let log = bench.open_with(options);
        commit(&log, 0..3 * full() + 5);
        log.close().unwrap();
        assert_eq!(spares(&bench), [0; 0]);
        let found: Vec<_> = bench.segments().iter().map(|base| bench.segment(*base).unwrap()).collect();
        (found, bench.disk.count_on(CallKind::Create, "*.log"))
    };
    let ((prepared, created), (plain, all)) = (files(segments_of(SEGMENT)), files(unprepared()));
    assert!(prepared == plain);
    assert_eq!((created, all), (1, 4), "the others were spare files");
}

/// The calls of a log from right before it begins a spare file until some commits after the roll that takes it: how many
/// there are, and which of the log's life is the first.
fn stretch() -> (Vec<Call>, usize) {
    let bench = Bench::new(1);
    let log = open(&bench);
    let mut before = 0;
    for number in 0..full() + 3 {
        let calls = bench.disk.calls().len();
        commit(&log, number..number + 1);
        if before == 0 && !spares(&bench).is_empty() {
            before = calls;
        }
    }
    (bench.disk.calls(), before)
}

/// The story of `stretch` with a fault; answers the records acknowledged. What fails is tried again, at most once.
fn played(bench: &Bench, log: &Log, tries: usize) -> u64 {
    for number in 0..full() + 3 {
        let committed = (0..tries).any(|_| match log.commit(record(&payload(number))) {
            Ok(offsets) => {
                assert_eq!(offsets.start, offset(number));
                true
            }
            Err(_) => {
                _ = log.reopen();
                false
            }
        });
        if !committed {
            assert!(tries == 1, "the retry of {number} fails");
            return number;
        }
        assert!(spares(bench).len() <= 1);
    }
    full() + 3
}

#[test]
fn sg_07_the_power_may_go_before_any_call_around_a_spare_file() {
    let (calls, first) = stretch();
    for call in first + 1..=calls.len() {
        let bench = Bench::new(call as u64);
        let cut = bench.disk.inject(Fault::fail_all(Failure::Io).at(call as u64).onwards());
        let log = open(&bench);
        let acked = played(&bench, &log, 1);
        assert!(bench.disk.fired(cut) > 0, "call {call} was reached");
        bench.disk.clear_faults();
        check_after_power_loss(&bench, acked, &format!("before call {call}"));
        bench.disk.crash_process();
        check(&bench, acked, &format!("killed before call {call}"));
    }
}

#[test]
fn sg_07_any_call_around_a_spare_file_may_fail_and_those_on_itself_fail_no_commit() {
    let (calls, first) = stretch();
    // Calls on an open file go by the name that it was opened by, also when that is a segment's by now.
    let renamed = calls.iter().position(|call| call.kind == CallKind::Rename).unwrap() as u64 + 1;
    let mut spared = 0;
    for (call, what) in (1..).zip(&calls).skip(first) {
        for failure in [Failure::Io, Failure::NoSpace, Failure::TooManyFiles, Failure::AccessDenied] {
            let context = format!("call {call} ({what:?}): {failure:?}");
            let bench = Bench::new(call);
            let fault = bench.disk.inject(Fault::fail_all(failure).at(call));
            let log = open(&bench);
            let is_its_own =
                call == renamed || what.kind == CallKind::Available || what.is_on(SPARE) && call < renamed;
            let acked = played(&bench, &log, if is_its_own { 1 } else { 2 });
            assert_eq!(acked, full() + 3, "{context}");
            assert_eq!(bench.disk.fired(fault), 1, "{context}");
            assert!(
                !is_its_own || (bench.errors("commit"), bench.errors("fsync_poisoned")) == (0, 0),
                "{context}"
            );
            spared += u32::from(is_its_own);
            assert_eq!(payloads(&log).len() as u64, acked, "{context}");
            check_after_power_loss(&bench, acked, &context);
            log.close().unwrap();
            assert_eq!((spares(&bench), bench.disk.open_files()), (vec![], 0), "{context}");
        }
    }
    assert!(spared > 60, "{spared}: it was filled, synced, looked at and renamed");
}

#[test]
fn sg_07_a_spare_file_is_durable_before_it_takes_a_segments_name() {
    let (calls, _) = stretch();
    let renamed = calls.iter().position(|call| call.kind == CallKind::Rename).unwrap();
    let last =
        |kind| calls[..renamed].iter().rposition(|call| call.kind == kind && call.is_on(SPARE)).unwrap();
    let (written, synced) = (last(CallKind::Write), last(CallKind::SyncData));
    assert!(written < synced && synced < renamed, "{written} {synced} {renamed}");
    assert_eq!(calls[renamed + 1].kind, CallKind::SyncDir, "and the name before a frame relies on it");

    // One that cannot be made durable is of no use, and nobody notices.
    let bench = Bench::new(1);
    bench.fail(CallKind::SyncData, Failure::Io, SPARE);
    let log = open(&bench);
    commit(&log, 0..full() + 3);
    assert_eq!((spares(&bench), bench.disk.count(CallKind::Rename)), (vec![], 0));
    assert!(bench.segment(full()).unwrap().len() < 100_000, "an ordinary file");
}

#[test]
fn sg_07_the_sync_of_the_name_that_a_spare_file_takes_is_needed() {
    let given = |bench: &Bench| {
        let log = open(bench);
        commit(&log, 0..full() - 1);
        log
    };
    let roll = |_: &Bench, log: &Log| commit(log, full() - 1..full() + 1);
    let all = |bench: &Bench, _: &Log| {
        let fork = bench.fork();
        fork.disk.power_loss_keeping(Survival::Random);
        payloads(&open(&fork)).len() as u64 == full() + 1
    };
    dir_sync("p00000").is_needed(given, roll, all);
}

#[test]
fn sg_07_a_roll_that_cannot_make_the_name_durable_leaves_the_former_segment_the_last() {
    for removes in [true, false] {
        let bench = Bench::new(1);
        let log = open(&bench);
        commit(&log, 0..full() - 1);
        bench.fail(CallKind::SyncDir, Failure::Io, "p00000");
        if !removes {
            bench.fail(CallKind::Remove, Failure::Io, "*.log");
        }
        commit(&log, full() - 1..full());
        assert_eq!(bench.errors("roll"), 1);
        check_after_power_loss(&bench, full(), "after the failed roll");
        commit(&log, full()..full() + 2);
        assert_eq!(bench.segments(), [0, full()], "rolled by the next commit");
        check_after_power_loss(&bench, full() + 2, "after the roll");
    }
}

#[test]
fn sg_07_a_spare_file_replaces_no_segment() {
    let bench = Bench::new(1);
    let log = with_spare(&bench);
    bench.disk.plant(segment_path(full()), b"somebody has put this here".repeat(10));
    let mut next = enough();
    let refused = loop {
        match log.commit(record(&payload(next))) {
            Ok(_) => next += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::Unusable { .. }), "{refused}");
    assert_eq!(next, full());
    assert_eq!(bench.segment(full()).unwrap().len(), 260);
}

#[test]
fn sg_07_a_disk_without_much_room_has_no_spare_file() {
    let bench = Bench::new(1);
    let log = open(&bench);
    bench.disk.set_capacity(Some(8 * SEGMENT));
    commit(&log, 0..full() + 5);
    assert_eq!(bench.disk.count_on(CallKind::Create, SPARE), 0);
    bench.disk.set_capacity(Some(12 * SEGMENT));
    commit(&log, full() + 5..2 * full());
    assert_eq!(bench.disk.count_on(CallKind::Create, SPARE), 1, "in the next segment there is room");
}

#[test]
fn sg_07_a_spare_file_that_finds_no_room_is_not_tried_again_in_this_segment() {
    let bench = Bench::new(1);
    let log = open(&bench);
    bench.fail(CallKind::Write, Failure::NoSpace, SPARE);
    commit(&log, 0..full());
    assert_eq!(bench.disk.count_on(CallKind::Create, SPARE), 1);
    assert_eq!(bench.disk.count_on(CallKind::Remove, SPARE), 1);
    commit(&log, full()..2 * full());
    assert_eq!(bench.segments(), [0, full(), 2 * full()]);
    assert_eq!(bench.disk.count(CallKind::Rename), 1, "in the next one it is");
}

#[test]
fn sg_07_a_full_disk_has_the_bytes_of_a_spare_file_for_records() {
    let bench = Bench::new(1);
    let log = with_spare(&bench);
    bench.disk.set_capacity(Some(bench.disk.used_bytes()));
    let next = loop {
        if log.commit(record(&payload(log.next_offset().get()))).is_err() {
            break log.next_offset().get();
        }
    };
    assert_eq!(spares(&bench), [0; 0]);
    commit(&log, next..next + 20);
    check_after_power_loss(&bench, next + 20, "full");
}

#[test]
fn sg_07_an_idle_log_has_no_spare_file_and_no_zeros_and_gets_them_back() {
    let bench = Bench::new(1);
    let log = with_spare(&bench);
    log.append(&record("under way")).unwrap();
    log.release_space();
    assert_eq!(spares(&bench), [SEGMENT], "not while something is under way");
    log.commit(record("done")).unwrap();
    log.release_space();
    assert_eq!(spares(&bench), [0; 0]);
    bench.disk.take_calls();
    log.release_space();
    assert_eq!(bench.disk.calls().len(), 0, "nothing to give back");
    assert!(log.release_files());
    assert_eq!(bench.disk.open_files(), 0, "a spare file needs no descriptor");
    let mut rolls = 0;
    for number in 0..3 * full() {
        let before = bench.segments().len();
        commit(&log, number..number + 1);
        rolls += bench.segments().len() - before;
    }
    assert!(rolls >= 3 && bench.disk.count(CallKind::Rename) >= 2, "{rolls}");

    // Idle in a segment that was a spare file: what is left of its zeros goes too.
    log.release_space();
    let last = *bench.segments().last().unwrap();
    let frames = log.segments().last().unwrap().bytes;
    assert_eq!(bench.segment(last).unwrap().len() as u64, frames);
}

#[test]
fn sg_07_what_a_crash_leaves_of_a_spare_file_is_removed_by_an_open_alone() {
    let bench = Bench::new(1);
    let log = with_spare(&bench);
    bench.disk.crash_process();
    drop(log);
    let foreign =
        ["spare-1.zeros.bak", "spare-x.zeros", "zeros", "spare-2"].map(|name| format!("{DIR}/{name}"));
    for path in &foreign {
        bench.disk.plant(path, "somebody's");
    }
    bench.disk.plant_dir(format!("{DIR}/spare-3.zeros"));
    let before = bench.disk.paths();
    let (mut codecs, nobody) =
        (CodecSet::new(), &mut |_: inspect::Inspected<'_>| std::ops::ControlFlow::Continue(()));
    codecs.insert(std::sync::Arc::new(narad_codecs::None)).unwrap();
    let found =
        inspect::inspect(&bench.disk, Path::new(DIR), &LogIdentity::named("test"), &codecs, nobody).unwrap();
    assert_eq!(found.next_offset.get(), enough());
    let stats = peek(&bench.runtime, Path::new(DIR)).unwrap();
    assert_eq!(stats.segments, 1);
    assert!(stats.bytes < SEGMENT, "it is no segment: {}", stats.bytes);
    assert_eq!(bench.disk.paths(), before, "a look changes nothing");

    // An open that fails leaves every byte.
    bench.fail(CallKind::Read, Failure::Io, "*.log");
    bench.try_open(segments_of(SEGMENT)).unwrap_err();
    assert_eq!(bench.disk.paths(), before);

    // One that cannot remove it opens all the same.
    bench.fail(CallKind::Remove, Failure::Io, SPARE);
    drop(open(&bench));
    assert_eq!(bench.disk.paths(), before);
    bench.disk.crash_process();

    let log = open(&bench);
    assert_eq!(spares(&bench), [0; 0]);
    assert!(foreign.iter().all(|path| bench.disk.contents(path).is_some()));
    assert_eq!(payloads(&log).len() as u64, enough());
    commit(&log, enough()..full() + 1);
    assert_eq!(bench.segments(), [0, full()]);
}

#[test]
fn sg_07_a_poisoned_log_leaves_its_spare_file_to_the_reopen() {
    let bench = Bench::new(1);
    let log = with_spare(&bench);
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    log.commit(record("refused")).unwrap_err();
    assert!(log.is_poisoned());
    log.release_space();
    assert_eq!(spares(&bench), [SEGMENT]);
    log.reopen().unwrap();
    assert_eq!(spares(&bench), [0; 0]);
    commit(&log, enough()..2 * full());
    check_after_power_loss(&bench, 2 * full(), "reopened");

    let bench = Bench::new(1);
    let log = with_spare(&bench);
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    log.commit(record("refused")).unwrap_err();
    log.close().unwrap();
    assert_eq!(spares(&bench), [0; 0]);
}

#[test]
fn sg_07_a_last_segment_that_is_all_zeros_is_an_empty_one_to_every_engine() {
    let bench = Bench::new(1);
    let log = open(&bench);
    commit(&log, 0..full());
    drop(log);
    bench.disk.crash_process();
    assert_eq!(bench.segment(full()).unwrap(), vec![0; SEGMENT as usize]);
    let log = bench.open_with(unprepared());
    assert_eq!((log.next_offset(), payloads(&log).len() as u64), (offset(full()), full()));
    assert_eq!(bench.segment(full()).unwrap(), [0; 0], "cut as a torn tail is");
    commit(&log, full()..full() + 1);
    check_after_power_loss(&bench, full() + 1, "taken over");
}
