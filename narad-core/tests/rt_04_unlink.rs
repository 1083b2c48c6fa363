//! RT-04: a sweep detaches first and unlinks afterwards; what fails is counted and tried again, reads that race it get the
//! record or "expired", and what a crash leaves has no hole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod common;
#[path = "common/disk.rs"]
mod disk;

use std::sync::Arc;

use common::{offset, options};
use disk::{DIR, Rig, Said, frame, none, payload, read_all, say, segment};
use narad_core::{
    Error,
    format::Batch,
    log::{Log, LogOptions},
    plugin::{RetentionDecision, RetentionPolicy, RetentionView},
    testkit::{CallKind, Failure, Fault, Gate},
};

/// Lets the first segments go, up to this one.
#[derive(Debug)]
struct Below(u64);

impl RetentionPolicy for Below {
    fn name(&self) -> &str {
        "below"
    }
    fn roll_age(&self) -> Option<std::time::Duration> {
        None
    }
    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        let count = view.segments.iter().take_while(|segment| segment.end.get() <= self.0).count();
        RetentionDecision::expire(count, "below")
    }
}

fn below(end: u64) -> LogOptions {
    let mut options = options();
    options.retention = Arc::new(Below(end));
    options
}

/// Segments of one record each, and an active one.
fn rig(sealed: u64) -> Rig {
    let rig = Rig::new();
    for base in 0..=sealed {
        rig.disk.plant(segment(base), frame(&*none(), base, &[payload(base, 50)]));
    }
    rig
}

fn segments_left(rig: &Rig) -> Vec<u64> {
    (0..20).filter(|base| rig.disk.contents(segment(*base)).is_some()).collect()
}

fn failures(rig: &Rig) -> u64 {
    rig.runtime.metrics().error_count("storage", "retention_unlink")
}

#[test]
fn rt_04_a_failed_unlink_is_counted_and_tried_again() {
    for nth in 1..=4 {
        let rig = rig(6);
        let log = rig.open_with(below(4));
        rig.disk.inject(Fault::fail(CallKind::Remove, Failure::Io).at(nth));
        assert_eq!(log.sweep(None).unwrap().segments, 4, "detached all the same");
        assert_eq!(failures(&rig), 1);
        for at in 0..4 {
            assert_eq!(say(&log, at), Said::Expired);
        }
        assert_eq!(segments_left(&rig), (nth - 1..=6).collect::<Vec<_>>(), "what is behind a failure waits");
        assert_eq!(log.sweep(None).unwrap().segments, 0);
        assert_eq!((failures(&rig), segments_left(&rig)), (1, vec![4, 5, 6]));
    }
}

#[test]
fn rt_04_an_unlink_that_goes_on_failing_is_counted_each_time_and_survives_other_sweeps() {
    let rig = rig(6);
    let log = rig.open_with(below(2));
    let fault = rig.disk.inject(Fault::fail(CallKind::Remove, Failure::AccessDenied).onwards());
    for sweep in 1..=3 {
        log.sweep(None).unwrap();
        assert_eq!(failures(&rig), sweep);
    }
    log.set_retention(Arc::new(Below(4)));
    assert_eq!(log.sweep(None).unwrap().segments, 2);
    assert_eq!(segments_left(&rig), [0, 1, 2, 3, 4, 5, 6]);
    rig.disk.remove_fault(fault);
    log.sweep(None).unwrap();
    assert_eq!(segments_left(&rig), [4, 5, 6]);
    // One that somebody else has removed is no failure.
    log.set_retention(Arc::new(Below(5)));
    let before = failures(&rig);
    use narad_core::disk::Disk;
    rig.disk.remove_file(&segment(4)).unwrap();
    assert_eq!(log.sweep(None).unwrap().segments, 1);
    assert_eq!(failures(&rig), before);
}

#[test]
fn rt_04_a_crash_at_any_call_of_a_sweep_leaves_a_suffix() {
    for survival_seed in 0..20 {
        for nth in 1.. {
            let start = rig(6);
            let disk = start.disk.fork();
            let rig = Rig::on(disk, start.clock.clone());
            let log = rig.open_with(below(4));
            log.commit(Batch::of(b"", &payload(7, 50))).unwrap();
            let fault = rig.disk.inject(Fault::fail_all(Failure::Io).at(nth).onwards());
            _ = log.sweep(None);
            let fired = rig.disk.fired(fault);
            drop(log);
            for _ in 0..=survival_seed {
                rig.disk.fork();
            }
            rig.disk.power_loss();
            rig.disk.clear_faults();
            let left = segments_left(&rig);
            let first = left[0];
            assert!(first <= 4, "{left:?}");
            assert_eq!(left, (first..=6).collect::<Vec<_>>(), "call {nth}: a hole");
            let log = rig.open_with(below(4));
            let (records, lost) = read_all(&log);
            assert_eq!((records.len() as u64, lost), (8 - first, vec![]));
            assert_eq!(log.next_offset(), offset(8));
            if fired == 0 {
                break;
            }
        }
    }
}

