//! `consumer.ahead`, `consumer.offset` and `hwm`.

use bolero::check;
use narad_core::format::{
    AHEAD_SLOT_LEN, AheadRecord, AheadSlots, Offset, decode_consumer_offset, decode_watermark,
    encode_consumer_offset, encode_watermark,
};
use narad_fuzz::golden::GOLDEN;

use crate::DECODER_TIME;

const HEADER: usize = 36;

#[test]
fn fuzz_ahead() {
    for (name, bytes) in GOLDEN.iter().flat_map(|golden| &golden.files) {
        if !name.ends_with(".log") {
            check_eight_bytes(bytes);
            check_slots(bytes);
        }
    }
    check!().with_test_time(DECODER_TIME).with_max_len(3 * AHEAD_SLOT_LEN).for_each(|input: &[u8]| {
        check_eight_bytes(input);
        check_eight_bytes(input.get(..8).unwrap_or_default());
        check_slots(input);
        check_slots(&made_valid(input));
        check_encoding(input);
    });
}

fn check_eight_bytes(bytes: &[u8]) {
    if let Some(watermark) = decode_watermark(bytes) {
        assert_eq!(encode_watermark(watermark), bytes);
    }
    if let Some(frontier) = decode_consumer_offset(bytes) {
        assert_eq!(encode_consumer_offset(frontier), bytes);
    }
    if bytes.len() != 8 {
        assert_eq!((decode_watermark(bytes), decode_consumer_offset(bytes)), (None, None));
    }
}

/// A slot that is looked at, whatever the input holds: magic, a length that fits and a CRC are put in.
fn made_valid(input: &[u8]) -> Vec<u8> {
    let mut slot = input.get(..input.len().min(AHEAD_SLOT_LEN)).unwrap_or_default().to_vec();
    slot.resize(slot.len().max(HEADER), 0);
    let payload = (slot.len() - HEADER) as u32;
    slot[..8].copy_from_slice(b"NAAH\x01\0\0\0");
    slot[28..32].copy_from_slice(&payload.to_le_bytes());
    // As many numbers as there are ends of one.
    if slot[8] & 1 == 0 {
        let count = slot[HEADER..].iter().filter(|byte| **byte < 0x80).count() as u32;
        slot[24..28].copy_from_slice(&count.to_le_bytes());
    }
    if slot[8] & 2 == 0 {
        slot[20..24].fill(0);
    }
    let crc = crc32c(&[&slot[..32], &slot[HEADER..]].concat());
    slot[32..36].copy_from_slice(&crc.to_le_bytes());
    slot
}

/// The CRC bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg()))
    })
}

fn check_slots(bytes: &[u8]) {
    let mut slots = AheadSlots::default();
    let used = allocation_counter::measure(|| slots = AheadSlots::decode(bytes));
    // A settled offset takes at least a byte of the slot and eight in memory, and a growing list twice that and more.
    assert!(used.bytes_max <= 256 + 64 * AHEAD_SLOT_LEN as u64, "{} bytes", used.bytes_max);
    for (slot, record) in bytes.chunks(AHEAD_SLOT_LEN).zip(&slots.0) {
        if let Some(record) = record {
            check_record(slot, record);
        }
    }
    let newest = slots.newest().map(|(_, record)| record.sequence);
    assert_eq!(newest, slots.0.iter().flatten().map(|record| record.sequence).max());
}

fn check_record(slot: &[u8], record: &AheadRecord) {
    assert!(record.acked.is_sorted_by(|a, b| a < b), "ascending");
    assert!(record.acked.iter().all(|offset| Some(*offset) > record.frontier), "above the frontier");
    let (again, kept) = record.encode();
    assert_eq!(kept, record.acked.len());
    assert_eq!(AheadRecord::decode(&again).as_ref(), Some(record));
    let length = |slot: &[u8]| HEADER + u32::from_le_bytes(slot[28..32].try_into().unwrap()) as usize;
    assert!(length(&again) <= length(slot), "the shortest numbers are written");
    if length(&again) == length(slot) {
        assert_eq!(again[..length(slot)], slot[..length(slot)]);
    }
    check_eight_bytes(&encode_consumer_offset(record.frontier));
}

/// Any ascending set: its lowest offsets come back, and as many as fit.
fn check_encoding(input: &[u8]) {
    let mut words = input.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let sequence = words.next().unwrap_or(0);
    let first = words.next().unwrap_or(0);
    let frontier = Offset::new(first).filter(|frontier| *frontier < Offset::MAX);
    let mut at = frontier.map_or(0, |frontier| frontier.get() + 1);
    let mut acked = Vec::new();
    for step in words.flat_map(|word| [word & 0xF, word >> (8 + word % 56)]) {
        // The largest offset is only ever an end: no record has it.
        let Some(offset) = at.checked_add(step).and_then(Offset::new).filter(|at| *at < Offset::MAX) else {
            continue;
        };
        acked.push(offset);
        at = offset.get() + 1;
    }
    let (slot, kept) = AheadRecord { sequence, frontier, acked: acked.clone() }.encode();
    let fits = (AHEAD_SLOT_LEN - HEADER) / 10;
    assert!(kept >= acked.len().min(fits), "{kept} of {}", acked.len());
    acked.truncate(kept);
    assert_eq!(AheadRecord::decode(&slot), Some(AheadRecord { sequence, frontier, acked }));
}
