//! Directories written by an independent implementation of the format open here and read back as their manifests
//! say; what this engine writes is what they hold.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test"
)]

mod common;

use std::{collections::BTreeMap, fs, ops::ControlFlow, sync::Arc};

use bytes::Bytes;
use common::{Golden, codecs, contents, copy, golden, offset, options};
use narad_codecs::{None as NoCodec, Zstd};
use narad_core::{
    Error,
    disk::OsDisk,
    format::{Batch, FrameHeader, HEADER_LEN, Offset, Record, decode_consumer_offset, split_records},
    log::{
        Log,
        inspect::{Inspected, inspect},
    },
    plugin::{Codec, FrameContext, LogIdentity},
    runtime::Runtime,
};

fn open_copy(golden: &Golden, runtime: &Runtime) -> (tempfile::TempDir, Log) {
    let dir = tempfile::tempdir().unwrap();
    copy(&golden.dir, dir.path());
    let log = Log::open(runtime, dir.path(), options())
        .unwrap_or_else(|error| panic!("{}: {error}", golden.manifest.name));
    (dir, log)
}

#[test]
fn fm_01_every_golden_directory_recovers_its_bounds() {
    let runtime = Runtime::default();
    for golden in golden() {
        let (_dir, log) = open_copy(&golden, &runtime);
        let manifest = &golden.manifest;
        let found = (log.oldest_offset().get(), log.next_offset().get(), log.high_watermark().get());
        let expected = (manifest.oldest_offset, manifest.next_offset, manifest.high_watermark);
        assert_eq!(found, expected, "{}", manifest.name);
    }
}

#[test]
fn fm_01_every_golden_record_reads_back_byte_for_byte() {
    let runtime = Runtime::default();
    for golden in golden() {
        let (_dir, log) = open_copy(&golden, &runtime);
        let manifest = &golden.manifest;
        for expected in &manifest.records {
            let read = log.read(offset(expected.offset));
            if expected.offset >= manifest.high_watermark {
                assert!(
                    matches!(read, Err(Error::NotYet { .. })),
                    "cm_05 {}: {}",
                    manifest.name,
                    expected.offset
                );
                continue;
            }
            expected.assert_is(
                &read.unwrap_or_else(|error| panic!("{} {}: {error}", manifest.name, expected.offset)),
            );
        }
        for lost in manifest.lost.iter().flat_map(|[from, to]| *from..=*to) {
            assert!(
                matches!(log.read(offset(lost)), Err(Error::Corrupt { .. })),
                "{}: {lost}",
                manifest.name
            );
        }
        for unknown in manifest.unknown_codec.iter().flat_map(|[from, to]| *from..=*to) {
            let read = log.read(offset(unknown));
            assert!(
                matches!(read, Err(Error::UnknownCodec { number, .. }) if number.get() == 5),
                "{}",
                manifest.name
            );
        }
    }
}

#[test]
fn rd_05_a_batch_read_finds_what_single_reads_find() {
    let runtime = Runtime::default();
    for golden in golden() {
        let (_dir, log) = open_copy(&golden, &runtime);
        let (mut from, mut records, mut lost) = (log.oldest_offset(), Vec::new(), Vec::new());
        while from < log.high_watermark() {
            let batch = log.read_batch(from, 37, 10_000).unwrap();
            assert!(batch.next > from, "a batch read makes progress");
            records.extend(batch.records);
            lost.extend(batch.unreadable.into_iter().flat_map(|range| range.start.get()..range.end.get()));
            from = batch.next;
        }
        let visible =
            golden.manifest.records.iter().filter(|record| record.offset < golden.manifest.high_watermark);
        assert_eq!(records.len(), visible.clone().count(), "{}", golden.manifest.name);
        visible.zip(&records).for_each(|(expected, record)| expected.assert_is(record));
        let ranges = golden.manifest.lost.iter().chain(&golden.manifest.unknown_codec);
        let expected: Vec<u64> = ranges.flat_map(|[from, to]| *from..=*to).collect();
        assert_eq!(lost, expected, "{}", golden.manifest.name);
    }
}

#[test]
fn rc_08_the_second_open_changes_no_byte() {
    let runtime = Runtime::default();
    for golden in golden() {
        let (dir, log) = open_copy(&golden, &runtime);
        drop(log);
        let once = contents(dir.path());
        drop(Log::open(&runtime, dir.path(), options()).unwrap());
        assert!(once == contents(dir.path()), "{}", golden.manifest.name);
    }
}

#[test]
fn fm_01_consumer_offsets_hold_what_the_manifests_say() {
    for golden in golden() {
        let found = fs::read(golden.dir.join("consumer.offset"))
            .ok()
            .and_then(|bytes| decode_consumer_offset(&bytes));
        let found = found.map(|frontier| frontier.map_or(-1, Offset::to_i64));
        assert_eq!(found, golden.manifest.consumer_frontier_file, "{}", golden.manifest.name);
    }
}

