//! Each sync call of the engine in turn is acknowledged and not done: something is then gone after a power loss.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/write_path.rs"]
mod write_path;

use std::time::Duration;

use narad_core::testkit::{CallKind, Failure, Fault, Survival};
use write_path::{Bench, offset, options, payloads, record, segment_path, segments_of};

/// Seeds that are tried until a power loss shows the missing sync.
const SEEDS: u64 = 200;

/// Runs `story` with the sync in place (it must hold for every seed) and without it (it must not hold for one of them).
fn is_needed(sync: CallKind, name: &str, nth: u64, story: impl Fn(&Bench, &dyn Fn()) -> bool) {
    for seed in 0..SEEDS {
        let bench = Bench::new(seed);
        assert!(story(&bench, &|| {}), "seed {seed}: with the sync in place");
    }
    let gone = (0..SEEDS).any(|seed| {
        let bench = Bench::new(seed);
        let skipped = std::cell::Cell::new(None);
        let held = story(&bench, &|| {
            let skip = Fault::skip(sync).at(nth);
            let skip = if name.is_empty() { skip } else { skip.named(name) };
            skipped.set(Some(bench.disk.inject(skip)));
        });
        assert_eq!(bench.disk.fired(skipped.get().unwrap()), 1, "the sync is there");
        !held
    });
    assert!(gone, "nobody misses the sync");
}

fn found(bench: &Bench, survival: Survival) -> Vec<String> {
    payloads(&bench.after_power_loss(survival).1)
}

#[test]
fn cm_01_the_sync_of_a_commit_is_needed() {
    is_needed(CallKind::SyncData, "*.log", 1, |bench, skip| {
        let log = bench.open_with(options());
        log.commit(record("a")).unwrap();
        skip();
        log.commit(record("b")).unwrap();
        found(bench, Survival::Random) == ["a", "b"]
    });
}

#[test]
fn sg_02_the_sync_of_a_new_segments_name_is_needed() {
    is_needed(CallKind::SyncDir, "p00000", 1, |bench, skip| {
        let log = bench.open_with(options());
        skip();
        log.commit(record("a")).unwrap();
        found(bench, Survival::Random) == ["a"]
    });
    is_needed(CallKind::SyncDir, "p00000", 1, |bench, skip| {
        let log = bench.open_with(segments_of(100));
        let full = "a".repeat(100);
        // The first segment is there, and the roll that makes the second is left to the second commit.
        bench.fail(CallKind::Create, Failure::Io, "00000000000000000001.log");
        log.commit(record(&full)).unwrap();
        skip();
        log.commit(record("b")).unwrap();
        found(bench, Survival::Random) == [full.as_str(), "b"]
    });
}

#[test]
fn sg_02_the_sync_of_a_recovered_segments_name_is_needed() {
    is_needed(CallKind::SyncDir, "p00000", 1, |bench, skip| {
        let log = bench.open_with(segments_of(10));
        bench.disk.inject(Fault::skip(CallKind::SyncDir).named("p00000").at(2));
        log.commit(record("a")).unwrap();
        bench.disk.crash_process();
        let log = bench.open_with(options());
        skip();
        log.commit(record("b")).unwrap();
        found(bench, Survival::Random) == ["a", "b"]
    });
}

#[test]
fn sg_02_the_sync_of_the_directorys_own_name_is_needed() {
    is_needed(CallKind::SyncDir, "data", 1, |bench, skip| {
        // The process that made the directory died before it could sync the name.
        bench.disk.inject(Fault::skip(CallKind::SyncDir).named("data"));
        let log = bench.open_with(options());
        skip();
        log.commit(record("a")).unwrap();
        found(bench, Survival::Random) == ["a"]
    });
}

#[test]
fn sg_01_the_sync_of_a_drain_that_fills_the_segment_is_needed() {
    is_needed(CallKind::SyncData, "*.log", 1, |bench, skip| {
        let log = bench.open_with(segments_of(10));
        skip();
        log.append(&record("a")).unwrap();
        bench.pass(Duration::from_millis(100));
        found(bench, Survival::Random) == ["a"]
    });
}

#[test]
fn wr_02_the_sync_that_the_policy_asks_for_is_needed() {
    is_needed(CallKind::SyncData, "*.log", 1, |bench, skip| {
        let log = bench.open_with(options());
        skip();
        log.append(&record("a")).unwrap();
        bench.pass(Duration::from_millis(100));
        bench.pass(Duration::from_secs(1));
        found(bench, Survival::Random) == ["a"]
    });
}

