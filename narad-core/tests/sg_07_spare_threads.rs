//! The filling of the next segment's file on the runtime's workers, while others commit, close and delete.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/threads.rs"]
mod threads;
#[path = "common/write_path.rs"]
mod write_path;

use std::{path::Path, sync::Arc};

use narad_core::{
    log::Log,
    testkit::{CallKind, Fault, Gate, SimDisk},
};
use threads::{bounded, runtime};
use write_path::{DIR, payloads, record, segments_of};

const SEGMENT: u64 = 2 << 20;
const SPARE: &str = "spare-*.zeros";

fn spares(disk: &SimDisk) -> usize {
    disk.paths().iter().filter(|path| path.extension().is_some_and(|end| end == "zeros")).count()
}

fn segments(disk: &SimDisk) -> usize {
    disk.paths().iter().filter(|path| path.extension().is_some_and(|end| end == "log")).count()
}

/// Commits until there are so many segments.
fn fill(log: &Log, disk: &SimDisk, wanted: usize) {
    let payload = "x".repeat(20_000);
    while segments(disk) < wanted {
        log.commit(record(&payload)).unwrap();
    }
}

/// A log whose spare file is being filled for as long as the gate is closed.
fn filling(disk: &SimDisk, kind: CallKind) -> (Log, Gate) {
    let gate = Gate::new();
    disk.inject(Fault::hold(kind, &gate).named(SPARE));
    let runtime = runtime(Arc::new(disk.clone()), 4);
    let log = Log::open(&runtime, Path::new(DIR), segments_of(SEGMENT)).unwrap();
    let payload = "x".repeat(20_000);
    for _ in 0..40 {
        log.commit(record(&payload)).unwrap();
    }
    gate.wait_for(1);
    (log, gate)
}

#[test]
fn sg_07_no_commit_and_no_roll_waits_for_a_spare_file() {
    for kind in [CallKind::Create, CallKind::Write, CallKind::SyncData] {
        bounded(move || {
            let disk = SimDisk::new(1);
            let (log, gate) = filling(&disk, kind);
            fill(&log, &disk, 4);
            assert_eq!(disk.count(CallKind::Rename), 0);
            gate.open();
            // The one that is late is there for a later segment.
            while disk.count(CallKind::Rename) == 0 {
                fill(&log, &disk, segments(&disk) + 1);
            }
            log.close().unwrap();
            assert_eq!(spares(&disk), 0, "{kind:?}");
        });
    }
}

#[test]
fn sg_07_a_close_ends_the_filling_and_nothing_of_it_comes_later() {
    for kind in [CallKind::Write, CallKind::SyncData] {
        bounded(move || {
            let disk = SimDisk::new(1);
            let (log, gate) = filling(&disk, kind);
            let committed = log.high_watermark();
            log.close().unwrap();
            assert_eq!(spares(&disk), 0, "{kind:?}");
            // The directory is another log's now, which has a spare file of its own.
            let other = runtime(Arc::new(disk.clone()), 4);
            let log = Log::open(&other, Path::new(DIR), segments_of(SEGMENT)).unwrap();
            let renamed = disk.count(CallKind::Rename);
            fill(&log, &disk, 2);
            gate.open();
            while disk.count(CallKind::Rename) == renamed {
                fill(&log, &disk, segments(&disk) + 1);
            }
            assert!(log.high_watermark() > committed);
            let next = log.next_offset();
            log.close().unwrap();
            let log = Log::open(&other, Path::new(DIR), segments_of(SEGMENT)).unwrap();
            assert_eq!((payloads(&log).len() as u64, spares(&disk)), (next.get(), 0), "{kind:?}");
        });
    }
}

#[test]
fn sg_07_an_idle_log_gives_up_what_is_being_filled() {
    bounded(|| {
        let disk = SimDisk::new(1);
        let (log, gate) = filling(&disk, CallKind::Write);
        log.release_space();
        assert_eq!(spares(&disk), 0);
        gate.open();
        fill(&log, &disk, 3);
        while disk.count(CallKind::Rename) == 0 {
            fill(&log, &disk, segments(&disk) + 1);
        }
        log.close().unwrap();
        assert_eq!(spares(&disk), 0);
    });
}

#[test]
fn sg_07_a_disk_that_panics_over_a_spare_file_fails_no_commit() {
    bounded(|| {
        for kind in [CallKind::Create, CallKind::Write, CallKind::SyncData] {
            let disk = SimDisk::new(1);
            let fault = disk.inject(Fault::panic(kind).named(SPARE));
            let runtime = runtime(Arc::new(disk.clone()), 4);
            let log = Log::open(&runtime, Path::new(DIR), segments_of(SEGMENT)).unwrap();
            while disk.count(CallKind::Rename) == 0 {
                fill(&log, &disk, segments(&disk) + 1);
            }
            assert_eq!(disk.fired(fault), 1, "{kind:?}");
            log.close().unwrap();
            assert_eq!(spares(&disk), 0, "{kind:?}");
        }
    });
}
