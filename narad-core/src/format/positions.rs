//! The small state files of a partition: `hwm`, `consumer.offset`, `consumer.ahead`.

use super::{
    Offset,
    crc::{crc32c, crc32c_append},
    record::{read_varint, write_varint},
};

/// Bytes of one slot of `consumer.ahead`.
pub const AHEAD_SLOT_LEN: usize = 4096;

const AHEAD_MAGIC: [u8; 4] = *b"NAAH";
const AHEAD_VERSION: u8 = 1;
const AHEAD_HEADER_LEN: usize = 36;
const AHEAD_CRC_AT: usize = 32;

/// `hwm` as written at close: the exclusive upper bound of visible offsets.
pub fn encode_watermark(watermark: Offset) -> [u8; 8] {
    watermark.to_i64().to_be_bytes()
}

/// `hwm` as found: `None` for a file of another length or a negative value, which say nothing. Whether zero or a
/// value below the first retained offset says something depends on the log.
pub fn decode_watermark(bytes: &[u8]) -> Option<Offset> {
    Offset::from_i64(i64::from_be_bytes(bytes.try_into().ok()?))
}

/// `consumer.offset` as written: the committed frontier, −1 for "nothing settled" (`None`).
pub fn encode_consumer_offset(frontier: Option<Offset>) -> [u8; 8] {
    frontier.map_or(-1, Offset::to_i64).to_be_bytes()
}

/// `consumer.offset` as found: the outer `None` for bytes that are no evidence (another length, below −1, or
/// eight zero bytes, which a power loss leaves on some file systems).
pub fn decode_consumer_offset(bytes: &[u8]) -> Option<Option<Offset>> {
    match i64::from_be_bytes(bytes.try_into().ok()?) {
        0 => None,
        value => frontier_from_i64(value),
    }
}

/// A frontier as stored: −1 is "nothing settled", anything below it is not a frontier.
fn frontier_from_i64(value: i64) -> Option<Option<Offset>> {
    match value {
        -1 => Some(None),
        value => Offset::from_i64(value).map(Some),
    }
}

/// What one slot of `consumer.ahead` says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AheadRecord {
    /// The higher of two valid slots wins.
    pub sequence: u64,
    /// Everything at and below is settled; `None` when nothing is.
    pub frontier: Option<Offset>,
    /// Offsets settled out of order, ascending, all above the frontier.
    pub acked: Vec<Offset>,
}

impl AheadRecord {
    /// The slot as written. A set that does not fit keeps its lowest offsets; the second value is how many were
    /// kept. A dropped one costs a duplicate, never a wrong frontier.
    pub fn encode(&self) -> ([u8; AHEAD_SLOT_LEN], usize) {
        let mut payload = Vec::new();
        let mut before = self.frontier.map_or(-1, Offset::to_i64);
        let mut kept = 0usize;
        for offset in &self.acked {
            let delta = offset.to_i64().saturating_sub(before);
            let Ok(delta @ 1..) = u64::try_from(delta) else { continue };
            let len_before = payload.len();
            write_varint(delta, &mut payload);
            if payload.len() > AHEAD_SLOT_LEN - AHEAD_HEADER_LEN {
                payload.truncate(len_before);
                break;
            }
            (before, kept) = (offset.to_i64(), kept + 1);
        }
        let mut header = Vec::with_capacity(AHEAD_SLOT_LEN);
        header.extend_from_slice(&AHEAD_MAGIC);
        header.extend_from_slice(&[AHEAD_VERSION, 0, 0, 0]);
        header.extend_from_slice(&self.sequence.to_le_bytes());
        header.extend_from_slice(&self.frontier.map_or(-1, Offset::to_i64).to_le_bytes());
        // Both fit: the payload is below 4 KiB.
        header.extend_from_slice(&(kept as u32).to_le_bytes());
        header.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        let crc = crc32c_append(crc32c(&header), &payload);
        header.extend_from_slice(&crc.to_le_bytes());
        header.extend_from_slice(&payload);
        let mut slot = [0; AHEAD_SLOT_LEN];
        for (to, from) in slot.iter_mut().zip(header) {
            *to = from;
        }
        (slot, kept)
    }

