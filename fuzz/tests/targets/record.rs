//! The records of a frame, and the envelope of each.

use bolero::check;
use bytes::Bytes;
use narad_core::format::{Batch, Offset, RECORD_VERSION, Record, split_records};
use narad_fuzz::{golden::GOLDEN, slow::candidates};

use crate::DECODER_TIME;

#[test]
fn fuzz_record() {
    for (_, bytes) in GOLDEN.iter().flat_map(|golden| golden.segments()) {
        for frame in candidates(bytes) {
            check_records(&bytes[frame.at.start + 27..frame.at.end], frame.header.count);
        }
    }
    check!().with_test_time(DECODER_TIME).with_max_len(512).for_each(|input: &[u8]| {
        let Some((count, rest)) = input.split_first_chunk::<4>() else { return };
        let count = u32::from_le_bytes(*count);
        check_records(rest, count);
        check_records(rest, count % 8);
        check_record(rest);
        let envelope = [&[RECORD_VERSION][..], rest].concat();
        check_record(&envelope);
        // Lengths that fit, so that the splitting is reached: each byte of the input is that of one record.
        let mut framed = Vec::new();
        for len in rest.iter().take(8).map(|len| usize::from(len % 32)) {
            let record = &envelope[..len.min(envelope.len())];
            framed.extend_from_slice(&(record.len() as u32).to_be_bytes());
            framed.extend_from_slice(record);
        }
        check_records(&framed, rest.len().min(8) as u32);
    });
}

fn check_records(raw: &[u8], count: u32) {
    let raw = Bytes::copy_from_slice(raw);
    let mut split = None;
    let used = allocation_counter::measure(|| split = Some(split_records(&raw, count)));
    // Two words a record while splitting and a view of each: nothing by the count that is claimed.
    assert!(used.bytes_max <= 256 + 16 * raw.len() as u64, "{} bytes for {}", used.bytes_max, raw.len());
    let Some(Ok(records)) = split else { return };
    assert_eq!(records.len(), count as usize);
    let again: Vec<u8> = records
        .iter()
        .flat_map(|record| [&(record.len() as u32).to_be_bytes()[..], record].concat())
        .collect();
    assert_eq!(again, raw, "nothing is left out and nothing left over");
    records.iter().for_each(|record| check_record(record));
}

fn check_record(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    let mut decoded = None;
    let used = allocation_counter::measure(|| decoded = Some(Record::decode(Offset::ZERO, &bytes)));
    assert!(used.bytes_max <= 256, "{} bytes for a view", used.bytes_max);
    let Some(Ok(record)) = decoded else { return };
    let mut batch = Batch::of(&record.key, &record.payload);
    batch.stamp(record.committed_at_ms);
    let again = Bytes::copy_from_slice(&batch.as_bytes()[4..]);
    assert!(again.len() <= bytes.len(), "the shortest key length is written");
    assert_eq!(Record::decode(Offset::ZERO, &again), Ok(record));
    if again.len() == bytes.len() {
        assert_eq!(again, bytes);
    }
}
