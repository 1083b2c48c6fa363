//! RC-06, HW-07: empty and header-short segments, directories without one, and state files that say nothing or nonsense.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]
#![allow(clippy::single_range_in_vec_init, reason = "a list of lost ranges may have one")]

mod common;
#[path = "common/disk.rs"]
mod disk;

use common::{offset, options};
use disk::{DIR, Made, Rig, assert_recovers, none, read_all, segment};
use narad_core::{
    Error,
    format::{AheadRecord, Batch, HEADER_LEN, Offset, encode_consumer_offset},
    testkit::{CallKind, Failure, Fault},
};

fn made() -> Made {
    Made::frames(&*none(), 0, &[2, 2, 2], 30)
}

#[test]
fn rc_06_an_empty_directory_opens_at_0() {
    assert_recovers(&Rig::new(), &Made::default().truth, &[], 0, "empty");
}

#[test]
fn rc_06_an_empty_or_short_active_segment_is_a_valid_empty_one() {
    let made = made();
    for len in 0..HEADER_LEN {
        for content in [&made.bytes[..len], &vec![0; len]] {
            // Alone, its name says where offsets go on.
            let rig = Rig::with([(17, content)]);
            let log = rig.open();
            let found = (log.oldest_offset(), log.next_offset(), log.high_watermark());
            assert_eq!(found, (offset(17), offset(17), offset(17)), "{len} bytes alone");
            assert_eq!(log.commit(Batch::of(b"", b"x")).unwrap().start, offset(17));
            // Behind another, it takes the records that follow.
            let rig = Rig::with([(0, &made.bytes[..]), (6, content)]);
            assert_recovers(&rig, &made.truth, &[], 6, &format!("{len} bytes behind another"));
        }
    }
}

#[test]
fn rc_06_an_empty_file_named_below_the_end_is_passed_over() {
    let made = made();
    for below in 1..6 {
        for content in [&b""[..], &made.bytes[..20], &[0; 100], &made.bytes[made.bytes.len() - 50..]] {
            let rig = Rig::with([(0, &made.bytes[..]), (below, content)]);
            assert_recovers(&rig, &made.truth, &[], 6, &format!("empty at {below}"));
        }
    }
}

#[test]
fn rc_06_several_empty_trailing_files() {
    let made = made();
    for trailing in [&[6, 7][..], &[3, 6], &[2, 4], &[6, 9, 12], &[1, 2, 3, 4, 5]] {
        let segments = trailing.iter().map(|&base| (base, &b""[..]));
        let rig = Rig::with(segments.chain([(0, &made.bytes[..])]));
        let log = rig.open();
        let end = log.next_offset().get();
        assert!(end >= 6, "{trailing:?}: {end}");
        let (records, _) = read_all(&log);
        assert_eq!(records, made.truth, "{trailing:?}");
        let first = log.commit(Batch::of(b"", b"more")).unwrap().start.get();
        assert_eq!(first, end.max(6), "{trailing:?}");
        drop(log);
        let (records, _) = read_all(&rig.open());
        assert_eq!(records.len(), 7, "{trailing:?}");
        assert_eq!(records[&first], b"more", "{trailing:?}");
    }
}

#[test]
fn rc_06_an_empty_active_segment_leaves_the_torn_one_before_it_alone() {
    let made = made();
    let torn = &made.bytes[..made.bytes.len() - 5];
    let rig = Rig::with([(0, torn), (6, b"")]);
    assert_recovers(&rig, &made.truth, std::slice::from_ref(&(4..6)), 6, "torn before");
    assert_eq!(rig.disk.contents(segment(0)).unwrap(), torn);
}

