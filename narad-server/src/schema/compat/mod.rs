//! Whether a new version of a schema takes every document that the current one takes.
//!
//! A conservative comparison of the two, keyword by keyword: what cannot be told is incompatible, at a place that is
//! named. The rule is written down in `docs/http-api.md`. One step is lenient: a property that the current version does
//! not describe, where it leaves open what else an object has, may be added as an optional one.

mod array;
mod bounds;
mod combine;
mod object;
mod value;

use std::collections::HashSet;

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::{
    Schema, quoted,
    walk::{ref_stands_alone, resolve},
};

/// Comparisons of two parts, at most: hostile schemas could ask for more than anybody waits for.
const MAX_STEPS: usize = 20_000;
/// Parts within parts that are compared, at most.
const MAX_LEVELS: usize = 400;

/// The new version may refuse what the current one takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", if place.is_empty() { "/" } else { place })]
pub struct Incompatible {
    /// The place in the new version, as a JSON pointer.
    pub place: String,
    /// What is wrong there.
    pub reason: String,
}

type Outcome = Result<(), Incompatible>;

fn refuse<T>(place: &str, reason: impl Into<String>) -> Result<T, Incompatible> {
    Err(Incompatible { place: quoted(place), reason: quoted(&reason.into()) })
}

/// Compares `new` with `current`.
pub(super) fn check(current: &Schema, new: &Schema) -> Outcome {
    if current.is_same(new) {
        return Ok(());
    }
    if current.draft != new.draft {
        return refuse("/$schema", "another draft than that of the current version");
    }
    let mut mentioned = HashSet::new();
    mentions(&current.value, &mut mentioned);
    let mut comparison = Comparison {
        old: &current.value,
        new: &new.value,
        draft: new.draft,
        has_rules: has_rules(&current.value),
        mentioned,
        steps: 0,
        under_way: Vec::new(),
    };
    comparison.covers(&current.value, &new.value, "", true)
}

/// Every text in `value`: among them are the names of all properties that it describes.
fn mentions<'a>(value: &'a Value, texts: &mut HashSet<&'a str>) {
    match value {
        Value::String(text) => {
            texts.insert(text);
        }
        Value::Array(values) => values.iter().for_each(|value| mentions(value, texts)),
        Value::Object(map) => {
            for (key, value) in map {
                texts.insert(key);
                mentions(value, texts);
            }
        }
        _ => {}
    }
}

/// Whether some part of `value` describes properties without their names.
fn has_rules(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(has_rules),
        Value::Object(map) => map.iter().any(|(key, value)| match key.as_str() {
            "patternProperties" => true,
            // `false` takes no other property, so nobody has one.
            "additionalProperties" | "unevaluatedProperties" if !value.is_boolean() => true,
            _ => has_rules(value),
        }),
        _ => false,
    }
}

struct Comparison<'a> {
    old: &'a Value,
    new: &'a Value,
    draft: Draft,
    /// Every text in the current version.
    mentioned: HashSet<&'a str>,
    /// Some part of the current version describes properties that it does not name.
    has_rules: bool,
    steps: usize,
    /// The pairs that are being compared, and whether leniently. One that is met again holds if all else does: each round steps into the
    /// document, which ends somewhere.
    under_way: Vec<(*const Value, *const Value, bool)>,
}

static ANYTHING: Value = Value::Bool(true);

impl<'a> Comparison<'a> {
    /// Checks that `new` takes what `old` takes. `at` is the place of `new`; `alone` says that nothing but `old` describes
    /// that place in the current version.
    fn covers(&mut self, old: &'a Value, new: &'a Value, at: &str, alone: bool) -> Outcome {
        self.steps += 1;
        if self.steps > MAX_STEPS || self.under_way.len() > MAX_LEVELS {
            return refuse(at, "the schemas are too entangled to be compared");
        }
        let takes_all = new == &ANYTHING || new.as_object().is_some_and(Map::is_empty);
        let pair = |alone| (std::ptr::from_ref(old), std::ptr::from_ref(new), alone);
        let is_under_way =
            self.under_way.contains(&pair(false)) || alone && self.under_way.contains(&pair(true));
        if takes_all || old == &Value::Bool(false) || is_under_way {
            return Ok(());
        }
        if self.is_same(old, new, &mut HashSet::new()) {
            return Ok(());
        }
        let Some(wanted) = new.as_object() else {
            return refuse(at, "takes nothing any more");
        };
        self.under_way.push(pair(alone));
        let outcome = self.covers_one_by_one(old, new, wanted, at, alone);
        self.under_way.pop();
        outcome
    }

