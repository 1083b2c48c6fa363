//! RC-02: a torn tail is cut, durably, and nothing else is; whatever the length at which a write stopped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]
#![allow(clippy::single_range_in_vec_init, reason = "a list of lost ranges may have one")]

mod common;
#[path = "common/disk.rs"]
mod disk;

use disk::{DIR, Made, Rig, assert_reads, assert_recovers, none, segment, zstd};
use narad_core::{
    disk::{Disk, OpenMode},
    format::HEADER_LEN,
    testkit::{CallKind, Failure, Fault},
};

#[test]
fn rc_02_a_file_cut_at_any_byte_keeps_the_frames_before_the_cut() {
    for codec in [none(), zstd()] {
        let made = Made::frames(&*codec, 0, &[2, 1, 3], 40);
        for cut in 0..=made.bytes.len() {
            let rig = Rig::with([(0, &made.bytes[..cut])]);
            let whole = made.frames.iter().rfind(|frame| frame.at.end <= cut);
            let (kept, end) = whole.map_or((0, 0), |frame| (frame.at.end, frame.offsets.end));
            assert_recovers(&rig, &made.truth, &[], end, &format!("cut at {cut}"));
            assert!(rig.disk.contents(segment(0)).unwrap().starts_with(&made.bytes[..kept]), "cut at {cut}");
        }
    }
}

#[test]
fn rc_02_every_file_of_a_directory_cut_at_every_byte_opens() {
    let sealed = Made::frames(&*none(), 0, &[2, 2], 30);
    let active = Made::frames(&*none(), 4, &[2, 1], 30);
    let mut truth = sealed.truth.clone();
    truth.extend(active.truth.clone());
    for cut in 0..=sealed.bytes.len() {
        let rig = Rig::with([(0, &sealed.bytes[..cut]), (4, &active.bytes[..])]);
        let log = rig.open();
        // A sealed segment is not cut: what is missing in it is damage.
        let kept = sealed.frames.iter().rfind(|frame| frame.at.end <= cut).map(|frame| frame.offsets.end);
        let kept = kept.unwrap_or(0);
        let (oldest, lost) = if cut < HEADER_LEN { (4, vec![]) } else { (0, vec![kept..4]) };
        assert_eq!(log.oldest_offset().get(), oldest, "cut at {cut}");
        assert_reads(&log, &truth, &lost, 7, &format!("sealed cut at {cut}"));
        assert_eq!(rig.disk.contents(segment(0)).unwrap(), &sealed.bytes[..cut]);
    }
    for cut in 0..=active.bytes.len() {
        let rig = Rig::with([(0, &sealed.bytes[..]), (4, &active.bytes[..cut])]);
        let kept = active.frames.iter().rfind(|frame| frame.at.end <= cut).map(|frame| frame.offsets.end);
        assert_recovers(&rig, &truth, &[], kept.unwrap_or(4), &format!("active cut at {cut}"));
    }
    for cut in 0..=8 {
        let rig = Rig::with([(0, &sealed.bytes[..]), (4, &active.bytes[..])]);
        rig.disk.plant(format!("{DIR}/hwm"), &6u64.to_be_bytes()[..cut]);
        let log = rig.open();
        assert_reads(&log, &truth, &[], if cut == 8 { 6 } else { 7 }, &format!("hwm cut at {cut}"));
    }
}

#[test]
fn rc_02_a_last_frame_that_is_all_there_and_does_not_check_out_is_torn() {
    for codec in [none(), zstd()] {
        let made = Made::frames(&*codec, 0, &[2, 1, 3], 100);
        let last = made.frames[2].clone();
        for (from, to) in [(0, last.at.len()), (HEADER_LEN, last.at.len()), (0, HEADER_LEN), (40, 60)] {
            for value in [0, 0xFF, 0xCA] {
                let mut bytes = made.bytes.clone();
                bytes[last.at.start + from..last.at.start + to].fill(value);
                let rig = Rig::with([(0, &bytes[..])]);
                assert_recovers(&rig, &made.truth, &[], 3, &format!("{from}..{to} = {value}"));
            }
        }
        // Zeros behind the last frame: a length that was durable before its bytes were.
        for zeros in [1, 26, 27, 28, 4096] {
            let bytes = [&made.bytes[..], &vec![0; zeros]].concat();
            let rig = Rig::with([(0, &bytes[..])]);
            assert_recovers(&rig, &made.truth, &[], 6, &format!("{zeros} zeros"));
        }
    }
}

#[test]
fn rc_02_the_cut_is_durable_before_the_log_takes_records() {
    let made = Made::frames(&*none(), 0, &[2, 1], 30);
    let torn = [&made.bytes[..], &made.bytes[..40]].concat();
    let rig = Rig::with([(0, &torn[..])]);
    drop(rig.open());
    rig.disk.power_loss_keeping(narad_core::testkit::Survival::Nothing);
    assert_eq!(rig.disk.contents(segment(0)).unwrap(), made.bytes);
    // Where it cannot be made durable, the open fails.
    for kind in [CallKind::SetLen, CallKind::SyncData] {
        let rig = Rig::with([(0, &torn[..])]);
        rig.disk.inject(Fault::fail(kind, Failure::Io).named("*.log"));
        assert!(rig.try_open(common::options()).is_err(), "{kind:?}");
        rig.disk.clear_faults();
        assert_recovers(&rig, &made.truth, &[], 3, &format!("after a failed {kind:?}"));
    }
}

#[test]
fn rc_02_opening_for_reading_cuts_nothing() {
    let made = Made::frames(&*none(), 0, &[2, 1], 30);
    let rig = Rig::with([(0, &[&made.bytes[..], b"torn"].concat()[..])]);
    let before = rig.files();
    let codecs = common::codecs();
    let name = narad_core::plugin::LogIdentity::named("test");
    let mut records = 0;
    let summary = narad_core::log::inspect::inspect(&rig.disk, DIR.as_ref(), &name, &codecs, &mut |what| {
        records += usize::from(matches!(what, narad_core::log::inspect::Inspected::Record { .. }));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!((records, summary.torn_tail_bytes, summary.next_offset.get()), (3, 4, 3));
    assert!(before == rig.files());
    assert!(rig.disk.open(segment(0).as_path(), OpenMode::Read).is_ok());
}
