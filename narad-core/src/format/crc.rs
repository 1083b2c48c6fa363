//! CRC-32C (Castagnoli), the sum of everything on disk. The one place that knows what computes it; must never compute another.

use crc_fast::{CrcAlgorithm, Digest};

/// The sum of `bytes`.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The sum of what `crc` is the sum of, followed by `bytes`.
pub(crate) fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    // A state is a sum without its last step, which turns every bit over.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    // Of 32 bits: nothing is lost.
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fm_01_the_check_value_of_the_catalogue() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(b""), 0);
        assert_eq!(crc32c_append(0xE306_9283, b""), 0xE306_9283);
    }

    /// Every length up to some steps of the widest loop, so that no remainder is left out, at every alignment.
    #[test]
    fn every_short_length_at_every_alignment_agrees_with_another_implementation() {
        let bytes: Vec<u8> = (0..1700u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 19) as u8).collect();
        for len in 0..1600 {
            let part = &bytes[len % 64..][..len];
            assert_eq!(crc32c(part), crc32c::crc32c(part), "{len} bytes");
            assert_eq!(crc32c_append(7, part), crc32c::crc32c_append(7, part), "{len} bytes");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn it_agrees_with_another_implementation_whatever_the_bytes_the_splits_and_the_seed(
            bytes in prop::collection::vec(any::<u8>(), 0..100_000),
            splits in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
            seed: u32,
        ) {
            prop_assert_eq!(crc32c(&bytes), crc32c::crc32c(&bytes));
            let expected = crc32c::crc32c_append(seed, &bytes);
            let mut ends: Vec<usize> = splits.iter().map(|split| split.index(bytes.len() + 1)).collect();
            ends.extend([0, bytes.len()]);
            ends.sort_unstable();
            let found = ends.windows(2).fold(seed, |crc, part| crc32c_append(crc, &bytes[part[0]..part[1]]));
            prop_assert_eq!(found, expected, "split at {:?}", ends);
        }
    }
}