    fn covers_one_by_one(
        &mut self,
        old: &'a Value,
        new: &'a Value,
        wanted: &'a Map<String, Value>,
        at: &str,
        alone: bool,
    ) -> Outcome {
        if let Some(values) = self.values_of(old).filter(|_| !holds_reference(new)) {
            return self.takes_each(&values, new, at);
        }
        let Err(refusal) = self.keywords(old, wanted, at, alone) else { return Ok(()) };
        // Then perhaps because of what `old` is made of.
        let Some(map) = old.as_object() else { return Err(refusal) };
        if let Some(Value::String(reference)) = map.get("$ref")
            && let Ok(target) = resolve(self.old, reference)
            && self.covers(target, new, at, alone && combine::is_mere_reference(old)).is_ok()
        {
            return Ok(());
        }
        if ref_stands_alone(map, self.draft) {
            return Err(refusal);
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(parts)) = map.get(keyword)
                && parts.iter().all(|part| self.covers(part, new, at, false).is_ok())
            {
                return Ok(());
            }
        }
        if let Some(Value::Array(parts)) = map.get("allOf")
            && parts.iter().any(|part| self.covers(part, new, at, false).is_ok())
        {
            return Ok(());
        }
        Err(refusal)
    }

    /// Checks what each keyword of `wanted` asks for.
    fn keywords(&mut self, old: &'a Value, wanted: &'a Map<String, Value>, at: &str, alone: bool) -> Outcome {
        let only_reference = ref_stands_alone(wanted, self.draft);
        let had = self.asserted(old);
        let alone_below = alone && !object::describes_twice(old);
        for (keyword, value) in wanted {
            if only_reference && keyword != "$ref" {
                continue;
            }
            let here = format!("{at}/{}", escaped(keyword));
            match keyword.as_str() {
                "$ref" | "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => {
                    self.combination(keyword, value, old, wanted, at, alone)?;
                }
                "type" | "enum" | "const" => self.value_keyword(keyword, value, old, &here)?,
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf"
                | "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
                    if self.may_be(old, bounds::bounded(keyword)) =>
                {
                    bounds::check(keyword, value, had, &here)?;
                }
                "properties"
                | "patternProperties"
                | "additionalProperties"
                | "propertyNames"
                | "required"
                | "dependentRequired"
                | "dependentSchemas"
                | "unevaluatedProperties"
                    if self.may_be(old, value::OBJECT) =>
                {
                    self.object_keyword(keyword, value, had, wanted, at, alone_below)?;
                }
                "items" | "prefixItems" | "additionalItems" | "contains" | "minContains" | "maxContains"
                | "uniqueItems"
                    if self.may_be(old, value::ARRAY) =>
                {
                    self.array_keyword(keyword, value, had, wanted, at, alone_below)?;
                }
                "pattern" | "format" | "contentEncoding" | "contentMediaType" | "contentSchema"
                    if self.may_be(old, value::STRING) && had.get(keyword) != Some(value) =>
                {
                    return refuse(&here, "added or changed");
                }
                "dependencies" | "unevaluatedItems" | "$dynamicRef" | "$recursiveRef" => {
                    return refuse(&here, "beside a change here it cannot be told what this takes");
                }
                // What is left says nothing about documents, or not about those that the current version takes.
                _ => {}
            }
        }
        Ok(())
    }

    /// The keywords of `old` that count.
    fn asserted(&self, old: &'a Value) -> &'a Map<String, Value> {
        static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        match old.as_object() {
            Some(map) if !ref_stands_alone(map, self.draft) => map,
            _ => &NONE,
        }
    }

    /// Whether both are written alike, and so is everything that they refer to.
    fn is_same(&self, old: &'a Value, new: &'a Value, seen: &mut HashSet<&'a str>) -> bool {
        old == new && self.refers_alike(new, seen)
    }

    fn refers_alike(&self, value: &'a Value, seen: &mut HashSet<&'a str>) -> bool {
        match value {
            Value::Array(values) => values.iter().all(|value| self.refers_alike(value, seen)),
            Value::Object(map) => map.iter().all(|(key, value)| match value {
                Value::String(reference) if key == "$ref" => {
                    !seen.insert(reference)
                        || matches!((resolve(self.old, reference), resolve(self.new, reference)),
                            (Ok(old), Ok(new)) if self.is_same(old, new, seen))
                }
                other => self.refers_alike(other, seen),
            }),
            _ => true,
        }
    }
}

fn holds_reference(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(holds_reference),
        Value::Object(map) => map.contains_key("$ref") || map.values().any(holds_reference),
        _ => false,
    }
}

/// `name` as a step of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests;
