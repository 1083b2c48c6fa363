//! RD: reads of committed records.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod common;
#[path = "common/disk.rs"]
mod disk;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use common::{offset, options};
use disk::{DIR, Made, Rig, Said, none, payload, read_all, say, segment};
use narad_core::{
    Error,
    format::{Batch, CodecNumber},
    log::{Log, LogOptions},
    plugin::{Codec, FrameContext, PluginError},
    runtime::{Runtime, RuntimeOptions},
    testkit::{CallKind, Failure, Fault},
};

/// Stores what it is given and counts the frames it decodes.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Codec for Counting {
    fn number(&self) -> CodecNumber {
        CodecNumber::new(2000).unwrap()
    }
    fn name(&self) -> &str {
        "counting"
    }
    fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        out.extend_from_slice(raw);
        Ok(())
    }
    fn decode(&self, _: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        out.extend_from_slice(stored);
        Ok(())
    }
}

/// A runtime that keeps no decoded frame.
fn uncached(rig: &Rig) -> Runtime {
    let mut options = RuntimeOptions::default();
    options.disk = Arc::new(rig.disk.clone());
    options.clock = Arc::new(rig.clock.clone());
    options.cache_bytes = 0;
    Runtime::new(options)
}

#[test]
fn rd_01_every_decode_checks_the_crc_again() {
    let made = Made::frames(&*none(), 0, &[2, 2, 2], 40);
    let rig = Rig::with([(0, &made.bytes[..])]);
    let log = Log::open(&uncached(&rig), DIR.as_ref(), options()).unwrap();
    for at in 0..6 {
        assert_eq!(say(&log, at), Said::Record(made.truth[&at].clone()));
    }
    let body = made.body(1);
    rig.disk.alter(segment(0), |bytes| bytes[body.end - 1] ^= 1);
    for at in 0..6 {
        let expected = if at / 2 == 1 { Said::Corrupt } else { Said::Record(made.truth[&at].clone()) };
        assert_eq!(say(&log, at), expected, "{at}");
    }
}

#[test]
fn rd_01_a_bit_flipped_on_the_way_is_never_served() {
    let made = Made::frames(&*none(), 0, &[2, 2, 2], 40);
    let rig = Rig::with([(0, &made.bytes[..])]);
    let log = Log::open(&uncached(&rig), DIR.as_ref(), options()).unwrap();
    for at in 0..6 {
        rig.disk.inject(Fault::flip_bit(CallKind::Read).named("*.log"));
        let said = say(&log, at);
        assert!(said == Said::Corrupt || said == Said::Record(made.truth[&at].clone()), "{at}: {said:?}");
        rig.disk.clear_faults();
    }
}

#[test]
fn rd_02_a_closed_log_answers_closed_and_nothing_else() {
    let sealed = Made::frames(&*none(), 10, &[2, 2], 40);
    let active = Made::frames(&*none(), 14, &[2], 40);
    let rig = Rig::with([(10, &sealed.bytes[..]), (14, &active.bytes[..])]);
    let log = rig.open();
    read_all(&log);
    log.close().unwrap();
    for at in [0, 9, 10, 13, 14, 15, 16, 1000] {
        assert!(matches!(log.read(offset(at)), Err(Error::Closed)), "{at}");
        assert!(matches!(log.read_batch(offset(at), 10, 1000), Err(Error::Closed)), "{at}");
        assert!(matches!(log.read_batch(offset(at), 0, 0), Err(Error::Closed)), "{at}");
    }
    assert_eq!(rig.disk.open_files(), 0);
}

#[test]
fn rd_03_a_record_is_a_view_into_its_frame() {
    let made = Made::frames(&*none(), 0, &[3], 40);
    let rig = Rig::with([(0, &made.bytes[..])]);
    let log = rig.open();
    let batch = log.read_batch(offset(0), 10, 10_000).unwrap();
    let address = |n: usize| batch.records[n].payload.as_ptr() as usize;
    // Length prefix, version, key length, key and commit time lie between one payload and the next.
    let stride = 4 + 1 + 1 + 1 + 8 + batch.records[0].payload.len();
    assert_eq!((address(1) - address(0), address(2) - address(1)), (stride, stride));
    let key = batch.records[1].key.as_ptr() as usize;
    assert_eq!(address(1) - key, 1 + 8);
}

#[test]
fn rd_04_a_tail_reader_needs_neither_disk_nor_decode() {
    let codec = Arc::new(Counting::default());
    let rig = Rig::new();
    let log = rig.open_with(LogOptions::new("test", codec.clone()));
    log.commit(Batch::of(b"", b"0")).unwrap();
    say(&log, 0);
    let before = codec.0.load(Ordering::Relaxed);
    for at in 1..20 {
        log.commit(Batch::of(b"", &payload(at, 50))).unwrap();
        rig.disk.take_calls();
        assert_eq!(say(&log, at), Said::Record(payload(at, 50)));
        assert_eq!(rig.disk.take_calls(), [], "{at} came from memory");
    }
    assert_eq!(codec.0.load(Ordering::Relaxed), before);
}