#[test]
fn inspection_reports_what_the_manifests_say_and_changes_nothing() {
    for golden in golden() {
        let before = contents(&golden.dir);
        let (mut records, mut lost, mut unknown) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut last = None;
        let summary = inspect(&OsDisk, &golden.dir, &LogIdentity::named("test"), &codecs(), &mut |what| {
            let (range, is_record) = match what {
                Inspected::Record { record, .. } => {
                    let range = record.offset..record.offset.saturating_add(1);
                    records.insert(record.offset.get(), record);
                    (range, true)
                }
                Inspected::Unreadable { offsets, reason } => {
                    use narad_core::log::inspect::UnreadableReason::UnknownCodec;
                    let list = if matches!(reason, UnknownCodec(_)) { &mut unknown } else { &mut lost };
                    list.extend(offsets.start.get()..offsets.end.get());
                    (offsets, false)
                }
                Inspected::Gap { offsets } => {
                    lost.extend(offsets.start.get()..offsets.end.get());
                    (offsets, false)
                }
                _ => return ControlFlow::Continue(()),
            };
            assert!(
                last.is_none_or(|end| end == range.start),
                "in offset order, without holes ({is_record})"
            );
            last = Some(range.end);
            ControlFlow::Continue(())
        });
        let (summary, manifest) = (summary.unwrap(), &golden.manifest);
        assert_eq!(summary.next_offset.get(), manifest.next_offset, "{}", manifest.name);
        assert_eq!(summary.high_watermark.get(), manifest.high_watermark, "{}", manifest.name);
        assert_eq!(records.len(), manifest.records.len(), "{}", manifest.name);
        manifest.records.iter().for_each(|expected| expected.assert_is(&records[&expected.offset]));
        let flat = |ranges: &[[u64; 2]]| ranges.iter().flat_map(|[from, to]| *from..=*to).collect::<Vec<_>>();
        assert_eq!(lost, flat(&manifest.lost), "{}", manifest.name);
        assert_eq!(unknown, flat(&manifest.unknown_codec), "{}", manifest.name);
        assert!(before == contents(&golden.dir), "{}: inspection is read-only", manifest.name);
    }
}

/// Every intact frame of the golden files, decoded and encoded again from its own records: identical bytes for codec
/// none; the same records, header fields and a CRC of its own for zstd, whose output differs between versions.
#[test]
fn fm_01_encoding_the_same_records_gives_the_same_frames() {
    let (mut plain, mut compressed) = (0, 0);
    for golden in golden() {
        let by_offset: BTreeMap<_, _> =
            golden.manifest.records.iter().map(|record| (record.offset, record)).collect();
        for (name, bytes) in contents(&golden.dir).iter().filter(|(name, _)| name.ends_with(".log")) {
            let mut rest = bytes.as_slice();
            while let Some(header) =
                rest.first_chunk::<HEADER_LEN>().and_then(|bytes| FrameHeader::decode(bytes).ok())
            {
                let Some((frame, next)) = rest.split_at_checked(header.frame_len() as usize) else { break };
                let known =
                    (header.base.get()..header.end().get()).all(|offset| by_offset.contains_key(&offset));
                if header.crc_with(&frame[HEADER_LEN..]) != header.crc || !known {
                    break;
                }
                let again = encode_again(&header, &frame[HEADER_LEN..]);
                if header.flags == 0 {
                    assert_eq!(again, frame, "{} {name} {}", golden.manifest.name, header.base);
                    plain += 1;
                } else {
                    let ours = FrameHeader::decode(again.first_chunk().unwrap()).unwrap();
                    assert_eq!(ours.crc, ours.crc_with(&again[HEADER_LEN..]));
                    let fields = |h: FrameHeader| (h.flags, h.count, h.base, h.uncompressed_len);
                    assert_eq!(fields(ours), fields(header), "{} {name}", golden.manifest.name);
                    assert_eq!(decode(&ours, &again[HEADER_LEN..]), decode(&header, &frame[HEADER_LEN..]));
                    compressed += 1;
                }
                rest = next;
            }
        }
    }
    assert!(plain > 200 && compressed > 20, "{plain} and {compressed} frames were compared");
}

fn codec_of(header: &FrameHeader) -> Arc<dyn Codec> {
    if header.flags == 0 { Arc::new(NoCodec) } else { Arc::new(Zstd::default()) }
}

fn decode(header: &FrameHeader, stored: &[u8]) -> Vec<u8> {
    let (log, mut raw) = (LogIdentity::named("test"), Vec::new());
    let context = FrameContext::new(&log, header.base, header.count, header.uncompressed_len);
    codec_of(header).decode(&context, stored, &mut raw).unwrap();
    raw
}

fn encode_again(header: &FrameHeader, stored: &[u8]) -> Vec<u8> {
    let records = split_records(&Bytes::from(decode(header, stored)), header.count).unwrap();
    let records =
        records.iter().zip(header.base.get()..).map(|(bytes, at)| Record::decode(offset(at), bytes).unwrap());
    let mut raw = Vec::new();
    for record in records {
        let mut one = Batch::of(&record.key, &record.payload);
        one.stamp(record.committed_at_ms);
        raw.extend_from_slice(one.as_bytes());
    }
    let log = LogIdentity::named("test");
    let (codec, mut stored) = (codec_of(header), Vec::new());
    let context = FrameContext::new(&log, header.base, header.count, raw.len() as u32);
    codec.encode(&context, &raw, &mut stored).unwrap();
    let mut encoded = FrameHeader {
        flags: codec.number().header_id(),
        uncompressed_len: raw.len() as u32,
        stored_len: stored.len() as u32,
        crc: 0,
        ..*header
    };
    encoded.crc = encoded.crc_with(&stored);
    [&encoded.encode()[..], &stored].concat()
}

#[test]
fn fm_03_a_log_opened_with_another_codec_reads_both_and_writes_its_own() {
    let runtime = Runtime::default();
    let golden = golden().into_iter().find(|golden| golden.manifest.name == "clean_zstd").unwrap();
    let (dir, log) = open_copy(&golden, &runtime);
    let range = log.commit(Batch::of(b"k", b"written with none")).unwrap();
    assert_eq!(range.start.get(), golden.manifest.next_offset);
    log.close().unwrap();
    let mut zstd = options();
    zstd.codec = Arc::new(Zstd::default());
    let log = Log::open(&runtime, dir.path(), zstd).unwrap();
    golden.manifest.records[0].assert_is(&log.read(Offset::ZERO).unwrap());
    assert_eq!(log.read(range.start).unwrap().payload, "written with none");
}
