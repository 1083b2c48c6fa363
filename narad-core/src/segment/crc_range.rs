//! CRCs of arbitrary ranges of a buffer, each in time that does not grow with the range.
//!
//! A scan after damage may have to try a frame at every position. If each try summed its whole payload, a message
//! full of plausible headers would make the scan quadratic. With the CRC of every prefix at hand, a range costs a
//! few table look-ups: `crc(A ‖ B) = shift(crc(A), |B|) ^ crc(B)`, where the shift is linear over GF(2). It can be
//! undone as well, which tells what a damaged header must have summed to without summing its payload for each guess.

use std::sync::LazyLock;

use crate::format::crc32c_append;

/// Distance between remembered prefix CRCs.
const STEP: usize = 512;
/// Ranges up to this long are summed directly; that is quicker than the algebra.
const DIRECT: usize = 2 * STEP;

/// Castagnoli, reflected.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// A linear map on CRC values: what it makes of each of the 32 bits.
type Matrix = [u32; 32];

/// `SHIFTS[k]` carries a CRC over 2^k zero bytes.
static SHIFTS: LazyLock<[Matrix; 40]> = LazyLock::new(|| {
    // Carrying a CRC over one bit of zero, in the reflected representation.
    powers(std::array::from_fn(|bit| if bit == 0 { POLYNOMIAL } else { 1 << (bit - 1) }))
});

/// `UNSHIFTS[k]` takes the carrying of `SHIFTS[k]` back.
static UNSHIFTS: LazyLock<[Matrix; 40]> = LazyLock::new(|| {
    powers(std::array::from_fn(|bit| if bit == 31 { POLYNOMIAL << 1 | 1 } else { 1 << (bit + 1) }))
});

/// From the step of one bit to those of 2^k bytes.
fn powers(mut matrix: Matrix) -> [Matrix; 40] {
    let mut shifts = [[0; 32]; 40];
    for _ in 0..3 {
        matrix = square(&matrix);
    }
    for shift in &mut shifts {
        *shift = matrix;
        matrix = square(&matrix);
    }
    shifts
}

fn apply(matrix: &Matrix, value: u32) -> u32 {
    matrix.iter().enumerate().filter(|(bit, _)| value >> bit & 1 == 1).fold(0, |sum, (_, row)| sum ^ row)
}

fn square(matrix: &Matrix) -> Matrix {
    matrix.map(|row| apply(matrix, row))
}

/// Carries `crc` over `len` zero bytes, or with the inverse table back over them.
fn shift(table: &[Matrix; 40], mut crc: u32, len: usize) -> u32 {
    for (k, matrix) in table.iter().enumerate() {
        if len >> k & 1 == 1 {
            crc = apply(matrix, crc);
        }
    }
    crc
}

/// The CRCs of the prefixes of a buffer.
#[derive(Debug)]
pub(crate) struct PrefixCrcs(Vec<u32>);

impl PrefixCrcs {
    /// One pass over `bytes`.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut crc = 0;
        let mut prefixes = vec![0];
        for block in bytes.chunks_exact(STEP) {
            crc = crc32c_append(crc, block);
            prefixes.push(crc);
        }
        Self(prefixes)
    }

    /// `crc32c_append(seed, bytes[from..to])`, for the buffer this was made of; `None` out of range.
    pub(crate) fn append(&self, seed: u32, bytes: &[u8], from: usize, to: usize) -> Option<u32> {
        let range = bytes.get(from..to)?;
        if range.len() <= DIRECT {
            return Some(crc32c_append(seed, range));
        }
        let (before, until) = (self.prefix(bytes, from)?, self.prefix(bytes, to)?);
        Some(shift(&SHIFTS, seed ^ before, range.len()) ^ until)
    }

    /// The seed with which [`append`](Self::append) over the range gives `crc`; `None` out of range.
    pub(crate) fn seed_for(&self, crc: u32, bytes: &[u8], from: usize, to: usize) -> Option<u32> {
        let range = bytes.get(from..to)?;
        let (before, until) = (self.prefix(bytes, from)?, self.prefix(bytes, to)?);
        Some(shift(&UNSHIFTS, crc ^ until, range.len()) ^ before)
    }

    fn prefix(&self, bytes: &[u8], end: usize) -> Option<u32> {
        let block = end / STEP;
        Some(crc32c_append(*self.0.get(block)?, bytes.get(block * STEP..end)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_agree_with_the_direct_sum() {
        let bytes: Vec<u8> = (0..10_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let prefixes = PrefixCrcs::of(&bytes);
        for (from, to) in
            [(0, 0), (0, 10_000), (1, 1500), (511, 9_999), (512, 2048), (3_000, 3_100), (9_999, 10_000)]
        {
            for seed in [0, 1, 0xDEAD_BEEF] {
                let direct = crc32c::crc32c_append(seed, &bytes[from..to]);
                assert_eq!(prefixes.append(seed, &bytes, from, to), Some(direct), "{from}..{to}");
                assert_eq!(prefixes.seed_for(direct, &bytes, from, to), Some(seed), "{from}..{to}");
            }
        }
        assert_eq!(prefixes.append(0, &bytes, 0, 10_001), None);
    }
}
