//! RC-01: an open reads the active segment alone, and a read error fails it and leaves every byte.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod common;
#[path = "common/disk.rs"]
mod disk;

use common::options;
use disk::{DIR, Made, Rig, assert_recovers, none, segment};
use narad_core::{
    Error,
    testkit::{CallKind, Failure, Fault},
};

fn rig() -> (Rig, Made) {
    let sealed = Made::frames(&*none(), 0, &[2, 2], 30);
    let active = Made::frames(&*none(), 4, &[2, 3, 2, 1], 300);
    let rig = Rig::with([(0, &sealed.bytes[..]), (4, &active.bytes[..])]);
    let mut all = active;
    all.truth.extend(sealed.truth);
    (rig, all)
}

#[test]
fn rc_01_an_open_reads_the_active_segment_alone() {
    let (rig, _) = rig();
    rig.disk.take_calls();
    let log = rig.open();
    assert_eq!(rig.disk.count_on(CallKind::Open, "*0.log"), 0, "a sealed segment is only stat'ed");
    assert_eq!(rig.disk.count_on(CallKind::Read, "*0.log"), 0);
    let read: u64 = rig
        .disk
        .calls()
        .iter()
        .filter(|c| c.kind == CallKind::Read && c.is_on("*4.log"))
        .map(|c| c.bytes)
        .sum();
    let len = rig.disk.contents(segment(4)).unwrap().len() as u64;
    assert!(read <= 2 * len, "{read} of {len} bytes, once to check and once for the newest record");
    drop(log);
}

/// A directory in which everything goes wrong that makes an open write: damage, a torn tail, an empty active segment.
fn bad_directories() -> Vec<(&'static str, Rig)> {
    let sealed = Made::frames(&*none(), 0, &[2, 2], 30);
    let active = Made::frames(&*none(), 4, &[2, 3, 2, 1], 300);
    let mut damaged = active.bytes.clone();
    damaged[active.frames[1].at.start + 60] ^= 1;
    damaged.truncate(damaged.len() - 9);
    let torn = &active.bytes[..active.bytes.len() - 40];
    vec![
        ("torn", Rig::with([(0, &sealed.bytes[..]), (4, torn)])),
        ("damaged and torn", Rig::with([(0, &sealed.bytes[..]), (4, &damaged[..])])),
        ("empty", Rig::with([(0, &sealed.bytes[..]), (4, b"short")])),
        ("whole", Rig::with([(0, &sealed.bytes[..]), (4, &active.bytes[..])])),
    ]
}

#[test]
fn rc_01_a_read_error_fails_the_open_and_leaves_every_byte() {
    for kind in [CallKind::Read, CallKind::Open, CallKind::Metadata, CallKind::List] {
        for failure in [Failure::Io, Failure::TooManyFiles] {
            for nth in 1.. {
                let mut hit = false;
                for (name, rig) in bad_directories() {
                    let before = rig.files();
                    let fault = rig.disk.inject(Fault::fail(kind, failure).named("*.log").at(nth));
                    let opened = rig.try_open(options());
                    if rig.disk.fired(fault) == 0 {
                        continue;
                    }
                    hit = true;
                    assert!(matches!(opened, Err(Error::Io { .. })), "{name}: {kind:?} {nth}: {opened:?}");
                    assert!(before == rig.files(), "{name}: {kind:?} {nth} changed bytes");
                }
                if !hit {
                    break;
                }
            }
        }
    }
    // The directory itself.
    for (name, rig) in bad_directories() {
        let before = rig.files();
        rig.disk.inject(Fault::fail(CallKind::List, Failure::Io));
        assert!(matches!(rig.try_open(options()), Err(Error::Io { .. })), "{name}");
        assert!(before == rig.files(), "{name}");
    }
}

#[test]
fn rc_01_short_and_interrupted_reads_are_no_end_of_file() {
    for (fault, name) in [
        (Fault::shorten(CallKind::Read, 1).onwards(), "one byte a read"),
        (Fault::fail(CallKind::Read, Failure::Interrupted), "interrupted"),
    ] {
        let (rig, made) = rig();
        rig.disk.inject(fault);
        assert_recovers(&rig, &made.truth, &[], 12, name);
    }
}

#[test]
fn rc_01_a_file_that_seems_to_end_early_is_not_cut() {
    for nth in 1.. {
        let mut hit = false;
        for (name, rig) in bad_directories() {
            let before = rig.files();
            let fault = rig.disk.inject(Fault::shorten(CallKind::Read, 0).named("*.log").at(nth).onwards());
            let opened = rig.try_open(options());
            if rig.disk.fired(fault) == 0 {
                continue;
            }
            hit = true;
            assert!(matches!(opened, Err(Error::Io { .. })), "{name}: read {nth}: {opened:?}");
            assert!(before == rig.files(), "{name}: read {nth} changed bytes");
        }
        if !hit {
            break;
        }
    }
}

#[test]
fn rc_01_an_error_on_hwm_alone_hides_nothing() {
    for kind in [CallKind::Read, CallKind::Open, CallKind::Metadata] {
        let (rig, made) = rig();
        rig.disk.plant(format!("{DIR}/hwm"), 6u64.to_be_bytes());
        let before = rig.files();
        rig.disk.inject(Fault::fail(kind, Failure::Io).named("hwm"));
        let opened = rig.try_open(options());
        assert!(before == rig.files(), "{kind:?}");
        if let Ok(log) = opened {
            assert_eq!(log.high_watermark().get(), 12, "{kind:?}: the records say it");
            assert_eq!(disk::read_all(&log).0, made.truth);
        }
    }
}

#[test]
fn rc_01_the_time_of_an_open_does_not_depend_on_the_sealed_segments() {
    let active = Made::frames(&*none(), 4000, &[2], 30);
    let mut counts = Vec::new();
    for sealed in [1u64, 200] {
        let rig = Rig::with([(4000, &active.bytes[..])]);
        for n in 0..sealed {
            rig.disk.plant(segment(n * 2), Made::frames(&*none(), n * 2, &[2], 2000).bytes);
        }
        rig.disk.take_calls();
        drop(rig.open());
        counts.push((rig.disk.count(CallKind::Open), rig.disk.count(CallKind::Read)));
    }
    assert_eq!(counts[0], counts[1]);
}
