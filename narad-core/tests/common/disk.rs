//! A partition on the simulated disk, made frame by frame, and what its reads must say.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::{collections::BTreeMap, ops::Range, path::PathBuf, sync::Arc};

use narad_codecs::{None as NoCodec, Zstd};
use narad_core::{
    Error,
    format::{Batch, FrameHeader, HEADER_LEN, write_extended_codec},
    log::{Log, LogOptions},
    plugin::{Codec, FrameContext, LogIdentity},
    runtime::Runtime,
    testkit::{ManualClock, SimDisk},
};

use crate::common::{offset, options};

/// The partition's directory.
pub const DIR: &str = "/p";
/// The commit time of the frames made here: 2025-12-31T23:00:00Z, before the manual clock starts.
pub const COMMITTED_MS: i64 = 1_767_222_000_000;

/// The file of the segment that begins at `base`.
pub fn segment(base: u64) -> PathBuf {
    PathBuf::from(format!("{DIR}/{base:020}.log"))
}

/// A disk with an empty partition directory, and a runtime without threads on it.
pub struct Rig {
    pub disk: SimDisk,
    pub clock: ManualClock,
    pub runtime: Runtime,
}

impl Rig {
    pub fn new() -> Self {
        Self::seeded(1)
    }

    pub fn seeded(seed: u64) -> Self {
        let clock = ManualClock::new();
        let disk = SimDisk::with_clock(seed, Arc::new(clock.clone()));
        disk.plant_dir(DIR);
        Self::on(disk, clock)
    }

    pub fn on(disk: SimDisk, clock: ManualClock) -> Self {
        let runtime = Runtime::driven_by_hand(Arc::new(disk.clone()), Arc::new(clock.clone()));
        Self { disk, clock, runtime }
    }

    /// A rig whose partition holds these segments.
    pub fn with<'a>(segments: impl IntoIterator<Item = (u64, &'a [u8])>) -> Self {
        let rig = Self::new();
        for (base, bytes) in segments {
            rig.disk.plant(segment(base), bytes);
        }
        rig
    }

    pub fn open(&self) -> Log {
        self.open_with(options())
    }

    pub fn open_with(&self, options: LogOptions) -> Log {
        self.try_open(options).unwrap_or_else(|error| panic!("seed {}: {error}", self.disk.seed()))
    }

    pub fn try_open(&self, options: LogOptions) -> Result<Log, Error> {
        Log::open(&self.runtime, DIR.as_ref(), options)
    }

    /// Every file of the disk.
    pub fn files(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        self.disk.paths().into_iter().map(|path| (path.clone(), self.disk.contents(&path))).collect()
    }
}

pub fn none() -> Arc<dyn Codec> {
    Arc::new(NoCodec)
}

pub fn zstd() -> Arc<dyn Codec> {
    Arc::new(Zstd::default())
}

/// A payload that says which record it is.
pub fn payload(offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = format!("record {offset};").into_bytes();
    let mut state = offset.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    while bytes.len() < len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.push((state >> 33) as u8);
    }
    bytes
}

/// One frame of these payloads, as the format has it.
pub fn frame<P: AsRef<[u8]>>(codec: &dyn Codec, base: u64, payloads: &[P]) -> Vec<u8> {
    let mut batch: Batch = payloads.iter().map(|payload| (b"k", payload)).collect();
    batch.stamp(COMMITTED_MS);
    frame_of(codec, base, payloads.len() as u32, batch.as_bytes())
}

/// One frame around these uncompressed bytes, whatever they are.
pub fn frame_of(codec: &dyn Codec, base: u64, count: u32, raw: &[u8]) -> Vec<u8> {
    let identity = LogIdentity::named("test");
    let context = FrameContext::new(&identity, offset(base), count, raw.len() as u32);
    let mut stored = Vec::new();
    write_extended_codec(codec.number(), &mut stored);
    codec.encode(&context, raw, &mut stored).unwrap();
    sealed(codec.number().header_id(), base, count, raw.len() as u32, &stored)
}

/// Header and payload with a CRC that holds.
pub fn sealed(flags: u8, base: u64, count: u32, uncompressed_len: u32, stored: &[u8]) -> Vec<u8> {
    let stored_len = stored.len() as u32;
    let mut header = FrameHeader { flags, count, base: offset(base), uncompressed_len, stored_len, crc: 0 };
    header.crc = header.crc_with(stored);
    [&header.encode()[..], stored].concat()
}

/// A segment made of frames, where each of them lies, and what its records are.
#[derive(Clone, Default)]
pub struct Made {
    pub bytes: Vec<u8>,
    pub frames: Vec<MadeFrame>,
    pub truth: BTreeMap<u64, Vec<u8>>,
}

#[derive(Clone, Debug)]
pub struct MadeFrame {
    pub at: Range<usize>,
    pub offsets: Range<u64>,
}

