//! Checking payloads.

use jsonschema::Validator;

use super::{Schema, SchemaError, nesting::parse, quoted};

/// Payloads up to this many bytes may be checked where they arrive.
const SMALL: usize = 16 << 10;
/// Bytes of a payload times parts of the schema that are checked at once where they arrive: tens of microseconds, less
/// than it costs to hand them to a thread.
const QUICK: usize = 256 << 10;

/// A schema made ready to check payloads.
#[derive(Debug)]
pub struct Checker {
    validator: Validator,
    depth: usize,
    parts: usize,
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
        Ok(Checker {
            validator: self.compiled()?,
            depth: self.cost.depth(),
            parts: self.cost.parts(),
            bytes: self.cost.bytes(self.text.len()),
        })
    }
}

impl Checker {
    /// Whether a payload of `bytes` is checked sooner than a thread would take it over.
    pub fn is_quick(&self, bytes: usize) -> bool {
        bytes <= SMALL && bytes.saturating_mul(self.parts) <= QUICK
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
        let value = parse(payload, self.depth).map_err(|error| Refusal(quoted(&error)))?;
        self.validator.validate(&value).map_err(|error| {
            let (place, reason) = (error.instance_path().to_string(), error.masked().to_string());
            let place = if place.is_empty() { "the document" } else { &place };
            Refusal(format!("at {}: {}", quoted(place), quoted(&reason)))
        })
    }
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
    fn what_is_checked_at_once_is_small() {
        let small = checker(r#"{"type":"object","properties":{"a":{"type":"string"}}}"#);
        assert!(small.is_quick(1024) && !small.is_quick(1 << 20));
    }
}
