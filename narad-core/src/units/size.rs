//! Sizes as people write them: `512`, `64KiB`, `1.5MiB`, `1GB`.
//!
//! Pure: text in, bytes or an error out, for any text.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

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

/// A size in a configuration: bytes, or a number with a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WithUnits(pub u64);

impl FromStr for WithUnits {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map(Self)
    }
}

impl fmt::Display for WithUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let whole = |&(shift, _): &(u32, &str)| self.0 != 0 && self.0.trailing_zeros() >= shift;
        match UNITS.iter().find(|unit| whole(unit)) {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl Serialize for WithUnits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WithUnits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Size;
        impl de::Visitor<'_> for Size {
            type Value = WithUnits;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes, or a size with a unit, such as \"64MiB\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<WithUnits, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<WithUnits, E> {
                Ok(WithUnits(bytes))
            }
            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<WithUnits, E> {
                let below_zero = || E::custom(format_args!("a size cannot be negative: {bytes}"));
                u64::try_from(bytes).map(WithUnits).map_err(|_| below_zero())
            }
        }
        deserializer.deserialize_any(Size)
    }
}

impl JsonSchema for WithUnits {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": ["string", "integer"], "minimum": 0,
            "description": "bytes, or a size with a unit, such as 64MiB or 1.5GB"
        })
    }
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

    #[test]
    fn what_is_written_is_read_back() {
        for (bytes, text) in [
            (0, "0B"),
            (1000, "1000B"),
            (65_536, "64KiB"),
            (3 << 19, "1536KiB"),
            (1 << 41, "2TiB"),
            (u64::MAX, "18446744073709551615B"),
        ] {
            assert_eq!(WithUnits(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(WithUnits(bytes)));
        }
    }

    #[test]
    fn settings_take_bytes_and_units_and_nothing_else() {
        let read = |json: &str| serde_json::from_str::<WithUnits>(json).map(|size| size.0).ok();
        assert_eq!([read("512"), read("\"512\""), read("\"1MiB\"")], [Some(512), Some(512), Some(1 << 20)]);
        assert_eq!([read("-1"), read("1.5"), read("\"much\""), read("null")], [None; 4]);
    }
}
