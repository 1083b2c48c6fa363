//! ST-06: a log that is idle and clean gives its descriptors up, and what comes next opens them again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/threads.rs"]
mod threads;
#[path = "common/write_path.rs"]
mod write_path;

use std::{path::Path, sync::Arc, time::Duration};

use narad_core::{
    log::{Log, LogOptions},
    plugin::RetentionPolicy,
    testkit::{CallKind, Failure, Fault, Gate, SimDisk, Survival},
};
use narad_retention::Age;
use threads::{bounded, runtime};
use write_path::{Bench, offset, options, payloads, record, segments_of};

const DRAIN: Duration = Duration::from_millis(100);
const HOUR: Duration = Duration::from_secs(3600);

/// A log of one record, its descriptors given up.
fn idle(bench: &Bench) -> Log {
    let log = bench.open();
    log.commit(record("a")).unwrap();
    assert_eq!(bench.disk.open_files(), 1);
    assert!(log.release_files());
    assert_eq!(bench.disk.open_files(), 0);
    bench.disk.take_calls();
    log
}

fn kept_for(age: Duration) -> LogOptions {
    let mut options = options();
    options.retention = Arc::new(Age::new(age)) as Arc<dyn RetentionPolicy>;
    options
}

#[test]
fn st_06_an_idle_log_holds_no_descriptor_after_a_release() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(10));
    assert!(log.release_files(), "a log without a segment holds none");
    let texts = ["a", "b", "c", "d"];
    for text in texts {
        log.commit(record(text)).unwrap();
    }
    assert_eq!(payloads(&log), texts);
    assert!(bench.disk.open_files() > 1, "the active segment and sealed ones that were read");
    bench.disk.take_calls();
    assert!(log.release_files());
    assert_eq!((bench.disk.open_files(), bench.disk.calls().len()), (0, 0), "and no file is touched for it");
    assert!(log.release_files(), "there is nothing left to give up");
    assert_eq!(log.stats().segments, 5);
    assert_eq!(payloads(&log), texts);
}

#[test]
fn st_06_a_commit_after_a_release_opens_the_file_again() {
    let bench = Bench::new(1);
    let log = idle(&bench);
    assert_eq!(log.commit(record("b")).unwrap(), offset(1)..offset(2));
    let opened = (bench.disk.count_on(CallKind::Open, "*.log"), bench.disk.count(CallKind::Create));
    assert_eq!(opened, (1, 0), "once, and nothing is created");
    assert_eq!(payloads(&log), ["a", "b"]);
    assert_eq!(bench.disk.open_files(), 1, "one descriptor serves the writer and the readers");
    bench.disk.take_calls();
    log.commit(record("c")).unwrap();
    assert_eq!(bench.disk.count(CallKind::Open) + bench.disk.count(CallKind::Metadata), 0, "it stays open");
}

#[test]
fn st_06_what_is_not_durable_keeps_the_descriptor() {
    let bench = Bench::new(1);
    let log = bench.open();
    log.commit(record("a")).unwrap();
    let refuses = |why: &str| {
        assert!(!log.release_files(), "{why}");
        assert_eq!(bench.disk.open_files(), 1, "{why}");
    };
    log.append(&record("b")).unwrap();
    refuses("a record is in the buffer");
    bench.pass(DRAIN);
    assert_eq!(bench.disk.count(CallKind::SyncData), 1, "it was written and not synced");
    refuses("a record is written and not synced");
    log.commit(record("c")).unwrap();
    assert!(log.release_files());
    log.commit(record("d")).unwrap();
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    log.commit(record("lost")).unwrap_err();
    refuses("the log is poisoned");
    log.reopen().unwrap();
    assert!(log.release_files());
    assert_eq!(bench.disk.open_files(), 0);
    assert_eq!(payloads(&log), ["a", "b", "c", "d"]);
}

#[test]
fn st_06_records_that_are_synced_and_not_committed_keep_the_descriptor() {
    let bench = Bench::new(1);
    let log = bench.open();
    log.commit(record("a")).unwrap();
    log.append(&record("hidden")).unwrap();
    bench.pass(DRAIN);
    bench.pass(HOUR);
    assert!(!log.release_files());
    log.close().unwrap();
    let log = bench.open();
    assert!(!log.release_files(), "the next commit cuts or shows what the boundary hides");
    log.commit(record("b")).unwrap();
    assert!(log.release_files());
}

#[test]
fn st_06_without_descriptors_a_commit_fails_cleanly_and_a_later_one_lands_once() {
    let bench = Bench::new(1);
    let log = idle(&bench);
    let before = bench.segment(0);
    bench.disk.inject(Fault::fail(CallKind::Open, Failure::TooManyFiles).onwards());
    for _ in 0..3 {
        let refused = log.commit(record("b")).unwrap_err();
        assert!(refused.is_out_of_descriptors(), "{refused}");
        assert!(!log.is_poisoned());
        assert_eq!((log.next_offset(), log.high_watermark()), (offset(1), offset(1)));
        assert!(log.release_files(), "a commit that failed leaves nothing behind");
    }
    assert_eq!(bench.segment(0), before);
    bench.disk.clear_faults();
    assert_eq!(log.commit(record("b")).unwrap(), offset(1)..offset(2));
    assert_eq!(payloads(&log), ["a", "b"]);
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(payloads(&after), ["a", "b"]);
}