    /// The slot as found, `None` when it does not check out.
    pub fn decode(slot: &[u8]) -> Option<Self> {
        let header = slot.first_chunk::<AHEAD_HEADER_LEN>()?;
        let fixed = header.first_chunk::<AHEAD_CRC_AT>()?;
        let u32_at = |at: usize| Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_le_bytes(header.get(at..at + 8)?.try_into().ok()?));
        if fixed.first_chunk() != Some(&[b'N', b'A', b'A', b'H', AHEAD_VERSION, 0, 0, 0]) {
            return None;
        }
        let payload_len = u32_at(28)? as usize;
        let payload = slot.get(AHEAD_HEADER_LEN..AHEAD_HEADER_LEN.checked_add(payload_len)?)?;
        if crc32c_append(crc32c(fixed), payload) != u32_at(AHEAD_CRC_AT)? {
            return None;
        }
        let frontier = frontier_from_i64(u64_at(16)?.cast_signed())?;
        let (mut acked, mut rest) = (Vec::new(), payload);
        let mut before = frontier.map_or(-1, Offset::to_i64);
        for _ in 0..u32_at(24)? {
            let (delta, tail) = read_varint(rest)?;
            let delta = i64::try_from(delta).ok().filter(|&delta| delta > 0)?;
            before = before.checked_add(delta)?;
            acked.push(Offset::from_i64(before)?);
            rest = tail;
        }
        rest.is_empty().then_some(Self { sequence: u64_at(8)?, frontier, acked })
    }
}

/// The two slots of `consumer.ahead`, each `None` when it does not check out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AheadSlots(pub [Option<AheadRecord>; 2]);

impl AheadSlots {
    /// The file as found, whatever its length.
    pub fn decode(bytes: &[u8]) -> Self {
        let slot = |index: usize| {
            let start = (index * AHEAD_SLOT_LEN).min(bytes.len());
            let end = (start + AHEAD_SLOT_LEN).min(bytes.len());
            AheadRecord::decode(bytes.get(start..end)?)
        };
        Self([slot(0), slot(1)])
    }

    /// The valid slot with the higher sequence, slot 0 on a tie, with its index.
    pub fn newest(&self) -> Option<(usize, &AheadRecord)> {
        let [first, second] = &self.0;
        match (first, second) {
            (Some(a), Some(b)) if b.sequence > a.sequence => Some((1, b)),
            (Some(a), _) => Some((0, a)),
            (None, Some(b)) => Some((1, b)),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(value: u64) -> Offset {
        Offset::new(value).unwrap()
    }

    #[test]
    fn fm_01_watermark_and_frontier_are_eight_big_endian_bytes() {
        assert_eq!(encode_watermark(offset(0x0102)), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(decode_watermark(&[0, 0, 0, 0, 0, 0, 1, 2]), Some(offset(0x0102)));
        assert_eq!(encode_consumer_offset(None), [0xFF; 8]);
        assert_eq!(decode_consumer_offset(&[0xFF; 8]), Some(None));
        assert_eq!(decode_consumer_offset(&[0, 0, 0, 0, 0, 0, 0, 9]), Some(Some(offset(9))));
        for none in [&[][..], &[0; 7], &[0; 9], &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE]] {
            assert_eq!(decode_watermark(none), None);
            assert_eq!(decode_consumer_offset(none), None);
        }
        assert_eq!(decode_consumer_offset(&[0; 8]), None, "zeros are no evidence");
    }

    #[test]
    fn fm_01_ahead_slots_round_trip_and_the_higher_sequence_wins() {
        let older = AheadRecord { sequence: 4, frontier: None, acked: vec![offset(0), offset(7)] };
        let newer =
            AheadRecord { sequence: 5, frontier: Some(offset(7)), acked: vec![offset(9), offset(1 << 40)] };
        let (a, kept) = older.encode();
        assert_eq!(kept, 2);
        let mut file = a.to_vec();
        file.extend_from_slice(&newer.encode().0);
        let slots = AheadSlots::decode(&file);
        assert_eq!(slots.newest(), Some((1, &newer)));
        file[AHEAD_SLOT_LEN + 20] ^= 1;
        assert_eq!(AheadSlots::decode(&file).newest(), Some((0, &older)));
        assert_eq!(
            AheadSlots::decode(&file[..100]).newest(),
            Some((0, &older)),
            "a short file may hold a slot"
        );
        assert_eq!(AheadSlots::decode(&[]).newest(), None);
    }

    #[test]
    fn fm_01_a_set_that_does_not_fit_keeps_its_lowest_offsets() {
        let acked: Vec<_> = (1..=5000).map(|n| offset(n * 2)).collect();
        let (slot, kept) = AheadRecord { sequence: 1, frontier: None, acked: acked.clone() }.encode();
        assert!(kept < acked.len());
        assert_eq!(AheadRecord::decode(&slot).unwrap().acked, acked[..kept]);
    }
}
