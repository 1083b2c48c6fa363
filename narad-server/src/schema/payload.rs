//! Checking payloads.

use jsonschema::Validator;

use serde_json::Value;

use super::{Schema, SchemaError, cost::Cost, nesting::parse, quoted};

/// Payloads up to this many bytes may be checked where they arrive.
const SMALL: usize = 16 << 10;
/// Bytes of a payload times what one value may meet that are checked at once where they arrive: tens of microseconds,
/// less than it costs to hand them to a thread.
const QUICK: u64 = 256 << 10;

/// A schema made ready to check payloads.
#[derive(Debug)]
pub struct Checker {
    validator: Validator,
    cost: Cost,
    bytes: usize,
}

/// Why a payload is not what a schema asks for: where in it, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

impl Schema {
    /// Makes the schema ready. Takes milliseconds for a large one: not for an async thread.
    ///
    /// # Errors
    /// None for a schema that this version of the program has taken.
    pub fn checker(&self) -> Result<Checker, SchemaError> {
        Ok(Checker { validator: self.compiled()?, cost: self.cost, bytes: self.cost.bytes(self.text.len()) })
    }
}

impl Checker {
    /// Whether a payload of `bytes` is checked sooner than a thread would take it over.
    pub fn is_quick(&self, bytes: usize) -> bool {
        bytes <= SMALL && (bytes as u64).saturating_mul(self.cost.met()) <= QUICK
    }

    /// About how much memory this takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Checks one payload.
    ///
    /// # Errors
    /// It is not JSON, nests too deep, or is not what the schema asks for.
    pub fn check(&self, payload: &[u8]) -> Result<(), Refusal> {
        let (value, levels) = parse(payload, self.cost.depth()).map_err(|error| Refusal(quoted(&error)))?;
        let most = self.cost.values(levels);
        // A value takes a byte at least, and something between it and the next.
        if most <= (payload.len() / 2) as u64 && count(&value) > most {
            let reason =
                "a document that nests so deep has, for a schema with lists and parts so many, at most";
            return Err(Refusal(format!("it has too many values: {reason} {most}")));
        }
        self.validator.validate(&value).map_err(|error| {
            let (place, reason) = (error.instance_path().to_string(), error.masked().to_string());
            let place = if place.is_empty() { "the document" } else { &place };
            Refusal(format!("at {}: {}", quoted(place), quoted(&reason)))
        })
    }
}

/// The values in `value`, itself among them.
fn count(value: &Value) -> u64 {
    let (mut count, mut left) = (0, vec![value]);
    while let Some(value) = left.pop() {
        count += 1;
        match value {
            Value::Array(values) => left.extend(values),
            Value::Object(map) => left.extend(map.values()),
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checker(schema: &str) -> Checker {
        Schema::new(schema).unwrap().checker().unwrap()
    }

    #[test]
    fn a_refusal_says_where_and_why_and_is_short() {
        let checker = checker(
            r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}"#,
        );
        assert_eq!(checker.check(br#"{"a":["x"]}"#), Ok(()));
        let long = format!(r#"{{"{}":1}}"#, "y".repeat(1 << 20));
        for (payload, name) in [
            (r#"{"a":["x",1]}"#, "/a/1"),
            (r#"{"b":1}"#, "'b'"),
            ("[]", "the document"),
            ("hello", "not JSON"),
            ("", "not JSON"),
            (&long, "yyy"),
        ] {
            let error = checker.check(payload.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(name), "{payload:.80}: {error}");
            assert!(error.len() < 1000, "{error}");
        }
        assert!(checker.check(b"\xff").unwrap_err().to_string().contains("not JSON"));
    }

    #[test]
    fn depth_is_bounded_and_expressions_run_in_time_that_is_linear() {
        let any = checker("true");
        let nested = |levels: usize| [vec![b'['; levels], vec![b']'; levels]].concat();
        assert_eq!(any.check(&nested(256)), Ok(()));
        assert!(any.check(&nested(257)).unwrap_err().to_string().contains("257"));
        // An engine that backtracks would be at this until the end of time.
        let evil = checker(r#"{"pattern":"^(a+)+$"}"#);
        assert!(evil.check(format!("\"{}b\"", "a".repeat(100_000)).as_bytes()).is_err());
    }

    #[test]
    fn a_document_of_many_values_is_not_held_against_long_lists() {
        let names: Vec<String> = (0..5000).map(|number| format!("\"{number}\"")).collect();
        let names = names.join(",");
        let many = format!("[{}0]", "0,".repeat(500_000));
        for schema in [
            format!(r#"{{"items":{{"enum":[{names}]}}}}"#),
            format!(r#"{{"items":{{"dependentRequired":{{"a":[{names}]}}}}}}"#),
            format!(r#"{{"items":{{"allOf":[{}true]}}}}"#, r#"{"type":"integer"},"#.repeat(3000)),
        ] {
            let checker = checker(&schema);
            let error = checker.check(many.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("too many values"), "{schema:.60}: {error}");
            assert!(!checker.check(b"[\"1\"]").is_err_and(|error| error.to_string().contains("too many")));
        }
        let plain = checker(r#"{"items":{"type":"integer"}}"#);
        assert_eq!(plain.check(many.as_bytes()), Ok(()));
    }

    #[test]
    fn what_is_checked_at_once_is_small() {
        let small = checker(r#"{"type":"object","properties":{"a":{"type":"string"}}}"#);
        assert!(small.is_quick(1024) && !small.is_quick(1 << 20));
    }
}