#[test]
fn st_06_without_descriptors_what_was_appended_waits_and_is_not_lost() {
    let bench = Bench::new(1);
    let log = idle(&bench);
    bench.disk.inject(Fault::fail(CallKind::Open, Failure::TooManyFiles).onwards());
    let appended = log.append(&record("b")).unwrap();
    for _ in 0..3 {
        bench.pass(DRAIN);
    }
    assert_eq!((bench.errors("flush"), log.is_poisoned()), (3, false));
    assert!(!log.release_files(), "a record waits for the disk");
    bench.disk.clear_faults();
    bench.pass(DRAIN);
    assert_eq!(bench.disk.count_on(CallKind::Write, "*.log"), 1);
    log.commit_appended(&appended).unwrap();
    assert_eq!(payloads(&log), ["a", "b"]);
}

#[test]
fn st_06_a_close_without_descriptors_loses_nothing_that_was_committed() {
    let bench = Bench::new(1);
    let log = idle(&bench);
    log.append(&record("nobody committed this")).unwrap();
    bench.disk.inject(Fault::fail(CallKind::Open, Failure::TooManyFiles).onwards());
    assert!(log.close().unwrap_err().is_out_of_descriptors());
    assert!(log.is_closed() && log.release_files(), "a closed log holds none");
    bench.disk.clear_faults();
    assert_eq!(payloads(&bench.open()), ["a"]);
}

#[test]
fn st_06_a_read_at_the_tail_works_after_a_release() {
    let bench = Bench::new(1);
    let log = idle(&bench);
    bench.disk.inject(Fault::fail(CallKind::Open, Failure::TooManyFiles).named("*.log"));
    let refused = log.read(offset(0)).unwrap_err();
    assert!(refused.is_out_of_descriptors(), "{refused}");
    assert_eq!(log.read(offset(0)).unwrap().payload, "a");
    assert_eq!(bench.disk.open_files(), 1);
    log.commit(record("b")).unwrap();
    assert_eq!(log.read_batch(offset(0), 10, 1000).unwrap().records.len(), 2);
    assert_eq!(bench.disk.open_files(), 1, "the writer's descriptor has taken the place of the reader's");
    assert!(log.release_files());
    assert_eq!(bench.disk.open_files(), 0);
}

#[test]
fn st_06_a_file_that_is_not_the_one_given_up_is_never_written_to() {
    type Change = fn(&mut Vec<u8>);
    let changes: [Change; 3] = [|bytes| bytes.truncate(5), Vec::clear, |bytes| bytes.push(0)];
    for change in changes {
        let bench = Bench::new(1);
        let log = idle(&bench);
        let mut whole = Vec::new();
        bench.disk.alter(write_path::segment_path(0), |bytes| {
            whole.clone_from(bytes);
            change(bytes);
        });
        let changed = bench.segment(0);
        let refused = log.commit(record("b")).unwrap_err();
        assert!(matches!(refused, narad_core::Error::Unusable { .. }) && !log.is_poisoned(), "{refused}");
        assert_eq!(bench.segment(0), changed, "not a byte is touched");
        assert_eq!(bench.disk.open_files(), 0);
        bench.disk.alter(write_path::segment_path(0), |bytes| bytes.clone_from(&whole));
        assert_eq!(log.commit(record("b")).unwrap(), offset(1)..offset(2));
        assert_eq!(payloads(&log), ["a", "b"]);
    }
}

#[test]
fn st_06_a_file_that_is_gone_is_not_made_anew() {
    let bench = Bench::new(1);
    let log = idle(&bench);
    let whole = bench.segment(0).unwrap();
    narad_core::disk::Disk::remove_file(&bench.disk, Path::new(&write_path::segment_path(0))).unwrap();
    let refused = log.commit(record("b")).unwrap_err();
    assert!(matches!(refused, narad_core::Error::Unusable { .. }) && !log.is_poisoned(), "{refused}");
    assert_eq!(bench.segment(0), None);
    log.read(offset(0)).unwrap_err();
    bench.disk.plant(write_path::segment_path(0), whole);
    log.commit(record("b")).unwrap();
    assert_eq!(payloads(&log), ["a", "b"]);
}

#[test]
fn st_06_a_released_log_rolls_by_size_and_by_age() {
    let bench = Bench::new(1);
    let mut by_age = kept_for(HOUR);
    by_age.segment_bytes = 70;
    let log = bench.open_with(by_age);
    let mut texts = Vec::new();
    for n in 0..12 {
        let text = format!("{n}");
        assert_eq!(log.commit(record(&text)).unwrap().start, offset(n), "one after the other");
        texts.push(text);
        assert!(log.release_files());
        assert_eq!(bench.disk.open_files(), 0);
        if n % 3 == 0 {
            bench.clock.advance(HOUR);
        }
    }
    assert!(bench.segments().len() > 4, "{:?}", bench.segments());
    assert_eq!(payloads(&log), texts);
}