#[test]
fn rd_04_what_nobody_reads_does_not_enter_the_cache() {
    let rig = Rig::new();
    let log = rig.open();
    for at in 0..3 {
        log.commit(Batch::of(b"", &payload(at, 50))).unwrap();
    }
    rig.disk.take_calls();
    say(&log, 1);
    assert!(rig.disk.count(CallKind::Read) > 0);
}

#[test]
fn rd_04_a_failed_commit_leaves_nothing_in_the_cache() {
    let rig = Rig::new();
    let log = rig.open();
    log.commit(Batch::of(b"", b"0")).unwrap();
    say(&log, 0);
    rig.disk.inject(Fault::fail(CallKind::Write, Failure::NoSpace));
    assert!(log.commit(Batch::of(b"", b"refused")).is_err());
    assert_eq!(say(&log, 1), Said::NotYet);
    log.commit(Batch::of(b"", b"taken")).unwrap();
    assert_eq!(say(&log, 1), Said::Record(b"taken".to_vec()));
}

#[test]
fn rd_05_a_batch_read_decodes_each_frame_once() {
    let codec = Arc::new(Counting::default());
    let made = Made::frames(&*codec, 0, &[5, 5, 5, 5], 30);
    let rig = Rig::with([(0, &made.bytes[..])]);
    let log = Log::open(&uncached(&rig), DIR.as_ref(), {
        let mut options = LogOptions::new("test", codec.clone());
        options.readable = common::codecs();
        options
    })
    .unwrap();
    codec.0.store(0, Ordering::Relaxed);
    let batch = log.read_batch(offset(2), 16, 1 << 20).unwrap();
    assert_eq!(batch.records.len(), 16);
    assert_eq!(codec.0.load(Ordering::Relaxed), 4);
}

#[test]
fn rd_05_a_batch_keeps_to_its_bounds() {
    let made = Made::frames(&*none(), 0, &[5, 5], 30);
    let rig = Rig::with([(0, &made.bytes[..])]);
    let log = rig.open();
    let count = |from, records, bytes| {
        let batch = log.read_batch(offset(from), records, bytes).unwrap();
        assert_eq!(batch.next.get(), from + batch.records.len() as u64);
        batch.records.len()
    };
    let each = 1 + 30;
    assert_eq!(count(0, 3, 10_000), 3);
    assert_eq!(count(0, 100, 4 * each), 4);
    assert_eq!(count(0, 100, 4 * each + 1), 4);
    assert_eq!(count(0, 100, 7 * each), 7, "across frames");
    assert_eq!(count(0, 100, 0), 1, "one record at least");
    assert_eq!(count(0, 0, 10_000), 0);
    assert_eq!(count(10, 100, 10_000), 0, "at the high watermark");
    assert_eq!(count(99, 100, 10_000), 0, "above it");
    assert_eq!(count(7, usize::MAX, usize::MAX), 3);
}

#[test]
fn rd_05_empty_keys_and_payloads_end_no_scan() {
    let rig = Rig::new();
    let log = rig.open();
    log.commit([(b"", b""), (b"", b"")].into_iter().collect()).unwrap();
    log.commit(Batch::of(b"", b"last")).unwrap();
    let (records, lost) = read_all(&log);
    assert_eq!((records.len(), lost.len()), (3, 0));
    assert_eq!(records[&1], b"");
}

#[test]
fn rd_expired_and_not_yet_are_told_apart() {
    let made = Made::frames(&*none(), 100, &[2], 30);
    let rig = Rig::with([(100, &made.bytes[..])]);
    let log = rig.open();
    for at in [0, 99] {
        assert!(matches!(log.read(offset(at)), Err(Error::Expired { oldest, .. }) if oldest == offset(100)));
        assert!(matches!(log.read_batch(offset(at), 1, 1), Err(Error::Expired { .. })));
    }
    for at in [102, 103, i64::MAX as u64] {
        assert!(matches!(log.read(offset(at)), Err(Error::NotYet { .. })));
    }
}

