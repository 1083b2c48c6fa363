//! Properties of objects.

use serde_json::{Map, Value};

use super::{ANYTHING, Comparison, Outcome, escaped, refuse};

/// Keywords beside which more than one part of a schema may describe the same property or item; a value that is listed
/// describes what is in it.
const MORE_THAN_ONE: [&str; 16] = [
    "const",
    "enum",
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "unevaluatedProperties",
    "contains",
    "unevaluatedItems",
];

/// Whether more than one part of `old` may describe the same property or item.
pub(super) fn describes_twice(old: &Value) -> bool {
    old.as_object().is_some_and(|map| MORE_THAN_ONE.iter().any(|keyword| map.contains_key(*keyword)))
}

fn is_open(rest: &Value) -> bool {
    rest == &ANYTHING || rest.as_object().is_some_and(Map::is_empty)
}

fn rest(map: &Map<String, Value>) -> &Value {
    map.get("additionalProperties").unwrap_or(&ANYTHING)
}

fn entries<'a>(map: &'a Map<String, Value>, keyword: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    map.get(keyword).and_then(Value::as_object).into_iter().flatten()
}

fn entry<'a>(map: &'a Map<String, Value>, keyword: &str, name: &str) -> Option<&'a Value> {
    map.get(keyword)?.as_object()?.get(name)
}

fn requires(map: &Map<String, Value>, name: &str) -> bool {
    map.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|one| one == name))
}

/// Whether a rule about which properties there are speaks of that one.
fn speaks_of(map: &Map<String, Value>, name: &str) -> bool {
    let listed = |names: &Value| names.as_array().is_some_and(|names| names.iter().any(|one| one == name));
    requires(map, name) || entries(map, "dependentRequired").any(|(key, names)| key == name || listed(names))
}

impl<'a> Comparison<'a> {
    pub(super) fn object_keyword(
        &mut self,
        keyword: &str,
        value: &'a Value,
        had: &'a Map<String, Value>,
        wanted: &'a Map<String, Value>,
        at: &str,
        alone: bool,
    ) -> Outcome {
        let here = format!("{at}/{keyword}");
        match keyword {
            "properties" => {
                for (name, part) in value.as_object().into_iter().flatten() {
                    self.property(name, part, had, &format!("{here}/{}", escaped(name)), alone)?;
                }
                Ok(())
            }
            "patternProperties" => {
                for (pattern, part) in value.as_object().into_iter().flatten() {
                    let before = entry(had, keyword, pattern).unwrap_or(&ANYTHING);
                    self.covers(before, part, &format!("{here}/{}", escaped(pattern)), false)?;
                }
                Ok(())
            }
            "additionalProperties" => self.additional(value, had, wanted, &here, alone),
            "propertyNames" => self.covers(had.get(keyword).unwrap_or(&ANYTHING), value, &here, false),
            "required" => {
                let mut names = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                match names.find(|name| !requires(had, name)) {
                    Some(name) => refuse(&here, format!("\"{name}\" is required now")),
                    None => Ok(()),
                }
            }
            "dependentRequired" => dependent_required(value, had, &here),
            "dependentSchemas" => {
                for (name, part) in value.as_object().into_iter().flatten() {
                    let before = entry(had, keyword, name).unwrap_or(&ANYTHING);
                    self.covers(before, part, &format!("{here}/{}", escaped(name)), false)?;
                }
                Ok(())
            }
            _ => self.unevaluated(value, had, wanted, &here),
        }
    }

    /// Checks the property `name`, which the new version describes.
    fn property(
        &mut self,
        name: &'a str,
        part: &'a Value,
        had: &'a Map<String, Value>,
        here: &str,
        alone: bool,
    ) -> Outcome {
        if let Some(before) = entry(had, "properties", name) {
            return self.covers(before, part, here, alone);
        }
        // It may be one of those that a pattern describes.
        for (_, before) in entries(had, "patternProperties") {
            self.covers(before, part, here, false)?;
        }
        let before = rest(had);
        if !is_open(before) || speaks_of(had, name) {
            return self.covers(if is_open(before) { &ANYTHING } else { before }, part, here, alone);
        }
        let is_new = alone || !self.has_rules && !self.mentioned.contains(name);
        if is_new {
            return Ok(());
        }
        let outcome = self.covers(&ANYTHING, part, here, false);
        outcome
            .or_else(|_| refuse(here, "the current version leaves this open here and describes it elsewhere"))
    }

    /// Checks the properties that the new version does not name.
    fn additional(
        &mut self,
        value: &'a Value,
        had: &'a Map<String, Value>,
        wanted: &'a Map<String, Value>,
        here: &str,
        alone: bool,
    ) -> Outcome {
        self.covers(rest(had), value, here, alone)?;
        for (name, before) in entries(had, "properties") {
            if entry(wanted, "properties", name).is_none() {
                let outcome = self.covers(before, value, here, alone);
                outcome.or_else(|_| refuse(here, format!("\"{name}\" was taken by the current version")))?;
            }
        }
        for (pattern, before) in entries(had, "patternProperties") {
            if entry(wanted, "patternProperties", pattern).is_none() {
                self.covers(before, value, here, false)?;
            }
        }
        Ok(())
    }

    /// What `unevaluatedProperties` applies to is what nothing else does: that must not become more.
    fn unevaluated(
        &mut self,
        value: &'a Value,
        had: &'a Map<String, Value>,
        wanted: &'a Map<String, Value>,
        here: &str,
    ) -> Outcome {
        let is_same = |this: &Self, keyword: &str| match (had.get(keyword), wanted.get(keyword)) {
            (None, None) => true,
            (Some(had), Some(wanted)) => this.is_same(had, wanted, &mut Default::default()),
            _ => false,
        };
        let combining = ["$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"];
        let keeps =
            |keyword: &str| entries(had, keyword).all(|(name, _)| entry(wanted, keyword, name).is_some());
        let kept = combining.iter().all(|keyword| is_same(self, keyword))
            && keeps("properties")
            && keeps("patternProperties")
            && had.contains_key("additionalProperties") == wanted.contains_key("additionalProperties");
        match had.get("unevaluatedProperties") {
            Some(before) if kept => self.covers(before, value, here, false),
            _ => refuse(here, "beside a change here it cannot be told what this takes"),
        }
    }
}

fn dependent_required(value: &Value, had: &Map<String, Value>, here: &str) -> Outcome {
    for (name, wanted) in value.as_object().into_iter().flatten() {
        let before = entry(had, "dependentRequired", name).and_then(Value::as_array);
        let mut missing = wanted.as_array().into_iter().flatten().filter(|one| {
            !before.is_some_and(|before| before.contains(one))
                && !one.as_str().is_some_and(|one| requires(had, one))
        });
        if let Some(one) = missing.next() {
            return refuse(here, format!("\"{name}\" requires {one} now"));
        }
    }
    Ok(())
}