impl Made {
    /// Frames of these counts of records from `base` on, `len` bytes a payload.
    pub fn frames(codec: &dyn Codec, base: u64, counts: &[u64], len: usize) -> Self {
        let mut made = Self::default();
        let mut next = base;
        for &count in counts {
            let payloads: Vec<_> = (next..next + count).map(|n| payload(n, len)).collect();
            made.push(codec, next, payloads);
            next += count;
        }
        made
    }

    pub fn push(&mut self, codec: &dyn Codec, base: u64, payloads: Vec<Vec<u8>>) {
        let start = self.bytes.len();
        self.bytes.extend(frame(codec, base, &payloads));
        let offsets = base..base + payloads.len() as u64;
        self.frames.push(MadeFrame { at: start..self.bytes.len(), offsets: offsets.clone() });
        self.truth.extend(offsets.zip(payloads));
    }

    pub fn next(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.offsets.end)
    }

    pub fn header(&self, index: usize) -> Range<usize> {
        let start = self.frames[index].at.start;
        start..start + HEADER_LEN
    }

    pub fn body(&self, index: usize) -> Range<usize> {
        self.frames[index].at.start + HEADER_LEN..self.frames[index].at.end
    }
}

/// What a read says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    Record(Vec<u8>),
    Corrupt,
    UnknownCodec,
    NotYet,
    Expired,
}

pub fn say(log: &Log, at: u64) -> Said {
    match log.read(offset(at)) {
        Ok(record) => {
            assert_eq!(record.offset.get(), at);
            Said::Record(record.payload.to_vec())
        }
        Err(Error::Corrupt { .. }) => Said::Corrupt,
        Err(Error::UnknownCodec { .. }) => Said::UnknownCodec,
        Err(Error::NotYet { .. }) => Said::NotYet,
        Err(Error::Expired { .. }) => Said::Expired,
        Err(other) => panic!("{at}: {other}"),
    }
}

/// What batch reads from the start to the high watermark find.
pub fn read_all(log: &Log) -> (BTreeMap<u64, Vec<u8>>, Vec<u64>) {
    let (mut from, mut records, mut lost) = (log.oldest_offset(), BTreeMap::new(), Vec::new());
    while from < log.high_watermark() {
        let batch = log.read_batch(from, 1000, 1 << 20).unwrap();
        assert!(batch.next > from, "no progress at {from}");
        for record in batch.records {
            assert!(records.insert(record.offset.get(), record.payload.to_vec()).is_none(), "twice");
        }
        for range in batch.unreadable {
            assert!(range.end.since(range.start) < 1 << 20, "{range:?}");
            lost.extend(range.start.get()..range.end.get());
        }
        from = batch.next;
    }
    (records, lost)
}

/// Single and batch reads of everything below `end` give the truth, but for `lost`, which is unreadable; `None` for a
/// truth that does not know of an offset.
pub fn assert_reads(log: &Log, truth: &BTreeMap<u64, Vec<u8>>, lost: &[Range<u64>], end: u64, why: &str) {
    let is_lost = |at: u64| lost.iter().any(|range| range.contains(&at));
    assert_eq!(log.high_watermark().get(), end, "{why}: high watermark");
    for at in log.oldest_offset().get()..end {
        let expected = if is_lost(at) { Said::Corrupt } else { Said::Record(truth[&at].clone()) };
        let said = say(log, at);
        assert!(said == expected, "{why}: offset {at}: said {}, expected {}", short(&said), short(&expected));
    }
    let (records, unreadable) = read_all(log);
    let expected: Vec<u64> = (log.oldest_offset().get()..end).filter(|at| is_lost(*at)).collect();
    assert_eq!(unreadable, expected, "{why}: what a batch read passes over");
    for (at, found) in &records {
        assert!(*found == truth[at], "{why}: batch read of {at}");
    }
    assert_eq!(records.len() as u64 + unreadable.len() as u64, end - log.oldest_offset().get(), "{why}");
}

fn short(said: &Said) -> String {
    match said {
        Said::Record(bytes) => format!("{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(24)])),
        other => format!("{other:?}"),
    }
}

/// Opens, checks the reads, and sees that a second open changes no byte (RC-08) and a commit works afterwards.
pub fn assert_recovers(rig: &Rig, truth: &BTreeMap<u64, Vec<u8>>, lost: &[Range<u64>], end: u64, why: &str) {
    let log = rig.open();
    assert_reads(&log, truth, lost, end, why);
    assert_eq!(log.next_offset().get(), end, "{why}: next offset");
    drop(log);
    let once = rig.files();
    let log = rig.open();
    assert!(once == rig.files(), "{why}: the second open changed bytes");
    assert_reads(&log, truth, lost, end, why);
    let range = log.commit(Batch::of(b"k", b"afterwards")).unwrap();
    assert_eq!(range.start.get(), end, "{why}");
    assert_eq!(say(&log, end), Said::Record(b"afterwards".to_vec()), "{why}");
    drop(log);
    let log = rig.open();
    let mut truth = truth.clone();
    truth.insert(end, b"afterwards".to_vec());
    assert_reads(&log, &truth, lost, end + 1, &format!("{why}, after a commit and a reopen"));
}
