//! A frame header of which any field may be damaged, and what can be found out about it all the same.
//!
//! Nothing in here is believed for being in range: only a CRC that holds makes a guess true.

use crate::format::{FRAME_MAGIC, FrameHeader, HEADER_LEN, MAX_FRAME_BYTES, Offset, crc32c};

/// Bytes that the smallest record takes in a frame: length prefix, version, key length, commit time.
pub(super) const MIN_RECORD: u64 = 4 + 1 + 1 + 8;

/// Which offsets a frame may have at a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The first offset that has not been seen.
    pub(super) expected: Offset,
    /// No record reaches past this.
    pub(super) limit: Offset,
}

impl Bounds {
    /// Whether a frame may follow one that was lost here; what was lost held at least one record.
    pub(super) fn fit_behind_loss(&self, header: &FrameHeader) -> bool {
        header.base > self.expected && header.end() <= self.limit
    }

    /// Whether a frame may stand here.
    pub(super) fn fit(&self, header: &FrameHeader) -> bool {
        header.base >= self.expected && header.end() <= self.limit
    }
}

/// The fields as they were read: none is in range until it is checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawHeader {
    magic: [u8; 2],
    flags: u8,
    count: i32,
    base: i64,
    uncompressed: i32,
    stored: i32,
    crc: u32,
}

impl RawHeader {
    pub(super) fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let bytes: &[u8; HEADER_LEN] = bytes.get(at..)?.first_chunk()?;
        let [m0, m1, flags, c0, c1, c2, c3, b0, b1, b2, b3, b4, b5, b6, b7, rest @ ..] = *bytes;
        let [u0, u1, u2, u3, s0, s1, s2, s3, k0, k1, k2, k3] = rest;
        Some(Self {
            magic: [m0, m1],
            flags,
            count: i32::from_be_bytes([c0, c1, c2, c3]),
            base: i64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
            uncompressed: i32::from_be_bytes([u0, u1, u2, u3]),
            stored: i32::from_be_bytes([s0, s1, s2, s3]),
            crc: u32::from_be_bytes([k0, k1, k2, k3]),
        })
    }

    /// Bytes of the whole frame, if the stored length is in range.
    pub(super) fn stated_len(&self) -> Option<usize> {
        let stored = u32::try_from(self.stored).ok().filter(|len| (1..=MAX_FRAME_BYTES).contains(len))?;
        Some(HEADER_LEN + stored as usize)
    }

    /// The CRC that it states.
    pub(super) fn crc(&self) -> u32 {
        self.crc
    }

    /// The base of the frame behind it, as its own base and count imply; `None` where they do not fit.
    pub(super) fn implied_next(&self, bounds: Bounds) -> Option<Offset> {
        let base = Offset::from_i64(self.base).filter(|&base| base >= bounds.expected)?;
        let count = u64::try_from(self.count).ok().filter(|&count| count > 0)?;
        base.checked_add(count).filter(|&next| next <= bounds.limit)
    }

    /// The same header with a stored length of `len` bytes.
    pub(super) fn with_stored(&self, len: usize) -> Option<Self> {
        let stored = i32::try_from(len).ok()?;
        let header = Self { stored, ..*self };
        header.stated_len().map(|_| header)
    }

    pub(super) fn crc_of_fields(&self) -> u32 {
        let [c0, c1, c2, c3] = self.count.to_be_bytes();
        let [b0, b1, b2, b3, b4, b5, b6, b7] = self.base.to_be_bytes();
        let [u0, u1, u2, u3] = self.uncompressed.to_be_bytes();
        let [s0, s1, s2, s3] = self.stored.to_be_bytes();
        crc32c(&[self.flags, c0, c1, c2, c3, b0, b1, b2, b3, b4, b5, b6, b7, u0, u1, u2, u3, s0, s1, s2, s3])
    }

    /// The header with one field other than the stored length changed, so that the fields sum to `sum`. `next` is the
    /// base of the valid frame behind it, where there is one.
    pub(super) fn repaired(&self, sum: u32, bounds: Bounds, next: Option<Offset>) -> Option<FrameHeader> {
        let holds = |fixed: &Self| fixed.crc_of_fields() == sum;
        let believed = |fixed: Self| fixed.in_range().filter(|header| bounds.fit(header));
        if holds(self) {
            return believed(*self);
        }
        let next_base = next.and_then(|next| next.to_i64().checked_sub(i64::from(self.count)));
        let flipped = (0..i64::BITS).map(|bit| self.base ^ (1 << bit));
        let bases = [Some(bounds.expected.to_i64()), next_base].into_iter().flatten().chain(flipped);
        let base = bases.map(|base| Self { base, ..*self }).find(holds);
        let flags = (0..=u8::MAX).map(|flags| Self { flags, ..*self });
        if let Some(fixed) = base.into_iter().chain(flags.filter(holds)).find_map(believed) {
            return Some(fixed);
        }
        if self.magic != FRAME_MAGIC {
            return None;
        }
        // Any CRC has a solution in a field of its own width: it is evidence where one byte alone had to change.
        let count = solve(|count| Self { count, ..*self }, sum);
        let raw = solve(|uncompressed| Self { uncompressed, ..*self }, sum);
        let same_as_stored = Self { uncompressed: self.stored, ..*self };
        let one_byte = [
            count.filter(|fixed| is_one_byte(fixed.count ^ self.count)),
            raw.filter(|fixed| is_one_byte(fixed.uncompressed ^ self.uncompressed)),
            Some(same_as_stored).filter(|fixed| self.flags == 0 && holds(fixed)),
        ];
        one_byte.into_iter().flatten().filter_map(believed).find(lengths_agree)
    }

    /// Bytes of the whole frame and the first offset behind it, of a header that shows no damage, or none to its
    /// stored length: then the offset is not known. `is_start` says that a frame is known to start here, so that its
    /// base need not be the one that is due.
    pub(super) fn believable_extent(
        &self,
        bounds: Bounds,
        is_start: bool,
    ) -> Option<(usize, Option<Offset>)> {
        let base =
            Offset::from_i64(self.base).filter(|&base| base >= bounds.expected && base < bounds.limit)?;
        let (len, is_due) = (self.stated_len()?, base == bounds.expected);
        if self.magic != FRAME_MAGIC || !(is_due || is_start) {
            return None;
        }
        let raw = u32::try_from(self.uncompressed).ok().filter(|raw| (1..=MAX_FRAME_BYTES).contains(raw));
        let count = u64::try_from(self.count).ok().filter(|&count| count > 0);
        if let (Some(raw), Some(count)) = (raw, count)
            && count.saturating_mul(4) <= u64::from(raw)
        {
            let header = self.in_range().filter(|header| lengths_agree(header) && bounds.fit(header))?;
            return Some((len, Some(header.end()).filter(|_| is_due)));
        }
        // The count or the uncompressed length is impossible, so the stored length is not what was damaged.
        let contradicted = self.flags == 0 && raw.is_some() && self.stored != self.uncompressed;
        (is_due && !contradicted).then_some((len, None))
    }

    /// The header, if every field is in range; the magic may be damaged.
    fn in_range(&self) -> Option<FrameHeader> {
        let header = FrameHeader {
            flags: self.flags,
            count: u32::try_from(self.count).ok()?,
            base: Offset::from_i64(self.base)?,
            uncompressed_len: u32::try_from(self.uncompressed).ok()?,
            stored_len: u32::try_from(self.stored).ok()?,
            crc: self.crc,
        };
        FrameHeader::decode(&header.encode()).ok()
    }
}

