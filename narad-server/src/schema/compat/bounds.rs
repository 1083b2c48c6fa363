//! Bounds of numbers, lengths and counts: they may be relaxed.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::{Outcome, refuse, value};

/// What the keyword speaks of.
pub(super) fn bounded(keyword: &str) -> value::Types {
    match keyword {
        "minLength" | "maxLength" => value::STRING,
        "minItems" | "maxItems" => value::ARRAY,
        "minProperties" | "maxProperties" => value::OBJECT,
        _ => value::NUMBER,
    }
}

/// Checks that `had` keeps what `keyword` of the new version asks for.
pub(super) fn check(keyword: &str, wanted: &Value, had: &Map<String, Value>, here: &str) -> Outcome {
    let kept = match wanted {
        // Of draft 4: whether the bound beside it is one that is not reached.
        Value::Bool(wanted) => !wanted || had.get(keyword) == Some(&Value::Bool(true)),
        Value::Number(wanted) => holds(keyword, wanted, had),
        _ => false,
    };
    if kept {
        Ok(())
    } else {
        refuse(here, "stricter than the current version, or not to be compared with it")
    }
}

fn holds(keyword: &str, wanted: &Number, had: &Map<String, Value>) -> bool {
    let is = |name: &str, allowed: &[Ordering]| match had.get(name) {
        Some(Value::Number(number)) => compare(number, wanted).is_some_and(|order| allowed.contains(&order)),
        _ => false,
    };
    let (at_least, at_most) = ([Ordering::Greater, Ordering::Equal], [Ordering::Less, Ordering::Equal]);
    match keyword {
        "minimum" => is("minimum", &at_least) || is("exclusiveMinimum", &at_least),
        "exclusiveMinimum" => is("exclusiveMinimum", &at_least) || is("minimum", &at_least[..1]),
        "maximum" => is("maximum", &at_most) || is("exclusiveMaximum", &at_most),
        "exclusiveMaximum" => is("exclusiveMaximum", &at_most) || is("maximum", &at_most[..1]),
        "multipleOf" => match (had.get("multipleOf").and_then(Value::as_u64), wanted.as_u64()) {
            (Some(had), Some(wanted)) if wanted > 0 => had % wanted == 0,
            _ => had.get("multipleOf").and_then(Value::as_number) == Some(wanted),
        },
        "minLength" | "minItems" | "minProperties" => wanted.as_f64() == Some(0.0) || is(keyword, &at_least),
        _ => is(keyword, &at_most),
    }
}

/// How the numbers compare; `None` when that cannot be told exactly.
fn compare(left: &Number, right: &Number) -> Option<Ordering> {
    /// Up to here every whole number is a `f64` of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        return Some(left.cmp(&right));
    }
    let (near_left, near_right) = (left.as_f64()?, right.as_f64()?);
    if near_left.abs() >= EXACT || near_right.abs() >= EXACT {
        return (left == right).then_some(Ordering::Equal);
    }
    near_left.partial_cmp(&near_right)
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}
