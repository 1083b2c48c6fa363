//! Logs written with the codec: reopened, rotated, tampered with where every checksum holds, and failing mid-commit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod support;

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use narad_codec_aead::{Aead, AeadError, Cipher};
use narad_core::{
    Error,
    format::{Batch, CodecNumber, FrameHeader, HEADER_LEN, Offset},
    log::{Log, LogOptions},
    plugin::{Codec, FrameContext, Lacking, PluginError},
    runtime::Runtime,
    testkit::{CallKind, Failure, Fault, ManualClock, SimDisk},
};
use support::{ONE, OTHER_ONE, TWO, aead, log};

const SEGMENT: &str = "00000000000000000000.log";

struct Rig {
    disk: SimDisk,
    runtime: Runtime,
}

impl Rig {
    fn new() -> Self {
        let clock = ManualClock::new();
        let disk = SimDisk::with_clock(1, Arc::new(clock.clone()));
        let runtime = Runtime::driven_by_hand(Arc::new(disk.clone()), Arc::new(clock));
        Self { disk, runtime }
    }

    /// The log of a partition of `orders`, in a directory of its own.
    fn open(&self, partition: u32, codec: impl Codec) -> Log {
        let dir = format!("/p{partition}");
        self.disk.plant_dir(&dir);
        let mut options = LogOptions::new("orders", Arc::new(codec));
        options.identity = log("orders", 7, partition);
        // So that a segment ends with its last frame.
        options.prepare_segments = false;
        Log::open(&self.runtime, Path::new(&dir), options).unwrap()
    }

    fn segment(&self, partition: u32) -> Vec<u8> {
        self.disk.contents(format!("/p{partition}/{SEGMENT}")).unwrap()
    }
}

fn one() -> Aead {
    aead(&[ONE], Cipher::Aes256Gcm)
}

fn payload(n: u64) -> Vec<u8> {
    format!("order {n:04}").into_bytes()
}

/// Commits `count` frames of a record each, all of one length.
fn commit(log: &Log, from: u64, count: u64) {
    for n in from..from + count {
        log.commit(Batch::of(b"key", &payload(n))).unwrap();
    }
}

fn read(log: &Log, at: u64) -> Result<Vec<u8>, Error> {
    log.read(Offset::new(at).unwrap()).map(|record| record.payload.to_vec())
}

/// The frames of a segment, each with its header.
fn frames(segment: &[u8]) -> Vec<(FrameHeader, Vec<u8>)> {
    let (mut frames, mut rest) = (Vec::new(), segment);
    while let Some(header) = rest.first_chunk::<HEADER_LEN>() {
        let header = FrameHeader::decode(header).unwrap();
        let end = header.frame_len() as usize;
        frames.push((header, rest[HEADER_LEN..end].to_vec()));
        rest = &rest[end..];
    }
    frames
}

/// A frame with that payload in that place, and a CRC that holds.
fn sealed(place: &FrameHeader, stored: &[u8], uncompressed_len: u32) -> Vec<u8> {
    let mut header = FrameHeader { stored_len: stored.len() as u32, uncompressed_len, crc: 0, ..*place };
    header.crc = header.crc_with(stored);
    [&header.encode()[..], stored].concat()
}

#[test]
fn what_was_committed_is_read_after_a_close_and_after_a_power_loss_and_is_not_in_the_files() {
    let rig = Rig::new();
    let log = rig.open(0, one());
    commit(&log, 0, 3);
    log.close().unwrap();
    let log = rig.open(0, one());
    commit(&log, 3, 1);
    rig.disk.power_loss();
    drop(log);
    let log = rig.open(0, one());
    for n in 0..4 {
        assert_eq!(read(&log, n).unwrap(), payload(n));
    }
    assert!(!rig.segment(0).windows(5).any(|window| window == b"order"));
}

#[test]
fn frames_that_change_places_under_valid_checksums_are_refused() {
    let rig = Rig::new();
    let log = rig.open(0, one());
    commit(&log, 0, 3);
    log.close().unwrap();
    let made = frames(&rig.segment(0));
    // The first two frames take each other's place, with headers that are right for it.
    let swapped = [
        sealed(&made[0].0, &made[1].1, made[1].0.uncompressed_len),
        sealed(&made[1].0, &made[0].1, made[0].0.uncompressed_len),
        sealed(&made[2].0, &made[2].1, made[2].0.uncompressed_len),
    ]
    .concat();
    assert_eq!(swapped.len(), rig.segment(0).len());
    rig.disk.plant(format!("/p0/{SEGMENT}"), swapped);
    let log = rig.open(0, one());
    assert_eq!(log.next_offset().get(), 3, "to the engine they are sound");
    for n in 0..2 {
        assert!(matches!(read(&log, n), Err(Error::Corrupt { .. })), "{n}");
    }
    assert_eq!(read(&log, 2).unwrap(), payload(2));
}

