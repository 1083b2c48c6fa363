//! What a durable commit costs and what a failed one leaves: nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/write_path.rs"]
mod write_path;

use std::{sync::Arc, time::Duration};

use narad_codecs::None as NoCodec;
use narad_core::{
    Error,
    format::{Batch, CodecNumber},
    plugin::{Codec, FrameContext, PluginError},
    testkit::{CallKind, Failure, Fault, Survival},
};
use write_path::{Bench, offset, options, payloads, record, records, segment_path, segments_of};

#[test]
fn cm_01_a_commit_costs_one_fsync_and_no_directory_sync() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.commit(record("first")).unwrap();
    for count in [1, 5] {
        bench.disk.take_calls();
        log.append(&record("appended")).unwrap();
        log.commit((0..count).map(|_| (b"k", b"v")).collect()).unwrap();
        assert_eq!(bench.syncs(), (1, 0));
        let kinds: Vec<CallKind> = bench.disk.calls().iter().map(|call| call.kind).collect();
        assert_eq!(kinds, [CallKind::Write, CallKind::SyncData, CallKind::Read]);
    }
}

#[test]
fn cm_01_a_commit_covers_what_was_appended_before_it_whoever_appended_it() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    let appended = log.append(&record("buffered")).unwrap();
    bench.pass(Duration::from_millis(100));
    log.append(&record("written and unsynced")).unwrap();
    assert_eq!(payloads(&log), [""; 0], "nobody has committed");
    assert_eq!(log.commit(record("committed")).unwrap(), offset(2)..offset(3));
    log.commit_appended(&appended).unwrap();
    assert_eq!(payloads(&log), ["buffered", "written and unsynced", "committed"]);
    let (_, after) = bench.after_power_loss(Survival::Nothing);
    assert_eq!(payloads(&after), payloads(&log));
}

#[test]
fn cm_01_it_waits_for_no_timer() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.append(&record("a")).unwrap();
    log.commit(Batch::new()).unwrap();
    assert_eq!(payloads(&log), ["a"]);
}

#[test]
fn cm_01_an_empty_commit_asks_nothing_of_the_disk() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.commit(record("a")).unwrap();
    log.close().unwrap();
    let log = bench.open_with(options());
    bench.disk.take_calls();
    assert_eq!(log.commit(Batch::new()).unwrap(), offset(1)..offset(1));
    assert_eq!(bench.disk.calls(), []);
}

#[test]
fn cm_02_a_failure_at_any_step_leaves_nothing_and_the_next_append_gets_the_offset() {
    let steps = [
        ("roll", Fault::fail(CallKind::Create, Failure::NoSpace)),
        ("write", Fault::fail(CallKind::Write, Failure::NoSpace).named("*.log")),
        ("half a write", Fault::shorten(CallKind::Write, 40).named("*.log")),
        ("a write of other bytes", Fault::flip_bit(CallKind::Write).named("*.log")),
        ("a write that was never done", Fault::skip(CallKind::Write).named("*.log")),
        ("read-back", Fault::fail(CallKind::Read, Failure::Io).named("*.log")),
        ("other bytes read back", Fault::flip_bit(CallKind::Read).named("*.log")),
        ("end of file read back", Fault::shorten(CallKind::Read, 0).named("*.log")),
        ("hwm cannot be opened", Fault::fail(CallKind::Open, Failure::TooManyFiles).named("hwm")),
        ("hwm cannot be emptied", Fault::fail(CallKind::SetLen, Failure::Io).named("hwm")),
        ("hwm cannot be synced", Fault::fail(CallKind::SyncData, Failure::Io).named("hwm")),
    ];
    for (step, fault) in steps {
        let bench = Bench::new(1);
        // Already full, so the next frame needs a roll; and closed, so `hwm` states a boundary.
        let full = if step == "roll" { 10 } else { 1 << 20 };
        bench.fail(CallKind::Create, Failure::TooManyFiles, "00000000000000000002.log");
        let log = bench.open_with(segments_of(full));
        log.commit(records(["a", "b"])).unwrap();
        bench.fail(CallKind::Create, Failure::TooManyFiles, "00000000000000000002.log");
        log.close().unwrap();
        bench.disk.clear_faults();
        let log = bench.open_with(segments_of(full));
        let before = bench.segment(0).unwrap();

        let lost = log.append(&record("appended, and dropped with it")).unwrap();
        bench.disk.inject(fault);
        if step == "half a write" {
            bench.disk.inject(Fault::fail(CallKind::Write, Failure::NoSpace).named("*.log").at(2));
        }
        let refused = log.commit(records(["c", "d"])).unwrap_err();
        assert!(!log.is_poisoned(), "{step}: {refused}");
        assert_eq!((log.next_offset(), log.high_watermark()), (offset(2), offset(2)), "{step}");
        assert_eq!(bench.segment(0).unwrap(), before, "{step}: cut");
        assert!(matches!(log.commit_appended(&lost), Err(Error::Discarded { .. })), "{step}");
        assert_eq!(payloads(&log), ["a", "b"], "{step}");
        bench.disk.clear_faults();
        let (_, after) = bench.after_power_loss(Survival::Everything);
        assert_eq!(after.next_offset(), offset(2), "{step}: the cut is durable");

        assert_eq!(log.commit(records(["c", "d"])).unwrap(), offset(2)..offset(4), "{step}");
        assert_eq!(payloads(&log), ["a", "b", "c", "d"], "{step}");
        for survival in [Survival::Nothing, Survival::Everything] {
            let (_, after) = bench.after_power_loss(survival);
            assert_eq!(payloads(&after), ["a", "b", "c", "d"], "{step}: {survival:?}");
        }
    }
}