#[test]
fn rc_06_a_directory_without_a_segment_goes_on_from_its_state_files() {
    let ahead = |frontier: Option<u64>, acked: &[u64]| {
        let acked = acked.iter().map(|&at| offset(at)).collect();
        AheadRecord { sequence: 1, frontier: frontier.map(offset), acked }.encode().0.to_vec()
    };
    let consumer = |at| encode_consumer_offset(Some(offset(at))).to_vec();
    let hwm = |at: u64| at.to_be_bytes().to_vec();
    type Files = Vec<(&'static str, Vec<u8>)>;
    let cases: Vec<(Files, u64)> = vec![
        (vec![("hwm", hwm(7))], 7),
        (vec![("consumer.offset", consumer(4))], 5),
        (vec![("consumer.ahead", ahead(Some(3), &[]))], 4),
        (vec![("consumer.ahead", ahead(Some(3), &[5, 9]))], 10),
        (vec![("consumer.ahead", ahead(None, &[2]))], 3),
        (
            vec![("hwm", hwm(7)), ("consumer.offset", consumer(9)), ("consumer.ahead", ahead(Some(1), &[]))],
            10,
        ),
        (vec![("hwm", hwm(70)), ("consumer.offset", consumer(9))], 70),
        (vec![("hwm", vec![]), ("consumer.offset", vec![])], 0),
        (vec![("hwm", vec![0; 8]), ("consumer.offset", vec![0; 8]), ("consumer.ahead", vec![0; 8192])], 0),
        (vec![("hwm", vec![1; 7]), ("consumer.offset", vec![1; 9]), ("consumer.ahead", vec![1; 5000])], 0),
        (vec![("hwm", vec![0xFF; 8]), ("consumer.offset", vec![0xFF; 8])], 0),
    ];
    for (files, next) in cases {
        let rig = Rig::new();
        for (name, content) in &files {
            rig.disk.plant(format!("{DIR}/{name}"), content.clone());
        }
        let log = rig.open();
        let found = (log.oldest_offset().get(), log.next_offset().get(), log.high_watermark().get());
        assert_eq!(found, (next, next, next), "{files:?}");
        assert_eq!(log.commit(Batch::of(b"", b"x")).unwrap().start.get(), next, "{files:?}");
        drop(log);
        assert_eq!(rig.open().next_offset().get(), next + 1, "{files:?}");
    }
}

#[test]
fn rc_06_state_files_that_cannot_be_read_do_not_start_offsets_over() {
    for name in ["hwm", "consumer.offset", "consumer.ahead"] {
        let rig = Rig::new();
        rig.disk.plant(format!("{DIR}/hwm"), 7u64.to_be_bytes());
        rig.disk.plant(format!("{DIR}/consumer.offset"), 7u64.to_be_bytes());
        rig.disk.plant(format!("{DIR}/consumer.ahead"), vec![0; 100]);
        rig.disk.inject(Fault::fail(CallKind::Read, Failure::Io).named(name));
        assert!(matches!(rig.try_open(options()), Err(Error::Io { .. })), "{name}");
        rig.disk.clear_faults();
        assert_eq!(rig.open().next_offset().get(), 8, "{name}");
    }
}

#[test]
fn rc_06_state_files_at_the_largest_offset_are_no_wrap() {
    for name in ["hwm", "consumer.offset"] {
        let rig = Rig::new();
        rig.disk.plant(format!("{DIR}/{name}"), i64::MAX.to_be_bytes());
        let before = rig.files();
        let log = rig.open();
        assert!(log.commit(Batch::of(b"", b"x")).is_err(), "{name}");
        assert!(log.append(&Batch::of(b"", b"x")).is_err(), "{name}");
        drop(log);
        assert!(before == rig.files(), "{name}: no segment is named for the largest offset");
        assert_eq!(rig.open().next_offset(), Offset::MAX, "{name}");
    }
}

#[test]
fn rc_06_only_exact_names_of_regular_files_are_segments() {
    let made = made();
    let other = Made::frames(&*none(), 0, &[9], 30);
    let rig = Rig::with([(0, &made.bytes[..])]);
    for name in [
        "0.log",
        "9.log",
        "+0000000000000000009.log",
        "-0000000000000000009.log",
        "0000000000000000009.log",
        "000000000000000000009.log",
        "00000000000000000009.LOG",
        "00000000000000000009.log.tmp",
        " 0000000000000000009.log",
        "0000000000000000000९.log",
        "99999999999999999999.log",
        "09223372036854775808.log",
        "00000000000000000009",
        ".log",
        "lost+found",
    ] {
        rig.disk.plant(format!("{DIR}/{name}"), other.bytes.clone());
    }
    rig.disk.plant_dir(segment(9));
    rig.disk.plant_other(segment(11));
    rig.disk.plant_dir(format!("{DIR}/.snapshot"));
    let foreign: Vec<_> = rig.files().into_iter().filter(|(path, _)| *path != segment(0)).collect();
    assert_recovers(&rig, &made.truth, &[], 6, "foreign names");
    let after = rig.files();
    assert!(foreign.iter().all(|(path, content)| after[path] == *content), "left alone");
}

#[test]
fn rc_06_a_segment_named_for_the_largest_offset_is_an_error_that_names_it() {
    let made = made();
    let rig = Rig::with([(0, &made.bytes[..]), (i64::MAX as u64, b"")]);
    let before = rig.files();
    match rig.try_open(options()) {
        Err(Error::Unusable { path, .. }) => assert_eq!(path, segment(i64::MAX as u64)),
        other => panic!("{other:?}"),
    }
    assert!(before == rig.files());
}

#[test]
fn rc_06_a_high_watermark_that_says_nothing_hides_nothing() {
    let made = made();
    let cases: [(&str, &[u8]); 8] = [
        ("empty", &[]),
        ("zeros", &[0; 8]),
        ("odd", &[0, 0, 0, 0, 0, 0, 3]),
        ("long", &[0, 0, 0, 0, 0, 0, 0, 3, 0]),
        ("negative", &[0xFF; 8]),
        ("lowest", &[0x80, 0, 0, 0, 0, 0, 0, 0]),
        ("above the tail", &[0, 0, 0, 0, 0, 0, 0, 99]),
        ("the largest", &[0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]),
    ];
    for (name, content) in cases {
        let rig = Rig::with([(0, &made.bytes[..])]);
        rig.disk.plant(format!("{DIR}/hwm"), content);
        assert_recovers(&rig, &made.truth, &[], 6, name);
    }
    // A directory, and something that cannot be opened.
    let rig = Rig::with([(0, &made.bytes[..])]);
    rig.disk.plant_dir(format!("{DIR}/hwm"));
    assert_recovers(&rig, &made.truth, &[], 6, "a directory");
    let rig = Rig::with([(0, &made.bytes[..])]);
    rig.disk.plant_other(format!("{DIR}/hwm"));
    assert_recovers(&rig, &made.truth, &[], 6, "a fifo");
}

#[test]
fn hw_07_a_high_watermark_below_the_oldest_is_treated_as_empty() {
    let made = Made::frames(&*none(), 100, &[2, 2], 30);
    for below in [1u64, 50, 99] {
        let rig = Rig::with([(100, &made.bytes[..])]);
        rig.disk.plant(format!("{DIR}/hwm"), below.to_be_bytes());
        let log = rig.open();
        assert_eq!((log.high_watermark(), log.oldest_offset()), (offset(104), offset(100)), "{below}");
    }
}
