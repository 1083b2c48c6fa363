//! FM-02 to FM-06: what a codec may do to a frame, and what a header may not make the engine do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod common;
#[path = "common/disk.rs"]
mod disk;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use common::{offset, options};
use disk::{
    Made, Rig, Said, assert_reads, frame, frame_of, none, payload, read_all, say, sealed, segment, zstd,
};
use narad_core::{
    Error,
    format::{Batch, CodecNumber, FrameHeader, HEADER_LEN, MAX_FRAME_BYTES},
    log::LogOptions,
    plugin::{Codec, FrameContext, Lacking, PluginError},
};

/// What a codec of these tests does wrong, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Right,
    Shorter,
    Longer,
    Nothing,
    Fails,
    Lacks,
    Panics,
}

/// Stores what it is given, misbehaves when told to, and counts its calls.
#[derive(Debug)]
struct Wayward {
    number: u32,
    encode: Manner,
    decode: Manner,
    is_wayward: AtomicBool,
    decoded: AtomicUsize,
}

impl Wayward {
    fn new(number: u32, encode: Manner, decode: Manner) -> Arc<Self> {
        let is_wayward = AtomicBool::new(true);
        Arc::new(Self { number, encode, decode, is_wayward, decoded: AtomicUsize::new(0) })
    }

    fn act(&self, manner: Manner, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        match if self.is_wayward.load(Ordering::Relaxed) { manner } else { Manner::Right } {
            Manner::Right => out.extend_from_slice(bytes),
            Manner::Shorter => out.extend_from_slice(&bytes[1..]),
            Manner::Longer => out.extend(bytes.iter().chain(&[0])),
            Manner::Nothing => {}
            Manner::Fails => return Err("it would not".into()),
            Manner::Lacks => return Err(Lacking::new("it has no key 7").into()),
            Manner::Panics => panic!("a codec of a test"),
        }
        Ok(())
    }
}

impl Codec for Wayward {
    fn number(&self) -> CodecNumber {
        CodecNumber::new(self.number).unwrap()
    }
    fn name(&self) -> &str {
        "wayward"
    }
    fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        self.act(self.encode, raw, out)
    }
    fn decode(&self, _: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        self.decoded.fetch_add(1, Ordering::Relaxed);
        self.act(self.decode, stored, out)
    }
}

fn with(codec: Arc<dyn Codec>) -> LogOptions {
    let mut options = LogOptions::new("test", codec);
    for known in [none(), zstd()] {
        options.readable.insert(known).unwrap();
    }
    options
}

#[test]
fn fm_03_one_log_holds_frames_of_several_codecs() {
    let rig = Rig::new();
    let extended = || Wayward::new(1024, Manner::Right, Manner::Right) as Arc<dyn Codec>;
    let mut truth = std::collections::BTreeMap::new();
    for (n, codec) in [none(), zstd(), extended(), none(), extended()].into_iter().enumerate() {
        let mut options = with(codec);
        options.readable.insert(extended()).unwrap();
        let log = rig.open_with(options);
        assert_reads(&log, &truth, &[], n as u64, "before");
        log.commit(Batch::of(b"k", &payload(n as u64, 100))).unwrap();
        truth.insert(n as u64, payload(n as u64, 100));
        assert_reads(&log, &truth, &[], n as u64 + 1, "after");
        log.close().unwrap();
    }
    let flags: Vec<u8> = {
        let (bytes, mut at, mut flags) = (rig.disk.contents(segment(0)).unwrap(), 0, vec![]);
        while let Some(header) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            let header = FrameHeader::decode(header).unwrap();
            flags.push(header.flags);
            at += header.frame_len() as usize;
        }
        flags
    };
    assert_eq!(flags, [0, 1, 7, 0, 7]);
}

