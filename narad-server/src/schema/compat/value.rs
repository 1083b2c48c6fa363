//! Types, and values that are listed.

use serde_json::Value;

use super::{Comparison, Outcome, refuse};
use crate::schema::{compile, quoted};

/// A set of types, one a bit. Numbers are two kinds: those that are whole and those that are not.
pub(super) type Types = u8;

pub(super) const NULL: Types = 1;
pub(super) const BOOLEAN: Types = 1 << 1;
pub(super) const STRING: Types = 1 << 2;
pub(super) const ARRAY: Types = 1 << 3;
pub(super) const OBJECT: Types = 1 << 4;
const WHOLE: Types = 1 << 5;
const FRACTION: Types = 1 << 6;
pub(super) const NUMBER: Types = WHOLE | FRACTION;
const ALL: Types = (1 << 7) - 1;

/// Values that are looked at one by one, at most.
const MAX_VALUES: usize = 1000;

fn named(name: &Value) -> Types {
    match name.as_str() {
        Some("null") => NULL,
        Some("boolean") => BOOLEAN,
        Some("string") => STRING,
        Some("array") => ARRAY,
        Some("object") => OBJECT,
        Some("integer") => WHOLE,
        Some("number") => NUMBER,
        _ => 0,
    }
}

/// What the keyword `type` names.
pub(super) fn listed(keyword: &Value) -> Types {
    match keyword {
        Value::Array(names) => names.iter().fold(0, |types, name| types | named(name)),
        name => named(name),
    }
}

fn of(value: &Value) -> Types {
    match value {
        Value::Null => NULL,
        Value::Bool(_) => BOOLEAN,
        Value::String(_) => STRING,
        Value::Array(_) => ARRAY,
        Value::Object(_) => OBJECT,
        // 1.0 is whole in some drafts and not in others.
        Value::Number(number) if number.is_f64() => NUMBER,
        Value::Number(_) => WHOLE,
    }
}

impl<'a> Comparison<'a> {
    /// The values that `old` takes at most, when it lists them.
    pub(super) fn values_of(&self, old: &'a Value) -> Option<Vec<&'a Value>> {
        let had = self.asserted(old);
        let values: Vec<_> = match (had.get("const"), had.get("enum")) {
            (Some(value), _) if self.draft != jsonschema::Draft::Draft4 => vec![value],
            (_, Some(Value::Array(values))) => values.iter().collect(),
            _ => return None,
        };
        (values.len() <= MAX_VALUES).then_some(values)
    }

    /// The types that `old` takes at most.
    fn types_of(&self, old: &'a Value) -> Types {
        let by_name = self.asserted(old).get("type").map_or(ALL, listed);
        let by_value =
            self.values_of(old).map_or(ALL, |values| values.iter().fold(0, |types, one| types | of(one)));
        by_name & by_value
    }

    pub(super) fn may_be(&self, old: &'a Value, types: Types) -> bool {
        self.types_of(old) & types != 0
    }

    /// Checks that `new`, which refers to nothing, takes each of `values`.
    pub(super) fn takes_each(&self, values: &[&'a Value], new: &'a Value, at: &str) -> Outcome {
        let Ok(validator) = compile(new, self.draft) else {
            return refuse(at, "cannot be told apart from the rest of the schema");
        };
        match values.iter().find(|value| !validator.is_valid(value)) {
            Some(value) => refuse(at, format!("does not take {} any more", quoted(&value.to_string()))),
            None => Ok(()),
        }
    }

    pub(super) fn value_keyword(
        &mut self,
        keyword: &str,
        value: &'a Value,
        old: &'a Value,
        here: &str,
    ) -> Outcome {
        if keyword == "type" {
            let lost = self.types_of(old) & !listed(value);
            return if lost == 0 {
                Ok(())
            } else {
                refuse(here, "takes fewer types than the current version")
            };
        }
        let known = self.values_of(old);
        let listed = match value {
            Value::Array(values) if keyword == "enum" => values.iter().collect(),
            value => vec![value],
        };
        match known {
            Some(known) if known.iter().all(|one| listed.contains(one)) => Ok(()),
            _ => refuse(here, "lists fewer values than the current version takes"),
        }
    }
}
