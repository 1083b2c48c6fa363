//! Parts that are combined: all of them, one of them, if and else.

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::{ANYTHING, Comparison, Outcome, escaped, refuse, value};
use crate::schema::walk::resolve;

impl<'a> Comparison<'a> {
    pub(super) fn combination(
        &mut self,
        keyword: &str,
        value: &'a Value,
        old: &'a Value,
        wanted: &'a Map<String, Value>,
        at: &str,
        alone: bool,
    ) -> Outcome {
        let here = format!("{at}/{}", escaped(keyword));
        let had = self.asserted(old);
        match keyword {
            "$ref" => self.reference(value, old, &here, alone),
            "allOf" => self.all_of(value, old, &here, alone),
            "anyOf" => self.any_of(value, old, &here, alone),
            "oneOf" => match had.get(keyword) {
                Some(before) if self.is_same(before, value, &mut Default::default()) => Ok(()),
                _ if self.exclude_each_other(value) => self.any_of(value, old, &here, alone),
                _ => {
                    refuse(&here, "changed, and the parts do not exclude each other by a type or a constant")
                }
            },
            "then" | "else" if !wanted.contains_key("if") => Ok(()),
            "then" | "else" => self.covers(had.get(keyword).unwrap_or(&ANYTHING), value, &here, false),
            "if" if !wanted.contains_key("then") && !wanted.contains_key("else") => Ok(()),
            // `if` and `not`: what they take more of, the schema takes less of.
            _ => match had.get(keyword) {
                Some(before) if self.is_same(before, value, &mut Default::default()) => Ok(()),
                _ => refuse(&here, "added or changed"),
            },
        }
    }

    fn reference(&mut self, value: &'a Value, old: &'a Value, here: &str, alone: bool) -> Outcome {
        let Some(Ok(target)) = value.as_str().map(|reference| resolve(self.new, reference)) else {
            return refuse(here, "leads nowhere");
        };
        let before = match old.get("$ref") {
            Some(Value::String(reference)) => resolve(self.old, reference).ok(),
            _ => None,
        };
        let Some(before) = before else { return self.covers(old, target, here, alone) };
        self.covers(before, target, here, alone && is_mere_reference(old))
            .or_else(|refusal| self.covers(old, target, here, alone).map_err(|_| refusal))
    }

    fn all_of(&mut self, value: &'a Value, old: &'a Value, here: &str, alone: bool) -> Outcome {
        let before = self.asserted(old).get("allOf").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (index, part) in value.as_array().into_iter().flatten().enumerate() {
            let place = format!("{here}/{index}");
            let at_its_place = match before.get(index) {
                Some(before) => self.covers(before, part, &place, false),
                None => refuse(&place, "added"),
            };
            let Err(refusal) = at_its_place else { continue };
            let elsewhere = before.iter().any(|before| self.covers(before, part, &place, false).is_ok());
            if !elsewhere && self.covers(old, part, &place, alone).is_err() {
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Checks that whatever `old` takes is taken by one of the parts.
    fn any_of(&mut self, value: &'a Value, old: &'a Value, here: &str, alone: bool) -> Outcome {
        let after = value.as_array().map_or(&[][..], Vec::as_slice);
        let within = |this: &mut Self, before: &'a Value, alone: bool| {
            let mut refusal = None;
            let taken = after.iter().enumerate().any(|(index, part)| {
                let outcome = this.covers(before, part, &format!("{here}/{index}"), alone);
                outcome.map_err(|error| refusal.get_or_insert(error).clone()).is_ok()
            });
            if taken { Ok(()) } else { refusal.map_or_else(|| refuse(here, "takes nothing"), Err) }
        };
        for keyword in ["anyOf", "oneOf"] {
            let Some(Value::Array(before)) = self.asserted(old).get(keyword) else { continue };
            let missing = before.iter().position(|before| within(self, before, false).is_err());
            let Some(index) = missing else { return Ok(()) };
            if within(self, old, alone).is_err() {
                return refuse(
                    here,
                    format!("nothing here takes all that {keyword}/{index} of the current version takes"),
                );
            }
            return Ok(());
        }
        within(self, old, alone)
    }

    /// Whether no document is taken by two of the parts: each has types of its own, or a property that all require has
    /// constants of its own in each.
    fn exclude_each_other(&self, parts: &'a Value) -> bool {
        let parts = parts.as_array().map_or(&[][..], Vec::as_slice);
        parts
            .iter()
            .enumerate()
            .all(|(index, left)| parts.iter().skip(index + 1).all(|right| self.excludes(left, right)))
    }

    fn excludes(&self, left: &Value, right: &Value) -> bool {
        let (Some(left), Some(right)) = (left.as_object(), right.as_object()) else { return false };
        let alone = |map: &Map<String, Value>| map.contains_key("$ref");
        if alone(left) || alone(right) {
            return false;
        }
        let types = |map: &Map<String, Value>| map.get("type").map(value::listed);
        let (left_types, right_types) = (types(left), types(right));
        if let (Some(left), Some(right)) = (left_types, right_types)
            && left & right == 0
        {
            return true;
        }
        let only_objects = left_types == Some(value::OBJECT) && right_types == Some(value::OBJECT);
        only_objects
            // Draft 4 knows no `const`.
            && self.draft != Draft::Draft4
            && constants(left).any(|(name, of_left)| {
                constants(right).any(|(other, of_right)| {
                    name == other && of_left.iter().all(|one| !of_right.iter().any(|two| may_equal(one, two)))
                })
            })
    }
}

/// Whether nothing stands beside a `$ref` that says anything about documents.
pub(super) fn is_mere_reference(part: &Value) -> bool {
    let silent = ["$ref", "$defs", "definitions", "$schema", "$id", "$comment", "title", "description"];
    part.as_object().is_some_and(|map| map.keys().all(|keyword| silent.contains(&keyword.as_str())))
}

/// Whether a validator might call them equal: 1 and 1.0 are, and so may be what holds them.
fn may_equal(left: &Value, right: &Value) -> bool {
    let simple = |value: &Value| matches!(value, Value::String(_) | Value::Bool(_) | Value::Null);
    !(simple(left) && simple(right)) || left == right
}

/// The required properties that have listed values, with those.
fn constants(part: &Map<String, Value>) -> impl Iterator<Item = (&str, Vec<&Value>)> {
    let required =
        part.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    required.filter_map(|name| {
        let property = part.get("properties")?.get(name)?.as_object()?;
        let values = match (property.get("const"), property.get("enum")) {
            _ if property.contains_key("$ref") => return None,
            (Some(value), _) => vec![value],
            (None, Some(Value::Array(values))) => values.iter().collect(),
            _ => return None,
        };
        Some((name, values))
    })
}