/// What a call on a runtime that is driven by hand has come to when it was made.
fn at_once<T>(call: impl Future<Output = T>) -> T {
    use std::task::{Context, Poll, Waker};
    match std::pin::pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn rd_an_async_read_of_what_is_in_memory_answers_as_much_as_any_other() {
    let rig = Rig::new();
    let log = rig.open();
    for count in [1000, 3] {
        let batch: Batch = (0..count).map(|at| (b"k", payload(at, 20))).collect();
        log.commit(batch).unwrap();
    }
    for from in [0, 400, 998, 1000, 1003] {
        for most in [1, 2, 600, 4096] {
            let blocking = log.read_batch(offset(from), most, 1 << 20).unwrap();
            let read = at_once(log.read_batch_async(offset(from), most, 1 << 20)).unwrap();
            assert_eq!(
                (read.records.len(), read.next),
                (blocking.records.len(), blocking.next),
                "{from} {most}"
            );
            let left = usize::try_from(1003 - from).unwrap();
            assert_eq!(read.records.len(), most.min(left), "{from} {most}");
        }
    }
}

/// Frames of so many records of `len` bytes each in a sealed segment, and an active one behind it.
fn sealed(codec: &dyn Codec, counts: &[u64], len: usize) -> (Rig, Made) {
    let made = Made::frames(codec, 0, counts, len);
    let end = counts.iter().sum();
    let active = Made::frames(codec, end, &[1], len);
    (Rig::with([(0, &made.bytes[..]), (end, &active.bytes[..])]), made)
}

/// Everything up to `end`, some records at a time.
fn read_through(log: &Log, end: u64, records: usize, truth: &Made) {
    let mut from = offset(0);
    while from < offset(end) {
        let batch = log.read_batch(from, records, 1 << 20).unwrap();
        assert!(batch.unreadable.is_empty());
        for record in batch.records.iter().filter(|record| record.offset < offset(end)) {
            assert_eq!(truth.truth[&record.offset.get()], record.payload);
        }
        from = batch.next;
    }
}

#[test]
fn rd_05_who_reads_a_sealed_segment_from_its_start_reads_its_bytes_once() {
    for (counts, len) in
        [(vec![1; 3000], 300), (vec![8; 100], 1000), (vec![64; 20], 1000), (vec![1000; 3], 500)]
    {
        let (rig, made) = sealed(&*none(), &counts, len);
        let log = rig.open();
        rig.disk.take_calls();
        let end = counts.iter().sum::<u64>();
        read_through(&log, end, usize::MAX, &made);
        let reads = rig.disk.take_calls().into_iter().filter(|call| call.kind == CallKind::Read);
        let asked: u64 = reads.map(|call| call.bytes).sum();
        let bytes = made.bytes.len() as u64;
        assert!(asked < bytes + bytes / 3, "{asked} bytes asked for, and there are {bytes}");
    }
}

#[test]
fn rd_05_small_frames_are_read_together_and_as_many_as_are_wanted() {
    let codec = Arc::new(Counting::default());
    let (rig, made) = sealed(&*codec, &[1; 100], 30);
    let options = || {
        let mut options = LogOptions::new("test", codec.clone());
        options.readable = common::codecs();
        options
    };
    let log = rig.open_with(options());
    codec.0.store(0, Ordering::Relaxed);
    assert_eq!(log.read_batch(offset(0), 10, 1 << 20).unwrap().records.len(), 10);
    assert_eq!(codec.0.load(Ordering::Relaxed), 10, "no more than were wanted");
    read_through(&log, 100, 7, &made);
    assert!(codec.0.load(Ordering::Relaxed) <= 101);
    let before = (codec.0.load(Ordering::Relaxed), rig.runtime.cache_stats());
    read_through(&log, 100, 7, &made);
    let stats = rig.runtime.cache_stats();
    assert_eq!(codec.0.load(Ordering::Relaxed), before.0, "the second time from memory");
    assert!(stats.hits > before.1.hits && stats.misses == before.1.misses, "{stats:?}");
    assert!(stats.bytes > 0);
    // One at a time, each frame stands alone.
    let log = Log::open(&uncached(&rig), DIR.as_ref(), options()).unwrap();
    codec.0.store(0, Ordering::Relaxed);
    say(&log, 50);
    assert_eq!(codec.0.load(Ordering::Relaxed), 1);
}

#[test]
fn rd_05_no_frame_above_the_high_watermark_is_taken_along() {
    let codec = Arc::new(Counting::default());
    let made = Made::frames(&*codec, 0, &[1; 10], 30);
    let rig = Rig::with([(0, &made.bytes[..])]);
    rig.disk.plant(format!("{DIR}/hwm"), 6u64.to_be_bytes());
    let mut options = LogOptions::new("test", codec.clone());
    options.readable = common::codecs();
    let log = rig.open_with(options);
    codec.0.store(0, Ordering::Relaxed);
    assert_eq!(log.read_batch(offset(0), 100, 1 << 20).unwrap().records.len(), 6);
    assert_eq!(codec.0.load(Ordering::Relaxed), 6);
}

#[test]
fn rd_05_damage_among_small_frames_costs_its_own_records() {
    let (rig, made) = sealed(&*none(), &[1; 50], 30);
    for at in [0, 17, 49] {
        let rig = Rig::on(rig.disk.fork(), rig.clock.clone());
        let end = made.body(at).end;
        rig.disk.alter(segment(0), |bytes| bytes[end - 1] ^= 1);
        let log = rig.open();
        let (records, lost) = read_all(&log);
        assert_eq!(records.len(), 50, "{at}: all but one, and that of the active segment");
        assert_eq!(lost, [at as u64]);
    }
}
