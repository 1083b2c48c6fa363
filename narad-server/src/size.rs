//! Sizes as people write them: `512`, `64KiB`, `1.5MiB`, `1GB`.
//!
//! Pure: text in, bytes or an error out, for any text.

/// Why a text is not a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// No number, or an unknown unit.
    #[error("not a size; write bytes, such as 512, or a number with a unit, such as 64KiB or 1.5MiB")]
    Malformed,
    /// More bytes than can be counted.
    #[error("the size is too large")]
    TooLarge,
}

/// How many of something there are: `1 byte`, `2 bytes`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// The bytes that `text` states: a number alone, or with `B`, `KiB`, `MiB`, `GiB`, `TiB`, or the powers of ten `kB`, `MB`,
/// `GB`, `TB`. Decimals below a byte are dropped.
///
/// # Errors
/// Tells a size that is too large from what is none.
pub fn parse(text: &str) -> Result<u64, SizeError> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(unit_at).ok_or(SizeError::Malformed)?;
    let unit: u64 = match unit.trim_start() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(SizeError::Malformed),
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || decimals.is_empty() || decimals.contains('.') {
        return Err(SizeError::Malformed);
    }
    let whole: u64 = whole.parse().map_err(|_| SizeError::TooLarge)?;
    let (mut part, mut place) = (0, unit);
    for digit in decimals.bytes() {
        part += place * u64::from(digit - b'0') / 10;
        place /= 10;
    }
    whole.checked_mul(unit).and_then(|bytes| bytes.checked_add(part)).ok_or(SizeError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512B", 512),
            ("64KiB", 65_536),
            ("64 MiB", 64 << 20),
            ("1.5MiB", 3 << 19),
            ("1kB", 1000),
            ("2GB", 2_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "KiB", ".5KiB", "1.KiB", "1.2.3", "-1", "5k", "1 2", "1e3", "٣"] {
            assert_eq!(parse(text), Err(SizeError::Malformed), "{text}");
        }
        for text in ["99999999999999999999", "99999999TiB"] {
            assert_eq!(parse(text), Err(SizeError::TooLarge), "{text}");
        }
    }
}
