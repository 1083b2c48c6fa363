//! A log written with the codec, closed or crashed, opened again and read; beside frames of no codec.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

use std::{path::Path, sync::Arc};

use narad_codec_lz4::Lz4;
use narad_core::{
    Error,
    format::{Batch, Offset},
    log::{Log, LogOptions},
    runtime::Runtime,
    testkit::{ManualClock, SimDisk},
};

const DIR: &str = "/p";
const SEGMENT: &str = "/p/00000000000000000000.log";

struct Rig {
    disk: SimDisk,
    runtime: Runtime,
}

impl Rig {
    fn new() -> Self {
        let clock = ManualClock::new();
        let disk = SimDisk::with_clock(1, Arc::new(clock.clone()));
        disk.plant_dir(DIR);
        let runtime = Runtime::driven_by_hand(Arc::new(disk.clone()), Arc::new(clock));
        Self { disk, runtime }
    }

    fn open(&self) -> Log {
        let mut options = LogOptions::new("test", Arc::new(Lz4));
        // So that a segment is as long as its frames.
        options.prepare_segments = false;
        Log::open(&self.runtime, Path::new(DIR), options).unwrap()
    }
}

fn payload(n: u64) -> Vec<u8> {
    format!("{{\"order\":{n},\"state\":\"shipped\",\"lines\":[{n},{n},{n}]}}").into_bytes()
}

fn assert_holds(log: &Log, records: u64) {
    let batch = log.read_batch(Offset::ZERO, 1_000, 1 << 20).unwrap();
    let found: Vec<_> = batch.records.iter().map(|record| record.payload.to_vec()).collect();
    assert_eq!(found, (0..records).map(payload).collect::<Vec<_>>());
}

#[test]
fn what_was_committed_is_there_after_a_close_and_after_a_power_loss() {
    let rig = Rig::new();
    let log = rig.open();
    log.commit((0..50).map(|n| (b"key", payload(n))).collect::<Batch>()).unwrap();
    log.commit(Batch::of(b"key", &payload(50))).unwrap();
    assert_holds(&log, 51);
    log.close().unwrap();

    let log = rig.open();
    assert_holds(&log, 51);
    log.commit(Batch::of(b"key", &payload(51))).unwrap();
    rig.disk.power_loss();
    drop(log);
    assert_holds(&rig.open(), 52);
    let stored = rig.disk.contents(SEGMENT).unwrap().len();
    let raw: usize = (0..52).map(|n| payload(n).len()).sum();
    assert!(stored * 2 < raw, "{stored} bytes for {raw}");
}

#[test]
fn a_damaged_frame_is_answered_as_damage_and_the_next_one_is_read() {
    let rig = Rig::new();
    let log = rig.open();
    for n in 0..2 {
        log.commit(Batch::of(b"key", &payload(n))).unwrap();
    }
    log.close().unwrap();
    rig.disk.alter(SEGMENT, |bytes| bytes[40] ^= 1);
    let log = rig.open();
    assert!(matches!(log.read(Offset::ZERO), Err(Error::Corrupt { .. })));
    assert_eq!(log.read(Offset::from(1_u32)).unwrap().payload, payload(1));
}
