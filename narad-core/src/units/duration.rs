//! Durations as people write them: `500ms`, `10s`, `1m30s`, `1.5s`, `7d`, `0`. In settings, in requests and in commands alike.
//!
//! Pure: bytes in, a value or an error out, for any text.

use std::{fmt, str::FromStr, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Why a text is not a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// No number with a unit, or something left over.
    #[error("not a duration; write numbers with units (ns, us, ms, s, m, h, d), such as 500ms, 10s or 1m30s")]
    Malformed,
    /// A number stands without a unit. Only `0` may.
    #[error("a duration needs a unit: ns, us, ms, s, m, h or d")]
    NoUnit,
    /// The duration is below zero.
    #[error("a duration cannot be negative here")]
    Negative,
    /// The duration is longer than can be held (about 584 years).
    #[error("the duration is too long")]
    TooLong,
}

/// The duration that `text` states: one or more numbers with units, added up.
///
/// # Errors
/// Tells a negative duration from a malformed one, so that a caller may take it for zero.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let (negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(DurationError::Malformed);
    }
    match sum(rest) {
        // However far below zero.
        Ok(1..) | Err(DurationError::TooLong) if negative => Err(DurationError::Negative),
        sum => sum.map(Duration::from_nanos),
    }
}

/// Nanoseconds of all the numbers with units in `text`.
fn sum(mut text: &str) -> Result<u64, DurationError> {
    let mut nanos: u64 = 0;
    while !text.is_empty() {
        let (part, after) = leading_part(text)?;
        nanos = nanos.checked_add(part).ok_or(DurationError::TooLong)?;
        text = after;
    }
    Ok(nanos)
}

/// Nanoseconds of the number with a unit at the start of `text`, and what follows.
fn leading_part(text: &str) -> Result<(u64, &str), DurationError> {
    let split = |text: &'_ str, digit: fn(char) -> bool| text.find(|c| !digit(c)).unwrap_or(text.len());
    let (number, after) =
        text.split_at_checked(split(text, |c| c.is_ascii_digit() || c == '.')).unwrap_or((text, ""));
    let (unit, after) =
        after.split_at_checked(split(after, |c| !c.is_ascii_digit() && c != '.')).unwrap_or((after, ""));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(DurationError::Malformed);
    }
    let unit = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        "" => return Err(DurationError::NoUnit),
        _ => return Err(DurationError::Malformed),
    };
    let whole = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| DurationError::TooLong)? };
    let nanos = u64::checked_mul(whole, unit).ok_or(DurationError::TooLong)?;
    Ok((nanos.checked_add(fraction_of(fraction, unit)).ok_or(DurationError::TooLong)?, after))
}

/// The part of `unit` that the decimals state, rounded down; decimals below a nanosecond do not count.
fn fraction_of(decimals: &str, unit: u64) -> u64 {
    let (mut sum, mut place) = (0, unit);
    for digit in decimals.bytes() {
        // Dividing place by place loses below a nanosecond a digit, which nobody can tell.
        sum += place * u64::from(digit - b'0') / 10;
        place /= 10;
    }
    sum
}

/// Milliseconds for people: `7d`, `8d1h`, `1m30s`, `1s500ms`, `0s`.
pub fn shown(ms: u64) -> String {
    const UNITS: [(u64, &str); 5] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")];
    let (mut text, mut rest) = (String::new(), ms);
    for (unit, name) in UNITS {
        if rest >= unit {
            text.push_str(&format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// A duration in the configuration, written with units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WithUnits(pub Duration);

impl WithUnits {
    /// That many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl FromStr for WithUnits {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map(Self)
    }
}

impl fmt::Display for WithUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        match (seconds, nanos) {
            (0, 0) => f.write_str("0s"),
            (seconds, 0) => write!(f, "{seconds}s"),
            (seconds, nanos) if nanos % 1_000_000 == 0 => {
                write!(f, "{}ms", u128::from(seconds) * 1000 + u128::from(nanos / 1_000_000))
            }
            _ => write!(f, "{}ns", self.0.as_nanos()),
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
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = WithUnits;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration with units, such as \"10s\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<WithUnits, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<WithUnits, E> {
                Err(without_unit(number))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<WithUnits, E> {
                Err(without_unit(number))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<WithUnits, E> {
                Err(without_unit(number))
            }
        }
        fn without_unit<E: de::Error>(number: impl fmt::Display) -> E {
            E::custom(format_args!(
                "{number} has no unit; write \"{number}s\" for seconds, or \"{number}ms\""
            ))
        }
        // Whatever it is, so that what has no unit is told so.
        deserializer.deserialize_any(Text)
    }
}

impl JsonSchema for WithUnits {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "description": "a duration with units (ns, us, ms, s, m, h, d), such as 10s or 1m30s"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_notation_is_understood() {
        for (text, millis) in [
            ("500ms", 500),
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("1.5s", 1_500),
            ("0", 0),
            ("0s", 0),
            ("-0", 0),
            (".5s", 500),
            ("1.s", 1_000),
            ("1h0.25m", 3_615_000),
            ("+2s", 2_000),
            ("7d", 604_800_000),
            ("1d12h", 129_600_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_told_apart() {
        for (text, error) in [
            ("", DurationError::Malformed),
            ("5", DurationError::NoUnit),
            ("1m30", DurationError::NoUnit),
            ("1.5", DurationError::NoUnit),
            ("-5", DurationError::NoUnit),
            ("s", DurationError::Malformed),
            (".s", DurationError::Malformed),
            ("1.2.3s", DurationError::Malformed),
            ("10 s", DurationError::Malformed),
            ("10x", DurationError::Malformed),
            ("NaNs", DurationError::Malformed),
            ("-1s", DurationError::Negative),
            ("-99999999999999999999h", DurationError::Negative),
            ("99999999999999999999s", DurationError::TooLong),
            ("9999999999h", DurationError::TooLong),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn people_get_the_largest_units() {
        let day = 86_400_000;
        let told = [0, 1, 1500, 90_000, 7 * day, 8 * day + 3_600_000, 366 * day].map(shown);
        assert_eq!(told, ["0s", "1ms", "1s500ms", "1m30s", "7d", "8d1h", "366d"]);
    }

    #[test]
    fn what_is_written_is_read_back() {
        for duration in
            [Duration::ZERO, Duration::from_millis(1500), Duration::from_nanos(7), Duration::from_secs(90)]
        {
            assert_eq!(parse(&WithUnits(duration).to_string()), Ok(duration));
        }
    }
}
