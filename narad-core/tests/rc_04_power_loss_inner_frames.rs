//! RC-04: a payload that holds whole valid frames stays a payload when the power goes in the middle of its commit, whichever
//! sectors of it are lost: those with the header of the frame around it as well.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/write_path.rs"]
mod write_path;

use std::time::Duration;

use narad_core::{
    Error,
    format::{Batch, FrameHeader, HEADER_LEN},
    log::Log,
    testkit::{CallKind, Failure, Fault, Survival},
};
use write_path::{Bench, offset, record, segments_of};

const BEFORE: u64 = 10;

/// A frame of one record whose base is `ahead` offsets beyond what is committed.
fn forged(ahead: u64) -> Vec<u8> {
    let record = b"\0\0\0\x17\x01\0\0\0\0\0\0\0\0\x01a forged one ";
    let mut header = FrameHeader {
        flags: 0,
        count: 1,
        base: offset(BEFORE + ahead),
        uncompressed_len: record.len() as u32,
        stored_len: record.len() as u32,
        crc: 0,
    };
    header.crc = header.crc_with(record);
    [&header.encode()[..], record].concat()
}

/// A message of several sectors with forged frames all over it.
fn hostile(ahead: u64) -> Batch {
    let mut payload = vec![b'x'; 700];
    for _ in 0..8 {
        payload.extend(forged(ahead));
        payload.extend_from_slice(&[b'x'; 300]);
    }
    payload.extend(forged(ahead));
    Batch::of(b"", &payload)
}

fn plain(number: u64) -> Batch {
    record(&format!("{number:0>700}"))
}

/// Ten records, and then the power goes in the last fsync of `under_way`, which sends `sent` more, in many ways; none may make a record of what was
/// not sent as one.
fn lose_power(sent: u64, under_way: impl Fn(&Bench, &Log)) {
    for (seed, prepare) in (0..100).zip([true, false].into_iter().cycle()) {
        let bench = Bench::new(seed);
        let mut options = segments_of(1 << 20);
        options.prepare_segments = prepare;
        let log = bench.open_with(options);
        for number in 0..BEFORE {
            log.commit(plain(number)).unwrap();
        }
        let lost = bench.disk.inject(Fault::skip(CallKind::SyncData).named("*.log").at(2));
        under_way(&bench, &log);
        assert_eq!(bench.disk.fired(lost), 1, "the headers were synced on their own");
        for _ in 0..4 {
            let (_, log) = bench.after_power_loss(Survival::Random);
            let end = log.next_offset().get();
            assert!((BEFORE..=BEFORE + sent).contains(&end), "seed {seed}: the log ends at {end}");
            let batch = log.read_batch(offset(0), 100, 1 << 20).unwrap();
            for found in batch.records {
                let is_sent = found.payload.len() >= 700;
                assert!(is_sent, "seed {seed}: {} is no message: {:?}", found.offset, found.payload);
            }
        }
    }
}

#[test]
fn rc_04_a_commit_with_frames_in_its_payload_survives_a_power_loss_as_what_it_is_or_not_at_all() {
    for ahead in [0, 1, 2, 1000, 1 << 20] {
        lose_power(1, |_, log| drop(log.commit(hostile(ahead))));
    }
}

#[test]
fn rc_04_so_does_one_with_other_messages_in_front() {
    for ahead in [1, 2] {
        lose_power(3, |bench, log| {
            log.append(&plain(BEFORE)).unwrap();
            bench.pass(Duration::from_millis(100));
            log.append(&hostile(ahead)).unwrap();
            log.commit(plain(BEFORE + 2)).unwrap();
        });
    }
}

#[test]
fn rc_04_a_frame_whose_offsets_are_those_of_messages_in_front_is_none_either() {
    for ahead in [1, 3, 5] {
        lose_power(6, |bench, log| {
            for n in 0..5 {
                log.append(&plain(BEFORE + n)).unwrap();
            }
            bench.pass(Duration::from_millis(100));
            log.commit(hostile(ahead)).unwrap();
        });
    }
}

#[test]
fn rc_04_headers_that_cannot_be_synced_poison_the_log_and_nothing_of_the_message_is_left() {
    let bench = Bench::new(1);
    let log = bench.open();
    log.commit(plain(0)).unwrap();
    bench.fail(CallKind::SyncData, Failure::Io, "*.log");
    assert!(matches!(log.commit(hostile(1)), Err(Error::Poisoned { .. } | Error::Io { .. })));
    assert!(matches!(log.commit(plain(1)), Err(Error::Poisoned { .. })));
    log.reopen().unwrap();
    log.commit(hostile(1)).unwrap();
    for survival in [Survival::Nothing, Survival::Random, Survival::Everything] {
        let (_, log) = bench.after_power_loss(survival);
        assert_eq!(log.next_offset().get(), 2);
    }
}

#[test]
fn rc_04_a_message_without_a_frame_costs_one_fsync() {
    let bench = Bench::new(1);
    let log = bench.open();
    log.commit(plain(0)).unwrap();
    bench.disk.take_calls();
    let magics = [0xCA, 0xFE].repeat(400);
    log.commit(Batch::of(b"", &[&magics[..], &[b'x'; HEADER_LEN]].concat())).unwrap();
    assert_eq!(bench.syncs(), (1, 0));
}