#[test]
fn rt_04_a_read_that_races_a_sweep_gets_the_record_or_expired() {
    // The reader is held at its open, and at its read, of a segment that a sweep then deletes.
    for kind in [CallKind::Open, CallKind::Read] {
        for batch in [false, true] {
            let rig = rig(6);
            let log = rig.open_with(below(4));
            let gate = Gate::new();
            rig.disk.inject(Fault::hold(kind, &gate).named("*2.log"));
            let reader = {
                let log = log.clone();
                std::thread::spawn(move || {
                    if batch {
                        log.read_batch(offset(2), 1, 1).map(|batch| batch.records[0].clone())
                    } else {
                        log.read(offset(2))
                    }
                })
            };
            gate.wait_for(1);
            let before = rig.disk.calls().len();
            assert_eq!(log.sweep(None).unwrap().segments, 4, "a sweep waits for no reader");
            assert!(rig.disk.calls().len() > before);
            gate.open();
            match reader.join().unwrap() {
                Ok(record) => assert_eq!(record.payload, payload(2, 50)),
                Err(Error::Expired { oldest, .. }) => assert_eq!(oldest, offset(4)),
                Err(other) => panic!("{kind:?}: {other}"),
            }
            assert_eq!(say(&log, 2), Said::Expired, "afterwards");
        }
    }
}

#[test]
fn rt_04_many_readers_and_a_sweeper() {
    let rig = rig(12);
    let log = rig.open_with(below(0));
    let read = |log: &Log| {
        for at in 0..13 {
            match log.read(offset(at)) {
                Ok(record) => assert_eq!(record.payload, payload(at, 50)),
                Err(Error::Expired { .. }) => {}
                Err(other) => panic!("{at}: {other}"),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..300).for_each(|_| read(&log)));
        }
        scope.spawn(|| {
            for end in 0..=12 {
                log.set_retention(Arc::new(Below(end)));
                log.sweep(None).unwrap();
            }
        });
    });
    assert_eq!(log.oldest_offset(), offset(12));
    assert_eq!(segments_left(&rig), [12]);
    assert!(rig.disk.contents(format!("{DIR}/hwm")).is_none());
}

#[test]
fn rt_04_the_last_segments_successor_is_durable_before_it_goes() {
    // No active segment: a newest file without a frame lies below the end, and everything sealed goes.
    let rig = Rig::new();
    rig.disk.plant(
        segment(0),
        [frame(&*none(), 0, &[payload(0, 50)]), frame(&*none(), 1, &[payload(1, 50)])].concat(),
    );
    rig.disk.plant(segment(1), b"");
    let log = rig.open_with(below(2));
    assert_eq!(log.next_offset(), offset(2));
    assert_eq!(log.sweep(None).unwrap().records, 2);
    assert_eq!((log.oldest_offset(), log.next_offset()), (offset(2), offset(2)));
    drop(log);
    rig.disk.power_loss();
    let log = rig.open();
    assert_eq!(log.next_offset(), offset(2));
    assert_eq!(log.commit(Batch::of(b"", b"x")).unwrap().start, offset(2));
}

#[test]
fn rt_04_a_closed_log_unlinks_nothing_for_its_directory_may_be_another_ones() {
    let rig = rig(6);
    let log = rig.open_with(below(4));
    let gate = Gate::new();
    rig.disk.inject(Fault::hold(CallKind::Remove, &gate).at(2));
    std::thread::scope(|scope| {
        let sweep = scope.spawn(|| log.sweep(None).unwrap());
        gate.wait_for(1);
        scope.spawn(|| {
            while !log.is_closed() {
                std::thread::yield_now();
            }
            gate.open();
        });
        log.close().unwrap();
        assert_eq!(segments_left(&rig), [2, 3, 4, 5, 6], "it has waited for the unlink that was under way");
        assert_eq!(sweep.join().unwrap().segments, 4);
    });
    assert_eq!(segments_left(&rig), [2, 3, 4, 5, 6], "nothing more has gone");
    let again = rig.open_with(below(4));
    assert_eq!(again.sweep(None).unwrap().segments, 2, "the next open finds what was left");
    assert_eq!(segments_left(&rig), [4, 5, 6]);
}

/// Three segments of some megabytes, which go gently, and an active one.
fn large() -> Rig {
    let rig = Rig::new();
    for base in 0..3 {
        rig.disk.plant(segment(base), frame(&*none(), base, &[payload(base, (9 << 20) / 4)]));
    }
    rig.disk.plant(segment(3), frame(&*none(), 3, &[payload(3, 50)]));
    rig
}