/// The value of a 32-bit field with which the fields sum to `sum`: there is exactly one, since a CRC is linear and
/// loses nothing over 32 bits.
fn solve(with: impl Fn(i32) -> RawHeader, sum: u32) -> Option<RawHeader> {
    let zero = with(0).crc_of_fields();
    // Gauss over GF(2): each row is what a set of value bits does to the sum, and which bits they are.
    let mut rows = std::array::from_fn::<_, 32, _>(|bit| {
        let value = 1u32 << bit;
        (with(value.cast_signed()).crc_of_fields() ^ zero, value)
    });
    let (mut wanted, mut value) = (sum ^ zero, 0u32);
    for bit in (0..32).rev() {
        let (effect, values) =
            *rows.iter().find(|(effect, _)| 31u32.checked_sub(effect.leading_zeros()) == Some(bit))?;
        for row in &mut rows {
            if row.0 >> bit & 1 == 1 {
                *row = (row.0 ^ effect, row.1 ^ values);
            }
        }
        if wanted >> bit & 1 == 1 {
            (wanted, value) = (wanted ^ effect, value ^ values);
        }
    }
    Some(with(value.cast_signed()))
}

fn is_one_byte(difference: i32) -> bool {
    difference.to_be_bytes().iter().filter(|&&byte| byte != 0).count() == 1
}

/// Whether the lengths of a header can be true together: each record takes at least its prefix, codec 0 stores what
/// it is given, and no codec makes much more of it.
fn lengths_agree(header: &FrameHeader) -> bool {
    let (count, raw, stored) =
        (u64::from(header.count), u64::from(header.uncompressed_len), u64::from(header.stored_len));
    let holds_records = count.saturating_mul(4) <= raw;
    let stored_fits = if header.flags == 0 { stored == raw } else { stored <= raw + raw / 64 + 1024 };
    holds_records && stored_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> RawHeader {
        RawHeader { magic: FRAME_MAGIC, flags: 0, count: 3, base: 70, uncompressed: 60, stored: 60, crc: 5 }
    }

    #[test]
    fn rc_04_one_damaged_field_is_found_from_the_sum_of_all() {
        let good = sample();
        let sum = good.crc_of_fields();
        let bounds = Bounds { expected: Offset::from(70), limit: Offset::MAX };
        let damaged = [
            RawHeader { magic: [0, 0], ..good },
            RawHeader { flags: 0xFF, ..good },
            RawHeader { count: i32::MIN | 3, ..good },
            RawHeader { count: 4, ..good },
            RawHeader { base: -1, ..good },
            RawHeader { base: 71, ..good },
            RawHeader { uncompressed: 0x7FFF_FFFF, ..good },
            RawHeader { uncompressed: 0, ..good },
            RawHeader { flags: 1, ..good },
        ];
        for header in damaged {
            assert_eq!(header.repaired(sum, bounds, None), good.in_range(), "{header:?}");
        }
    }

    #[test]
    fn rc_04_two_damaged_fields_are_not_guessed() {
        let good = sample();
        let bounds = Bounds { expected: Offset::from(70), limit: Offset::MAX };
        let damaged = RawHeader { base: 1 << 40 | 5, count: -7, ..good };
        assert_eq!(damaged.repaired(good.crc_of_fields(), bounds, None), None);
    }
}
