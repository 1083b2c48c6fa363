//! A failed fsync poisons its log until it is scanned again, and nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/write_path.rs"]
mod write_path;

use std::{sync::Arc, time::Duration};

use narad_core::{
    Error,
    log::Log,
    testkit::{CallKind, Failure, Fault, Survival},
};
use narad_retention::{Age, Forever};
use write_path::{Bench, offset, options, payloads, record, segments_of};

/// A log with one committed record whose next commit failed in its fsync.
fn poisoned(bench: &Bench) -> Log {
    let log = bench.open_with(options());
    log.commit(record("a")).unwrap();
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    let error = log.commit(record("refused")).unwrap_err();
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    log
}

#[test]
fn po_01_every_later_append_and_commit_fails_with_the_original_error() {
    let bench = Bench::new(1);
    let log = poisoned(&bench);
    bench.disk.take_calls();
    for _ in 0..3 {
        for error in [log.append(&record("x")).unwrap_err(), log.commit(record("x")).unwrap_err()] {
            let Error::Poisoned { source } = error else { panic!("{error}") };
            assert!(matches!(&*source, Error::Io { op: "fsync", .. }), "{source}");
        }
    }
    bench.pass(Duration::from_secs(10));
    assert_eq!(bench.disk.calls(), [], "nothing is tried: a later fsync that succeeds would prove nothing");
    assert!(log.stats().poisoned.is_some());
    assert_eq!(bench.runtime.pending_timers(), 0);
}

#[test]
fn po_01_a_failed_sync_of_a_drain_poisons_too_and_drops_what_was_appended() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.commit(record("a")).unwrap();
    let appended = log.append(&record("b")).unwrap();
    bench.pass(Duration::from_millis(100));
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    bench.pass(Duration::from_secs(1));
    assert!(log.is_poisoned());
    assert_eq!(bench.errors("fsync_poisoned"), 1);
    assert!(matches!(log.commit_appended(&appended), Err(Error::Poisoned { .. })));
    log.reopen().unwrap();
    assert!(matches!(log.commit_appended(&appended), Err(Error::Discarded { .. })));
    assert_eq!(log.commit(record("b")).unwrap(), offset(1)..offset(2));
    assert_eq!(payloads(&log), ["a", "b"]);
}

#[test]
fn po_01_what_the_failed_commit_wrote_comes_back_as_a_duplicate_at_worst() {
    let mut found = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let bench = Bench::new(seed);
        let _log = poisoned(&bench);
        let (_, after) = bench.after_power_loss(Survival::Random);
        found.insert(payloads(&after).len());
        after.commit(record("refused")).unwrap();
        assert_eq!(payloads(&after)[0], "a");
    }
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [1, 2], "both may happen");
}

#[test]
fn po_01_a_close_of_a_poisoned_log_states_no_boundary_and_destroys_nothing_committed() {
    let bench = Bench::new(1);
    let log = poisoned(&bench);
    log.close().unwrap();
    assert!(bench.hwm_file().is_none_or(|bytes| bytes.is_empty()));
    for survival in [Survival::Nothing, Survival::Everything] {
        let (_, after) = bench.after_power_loss(survival);
        assert_eq!(payloads(&after), ["a"], "what was refused is cut where that can be done");
    }
    assert_eq!(payloads(&bench.open_with(options())), ["a"]);
}

#[test]
fn po_01_a_close_whose_sync_fails_states_no_boundary() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.commit(record("a")).unwrap();
    log.append(&record("b")).unwrap();
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    assert!(matches!(log.close(), Err(Error::Io { op: "fsync", .. })));
    assert!(log.is_closed());
    assert_eq!((bench.hwm_file(), bench.errors("fsync_poisoned")), (None, 1));
    let log = bench.open_with(options());
    let shown = payloads(&log);
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(payloads(&after), shown, "nothing is shown that a power loss takes back");
}

#[test]
fn po_02_reads_go_on_and_other_logs_are_untouched() {
    let bench = Bench::new(1);
    let other = Log::open(&bench.runtime, std::path::Path::new("/data/p00001"), options()).unwrap();
    other.commit(record("before")).unwrap();
    let log = poisoned(&bench);
    assert_eq!(payloads(&log), ["a"]);
    assert_eq!(bench.errors("fsync_poisoned"), 1);
    other.commit(record("after")).unwrap();
    other.append(&record("x")).unwrap();
    assert_eq!(payloads(&other), ["before", "after"]);
    assert_eq!(bench.errors("fsync_poisoned"), 1, "counted once");
}

#[test]
fn po_03_a_reopen_in_place_cuts_what_lies_above_the_watermark_durably() {
    for seed in 0..20 {
        let bench = Bench::new(seed);
        let log = poisoned(&bench);
        let subscription = log.subscribe();
        log.reopen().unwrap();
        assert!(!log.is_poisoned());
        assert_eq!(log.next_offset(), offset(1));
        assert_eq!(payloads(&log), ["a"]);
        let (_, after) = bench.after_power_loss(Survival::Random);
        assert_eq!(payloads(&after), ["a"], "the refused record is gone for good");
        assert_eq!(log.commit(record("b")).unwrap(), offset(1)..offset(2));
        assert!(subscription.wait(Duration::ZERO));
        for survival in [Survival::Nothing, Survival::Random, Survival::Everything] {
            let (_, after) = bench.after_power_loss(survival);
            assert_eq!(payloads(&after), ["a", "b"]);
        }
    }
}