#[test]
fn fm_04_a_codec_that_nobody_registered_is_named_and_its_frames_are_kept() {
    let raw = {
        let mut batch: Batch = (0..2).map(|n| (b"k", payload(n, 30))).collect();
        batch.stamp(1);
        batch.as_bytes().to_vec()
    };
    // Flags, what stands in front of the codec's output, and the number that the error names.
    let cases: [(u8, &[u8], Option<u32>); 9] = [
        (2, &[], Some(2)),
        (3, &[], Some(3)),
        (6, &[], Some(6)),
        (7, &[8], Some(8)),
        (7, &[0x80, 0x08], Some(1024)),
        (7, &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F], Some(u32::MAX)),
        (8, &[], None),
        (0x80, &[], None),
        (0xFF, &[], None),
    ];
    for (flags, prefix, number) in cases {
        for is_last in [false, true] {
            let unknown = sealed(flags, 2, 2, raw.len() as u32, &[prefix, &raw[..]].concat());
            let before = frame(&*none(), 0, &[payload(0, 30), payload(1, 30)]);
            let after = if is_last { vec![] } else { frame(&*none(), 4, &[payload(4, 30)]) };
            let bytes = [before, unknown, after].concat();
            let rig = Rig::with([(0, &bytes[..])]);
            let log = rig.open();
            assert_eq!(log.next_offset().get(), if is_last { 4 } else { 5 }, "{flags:#x}");
            assert_eq!(rig.disk.contents(segment(0)).unwrap(), bytes, "{flags:#x}: nothing is cut");
            for at in [2, 3] {
                match log.read(offset(at)) {
                    Err(Error::UnknownCodec { number: found, .. }) => {
                        assert!(number.is_none_or(|number| number == found.get()), "{flags:#x}: {found}");
                    }
                    other => panic!("{flags:#x} {prefix:?}: {other:?}"),
                }
            }
            assert_eq!(say(&log, 1), Said::Record(payload(1, 30)));
            if !is_last {
                assert_eq!(say(&log, 4), Said::Record(payload(4, 30)));
            }
            let (records, lost) = read_all(&log);
            assert_eq!(
                (records.len(), lost),
                (if is_last { 2 } else { 3 }, vec![2, 3]),
                "passed over, not hidden"
            );
            // A log goes on behind them.
            let next = log.commit(Batch::of(b"", b"on")).unwrap();
            assert_eq!(say(&log, next.start.get()), Said::Record(b"on".to_vec()));
        }
    }
}

#[test]
fn fm_04_a_malformed_extended_number_is_corrupt() {
    for prefix in [&[0x80][..], &[1], &[7], &[0], &[0xFF; 11], &[0xFF, 0xFF, 0xFF, 0xFF, 0x1F]] {
        let bytes = sealed(7, 0, 1, 20, prefix);
        let rig = Rig::with([(0, &bytes[..])]);
        assert_eq!(say(&rig.open(), 0), Said::Corrupt, "{prefix:?}");
        assert_eq!(rig.disk.contents(segment(0)).unwrap(), bytes, "rc_09");
    }
}

#[test]
fn fm_05_a_codec_that_decodes_wrong_costs_that_frame_and_nothing_else() {
    for manner in [Manner::Shorter, Manner::Longer, Manner::Nothing, Manner::Fails, Manner::Panics] {
        let codec = Wayward::new(1024, Manner::Right, manner);
        let rig = Rig::new();
        let log = rig.open_with(with(none()));
        log.commit(Batch::of(b"k", b"before")).unwrap();
        log.close().unwrap();
        let log = rig.open_with(with(codec.clone()));
        log.commit([(b"k", b"one"), (b"k", b"two")].into_iter().collect()).unwrap();
        log.close().unwrap();
        let log = rig.open_with(with(codec.clone()));
        for at in [1, 2, 1] {
            assert_eq!(say(&log, at), Said::Corrupt, "{manner:?}");
        }
        assert_eq!(say(&log, 0), Said::Record(b"before".to_vec()), "{manner:?}");
        assert_eq!(read_all(&log).1, [1, 2], "{manner:?}");
        // Nothing of it is remembered: a codec that has recovered is asked again.
        codec.is_wayward.store(false, Ordering::Relaxed);
        assert_eq!(say(&log, 1), Said::Record(b"one".to_vec()), "{manner:?}");
        codec.is_wayward.store(true, Ordering::Relaxed);
        let next = log.commit(Batch::of(b"k", b"after")).unwrap();
        assert_eq!(next.start, offset(3), "{manner:?}: the log goes on");
    }
}

#[test]
fn fm_05_what_a_codec_lacks_is_told_apart_from_damage_and_nobody_is_led_past_the_record() {
    let codec = Wayward::new(1024, Manner::Right, Manner::Lacks);
    let rig = Rig::new();
    let log = rig.open_with(with(none()));
    log.commit(Batch::of(b"k", b"before")).unwrap();
    log.close().unwrap();
    let log = rig.open_with(with(codec.clone()));
    log.commit([(b"k", b"one"), (b"k", b"two")].into_iter().collect()).unwrap();
    log.close().unwrap();
    let log = rig.open_with(with(codec.clone()));
    let lacking = |result: Result<(), Error>, at: u64| match result {
        Err(error @ Error::Lacking { .. }) => {
            assert!(!error.is_unreadable_record());
            let expected = format!("record {at} cannot be decoded yet, wayward: it has no key 7");
            assert_eq!(error.to_string(), expected);
        }
        other => panic!("{other:?}"),
    };
    lacking(log.read(offset(1)).map(drop), 1);
    lacking(log.read_batch(offset(2), 10, 1000).map(drop), 2);
    let batch = log.read_batch(offset(0), 10, 1000).unwrap();
    assert_eq!(
        (batch.records.len(), batch.next, batch.unreadable.len()),
        (1, offset(1), 0),
        "what is there first"
    );
    lacking(log.read_batch(batch.next, 10, 1000).map(drop), 1);
    codec.is_wayward.store(false, Ordering::Relaxed);
    assert_eq!(read_all(&log).1, [] as [u64; 0], "once it has what it lacked");
    assert_eq!(say(&log, 2), Said::Record(b"two".to_vec()));
}

