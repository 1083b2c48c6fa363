//! Full and slow disks, and processes without descriptors: what goes on, and that it all passes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/threads.rs"]
mod threads;
#[path = "common/write_path.rs"]
mod write_path;

use std::{path::Path, sync::Arc, time::Duration};

use narad_core::{
    Error,
    log::Log,
    plugin::RetentionPolicy,
    testkit::{CallKind, Failure, Fault, Gate, SimDisk, Survival},
};
use narad_retention::Age;
use threads::{bounded, runtime, wait};
use write_path::{Bench, offset, options, payloads, record, segments_of};

#[test]
fn wr_04_a_log_opens_reads_and_closes_on_a_full_disk() {
    let bench = Bench::new(1);
    bench.open().commit(record("a")).unwrap();
    bench.disk.crash_process();
    bench.disk.set_capacity(Some(bench.disk.used_bytes()));
    let log = bench.open();
    assert_eq!(payloads(&log), ["a"]);
    assert!(log.commit(record("b")).unwrap_err().is_disk_full());
    let failed = log.close().unwrap_err();
    assert!(failed.is_disk_full(), "there is no room for a statement: {failed}");
    let log = bench.open();
    assert_eq!(payloads(&log), ["a"]);
    bench.disk.set_capacity(None);
    log.commit(record("b")).unwrap();
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(payloads(&after), ["a", "b"]);
}

#[test]
fn wr_04_retention_works_on_a_full_disk_and_gives_the_space_back() {
    let bench = Bench::new(1);
    let mut options = segments_of(10);
    options.retention = Arc::new(Age::new(Duration::from_secs(3600))) as Arc<dyn RetentionPolicy>;
    let log = bench.open_with(options);
    for _ in 0..4 {
        log.commit(record("old")).unwrap();
    }
    bench.clock.advance(Duration::from_secs(7200));
    bench.disk.set_capacity(Some(bench.disk.used_bytes()));
    assert!(log.commit(record("new")).unwrap_err().is_disk_full());
    assert_eq!(log.sweep(None).unwrap().segments, 4);
    assert_eq!(log.commit(record("new")).unwrap(), offset(4)..offset(5));
}

#[test]
fn wr_04_without_descriptors_commits_fail_and_pass_again() {
    let bench = Bench::new(1);
    let log = bench.open_with(segments_of(10));
    log.commit(record("a")).unwrap();
    for kind in [CallKind::Open, CallKind::Create] {
        bench.disk.inject(Fault::fail(kind, Failure::TooManyFiles).onwards());
    }
    // The segment that this one fills is there, its successor is not.
    log.commit(record("b")).unwrap();
    for _ in 0..3 {
        let refused = log.commit(record("c")).unwrap_err();
        assert!(matches!(refused, Error::Io { .. }) && !log.is_poisoned(), "{refused}");
    }
    bench.disk.clear_faults();
    assert_eq!(log.commit(record("c")).unwrap(), offset(2)..offset(3));
    assert_eq!(payloads(&log), ["a", "b", "c"]);
}

#[test]
fn cm_05_a_hanging_fsync_holds_up_neither_reads_nor_appends_nor_other_logs() {
    bounded(|| {
        let (disk, gate) = (SimDisk::new(1), Gate::new());
        let runtime = runtime(Arc::new(disk.clone()), 4);
        let open = |name: &str| {
            let mut options = options();
            options.identity = narad_core::plugin::LogIdentity::named(name);
            Log::open(&runtime, Path::new(&format!("/{name}")), options).unwrap()
        };
        let (slow, other) = (open("slow"), open("other"));
        slow.commit(record("a")).unwrap();
        other.commit(record("a")).unwrap();
        disk.inject(Fault::hold(CallKind::SyncData, &gate).named("*.log"));
        let stuck: Vec<_> = (0..50).map(|_| slow.commit_async(record("stuck"))).collect();
        gate.wait_for(1);
        for _ in 0..20 {
            assert_eq!(wait(slow.read_async(offset(0))).unwrap().payload, "a");
            assert_eq!(wait(slow.read_batch_async(offset(0), 10, 1000)).unwrap().records.len(), 1);
            slow.append(&record("appended meanwhile")).unwrap();
            wait(other.commit_async(record("b"))).unwrap();
            other.commit(record("c")).unwrap();
        }
        assert_eq!(slow.stats().high_watermark, offset(1));
        gate.open();
        for commit in stuck {
            wait(commit).unwrap();
        }
    });
}
