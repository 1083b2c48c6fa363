//! The high watermark file: exact while the log is closed, empty while it is open.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/write_path.rs"]
mod write_path;

use std::path::Path;

use narad_core::{
    Error,
    format::Batch,
    log::{Log, peek},
    testkit::{CallKind, Failure, Fault, Survival},
};
use write_path::{Bench, DIR, offset, options, payloads, record, records};

fn hwm_path() -> String {
    format!("{DIR}/hwm")
}

/// A log that was closed with two visible records and a hidden one.
fn closed(bench: &Bench) {
    let log = bench.open_with(options());
    log.commit(records(["a", "b"])).unwrap();
    log.append(&record("hidden")).unwrap();
    log.close().unwrap();
}

#[test]
fn hw_01_a_close_writes_the_exact_boundary_in_place_and_syncs_it() {
    let bench = Bench::new(1);
    closed(&bench);
    assert_eq!(bench.hwm_file().unwrap(), 2i64.to_be_bytes());
    let log = bench.open_with(options());
    log.commit(record("c")).unwrap();
    bench.disk.take_calls();
    log.close().unwrap();
    assert_eq!(bench.hwm_file().unwrap(), 4i64.to_be_bytes());
    let calls = bench.disk.take_calls();
    let on_hwm: Vec<_> =
        calls.iter().filter(|call| call.is_on("hwm")).map(|call| (call.kind, call.bytes)).collect();
    assert_eq!(
        on_hwm,
        [(CallKind::Open, 0), (CallKind::Read, 9), (CallKind::Write, 8), (CallKind::SyncData, 0)]
    );
    assert_eq!(calls.len(), on_hwm.len(), "everything else was on the disk already");
    assert_eq!(bench.disk.open_files(), 0);
}

#[test]
fn hw_01_a_close_that_finds_the_boundary_in_the_file_writes_nothing() {
    let bench = Bench::new(1);
    closed(&bench);
    let log = bench.open_with(options());
    bench.disk.take_calls();
    log.close().unwrap();
    assert_eq!((bench.disk.count(CallKind::Write), bench.syncs()), (0, (0, 0)));
}

#[test]
fn hw_01_a_close_that_cannot_write_the_boundary_loses_nothing() {
    let faults = [
        Fault::fail(CallKind::Create, Failure::NoSpace),
        Fault::fail(CallKind::Write, Failure::NoSpace),
        Fault::fail(CallKind::SyncData, Failure::Io),
        Fault::shorten(CallKind::Write, 3),
    ];
    for fault in faults {
        let bench = Bench::new(1);
        let log = bench.open_with(options());
        log.commit(records(["a", "b"])).unwrap();
        bench.disk.inject(fault.clone().named("hwm"));
        bench.disk.inject(Fault::fail(CallKind::Write, Failure::NoSpace).named("hwm").at(2));
        let failed = log.close().unwrap_err();
        assert!(matches!(failed, Error::Io { .. } | Error::DiskFull { .. }), "{failed}");
        assert!(matches!(log.read(offset(0)), Err(Error::Closed)));
        log.close().expect("it is closed all the same");
        for survival in [Survival::Nothing, Survival::Random, Survival::Everything] {
            let (_, after) = bench.after_power_loss(survival);
            assert_eq!(payloads(&after), ["a", "b"], "{fault:?}, {survival:?}");
        }
    }
}

#[test]
fn hw_02_an_open_takes_the_smaller_of_file_and_tail_and_writes_nothing() {
    let bench = Bench::new(1);
    closed(&bench);
    for (stated, expected) in [(1i64, 1u64), (2, 2), (3, 3), (4, 3), (i64::MAX, 3)] {
        bench.disk.plant(hwm_path(), stated.to_be_bytes());
        bench.disk.take_calls();
        let log = bench.open_with(options());
        assert_eq!((log.high_watermark(), log.next_offset()), (offset(expected), offset(3)), "{stated}");
        assert_eq!(bench.syncs(), (0, 0), "{stated}");
        for kind in [CallKind::Write, CallKind::SetLen, CallKind::Create] {
            assert_eq!(bench.disk.count(kind), 0, "{stated}: {kind:?}");
        }
        bench.disk.crash_process();
    }
}

