//! RT-01, RT-03, RT-05, RT-08, SG-05: which segments a sweep deletes, and what it counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod common;
#[path = "common/disk.rs"]
mod disk;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{offset, options};
use disk::{DIR, Rig, Said, none, payload, read_all, say, segment};
use narad_core::{
    clock::Clock,
    format::Batch,
    log::{Log, LogOptions},
    plugin::{RetentionDecision, RetentionPolicy, RetentionView},
    testkit::{CallKind, Failure, Fault},
};
use narad_retention::Age;

const HOUR: Duration = Duration::from_secs(3600);

fn aged(hours: u32) -> LogOptions {
    let mut options = options();
    options.retention = Arc::new(Age::new(HOUR * hours));
    // Every commit of these tests fills a segment.
    options.segment_bytes = 1;
    options
}

/// A log of one segment an hour: offset n was written at hour n. The active segment is empty.
fn hourly(rig: &Rig, hours: u64, retention: u32) -> Log {
    let log = rig.open_with(aged(retention));
    for at in 0..hours {
        log.commit(Batch::of(b"k", &payload(at, 50))).unwrap();
        rig.clock.advance(HOUR);
    }
    log
}

fn assert_suffix(log: &Log, from: u64, to: u64) {
    let (records, lost) = read_all(log);
    let expected: BTreeMap<_, _> = (from..to).map(|at| (at, payload(at, 50))).collect();
    assert_eq!((records, lost), (expected, vec![]));
    for at in 0..from {
        assert_eq!(say(log, at), Said::Expired, "{at}");
    }
}

#[test]
fn rt_01_segments_expire_by_their_last_write() {
    for reopen in [false, true] {
        let rig = Rig::new();
        let mut log = hourly(&rig, 6, 3);
        if reopen {
            log.close().unwrap();
            log = rig.open_with(aged(3));
        }
        // It is hour 6; segment n was last written at hour n. Recovered, its last write is its successor's first
        // record, or for the last one the file's own time.
        let kept = if reopen { 2 } else { 3 };
        let swept = log.sweep(None).unwrap();
        assert_eq!((swept.segments as u64, swept.records), (kept, kept), "reopened: {reopen}");
        assert_suffix(&log, kept, 6);
        assert_eq!(log.sweep(None).unwrap().segments, 0, "once");
        for gone in 0..kept {
            assert!(rig.disk.contents(segment(gone)).is_none());
        }
        rig.clock.advance(HOUR);
        assert_eq!(log.sweep(None).unwrap().segments, 1);
        log.close().unwrap();
        assert_suffix(&rig.open_with(aged(3)), kept + 1, 6);
    }
}

#[test]
fn rt_01_the_default_roll_age_is_the_retention() {
    let rig = Rig::new();
    let mut options = aged(3);
    options.segment_bytes = 1 << 20;
    let log = rig.open_with(options);
    log.commit(Batch::of(b"k", b"0")).unwrap();
    rig.clock.advance(HOUR * 3);
    log.commit(Batch::of(b"k", b"1")).unwrap();
    assert_eq!(log.stats().segments, 1, "not older than the roll age");
    rig.clock.advance(Duration::from_millis(1));
    log.commit(Batch::of(b"k", b"2")).unwrap();
    assert_eq!(log.stats().segments, 2);
}

#[test]
fn rt_03_an_idle_active_segment_is_sealed_and_deleted_in_one_sweep() {
    for reopen in [false, true] {
        let rig = Rig::new();
        let mut options = aged(3);
        options.segment_bytes = 1 << 20;
        let mut log = rig.open_with(options.clone());
        log.commit(Batch::of(b"k", b"0")).unwrap();
        log.commit(Batch::of(b"k", b"1")).unwrap();
        if reopen {
            log.close().unwrap();
            log = rig.open_with(options.clone());
        }
        rig.clock.advance(HOUR * 3);
        assert_eq!(log.sweep(None).unwrap().segments, 0);
        rig.clock.advance(Duration::from_secs(1));
        let swept = log.sweep(None).unwrap();
        assert_eq!((swept.segments, swept.records), (1, 2));
        assert_eq!(
            (log.oldest_offset(), log.next_offset(), log.high_watermark()),
            (offset(2), offset(2), offset(2))
        );
        assert_eq!(rig.disk.contents(segment(2)).unwrap(), b"", "its successor exists");
        // The offsets never start over, whatever happens next.
        let crashed = rig.disk.fork();
        crashed.power_loss();
        let crashed = Rig::on(crashed, rig.clock.clone());
        assert_eq!(crashed.open().next_offset(), offset(2));
        assert_eq!(log.commit(Batch::of(b"k", b"2")).unwrap().start, offset(2));
        log.close().unwrap();
        assert_eq!(read_all(&rig.open_with(options)).0.len(), 1);
    }
}

