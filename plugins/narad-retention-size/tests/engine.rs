//! What the engine deletes by this policy, on a disk in memory.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a test")]

use std::{num::NonZeroU64, path::Path, sync::Arc};

use narad_core::{
    format::{Batch, Offset},
    log::{Log, LogOptions},
    runtime::Runtime,
    testkit::{ManualClock, SimDisk, Verbatim},
};
use narad_retention_size::Size;

fn open(max_bytes: u64) -> Log {
    let runtime = Runtime::driven_by_hand(Arc::new(SimDisk::new(1)), Arc::new(ManualClock::new()));
    let mut options = LogOptions::new("test", Arc::new(Verbatim));
    options.segment_bytes = 10_000;
    options.retention = Arc::new(Size::new(NonZeroU64::new(max_bytes).unwrap()));
    Log::open(&runtime, Path::new("/data/p00000"), options).unwrap()
}

/// Commits a record of about a kilobyte, so that ten of them fill a segment.
fn commit(log: &Log) {
    log.commit(Batch::of(b"", &[b'x'; 1_000])).unwrap();
}

fn bytes(log: &Log) -> u64 {
    log.segments().iter().map(|segment| segment.bytes).sum()
}

#[test]
fn a_log_that_is_written_to_stays_within_its_size_and_keeps_the_newest_records() {
    let log = open(35_000);
    for _ in 0..200 {
        commit(&log);
        log.sweep(None).unwrap();
        assert!(bytes(&log) <= 35_000, "{} bytes", bytes(&log));
    }
    let kept = log.high_watermark().since(log.oldest_offset());
    assert!((20..=35).contains(&kept), "no more went than had to: {kept} records are left");
    let newest = Offset::new(199).unwrap();
    assert_eq!(log.read_batch(newest, 1, 1 << 20).unwrap().records.len(), 1);
}

#[test]
fn the_segment_that_is_written_to_stays_whatever_its_size() {
    let log = open(1);
    for committed in 1..=5 {
        commit(&log);
        log.sweep(None).unwrap();
        assert_eq!(log.high_watermark().since(log.oldest_offset()), committed);
    }
    (0..30).for_each(|_| commit(&log));
    log.sweep(None).unwrap();
    assert_eq!(log.segments().len(), 1);
    assert!(log.high_watermark() > log.oldest_offset(), "the newest records are there");
}