#[test]
fn hw_02_a_file_that_says_nothing_hides_nothing() {
    for nonsense in [vec![], vec![0; 8], vec![0xFF; 8], vec![0; 7], vec![1; 9], vec![7; 4096]] {
        let bench = Bench::new(1);
        closed(&bench);
        bench.disk.plant(hwm_path(), nonsense.clone());
        let log = bench.open_with(options());
        assert_eq!(payloads(&log), ["a", "b", "hidden"], "{nonsense:?}");
        log.commit(record("c")).unwrap();
        log.close().unwrap();
        assert_eq!(bench.hwm_file().unwrap(), 4i64.to_be_bytes(), "{nonsense:?}");
    }
}

#[test]
fn hw_02_a_file_that_cannot_be_read_or_is_none_keeps_no_log_from_opening() {
    let bench = Bench::new(1);
    closed(&bench);
    bench.fail(CallKind::Read, Failure::Io, "hwm");
    assert_eq!(payloads(&bench.open_with(options())), ["a", "b", "hidden"]);
    bench.disk.crash_process();
    bench.disk.plant_other(hwm_path());
    let log = bench.open_with(options());
    log.commit(record("c")).unwrap();
    log.close().unwrap();
    assert_eq!(payloads(&bench.open_with(options())), ["a", "b", "hidden", "c"]);
}

#[test]
fn hw_03_the_first_commit_after_an_open_empties_the_file_durably_and_no_later_one_touches_it() {
    let bench = Bench::new(1);
    closed(&bench);
    let log = bench.open_with(options());
    bench.disk.take_calls();
    log.commit(record("c")).unwrap();
    assert_eq!(bench.syncs(), (2, 0), "one for the records, one for hwm");
    assert_eq!(bench.disk.count_on(CallKind::SetLen, "hwm"), 1);
    assert!(bench.hwm_file().unwrap().is_empty());
    bench.disk.take_calls();
    log.commit(record("d")).unwrap();
    assert_eq!(bench.syncs(), (1, 0));
    assert!(bench.disk.calls().iter().all(|call| !call.is_on("hwm")));
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(payloads(&after), ["a", "b", "hidden", "c", "d"]);
}

#[test]
fn hw_03_a_new_log_has_no_file_to_empty() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.commit(record("a")).unwrap();
    assert_eq!((bench.disk.count(CallKind::SyncData), bench.hwm_file()), (1, None));
}

#[test]
fn hw_03_emptying_is_tried_until_it_succeeds_and_no_commit_succeeds_before() {
    for kind in [CallKind::Open, CallKind::SetLen, CallKind::SyncData] {
        let bench = Bench::new(1);
        closed(&bench);
        let log = bench.open_with(options());
        bench.disk.inject(Fault::fail(kind, Failure::Io).named("hwm").onwards());
        for _ in 0..3 {
            log.commit(record("refused")).unwrap_err();
            assert!(!log.is_poisoned(), "{kind:?}: the records' own fsync did not fail");
        }
        bench.disk.clear_faults();
        log.commit(record("c")).unwrap();
        let (_, after) = bench.after_power_loss(Survival::Nothing);
        assert_eq!(payloads(&after), ["a", "b", "c"], "{kind:?}: no statement outlived the commit");
    }
}

#[test]
fn hw_03_a_reopen_in_place_does_not_believe_an_emptying_that_failed() {
    for seed in 0..30 {
        let bench = Bench::new(seed);
        closed(&bench);
        let log = bench.open_with(options());
        bench.fail(CallKind::SyncData, Failure::Io, "hwm");
        log.commit(record("refused")).unwrap_err();
        bench.fail(CallKind::SyncData, Failure::Io, "*.log");
        log.commit(record("refused")).unwrap_err();
        log.reopen().unwrap();
        log.commit(record("c")).unwrap();
        let (_, after) = bench.after_power_loss(Survival::Random);
        assert_eq!(payloads(&after), ["a", "b", "c"], "seed {seed}");
    }
}

