//! Which partition a message goes to: one that is produced, and one that is copied from a parent.

use narad_core::plugin::PartitionId;

/// The partition of a key: FNV-1a of 32 bits, modulo the number of partitions. Data directories written by other
/// engines of this format place keys the same way, so this never changes.
pub(crate) fn of_key(key: &[u8], partitions: u32) -> PartitionId {
    let hash =
        key.iter().fold(0x811C_9DC5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    PartitionId(hash.checked_rem(partitions).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        let hash = |key: &str| of_key(key.as_bytes(), u32::MAX).0;
        assert_eq!(hash(""), 0x811C_9DC5);
        assert_eq!(hash("a"), 0xE40C_292C);
        assert_eq!(hash("foobar"), 0xBF9C_F968);
        assert_eq!(of_key(b"foobar", 3), PartitionId(0xBF9C_F968 % 3));
        assert_eq!(of_key(b"foobar", 0), PartitionId(0));
    }
}
