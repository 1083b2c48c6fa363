//! The receipt handle: what a consumer shows to settle a lease.

use std::{fmt, str::FromStr};

use narad_core::{format::Offset, plugin::PartitionId};

/// Names one lease: `partition:offset:nonce`, three decimal numbers.
///
/// The nonce is random and new for each lease, so a handle from before a restart, a recreate or an expiry never
/// names somebody else's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// The partition of the record.
    pub partition: PartitionId,
    /// The record.
    pub offset: Offset,
    /// Which lease of it.
    pub nonce: u64,
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.partition, self.offset, self.nonce)
    }
}

/// The text is not a receipt handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a receipt handle of the form partition:offset:nonce")]
pub struct ReceiptError;

impl FromStr for Receipt {
    type Err = ReceiptError;

    /// Takes exactly what `Display` writes: no signs, no leading zeros, no white space.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(':');
        let (Some(partition), Some(offset), Some(nonce), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(ReceiptError);
        };
        let receipt = Self {
            partition: PartitionId(partition.parse().map_err(|_| ReceiptError)?),
            offset: offset.parse().ok().and_then(Offset::new).ok_or(ReceiptError)?,
            nonce: nonce.parse().map_err(|_| ReceiptError)?,
        };
        // The standard parsers take `+7` and `007`; a handle has one spelling.
        if receipt.to_string() == text { Ok(receipt) } else { Err(ReceiptError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_has_one_spelling() {
        let receipt = Receipt { partition: PartitionId(3), offset: Offset::MAX, nonce: 0xAB };
        assert_eq!(receipt.to_string(), "3:9223372036854775807:171");
        assert_eq!(receipt.to_string().parse(), Ok(receipt));
        let largest = Receipt { nonce: u64::MAX, ..receipt };
        assert_eq!(largest.to_string().parse(), Ok(largest));
        for bad in [
            "",
            "3",
            "3:4",
            "3:4:",
            ":4:171",
            "3:4:ab",
            "3:4:171:",
            "-1:4:171",
            "+3:4:171",
            "03:4:171",
            "3: 4:171",
            "3:4:0171",
            "3:4:+171",
            "3:9223372036854775808:171",
            "3:4:18446744073709551616",
            "4294967296:4:171",
        ] {
            assert_eq!(bad.parse::<Receipt>(), Err(ReceiptError), "{bad}");
        }
    }
}