#[test]
fn cm_02_damage_below_the_watermark_does_not_make_a_discard_cut_committed_frames() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    for payload in ["a", "b", "c"] {
        log.commit(record(payload)).unwrap();
    }
    let len = bench.segment(0).unwrap().len();
    bench.disk.alter(segment_path(0), |bytes| bytes[len / 3] ^= 0xFF);
    bench.fail(CallKind::Write, Failure::NoSpace, "*.log");
    log.commit(record("refused")).unwrap_err();
    assert_eq!(bench.segment(0).unwrap().len(), len, "only what was refused is cut");
    assert_eq!(log.commit(record("d")).unwrap(), offset(3)..offset(4));
    assert_eq!(log.read(offset(2)).unwrap().payload, "c");
    assert_eq!(log.read(offset(3)).unwrap().payload, "d");
}

#[test]
fn cm_02_a_failed_commit_takes_the_hidden_tail_along() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.commit(record("a")).unwrap();
    log.append(&record("hidden")).unwrap();
    log.close().unwrap();
    let log = bench.open_with(options());
    assert_eq!((log.high_watermark(), log.next_offset()), (offset(1), offset(2)));
    bench.fail(CallKind::Write, Failure::NoSpace, "*.log");
    log.commit(record("refused")).unwrap_err();
    assert_eq!(log.next_offset(), offset(1));
    assert_eq!(log.commit(record("b")).unwrap(), offset(1)..offset(2));
    assert_eq!(payloads(&log), ["a", "b"]);
}

#[test]
fn cm_02_without_any_segment_the_offsets_stay_where_they_are() {
    let bench = Bench::new(1);
    bench.disk.plant(format!("{}/hwm", write_path::DIR), 41i64.to_be_bytes());
    let log = bench.open_with(options());
    bench.fail(CallKind::Create, Failure::NoSpace, "*.log");
    log.commit(record("refused")).unwrap_err();
    assert_eq!(log.commit(record("a")).unwrap(), offset(41)..offset(42));
}

/// Fails or panics on records that say so.
#[derive(Debug)]
struct Moody;

impl Codec for Moody {
    fn number(&self) -> CodecNumber {
        NoCodec.number()
    }

    fn name(&self) -> &str {
        NoCodec.name()
    }

    fn encode(&self, frame: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let says = |word: &[u8]| raw.windows(word.len()).any(|window| window == word);
        assert!(!says(b"panic"), "on purpose");
        if says(b"nothing") {
            return Ok(());
        }
        if says(b"fail") { Err("it does not like that".into()) } else { NoCodec.encode(frame, raw, out) }
    }

    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        NoCodec.decode(frame, stored, out)
    }
}

#[test]
fn cm_02_a_codec_that_fails_or_panics_fails_that_commit_alone() {
    let bench = Bench::new(1);
    let mut options = options();
    options.codec = Arc::new(Moody);
    let log = bench.open_with(options);
    for (at, mood) in (0..).zip(["fail", "panic", "nothing"]) {
        let refused = log.commit(record(mood)).unwrap_err();
        assert!(matches!(refused, Error::Plugin { operation: "encode", .. }), "{mood}: {refused}");
        assert_eq!(log.commit(record("fine")).unwrap(), offset(at)..offset(at + 1));
    }
    log.append(&record("fail")).unwrap();
    bench.pass(Duration::from_millis(100));
    log.commit(record("shares its fate")).unwrap_err();
    log.commit(record("fine")).unwrap();
    assert_eq!(payloads(&log), ["fine"; 4]);
}

