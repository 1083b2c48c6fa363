//! Whole numbers of JSON bodies. A refusal names the bounds and not the type that holds the number here.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use crate::config::{MAX_CAP, MAX_PARTITIONS, MAX_TOPIC_MS};

/// How many partitions.
pub(super) type Partitions = UpTo<{ MAX_PARTITIONS as u64 }>;
/// How many messages a partition may have out, or acked ahead.
pub(super) type Cap = UpTo<{ MAX_CAP as u64 }>;
/// A duration of a topic.
pub(super) type Milliseconds = UpTo<MAX_TOPIC_MS>;
/// Which one, of what is counted.
pub(super) type Ordinal = UpTo<{ u32::MAX as u64 }>;

/// A whole number from 0 to `MOST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UpTo<const MOST: u64>(u64);

impl<const MOST: u64> UpTo<MOST> {
    pub(super) fn get(self) -> u64 {
        self.0
    }

    /// The same, for a `MOST` that is no larger than a `u32` can be.
    pub(super) fn get_u32(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

impl<'de, const MOST: u64> Deserialize<'de> for UpTo<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(Whole)
    }
}

struct Whole<const MOST: u64>;

impl<const MOST: u64> de::Visitor<'_> for Whole<MOST> {
    type Value = UpTo<MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {MOST}")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        if number > MOST {
            return Err(E::invalid_value(de::Unexpected::Unsigned(number), &self));
        }
        Ok(UpTo(number))
    }
}

impl<const MOST: u64> JsonSchema for UpTo<MOST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("UpTo{MOST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 0, "maximum": MOST})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_bounds() {
        let read = |text: &str| serde_json::from_str::<UpTo<108>>(text).map_err(|error| error.to_string());
        assert_eq!(read("108").map(UpTo::get_u32), Ok(108));
        for text in ["-1", "109", "1.5", "1.0", "\"3\"", "null", "18446744073709551615", "1e3"] {
            let error = read(text).unwrap_err();
            assert!(error.contains("a whole number from 0 to 108"), "{text}: {error}");
        }
    }
}