#[test]
fn st_06_a_sweep_seals_and_deletes_of_a_released_log() {
    let bench = Bench::new(1);
    let log = bench.open_with(kept_for(HOUR));
    log.commit(record("a")).unwrap();
    assert!(log.release_files());
    bench.clock.advance(2 * HOUR);
    assert_eq!(log.sweep(None).unwrap().records, 1);
    assert!(log.release_files(), "the new active segment is empty");
    assert_eq!((bench.disk.open_files(), bench.segments()), (0, vec![1]));
    assert_eq!(log.commit(record("b")).unwrap(), offset(1)..offset(2));
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(after.read(offset(1)).unwrap().payload, "b");
}

#[test]
fn st_06_a_released_log_closes_with_the_exact_boundary_and_opens_again() {
    let bench = Bench::new(1);
    let log = idle(&bench);
    log.reopen().unwrap();
    assert_eq!(bench.disk.count(CallKind::List), 0, "a reopen of a log that is well does nothing");
    log.close().unwrap();
    assert_eq!(bench.disk.count_on(CallKind::Open, "*.log"), 0, "a close needs no segment");
    assert_eq!(bench.hwm_file().unwrap(), 1u64.to_be_bytes());
    let log = bench.open();
    assert!(log.release_files());
    log.commit(record("b")).unwrap();
    assert_eq!(payloads(&log), ["a", "b"]);
}

#[test]
fn st_06_a_commit_that_fails_after_the_file_was_opened_again_is_cut_off() {
    for (kind, failure) in [(CallKind::Write, Failure::NoSpace), (CallKind::Read, Failure::Io)] {
        let bench = Bench::new(1);
        let log = idle(&bench);
        let before = bench.segment(0);
        bench.fail(kind, failure, "*.log");
        log.commit(record("lost")).unwrap_err();
        assert_eq!(bench.segment(0), before, "{kind:?}");
        assert!(log.release_files(), "{kind:?}: it is as clean as before");
        log.commit(record("b")).unwrap();
        assert_eq!(payloads(&log), ["a", "b"], "{kind:?}");
    }
    let bench = Bench::new(1);
    let log = idle(&bench);
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    log.commit(record("lost")).unwrap_err();
    assert!(log.is_poisoned() && !log.release_files());
    log.reopen().unwrap();
    log.commit(record("b")).unwrap();
    assert_eq!(payloads(&log), ["a", "b"]);
}

#[test]
fn st_06_what_is_committed_around_a_release_survives_every_power_loss() {
    for survival in [Survival::Nothing, Survival::Everything, Survival::Random] {
        let bench = Bench::new(7);
        let log = idle(&bench);
        let (_, after) = bench.after_power_loss(survival);
        assert_eq!(payloads(&after), ["a"], "{survival:?}");
        for round in 0..5 {
            log.commit(record("b")).unwrap();
            assert!(log.release_files());
            let (_, after) = bench.after_power_loss(survival);
            assert_eq!(payloads(&after).len(), round + 2, "{survival:?}");
        }
    }
}

#[test]
fn st_06_a_release_never_waits_for_a_commit() {
    bounded(|| {
        let (disk, gate) = (SimDisk::new(1), Gate::new());
        let log =
            Log::open(&runtime(Arc::new(disk.clone()), 1), Path::new(write_path::DIR), options()).unwrap();
        log.commit(record("a")).unwrap();
        disk.inject(Fault::hold(CallKind::SyncData, &gate).named("*.log"));
        let commit = log.commit_async(record("b"));
        gate.wait_for(1);
        assert!(!log.release_files(), "a commit is running");
        assert_eq!(disk.open_files(), 1);
        gate.open();
        threads::wait(commit).unwrap();
        // The worker gives the produce lock up before it tells the outcome.
        assert!(log.release_files());
        assert_eq!(payloads(&log), ["a", "b"]);
    });
}

#[test]
fn st_06_a_read_that_is_under_way_goes_on_after_a_release() {
    bounded(|| {
        let (disk, gate) = (SimDisk::new(1), Gate::new());
        let log =
            Log::open(&runtime(Arc::new(disk.clone()), 1), Path::new(write_path::DIR), options()).unwrap();
        log.commit(record("a")).unwrap();
        disk.inject(Fault::hold(CallKind::Read, &gate).named("*.log"));
        let read = log.read_async(offset(0));
        let reader = std::thread::spawn(move || threads::wait(read));
        gate.wait_for(1);
        assert!(log.release_files(), "the log itself holds none");
        assert_eq!(disk.open_files(), 1, "and the reader has its own hold");
        gate.open();
        assert_eq!(reader.join().unwrap().unwrap().payload, "a");
        assert_eq!(disk.open_files(), 0);
    });
}