#[test]
fn cm_02_a_record_that_is_too_large_is_refused_before_anything_is_written() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    let kept = log.append(&record("kept")).unwrap();
    bench.disk.take_calls();
    let large = Batch::of(b"", &vec![0; 256 << 20]);
    assert!(matches!(log.append(&large), Err(Error::RecordTooLarge { .. })));
    assert!(matches!(log.commit(large), Err(Error::RecordTooLarge { .. })));
    assert_eq!(bench.disk.calls(), []);
    log.commit_appended(&kept).expect("what was appended before is not dropped");
}

#[test]
fn cm_03_failed_commit_leaves_one_copy() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    bench.disk.inject(Fault::fail(CallKind::Write, Failure::NoSpace).named("*.log").onwards());
    for _ in 0..5 {
        log.commit(records(["a", "b"])).unwrap_err();
    }
    bench.disk.clear_faults();
    assert_eq!(log.commit(records(["a", "b"])).unwrap(), offset(0)..offset(2));
    assert_eq!(payloads(&log), ["a", "b"]);
    let (_, after) = bench.after_power_loss(Survival::Everything);
    assert_eq!(payloads(&after), ["a", "b"]);
}

#[test]
fn cm_02_records_that_were_dropped_stay_dropped_when_their_offsets_are_given_out_again() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    let kept = log.append(&record("kept")).unwrap();
    log.commit(Batch::new()).unwrap();
    let dropped = log.append(&record("dropped")).unwrap();
    bench.fail(CallKind::Write, Failure::NoSpace, "*.log");
    log.commit(Batch::new()).unwrap_err();
    let again = log.append(&record("another")).unwrap();
    assert_eq!(again.offsets, dropped.offsets);
    log.commit_appended(&again).unwrap();
    assert!(matches!(log.commit_appended(&dropped), Err(Error::Discarded { first }) if first == offset(1)));
    log.commit_appended(&kept).unwrap();
    log.commit_appended(&again).unwrap();
    assert_eq!(payloads(&log), ["kept", "another"]);
}

#[test]
fn cm_05_no_reader_sees_a_record_at_or_above_the_watermark() {
    let bench = Bench::new(1);
    let log = bench.open_with(options());
    log.commit(record("a")).unwrap();
    log.read(offset(0)).unwrap();
    log.append(&record("buffered")).unwrap();
    let not_yet = |log: &narad_core::log::Log| {
        assert!(matches!(log.read(offset(1)), Err(Error::NotYet { .. })));
        assert_eq!(log.read_batch(offset(0), 10, 1000).unwrap().records.len(), 1);
    };
    not_yet(&log);
    bench.pass(Duration::from_millis(100));
    not_yet(&log);
    bench.pass(Duration::from_secs(1));
    not_yet(&log);
    // Encoded into the cache, written, and refused.
    bench.fail(CallKind::Read, Failure::Io, "*.log");
    log.commit(record("refused")).unwrap_err();
    not_yet(&log);
    log.commit(record("b")).unwrap();
    assert_eq!(log.read(offset(1)).unwrap().payload, "b", "and the cache forgot what was refused");
}

#[test]
fn cm_06_a_discard_that_fails_poisons_the_log_and_says_so() {
    for cut in [CallKind::SetLen, CallKind::SyncData] {
        let bench = Bench::new(1);
        let log = bench.open_with(options());
        log.commit(record("a")).unwrap();
        bench.fail(CallKind::Read, Failure::Io, "*.log");
        let nth = if cut == CallKind::SyncData { 2 } else { 1 };
        bench.disk.inject(Fault::fail(cut, Failure::Io).named("*.log").at(nth));
        let refused = log.commit(record("refused")).unwrap_err();
        assert!(matches!(&refused, Error::Poisoned { .. }), "{cut:?}: {refused}");
        assert!(log.is_poisoned());
        assert!(matches!(log.append(&record("x")), Err(Error::Poisoned { .. })));
        assert_eq!(bench.errors("fsync_poisoned"), 1);
        assert_eq!(payloads(&log), ["a"], "reads go on");
        for survival in [Survival::Nothing, Survival::Everything, Survival::Random] {
            let (_, after) = bench.after_power_loss(survival);
            let found = payloads(&after);
            assert!(found == ["a"] || found == ["a", "refused"], "a duplicate at worst: {found:?}");
        }
        log.reopen().unwrap();
        assert_eq!(
            log.commit(record("refused")).unwrap(),
            offset(1)..offset(2),
            "one copy, where it belongs"
        );
        let (_, after) = bench.after_power_loss(Survival::Everything);
        assert_eq!(payloads(&after), ["a", "refused"]);
    }
}
