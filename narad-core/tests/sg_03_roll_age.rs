//! A segment whose oldest record is old is sealed before the next write.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/write_path.rs"]
mod write_path;

use std::{sync::Arc, time::Duration};

use narad_core::{
    log::LogOptions,
    plugin::{RetentionDecision, RetentionPolicy, RetentionView},
};
use write_path::{Bench, options, payloads, record};

const HOUR: Duration = Duration::from_secs(3600);

/// Keeps everything and rolls by age, or panics when asked for it.
#[derive(Debug)]
struct RollAge(Option<Duration>);

impl RetentionPolicy for RollAge {
    fn name(&self) -> &str {
        "roll-age"
    }

    fn roll_age(&self) -> Option<Duration> {
        assert!(self.0.is_some(), "on purpose");
        self.0
    }

    fn decide(&self, _: &RetentionView<'_>) -> RetentionDecision {
        RetentionDecision::KEEP
    }
}

fn hourly() -> LogOptions {
    let mut options = options();
    options.retention = Arc::new(RollAge(Some(HOUR)));
    options
}

#[test]
fn sg_03_the_write_that_finds_the_oldest_record_too_old_rolls_first() {
    let bench = Bench::new(1);
    let log = bench.open_with(hourly());
    log.commit(record("a")).unwrap();
    bench.clock.advance(HOUR);
    log.commit(record("just young enough")).unwrap();
    assert_eq!(bench.segments(), [0]);
    bench.clock.advance(Duration::from_millis(1));
    log.commit(record("c")).unwrap();
    assert_eq!(bench.segments(), [0, 2]);
    assert_eq!(payloads(&log), ["a", "just young enough", "c"]);
}

#[test]
fn sg_03_a_drain_rolls_too() {
    let bench = Bench::new(1);
    let log = bench.open_with(hourly());
    log.commit(record("a")).unwrap();
    bench.clock.advance(2 * HOUR);
    log.append(&record("b")).unwrap();
    bench.pass(Duration::from_millis(100));
    assert_eq!(bench.segments(), [0, 1]);
}

#[test]
fn sg_03_the_age_of_a_recovered_segment_is_that_of_its_first_record() {
    let bench = Bench::new(1);
    bench.open_with(hourly()).commit(record("a")).unwrap();
    bench.clock.advance(HOUR / 2);
    bench.disk.crash_process();
    bench.disk.set_modified(write_path::segment_path(0), narad_core::clock::Clock::unix_ms(&bench.clock));
    let log = bench.open_with(hourly());
    log.commit(record("b")).unwrap();
    assert_eq!(bench.segments(), [0]);
    bench.clock.advance(HOUR / 2 + Duration::from_millis(1));
    log.commit(record("c")).unwrap();
    assert_eq!(bench.segments(), [0, 2]);
}

#[test]
fn sg_03_a_roll_age_that_is_set_later_counts_from_the_first_record_too() {
    use narad_core::testkit::{CallKind, Failure};
    for reopened_in_place in [false, true] {
        let bench = Bench::new(1);
        let log = bench.open_with(options());
        log.commit(record("a")).unwrap();
        bench.clock.advance(HOUR / 2);
        log.commit(record("b")).unwrap();
        let log = if reopened_in_place {
            bench.fail(CallKind::SyncData, Failure::Io, "*.log");
            log.commit(record("refused")).unwrap_err();
            log.reopen().unwrap();
            log
        } else {
            bench.disk.crash_process();
            bench.open_with(options())
        };
        log.set_retention(Arc::new(RollAge(Some(HOUR))));
        bench.clock.advance(HOUR / 2 + Duration::from_millis(1));
        log.commit(record("c")).unwrap();
        assert_eq!(bench.segments(), [0, 2], "reopened in place: {reopened_in_place}");
    }
}

#[test]
fn sg_03_records_that_a_failed_commit_took_back_do_not_make_a_segment_old() {
    use narad_core::testkit::{CallKind, Failure};
    let bench = Bench::new(1);
    let log = bench.open_with(hourly());
    bench.fail(CallKind::Read, Failure::Io, "*.log");
    log.commit(record("refused")).unwrap_err();
    bench.clock.advance(2 * HOUR);
    log.commit(record("a")).unwrap();
    log.commit(record("b")).unwrap();
    assert_eq!(bench.segments(), [0], "its oldest record is new");
}

#[test]
fn sg_03_a_policy_that_panics_rolls_nothing_and_loses_nothing() {
    let bench = Bench::new(1);
    let mut panicking = options();
    panicking.retention = Arc::new(RollAge(Some(HOUR)));
    let log = bench.open_with(panicking);
    log.commit(record("a")).unwrap();
    log.set_retention(Arc::new(RollAge(None)));
    log.append(&record("b")).unwrap();
    bench.pass(Duration::from_millis(100));
    log.commit(record("c")).unwrap();
    assert_eq!(payloads(&log), ["a", "b", "c"]);
    assert!(bench.errors("retention_policy") > 0);
}