#[test]
fn hw_03_a_missing_file_that_could_not_be_looked_at_fails_no_commit() {
    let bench = Bench::new(1);
    let unseen = bench.disk.inject(Fault::fail(CallKind::Metadata, Failure::Io).named("hwm").at(2));
    let log = bench.open_with(options());
    assert_eq!(bench.disk.fired(unseen), 1, "by the one who will have to empty it");
    log.commit(record("a")).unwrap();
    log.close().unwrap();
    assert_eq!(bench.hwm_file().unwrap(), 1i64.to_be_bytes());
}

#[test]
fn hw_04_without_a_statement_the_tail_is_synced_before_it_is_shown() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.append(&record("written by a process that died")).unwrap();
    bench.pass(std::time::Duration::from_millis(100));
    bench.disk.crash_process();
    bench.disk.take_calls();
    let log = bench.open_with(options());
    assert_eq!(bench.disk.count_on(CallKind::SyncData, "*.log"), 1);
    assert_eq!(log.high_watermark(), offset(1));
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(payloads(&after), ["written by a process that died"]);
}

#[test]
fn hw_04_an_open_fails_when_that_sync_fails() {
    let bench = Bench::new(1);
    bench.open_with(options()).commit(record("a")).unwrap();
    bench.disk.crash_process();
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    assert!(matches!(bench.try_open(options()), Err(Error::Io { op: "fsync", .. })));
    assert_eq!(bench.disk.open_files(), 0);
    assert_eq!(payloads(&bench.open_with(options())), ["a"]);
}

#[test]
fn hw_05_hidden_records_stay_hidden_until_a_commit_advances_over_them() {
    let bench = Bench::new(1);
    closed(&bench);
    let log = bench.open_with(options());
    assert_eq!(payloads(&log), ["a", "b"]);
    log.commit(Batch::new()).unwrap();
    assert_eq!(payloads(&log), ["a", "b"], "an empty commit advances over nothing");
    log.close().unwrap();
    let log = bench.open_with(options());
    assert_eq!(log.commit(record("c")).unwrap(), offset(3)..offset(4));
    assert_eq!(payloads(&log), ["a", "b", "hidden", "c"]);
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(payloads(&after), ["a", "b", "hidden", "c"]);
}

#[test]
fn hw_05_records_that_a_dead_process_wrote_above_a_boundary_are_synced_before_they_show() {
    let bench = Bench::new(1);
    closed(&bench);
    let log = bench.open_with(options());
    log.append(&record("unsynced")).unwrap();
    bench.pass(std::time::Duration::from_millis(100));
    bench.disk.crash_process();
    let log = bench.open_with(options());
    assert_eq!((log.high_watermark(), log.next_offset()), (offset(2), offset(4)));
    log.commit(record("c")).unwrap();
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(payloads(&after), ["a", "b", "hidden", "unsynced", "c"]);
}

#[test]
fn hw_06_those_who_do_not_open_the_log_take_a_statement_as_exact_and_an_empty_file_for_nothing() {
    let bench = Bench::new(1);
    let look = |bench: &Bench| peek(&bench.runtime, Path::new(DIR)).unwrap().high_watermark;
    closed(&bench);
    assert_eq!(look(&bench), Some(offset(2)));
    let log = bench.open_with(options());
    log.commit(record("c")).unwrap();
    assert_eq!(look(&bench), None, "never 0");
    bench.disk.plant(hwm_path(), [0; 8]);
    assert_eq!(look(&bench), None);
}

#[test]
fn hw_06_without_record_bytes_the_newest_segments_name_is_the_boundary() {
    let bench = Bench::new(1);
    bench.disk.plant(write_path::segment_path(17), []);
    assert_eq!(peek(&bench.runtime, Path::new(DIR)).unwrap().high_watermark, Some(offset(17)));
    let log: Log = bench.open_with(options());
    assert_eq!((log.high_watermark(), log.next_offset()), (offset(17), offset(17)));
}

#[test]
fn hw_07_a_value_below_the_first_retained_offset_says_nothing() {
    let bench = Bench::new(1);
    bench.disk.plant(write_path::segment_path(10), []);
    let log = bench.open_with(options());
    log.commit(records(["a", "b"])).unwrap();
    log.close().unwrap();
    bench.disk.plant(hwm_path(), 9i64.to_be_bytes());
    let log = bench.open_with(options());
    assert_eq!(log.high_watermark(), offset(12));
}