#[test]
fn fm_05_a_codec_that_encodes_wrong_fails_that_commit_and_leaves_nothing() {
    for manner in [Manner::Nothing, Manner::Fails, Manner::Panics] {
        let codec = Wayward::new(1024, manner, Manner::Right);
        let rig = Rig::new();
        let log = rig.open_with(with(codec.clone()));
        codec.is_wayward.store(false, Ordering::Relaxed);
        log.commit(Batch::of(b"k", b"first")).unwrap();
        codec.is_wayward.store(true, Ordering::Relaxed);
        let before = rig.disk.contents(segment(0)).unwrap();
        for _ in 0..2 {
            match log.commit(Batch::of(b"k", b"second")) {
                Err(Error::Plugin { plugin, operation, .. }) => {
                    assert_eq!((plugin.as_str(), operation), ("wayward", "encode"));
                }
                other => panic!("{manner:?}: {other:?}"),
            }
            assert_eq!(log.next_offset(), offset(1), "{manner:?}");
            assert_eq!(rig.disk.contents(segment(0)).unwrap(), before, "{manner:?}");
        }
        codec.is_wayward.store(false, Ordering::Relaxed);
        assert_eq!(log.commit(Batch::of(b"k", b"second")).unwrap(), common::offsets(1..2), "{manner:?}");
        assert_eq!(say(&log, 1), Said::Record(b"second".to_vec()), "{manner:?}");
    }
}

#[test]
fn fm_06_a_header_that_declares_more_than_is_there_is_never_believed() {
    // 256 MiB declared, 20 bytes behind it: in the last place, in the middle, and in a sealed segment.
    for (uncompressed_len, stored_len) in [
        (MAX_FRAME_BYTES, MAX_FRAME_BYTES),
        (20, MAX_FRAME_BYTES),
        (i32::MAX as u32, i32::MAX as u32),
        (u32::MAX, u32::MAX),
    ] {
        let header = FrameHeader {
            flags: 1,
            count: 1,
            base: offset(2),
            uncompressed_len,
            stored_len,
            crc: 0xDEAD_BEEF,
        };
        let liar = [&header.encode()[..], &[0x55; 20]].concat();
        let whole = Made::frames(&*none(), 0, &[2], 30);
        let rig = Rig::with([(0, &[&whole.bytes[..], &liar].concat()[..])]);
        rig.disk.take_calls();
        let log = rig.open();
        assert_reads(&log, &whole.truth, &[], 2, "in the last place");
        let most = rig.disk.take_calls().iter().map(|call| call.bytes).max().unwrap();
        assert!(most < 1 << 20, "a buffer of {most} bytes for a file of a hundred");
        let rig = Rig::with([(0, &[&whole.bytes[..], &liar].concat()[..]), (3, b"")]);
        let log = rig.open();
        assert_eq!((say(&log, 1), say(&log, 2)), (Said::Record(payload(1, 30)), Said::Corrupt), "sealed");
    }
}

#[test]
fn fm_06_lengths_that_cannot_be_true_reach_no_codec() {
    // Valid CRCs around contents that lie: the codec is not asked to make 256 MiB of 20 bytes more than it must.
    let codec = Wayward::new(1024, Manner::Right, Manner::Right);
    let prefix = &[0x80, 0x08][..];
    for (count, uncompressed_len) in [(100, 399), (i32::MAX as u32, MAX_FRAME_BYTES), (6, 20)] {
        let bytes = sealed(7, 0, count, uncompressed_len, &[prefix, &[7; 20]].concat());
        let rig = Rig::with([(0, &bytes[..])]);
        let log = rig.open_with(with(codec.clone()));
        assert_eq!(log.next_offset().get(), u64::from(count), "rc_09: its CRC holds");
        assert_eq!(say(&log, 0), Said::Corrupt, "{count} in {uncompressed_len}");
        assert_eq!(codec.decoded.load(Ordering::Relaxed), 0, "{count} in {uncompressed_len}");
    }
    let bomb = sealed(7, 0, 1, MAX_FRAME_BYTES, &[prefix, &[7; 20]].concat());
    let rig = Rig::with([(0, &bomb[..])]);
    assert_eq!(say(&rig.open_with(with(codec)), 0), Said::Corrupt);
}

