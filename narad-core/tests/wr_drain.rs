//! Appended records: what is promised about them, when they are written, and what bounds them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/write_path.rs"]
mod write_path;

use std::time::Duration;

use narad_core::{
    Error,
    format::Batch,
    testkit::{CallKind, Failure, Fault, Survival},
};
use write_path::{Bench, frame_len, offset, options, payloads, record, records};

const DRAIN: Duration = Duration::from_millis(100);

#[test]
fn wr_01_append_touches_no_file_and_promises_nothing() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    bench.disk.take_calls();
    assert_eq!(log.append(&records(["a", "b"])).unwrap().offsets, offset(0)..offset(2));
    assert_eq!(log.append(&record("c")).unwrap().offsets, offset(2)..offset(3));
    assert_eq!(bench.disk.calls(), []);
    assert_eq!((log.high_watermark(), log.next_offset()), (offset(0), offset(3)));
    assert_eq!(payloads(&log), [""; 0]);
    bench.disk.crash_process();
    assert_eq!(bench.open_with(options()).next_offset(), offset(0));
}

#[test]
fn wr_02_a_drain_runs_a_tenth_of_a_second_after_the_append() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.append(&record("a")).unwrap();
    bench.pass(DRAIN - Duration::from_millis(1));
    assert_eq!(bench.disk.count(CallKind::Write), 0);
    log.append(&record("b")).unwrap();
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.segment(0).unwrap().len() as u64, frame_len(&records(["a", "b"])), "one frame for both");
}

#[test]
fn wr_02_a_drain_runs_at_a_thousand_records() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    for _ in 0..999 {
        log.append(&record("a")).unwrap();
    }
    assert_eq!(bench.disk.count(CallKind::Write), 0);
    log.append(&record("a")).unwrap();
    assert_eq!(bench.disk.count_on(CallKind::Write, "*.log"), 1);
}

#[test]
fn wr_02_a_drain_runs_at_a_mebibyte() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.append(&Batch::of(b"", &vec![0; (1 << 20) - 100])).unwrap();
    assert_eq!(bench.disk.count(CallKind::Write), 0);
    log.append(&Batch::of(b"", &[0; 100])).unwrap();
    assert_eq!(bench.disk.count_on(CallKind::Write, "*.log"), 1);
}

#[test]
fn wr_02_a_close_writes_and_syncs_what_was_appended() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.commit(record("a")).unwrap();
    log.append(&record("b")).unwrap();
    log.close().unwrap();
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!((after.high_watermark(), after.next_offset()), (offset(1), offset(2)));
}

#[test]
fn wr_04_a_failed_write_goes_on_where_it_stopped() {
    let whole = frame_len(&records(["first", "second"]));
    for taken in 0..whole as usize {
        let bench = Bench::new(1);
        let log = bench.open_with(options());
        log.append(&records(["first", "second"])).unwrap();
        bench.disk.inject(Fault::shorten(CallKind::Write, taken).named("*.log"));
        bench.disk.inject(Fault::fail(CallKind::Write, Failure::NoSpace).named("*.log").at(2));
        bench.pass(DRAIN);
        assert_eq!(bench.segment(0).unwrap().len(), taken);
        assert_eq!(bench.errors("flush"), 1);
        assert_eq!(bench.runtime.pending_timers(), 1, "a retry is owed");
        bench.disk.take_calls();
        bench.pass(DRAIN);
        let calls = bench.disk.take_calls();
        let rest: Vec<u64> =
            calls.iter().filter(|call| call.kind == CallKind::Write).map(|call| call.bytes).collect();
        assert_eq!(
            rest,
            [whole - taken as u64],
            "{taken} bytes were taken: the rest is written and nothing twice"
        );
        log.commit(Batch::new()).unwrap();
        assert_eq!(payloads(&log), ["first", "second"]);
    }
}

#[test]
fn wr_04_records_appended_after_a_failed_write_follow_it() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.append(&record("first")).unwrap();
    bench.disk.inject(Fault::shorten(CallKind::Write, 10).named("*.log"));
    bench.disk.inject(Fault::fail(CallKind::Write, Failure::NoSpace).named("*.log").at(2).onwards());
    bench.pass(DRAIN);
    log.append(&record("second")).unwrap();
    bench.pass(DRAIN);
    bench.disk.clear_faults();
    log.commit(record("third")).unwrap();
    assert_eq!(payloads(&log), ["first", "second", "third"]);
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(payloads(&after), ["first", "second", "third"]);
}

#[test]
fn wr_04_a_sync_in_the_middle_of_a_failed_write_releases_no_copy() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.append(&record("first")).unwrap();
    bench.pass(DRAIN);
    log.append(&record("second")).unwrap();
    bench.disk.inject(Fault::shorten(CallKind::Write, 10).named("*.log"));
    bench.disk.inject(Fault::fail(CallKind::Write, Failure::NoSpace).named("*.log").at(2).onwards());
    bench.pass(DRAIN);
    bench.pass(Duration::from_secs(1));
    assert!(bench.disk.count_on(CallKind::SyncData, "*.log") > 0, "the policy had the first record synced");
    bench.disk.clear_faults();
    log.commit(Batch::new()).unwrap();
    assert_eq!(payloads(&log), ["first", "second"]);
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(payloads(&after), ["first", "second"]);
}

#[test]
fn wr_04_the_memory_that_waits_for_the_disk_is_bounded_and_appends_go_on_when_it_is_well() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    let mebibytes = Batch::of(b"", &vec![7; 4 << 20]);
    bench.disk.set_capacity(Some(bench.disk.used_bytes() + 1000));
    let refused = (0..100).find_map(|_| log.append(&mebibytes).err()).expect("a bound");
    let Error::BufferFull { bytes, limit } = refused else { panic!("{refused}") };
    assert!(limit == 64 << 20 && bytes > limit && bytes < 70 << 20, "{bytes} of {limit}");
    assert!(log.next_offset() < offset(20));
    bench.disk.set_capacity(None);
    let committed = log.commit(record("the next produce")).unwrap();
    log.append(&mebibytes).expect("a commit has emptied the buffer");
    assert_eq!(log.read(committed.start).unwrap().payload, "the next produce");
}

#[test]
fn wr_04_a_full_disk_refuses_commits_serves_reads_and_needs_no_restart() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.commit(record("before")).unwrap();
    bench.disk.set_capacity(Some(bench.disk.used_bytes() + 10));
    for _ in 0..3 {
        assert!(log.commit(record("while it is full")).unwrap_err().is_disk_full());
        assert_eq!(payloads(&log), ["before"]);
    }
    bench.disk.set_capacity(None);
    assert_eq!(log.commit(record("after")).unwrap(), offset(1)..offset(2));
    assert_eq!(payloads(&log), ["before", "after"]);
}