#[test]
fn a_segment_of_another_partition_is_refused() {
    let rig = Rig::new();
    for partition in 0..2 {
        let log = rig.open(partition, one());
        commit(&log, 0, 2);
        log.close().unwrap();
    }
    rig.disk.plant(format!("/p0/{SEGMENT}"), rig.segment(1));
    let log = rig.open(0, one());
    for n in 0..2 {
        assert!(matches!(read(&log, n), Err(Error::Corrupt { .. })), "{n}");
    }
}

#[test]
fn after_a_rotation_old_and_new_frames_are_read_and_a_missing_key_is_named_and_is_no_damage() {
    let rig = Rig::new();
    let log = rig.open(0, one());
    commit(&log, 0, 2);
    log.close().unwrap();
    let both = || aead(&[ONE, TWO], Cipher::ChaCha20Poly1305);
    let log = rig.open(0, both());
    commit(&log, 2, 2);
    log.close().unwrap();
    let log = rig.open(0, both());
    for n in 0..4 {
        assert_eq!(read(&log, n).unwrap(), payload(n));
    }
    log.close().unwrap();

    let before = rig.segment(0);
    let log = rig.open(0, aead(&[TWO], Cipher::Aes256Gcm));
    match read(&log, 0) {
        Err(error @ Error::Lacking { .. }) => {
            let Error::Lacking { codec, source, .. } = &error else { unreachable!() };
            assert_eq!(&**codec, "aead");
            let what = source.downcast_ref::<Lacking>().unwrap().what().downcast_ref().unwrap();
            assert_eq!(AeadError::UnknownKey { id: 1, known: vec![2] }, *what);
            assert!(error.to_string().contains("key 1, which is not there; there are [2]"), "{error}");
            assert!(!error.is_unreadable_record(), "nobody is led past it");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(log.read_batch(Offset::ZERO, 10, 1000), Err(Error::Lacking { .. })));
    assert_eq!(read(&log, 3).unwrap(), payload(3), "what its keys are for is read");
    log.close().unwrap();
    let log = rig.open(0, aead(&[OTHER_ONE, TWO], Cipher::Aes256Gcm));
    assert!(matches!(read(&log, 0), Err(Error::Lacking { .. })), "another key of that number");
    log.close().unwrap();
    assert_eq!(rig.segment(0), before, "no open without a key costs a byte");
    let log = rig.open(0, both());
    assert_eq!(log.read_batch(Offset::ZERO, 10, 1000).unwrap().records.len(), 4, "once the key is back");
}

/// Remembers all that was encrypted, whether it reached the disk or not.
#[derive(Debug)]
struct Watched(Aead, Arc<Mutex<Vec<Vec<u8>>>>);

impl Codec for Watched {
    fn number(&self) -> CodecNumber {
        self.0.number()
    }
    fn name(&self) -> &str {
        self.0.name()
    }
    fn encode(&self, frame: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let start = out.len();
        self.0.encode(frame, raw, out)?;
        self.1.lock().unwrap().push(out[start..].to_vec());
        Ok(())
    }
    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        self.0.decode(frame, stored, out)
    }
}

#[test]
fn a_failed_commit_that_is_tried_again_at_its_offset_has_another_key_and_nonce() {
    let rig = Rig::new();
    let seen = Arc::default();
    let log = rig.open(0, Watched(one(), Arc::clone(&seen)));
    commit(&log, 0, 1);
    let fault = rig.disk.inject(Fault::fail(CallKind::Write, Failure::NoSpace).onwards());
    assert!(log.commit(Batch::of(b"key", b"one plaintext")).is_err());
    rig.disk.remove_fault(fault);
    let again = log.commit(Batch::of(b"key", b"other plain!!")).unwrap();
    assert_eq!(again.start.get(), 1, "the same offset");
    assert_eq!(read(&log, 1).unwrap(), b"other plain!!");
    let seen = seen.lock().unwrap();
    let salts: Vec<&[u8]> = seen.iter().map(|stored| &stored[9..33]).collect();
    assert_eq!(salts.len(), 3, "one of them never reached the disk");
    assert!(salts[1] != salts[2] && salts[0] != salts[1]);
}