#[test]
fn rt_03_what_is_not_committed_keeps_its_segment() {
    let rig = Rig::new();
    let mut options = aged(3);
    options.segment_bytes = 1 << 20;
    let log = rig.open_with(options);
    log.commit(Batch::of(b"k", b"0")).unwrap();
    log.append(&Batch::of(b"k", b"1")).unwrap();
    rig.clock.advance(Duration::from_secs(1));
    rig.runtime.run_due();
    rig.clock.advance(HOUR * 10);
    assert_eq!(log.sweep(None).unwrap().segments, 0);
    assert_eq!(say(&log, 0), Said::Record(b"0".to_vec()));
    log.commit(Batch::of(b"k", b"2")).unwrap();
    rig.clock.advance(HOUR * 10);
    assert_eq!(log.sweep(None).unwrap().segments, 1);
    assert_eq!(log.next_offset(), offset(3));
}

#[test]
fn rt_03_a_seal_that_fails_deletes_nothing() {
    let rig = Rig::new();
    let mut options = aged(3);
    options.segment_bytes = 1 << 20;
    let log = rig.open_with(options);
    log.commit(Batch::of(b"k", b"0")).unwrap();
    rig.clock.advance(HOUR * 10);
    for kind in [CallKind::Create, CallKind::SyncDir] {
        rig.disk.inject(Fault::fail(kind, Failure::Io));
        assert!(log.sweep(None).is_err(), "{kind:?}");
        rig.disk.clear_faults();
        assert_eq!(say(&log, 0), Said::Record(b"0".to_vec()), "{kind:?}");
        assert!(rig.disk.contents(segment(0)).is_some(), "{kind:?}");
    }
    assert_eq!(log.sweep(None).unwrap().segments, 1);
    assert_eq!(log.commit(Batch::of(b"k", b"1")).unwrap().start, offset(1));
}

#[test]
fn rt_04_a_deleted_segment_that_was_just_read_gives_its_space_back() {
    let rig = Rig::new();
    let log = hourly(&rig, 6, 3);
    let before = rig.disk.open_files();
    assert_eq!(before, 1, "sg_04: of the segments that were sealed, none is open");
    assert_eq!(say(&log, 0), Said::Record(payload(0, 50)));
    assert_eq!(rig.disk.open_files(), before + 1, "the segment is open");
    assert!(log.sweep(None).unwrap().segments > 0);
    assert_eq!(rig.disk.open_files(), before);
}

#[test]
fn rt_03_a_seal_that_finds_no_space_still_lets_the_sealed_segments_go() {
    let rig = Rig::new();
    let mut options = aged(3);
    options.segment_bytes = 200;
    let log = rig.open_with(options);
    for at in 0..3 {
        log.commit(Batch::of(b"k", &payload(at, 300))).unwrap();
    }
    log.commit(Batch::of(b"k", &payload(3, 20))).unwrap();
    rig.clock.advance(HOUR * 10);
    rig.disk.inject(Fault::fail(CallKind::Create, Failure::NoSpace).onwards());
    assert!(log.sweep(None).unwrap_err().is_disk_full());
    assert_eq!(log.oldest_offset(), offset(3), "what needs no new file went");
    assert!((0..3).all(|at| rig.disk.contents(segment(at)).is_none()));
    assert_eq!(say(&log, 3), Said::Record(payload(3, 20)));
    rig.disk.clear_faults();
    assert_eq!(log.sweep(None).unwrap().segments, 1);
}

/// Answers whatever it was made with.
#[derive(Debug)]
struct Says(usize);

impl RetentionPolicy for Says {
    fn name(&self) -> &str {
        "says"
    }
    fn roll_age(&self) -> Option<Duration> {
        None
    }
    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        assert!(
            view.segments
                .iter()
                .all(|s| s.first_write_ms <= s.last_write_ms && s.last_write_ms <= view.now_ms)
        );
        assert!(view.segments.windows(2).all(|pair| pair[0].end == pair[1].start));
        if self.0 == 1000 {
            panic!("a policy of a test");
        }
        RetentionDecision::expire(self.0, "says")
    }
}

#[test]
fn rt_05_only_a_prefix_goes_whatever_the_policy_says() {
    for count in [0, 1, 3, 6, 7, 100, usize::MAX] {
        for reopen in [false, true] {
            let rig = Rig::new();
            let mut log = hourly(&rig, 6, 1000);
            if reopen {
                log.close().unwrap();
                log = rig.open_with(aged(1000));
            }
            log.set_retention(Arc::new(Says(count)));
            let swept = log.sweep(None).unwrap();
            let gone = count.min(6);
            assert_eq!(swept.segments, gone, "{count}");
            assert_suffix(&log, gone as u64, 6);
            assert_eq!(log.commit(Batch::of(b"k", &payload(6, 50))).unwrap().start, offset(6));
            drop(log);
            rig.disk.power_loss();
            assert_suffix(&rig.open(), gone as u64, 7);
        }
    }
}

#[test]
fn rt_02_a_policy_that_panics_keeps_everything() {
    let rig = Rig::new();
    let log = hourly(&rig, 3, 1000);
    log.set_retention(Arc::new(Says(1000)));
    assert_eq!(log.sweep(None).unwrap().segments, 0);
    assert_suffix(&log, 0, 3);
    assert_eq!(rig.runtime.metrics().error_count("storage", "retention_policy"), 1);
}

