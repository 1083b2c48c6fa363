//! LF-01: a drive that acknowledges syncs it did not do, and then loses power.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod common;
#[path = "common/disk.rs"]
mod disk;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use common::options;
use disk::{DIR, Rig, Said, read_all, say};
use narad_core::{
    format::Batch,
    log::Log,
    plugin::LogIdentity,
    testkit::{SeedGuard, Survival, seed},
};

/// A small generator, so that a history is a function of its seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// What a history knows of the records.
#[derive(Default)]
struct Known {
    /// Everything that was ever written at an offset.
    ever: BTreeMap<u64, BTreeSet<Vec<u8>>>,
    /// What must be there whatever happens: acknowledged while no sync had lied since the power last came.
    honest: BTreeMap<u64, Vec<u8>>,
    written: u64,
}

impl Known {
    fn batch(&mut self, first: u64, records: u64, len: usize) -> (Batch, Vec<(u64, Vec<u8>)>) {
        let mut made = Vec::new();
        for at in first..first + records {
            self.written += 1;
            let bytes = disk::payload(self.written << 20 | at, len);
            self.ever.entry(at).or_default().insert(bytes.clone());
            made.push((at, bytes));
        }
        (made.iter().map(|(_, bytes)| (b"k", bytes)).collect(), made)
    }
}

fn small() -> narad_core::log::LogOptions {
    let mut options = options();
    options.segment_bytes = 3000;
    options
}

fn check_after_crash(rig: &Rig, known: &mut Known, why: &str) -> Log {
    let log = rig.open_with(small());
    let (records, lost) = read_all(&log);
    for (at, bytes) in &records {
        assert!(known.ever.get(at).is_some_and(|ever| ever.contains(bytes)), "{why}: {at} is made up");
        assert_eq!(say(&log, *at), Said::Record(bytes.clone()), "{why}: {at}");
    }
    for (at, bytes) in &known.honest {
        assert_eq!(records.get(at), Some(bytes), "{why}: {at} was honestly committed");
    }
    assert!(log.high_watermark() <= log.next_offset(), "{why}");
    // The index agrees with the file: an inspection, which has no index, finds the same.
    let mut inspected = BTreeMap::new();
    let name = LogIdentity::named("test");
    let summary =
        narad_core::log::inspect::inspect(&rig.disk, DIR.as_ref(), &name, &common::codecs(), &mut |what| {
            if let narad_core::log::inspect::Inspected::Record { record, .. } = what {
                inspected.insert(record.offset.get(), record.payload.to_vec());
            }
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    let high_watermark = log.high_watermark();
    inspected.retain(|at, _| *at < high_watermark.get() && *at >= log.oldest_offset().get());
    assert_eq!(inspected, records, "{why}");
    assert_eq!((summary.next_offset, summary.torn_tail_bytes), (log.next_offset(), 0), "{why}");
    // No crash loop: once more changes nothing.
    drop(log);
    let once = rig.files();
    let log = rig.open_with(small());
    assert!(once == rig.files(), "{why}: rc_08");
    assert_eq!(read_all(&log).0, records, "{why}");
    // What survived a power loss is on the platter. But a record that a lie let through behind damage may not be told
    // from a lost payload once another lie leaves damage behind it too: only what lies in front of the first is sure.
    let damaged_from = lost.into_iter().min().unwrap_or(u64::MAX);
    known.honest.extend(records.into_iter().take_while(|(at, _)| *at < damaged_from));
    log
}

fn history(seed: u64) {
    let _guard = SeedGuard::new(seed);
    let mut chance = Chance(seed | 1);
    let rig = Rig::seeded(seed);
    let mut known = Known::default();
    let mut log = rig.open_with(small());
    let mut is_honest = true;
    for step in 0..chance.below(30) + 5 {
        match chance.below(12) {
            0 => {
                is_honest = false;
                rig.disk.lie_about_syncs(true);
            }
            1 => rig.disk.lie_about_syncs(false),
            2 | 3 => {
                let survival = [Survival::Random, Survival::Random, Survival::Nothing, Survival::Everything];
                let survival = survival[chance.below(4) as usize];
                drop(log);
                rig.disk.lie_about_syncs(false);
                rig.disk.power_loss_keeping(survival);
                log = check_after_crash(&rig, &mut known, &format!("seed {seed}, step {step}, {survival:?}"));
                is_honest = true;
            }
            4 => {
                log.close().unwrap();
                log = rig.open_with(small());
            }
            5 => {
                let count = chance.below(4) + 1;
                let len = chance.below(300) as usize;
                let (batch, _) = known.batch(log.next_offset().get(), count, len);
                log.append(&batch).unwrap();
                rig.clock.advance(Duration::from_millis(chance.below(1500)));
                rig.runtime.run_due();
            }
            _ => {
                let count = chance.below(5) + 1;
                let len = chance.below(700) as usize;
                let first = log.next_offset().get();
                let visible = log.high_watermark().get();
                let (batch, _) = known.batch(first, count, len);
                let offsets = log.commit(batch).unwrap();
                assert_eq!(offsets.start.get(), first);
                if is_honest {
                    for at in visible..offsets.end.get() {
                        match say(&log, at) {
                            Said::Record(bytes) => drop(known.honest.insert(at, bytes)),
                            // What lay above the boundary may be what an earlier lie left.
                            said => assert!(at < first, "seed {seed}: {at} is {said:?}"),
                        }
                    }
                }
            }
        }
    }
    drop(log);
    rig.disk.lie_about_syncs(false);
    rig.disk.power_loss();
    check_after_crash(&rig, &mut known, &format!("seed {seed}, at the end"));
}

#[test]
fn lf_01_a_lying_drive_costs_no_honest_record_and_makes_none_up() {
    let first = seed();
    for n in 0..3000 {
        history(first.wrapping_add(n));
    }
}