#[test]
fn rc_09_frames_that_cannot_be_true_are_corrupt_and_stay() {
    let record = |len: u32, rest: &[u8]| [&len.to_be_bytes()[..], rest].concat();
    let good = [&[2, 0][..], &[0; 8], b"x"].concat();
    let cases: [(&str, u32, Vec<u8>); 6] = [
        ("a length prefix past the end", 1, record(12, &good)),
        ("bytes left over", 1, [record(11, &good), vec![0]].concat()),
        ("fewer records than it says", 2, record(11, &good)),
        ("a version of its own", 1, record(11, &[&[1][..], &good[1..]].concat())),
        ("a key past the end", 1, record(11, &[&[2, 200][..], &good[2..]].concat())),
        ("a record that ends in its commit time", 1, record(5, &good[..5])),
    ];
    for (name, count, raw) in cases {
        let bad = frame_of(&*none(), 1, count, &raw);
        let bytes =
            [frame(&*none(), 0, &[b"a"]), bad, frame(&*none(), 1 + u64::from(count), &[b"b"])].concat();
        let rig = Rig::with([(0, &bytes[..])]);
        let log = rig.open();
        assert_eq!(say(&log, 1), Said::Corrupt, "{name}");
        assert_eq!(say(&log, 0), Said::Record(b"a".to_vec()), "{name}");
        assert_eq!(say(&log, 1 + u64::from(count)), Said::Record(b"b".to_vec()), "{name}");
        assert_eq!(rig.disk.contents(segment(0)).unwrap(), bytes, "{name}");
    }
}

/// Makes of each record as much as fits in no frame together with another.
#[derive(Debug)]
struct Bloated;

impl Codec for Bloated {
    fn number(&self) -> CodecNumber {
        CodecNumber::new(1025).unwrap()
    }
    fn name(&self) -> &str {
        "bloated"
    }
    fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        out.extend_from_slice(raw);
        out.resize(out.len() + raw.len() * 300_000, 0);
        Ok(())
    }
    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        out.extend_from_slice(stored.get(..frame.uncompressed_len as usize).ok_or("too short")?);
        Ok(())
    }
}

#[test]
fn fm_02_what_one_frame_cannot_hold_is_split_and_never_refused() {
    // 40 records of 20 bytes, 6 MB each once encoded: 240 MB together are near the bound, the next ones past it.
    let rig = Rig::new();
    let log = rig.open_with(with(Arc::new(Bloated)));
    let batch: Batch = (0..50u64).map(|n| (b"k", payload(n, 5))).collect();
    assert_eq!(log.commit(batch).unwrap(), common::offsets(0..50));
    for at in [0, 24, 25, 49] {
        let Said::Record(found) = say(&log, at) else { panic!("{at}") };
        assert_eq!(found, payload(at, 5));
    }
    let bytes = rig.disk.contents(segment(0)).unwrap();
    let first = FrameHeader::decode(bytes.first_chunk().unwrap()).unwrap();
    assert!(first.count < 50 && first.stored_len <= MAX_FRAME_BYTES);
    assert!(bytes.len() > HEADER_LEN + MAX_FRAME_BYTES as usize / 2);
}

#[test]
fn fm_02_a_record_that_no_frame_holds_is_refused_before_anything_is_written() {
    let rig = Rig::new();
    let log = rig.open_with(options());
    let before = rig.files();
    let huge = vec![0; MAX_FRAME_BYTES as usize];
    assert!(matches!(log.append(&Batch::of(b"", &huge)), Err(Error::RecordTooLarge { .. })));
    assert!(matches!(log.commit(Batch::of(b"", &huge)), Err(Error::RecordTooLarge { .. })));
    assert!(before == rig.files());
    assert_eq!(log.commit(Batch::of(b"", b"small")).unwrap().start, offset(0));
}

#[test]
fn fm_02_one_drain_is_one_frame() {
    let rig = Rig::new();
    let log = rig.open();
    log.append(&Batch::of(b"", b"appended")).unwrap();
    log.append(&Batch::of(b"", b"appended too")).unwrap();
    log.commit([(b"", b"a"), (b"", b"b")].into_iter().collect()).unwrap();
    let header = FrameHeader::decode(rig.disk.contents(segment(0)).unwrap().first_chunk().unwrap()).unwrap();
    assert_eq!(header.count, 4);
}