#[test]
fn rt_05_file_times_that_lie_delete_nothing_early_and_hold_nothing_up() {
    for (name, modified) in [("1970", 0), ("2999", 32_472_144_000_000), ("negative", -1)] {
        let rig = Rig::new();
        let log = hourly(&rig, 6, 3);
        log.close().unwrap();
        drop(log);
        for at in 0..=6 {
            rig.disk.set_modified(segment(at), modified);
        }
        let log = rig.open_with(aged(3));
        // The records say when segments 0 to 4 were last written; 5 has no successor with a record.
        let swept = log.sweep(None).unwrap();
        assert_eq!(swept.segments, 2, "{name}");
        assert_suffix(&log, 2, 6);
    }
}

#[test]
fn rt_05_one_record_from_the_future_blocks_nothing_for_years() {
    for reopen in [false, true] {
        let rig = Rig::new();
        let right = rig.clock.unix_ms();
        rig.clock.set_unix_ms(right + 1000 * 365 * 24 * 3_600_000);
        let mut log = rig.open_with(aged(3));
        log.commit(Batch::of(b"k", &payload(0, 50))).unwrap();
        log.commit(Batch::of(b"k", &payload(1, 50))).unwrap();
        rig.clock.set_unix_ms(right);
        if reopen {
            log.close().unwrap();
            log = rig.open_with(aged(3));
        }
        assert_eq!(log.sweep(None).unwrap().segments, 0, "the future counts as now");
        rig.clock.advance(HOUR * 2);
        assert_eq!(log.sweep(None).unwrap().segments, 0);
        rig.clock.advance(HOUR * 2);
        assert_eq!(log.sweep(None).unwrap().segments, 2, "reopened: {reopen}");
    }
}

#[test]
fn rt_05_a_clock_that_was_wrong_for_a_while_deletes_nothing() {
    let rig = Rig::new();
    let log = hourly(&rig, 2, 3);
    let right = rig.clock.unix_ms();
    // The clock falls back to 1970, and comes back.
    rig.clock.set_unix_ms(1000);
    assert_eq!(log.sweep(None).unwrap().segments, 0);
    rig.clock.set_unix_ms(right);
    assert_eq!(log.sweep(None).unwrap().segments, 0);
    assert_suffix(&log, 0, 2);
}

#[test]
fn rt_05_a_record_that_cannot_be_read_now_is_asked_again() {
    let rig = Rig::new();
    let log = hourly(&rig, 6, 3);
    log.close().unwrap();
    drop(log);
    for at in 0..6 {
        rig.disk.set_modified(segment(at), rig.clock.unix_ms());
    }
    let log = rig.open_with(aged(3));
    let fault = rig.disk.inject(Fault::fail(CallKind::Read, Failure::Io).named("*.log").onwards());
    assert_eq!(log.sweep(None).unwrap().segments, 0, "by the files' times");
    assert!(rig.disk.fired(fault) > 0);
    rig.disk.clear_faults();
    assert_eq!(log.sweep(None).unwrap().segments, 2, "by the records'");
}

#[test]
fn sg_05_a_sweep_stats_no_file() {
    let rig = Rig::new();
    let log = hourly(&rig, 6, 1000);
    log.close().unwrap();
    let log = rig.open_with(aged(1000));
    log.sweep(None).unwrap();
    rig.disk.take_calls();
    for _ in 0..3 {
        rig.clock.advance(HOUR);
        log.sweep(None).unwrap();
    }
    assert_eq!(rig.disk.take_calls(), [], "what it needs is cached");
}

#[test]
fn rt_08_deletes_are_counted_by_reason() {
    let rig = Rig::new();
    let log = hourly(&rig, 6, 3);
    let sizes: u64 = (0..3).map(|at| rig.disk.contents(segment(at)).unwrap().len() as u64).sum();
    let swept = log.sweep(None).unwrap();
    assert_eq!((swept.segments, swept.bytes, swept.records), (3, sizes, 3));
    log.set_retention(Arc::new(Says(1)));
    log.sweep(None).unwrap();
    let deletions: BTreeMap<_, _> = rig.runtime.metrics().deletions().into_iter().collect();
    assert_eq!((deletions["age"].bytes, deletions["age"].messages), (sizes, 3));
    assert_eq!(deletions["says"].messages, 1);
    assert_eq!(deletions.len(), 2, "a sweep that deletes nothing counts nothing");
}

#[test]
fn rt_05_what_is_hidden_is_not_deleted() {
    // Closed cleanly with a boundary in the midst: what lies above waits for a commit.
    let rig = Rig::new();
    for base in 0..4 {
        rig.disk.plant(segment(base), disk::frame(&*none(), base, &[payload(base, 50)]));
    }
    rig.disk.plant(format!("{DIR}/hwm"), 2u64.to_be_bytes());
    let log = rig.open_with(aged(1000));
    log.set_retention(Arc::new(Says(usize::MAX)));
    log.sweep(None).unwrap();
    assert_eq!(
        (log.oldest_offset(), log.high_watermark(), log.next_offset()),
        (offset(2), offset(2), offset(4))
    );
}