#[test]
fn po_03_a_reopen_that_fails_leaves_the_log_poisoned_and_readable() {
    for fault in [
        Fault::fail(CallKind::List, Failure::TooManyFiles),
        Fault::fail(CallKind::Open, Failure::TooManyFiles).named("*.log"),
        Fault::fail(CallKind::Read, Failure::Io).named("*.log"),
        Fault::fail(CallKind::SetLen, Failure::Io).named("*.log"),
        Fault::fail(CallKind::SyncData, Failure::Io).named("*.log"),
    ] {
        let bench = Bench::new(3);
        let log = poisoned(&bench);
        bench.disk.inject(fault.clone().onwards());
        for _ in 0..3 {
            log.reopen().unwrap_err();
            assert!(matches!(log.commit(record("x")), Err(Error::Poisoned { .. })), "{fault:?}");
        }
        bench.disk.clear_faults();
        assert_eq!(payloads(&log), ["a"], "{fault:?}");
        log.reopen().unwrap();
        assert_eq!(log.commit(record("b")).unwrap(), offset(1)..offset(2), "{fault:?}");
        let (_, after) = bench.after_power_loss(Survival::Everything);
        assert_eq!(payloads(&after), ["a", "b"], "{fault:?}");
    }
}

#[test]
fn po_03_a_cut_that_failed_to_sync_is_made_again_though_the_file_looks_clean() {
    for seed in 0..50 {
        let bench = Bench::new(seed);
        let log = bench.open_with(options());
        bench.fail(CallKind::SyncData, Failure::Io, "*.log");
        log.commit(record("refused, and the first of all")).unwrap_err();
        bench.fail(CallKind::SyncData, Failure::Io, "*.log");
        log.reopen().unwrap_err();
        log.reopen().unwrap();
        let (_, after) = bench.after_power_loss(Survival::Random);
        assert_eq!(payloads(&after), [""; 0], "seed {seed}");
    }
}

#[test]
fn po_03_a_reopen_with_an_empty_or_without_an_active_segment() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(10));
    log.commit(record("a")).unwrap();
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    log.commit(record("refused")).unwrap_err();
    log.reopen().unwrap();
    assert_eq!(log.next_offset(), offset(1), "the active segment is empty");
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    log.commit(record("refused")).unwrap_err();
    // Somebody removes it.
    narad_core::disk::Disk::remove_file(&bench.disk, write_path::segment_path(1).as_ref()).unwrap();
    log.reopen().unwrap();
    bench.fail(CallKind::Write, Failure::NoSpace, "*.log");
    log.commit(record("refused")).unwrap_err();
    assert_eq!(log.commit(record("b")).unwrap(), offset(1)..offset(2));
    assert_eq!(payloads(&log), ["a", "b"]);
}

#[test]
fn po_03_a_reopen_cuts_the_segment_in_front_of_a_file_that_a_failed_roll_left() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.commit(record("a")).unwrap();
    log.set_retention(Arc::new(Age::new(Duration::from_secs(1))));
    bench.pass(Duration::from_secs(10));
    bench.disk.inject(Fault::fail(CallKind::SyncDir, Failure::Io));
    bench.disk.inject(Fault::fail(CallKind::Remove, Failure::Io));
    log.sweep(None).unwrap_err();
    assert_eq!(bench.segments(), [0, 1], "an empty file is left behind the segment in use");
    log.set_retention(Arc::new(Forever));
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    log.commit(record("refused")).unwrap_err();
    log.reopen().unwrap();
    assert_eq!(log.next_offset(), offset(1), "what was refused is cut");
    assert_eq!(log.commit(record("b")).unwrap(), offset(1)..offset(2));
    assert_eq!(payloads(&log), ["a", "b"]);
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(payloads(&after), ["a", "b"]);
}

#[test]
fn po_03_a_log_that_is_not_poisoned_is_left_alone() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    let appended = log.append(&record("a")).unwrap();
    bench.disk.take_calls();
    log.reopen().unwrap();
    assert_eq!(bench.disk.calls(), []);
    log.commit_appended(&appended).unwrap();
    log.close().unwrap();
    assert!(matches!(log.reopen(), Err(Error::Closed)));
}

#[test]
fn po_01_what_a_failed_fsync_has_refused_is_not_shown_by_the_next_process_and_then_lost() {
    for number in 1..40 {
        let bench = Bench::new(number);
        drop(poisoned(&bench));
        bench.disk.crash_process();
        // What this open shows, no power loss may take back.
        assert_eq!(payloads(&bench.open_with(options())), ["a"]);
        bench.disk.power_loss();
        assert_eq!(payloads(&bench.open_with(options()))[0], "a");
    }
}