#[test]
fn rt_04_the_space_of_a_large_segment_comes_back_in_steps_after_its_name_is_durably_gone() {
    let rig = large();
    let log = rig.open_with(below(2));
    let handles = rig.disk.open_files();
    rig.disk.take_calls();
    assert_eq!(log.sweep(None).unwrap().segments, 2);
    let calls: Vec<_> = rig.disk.take_calls();
    let mut durable = false;
    let (mut steps, mut len) = (0, u64::MAX);
    for call in calls {
        match call.kind {
            CallKind::Remove => (durable, len) = (false, (9 << 20) / 4 + 100),
            CallKind::SyncDir => durable = true,
            CallKind::SetLen => {
                assert!(durable, "before that, a power loss could bring the name back");
                assert!(call.bytes < len && len - call.bytes <= 4 << 20, "{} from {len}", call.bytes);
                (steps, len) = (steps + 1, call.bytes);
            }
            _ => {}
        }
    }
    assert_eq!((steps, len), (2, 0));
    assert_eq!(rig.disk.open_files(), handles, "and the descriptors");
    let left: usize = [2, 3].map(|base| rig.disk.contents(segment(base)).unwrap().len()).iter().sum();
    assert_eq!(rig.disk.used_bytes(), left as u64);
}

#[test]
fn rt_04_a_crash_in_the_middle_leaves_no_shortened_segment() {
    let whole: Vec<_> = (0..4).map(|base| large().disk.contents(segment(base)).unwrap()).collect();
    for nth in 1.. {
        let rig = large();
        let log = rig.open_with(below(3));
        let fault = rig.disk.inject(Fault::fail_all(Failure::Io).at(nth).onwards());
        _ = log.sweep(None);
        let fired = rig.disk.fired(fault);
        for _ in 0..10 {
            let crashed = Rig::on(rig.disk.fork(), rig.clock.clone());
            crashed.disk.power_loss();
            let left = segments_left(&crashed);
            assert_eq!(left, (left[0]..=3).collect::<Vec<_>>(), "call {nth}: a hole");
            assert_eq!(crashed.disk.paths().len(), left.len(), "nothing of any other name");
            for base in left {
                let found = crashed.disk.contents(segment(base)).unwrap();
                assert!(found == whole[base as usize], "call {nth}: segment {base} is not what it was");
            }
        }
        if fired == 0 {
            break;
        }
    }
}

#[test]
fn rt_04_whatever_fails_of_the_steps_the_segment_is_gone_and_no_sweep_fails() {
    for kind in [CallKind::Open, CallKind::Metadata, CallKind::SetLen] {
        for nth in 1..=3 {
            let rig = large();
            let log = rig.open_with(below(3));
            rig.disk.inject(Fault::fail(kind, Failure::Io).at(nth));
            assert_eq!(log.sweep(None).unwrap().segments, 3, "{kind:?} {nth}");
            assert_eq!((segments_left(&rig), failures(&rig)), (vec![3], 0), "{kind:?} {nth}");
            assert!(rig.disk.used_bytes() < 1000, "{kind:?} {nth}: closed, it takes no space");
        }
    }
}

#[test]
fn rt_04_a_read_of_a_segment_whose_space_goes_meanwhile_says_expired_and_not_damaged() {
    for batch in [false, true] {
        // The header's read, and the frame's.
        for nth in 1..=2 {
            let rig = large();
            let log = rig.open_with(below(3));
            let gate = Gate::new();
            rig.disk.inject(Fault::hold(CallKind::Read, &gate).named("*1.log").at(nth));
            let reader = {
                let log = log.clone();
                std::thread::spawn(move || {
                    if batch {
                        log.read_batch(offset(1), 1, 1).map(|batch| batch.records[0].clone())
                    } else {
                        log.read(offset(1))
                    }
                })
            };
            gate.wait_for(1);
            assert_eq!(log.sweep(None).unwrap().segments, 3);
            assert!(rig.disk.used_bytes() < 1000, "nothing waits for the reader");
            gate.open();
            match reader.join().unwrap() {
                Err(Error::Expired { oldest, .. }) => assert_eq!(oldest, offset(3)),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a link is made beside the engine")]
fn rt_04_another_link_to_a_segment_keeps_every_byte() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::new();
    let runtime = narad_core::runtime::Runtime::driven_by_hand(
        Arc::new(narad_core::disk::OsDisk),
        Arc::new(rig.clock.clone()),
    );
    let partition = dir.path().join("p");
    let mut options = below(2);
    options.segment_bytes = 2 << 20;
    let log = Log::open(&runtime, &partition, options).unwrap();
    for at in 0..3 {
        log.commit(Batch::of(b"", &payload(at, (9 << 20) / 4))).unwrap();
    }
    let name = |base: u64| format!("{base:020}.log");
    // A backup made of links shares the file with the log.
    let before = std::fs::read(partition.join(name(0))).unwrap();
    std::fs::hard_link(partition.join(name(0)), dir.path().join("backup")).unwrap();
    assert_eq!(log.sweep(None).unwrap().segments, 2);
    assert!(!partition.join(name(0)).exists());
    assert!(std::fs::read(dir.path().join("backup")).unwrap() == before);
}