#[test]
fn wr_02_the_sync_of_records_at_close_is_needed() {
    is_needed(CallKind::SyncData, "*.log", 1, |bench, skip| {
        let log = bench.open_with(options());
        log.commit(record("a")).unwrap();
        skip();
        log.append(&record("b")).unwrap();
        log.close().unwrap();
        bench.after_power_loss(Survival::Random).1.next_offset() == offset(2)
    });
}

#[test]
fn cm_02_the_sync_of_a_discards_cut_is_needed() {
    is_needed(CallKind::SyncData, "*.log", 2, |bench, skip| {
        let log = bench.open_with(options());
        log.commit(record("a")).unwrap();
        skip();
        bench.fail(CallKind::Read, Failure::Io, "*.log");
        log.commit(record("refused")).unwrap_err();
        found(bench, Survival::Random) == ["a"]
    });
}

#[test]
fn po_03_the_sync_of_a_reopens_cut_is_needed() {
    is_needed(CallKind::SyncData, "*.log", 1, |bench, skip| {
        let log = bench.open_with(options());
        log.commit(record("a")).unwrap();
        bench.fail(CallKind::SyncData, Failure::Io, "*.log");
        log.commit(record("refused")).unwrap_err();
        skip();
        log.reopen().unwrap();
        found(bench, Survival::Random) == ["a"]
    });
}

#[test]
fn po_01_the_sync_of_a_poisoned_closes_cut_is_needed() {
    is_needed(CallKind::SyncData, "*.log", 1, |bench, skip| {
        let log = bench.open_with(options());
        log.commit(record("a")).unwrap();
        bench.fail(CallKind::SyncData, Failure::Io, "*.log");
        log.commit(record("refused")).unwrap_err();
        skip();
        log.close().unwrap();
        found(bench, Survival::Random) == ["a"]
    });
}

/// A log that was closed with a visible record and a hidden one.
fn closed(bench: &Bench) {
    let log = bench.open_with(options());
    log.commit(record("a")).unwrap();
    log.append(&record("hidden")).unwrap();
    log.close().unwrap();
}

#[test]
fn hw_01_the_sync_of_the_boundary_at_close_is_needed() {
    is_needed(CallKind::SyncData, "hwm", 1, |bench, skip| {
        skip();
        closed(bench);
        found(bench, Survival::Random) == ["a"]
    });
}

#[test]
fn hw_01_the_sync_of_the_files_name_at_close_is_needed() {
    is_needed(CallKind::SyncDir, "p00000", 2, |bench, skip| {
        skip();
        closed(bench);
        found(bench, Survival::Random) == ["a"]
    });
}

#[test]
fn hw_03_the_sync_of_the_emptied_file_is_needed() {
    is_needed(CallKind::SyncData, "hwm", 1, |bench, skip| {
        closed(bench);
        let log = bench.open_with(options());
        skip();
        log.commit(record("b")).unwrap();
        found(bench, Survival::Random) == ["a", "hidden", "b"]
    });
}

#[test]
fn hw_04_the_sync_of_a_tail_without_a_statement_is_needed() {
    is_needed(CallKind::SyncData, "*.log", 1, |bench, skip| {
        let log = bench.open_with(options());
        log.append(&record("a")).unwrap();
        bench.pass(Duration::from_millis(100));
        bench.disk.crash_process();
        skip();
        let log = bench.open_with(options());
        let shown = payloads(&log);
        found(bench, Survival::Random) == shown
    });
}

#[test]
fn rc_02_the_sync_of_a_torn_tails_cut_is_needed() {
    is_needed(CallKind::SyncData, "*.log", 1, |bench, skip| {
        closed(bench);
        bench.disk.alter(segment_path(0), |bytes| bytes.extend_from_slice(&[0; 100]));
        skip();
        let log = bench.open_with(options());
        let cut = bench.segment(0).unwrap().len();
        assert_eq!(log.next_offset(), offset(2));
        let fork = bench.fork();
        fork.disk.power_loss();
        fork.segment(0).unwrap().len() == cut
    });
}

#[test]
fn hw_04_the_levels_above_the_directory_are_durable_too() {
    is_needed(CallKind::SyncDir, "", 2, |bench, skip| {
        // The first of the root's syncs is for a name that was there before.
        skip();
        let log = bench.open_with(options());
        log.commit(record("a")).unwrap();
        found(bench, Survival::Random) == ["a"]
    });
}
