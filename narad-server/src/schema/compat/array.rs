//! Items of arrays.

use serde_json::{Map, Value};

use super::{ANYTHING, Comparison, Outcome, refuse};

/// The parts that describe items: those of the first ones by their place, and that of the rest.
struct Items<'a> {
    first: &'a [Value],
    rest: &'a Value,
    /// The keywords of the two.
    keywords: (&'static str, &'static str),
}

impl<'a> Items<'a> {
    fn of(map: &'a Map<String, Value>) -> Self {
        let get = |keyword: &str| map.get(keyword).unwrap_or(&ANYTHING);
        match map.get("items") {
            // Before draft 2020-12.
            Some(Value::Array(first)) => {
                Self { first, rest: get("additionalItems"), keywords: ("items", "additionalItems") }
            }
            items => Self {
                first: map.get("prefixItems").and_then(Value::as_array).map_or(&[], Vec::as_slice),
                rest: items.unwrap_or(&ANYTHING),
                keywords: ("prefixItems", "items"),
            },
        }
    }

    fn at(&self, index: usize) -> &'a Value {
        self.first.get(index).unwrap_or(self.rest)
    }
}

impl<'a> Comparison<'a> {
    pub(super) fn array_keyword(
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
            "uniqueItems" if value == &Value::Bool(false) || had.get(keyword) == Some(value) => Ok(()),
            "uniqueItems" => refuse(&here, "the current version takes items that are the same"),
            "contains" | "minContains" | "maxContains" => self.contains(value, had, wanted, keyword, &here),
            // A keyword of another draft says nothing.
            "prefixItems" | "additionalItems" if Items::of(wanted).keywords != ("prefixItems", "items") => {
                if keyword == "prefixItems" {
                    Ok(())
                } else {
                    self.items(had, wanted, at, alone)
                }
            }
            "additionalItems" => Ok(()),
            "prefixItems" if self.draft != jsonschema::Draft::Draft202012 => Ok(()),
            _ => self.items(had, wanted, at, alone),
        }
    }

    fn items(
        &mut self,
        had: &'a Map<String, Value>,
        wanted: &'a Map<String, Value>,
        at: &str,
        alone: bool,
    ) -> Outcome {
        let (before, after) = (Items::of(had), Items::of(wanted));
        if before.keywords != after.keywords && !(before.first.is_empty() && after.first.is_empty()) {
            return refuse(
                &format!("{at}/items"),
                "one list of items cannot be compared with one kind of item",
            );
        }
        if self.draft != jsonschema::Draft::Draft202012 && had.contains_key("prefixItems") {
            return refuse(&format!("{at}/items"), "prefixItems is no keyword of this draft");
        }
        for (index, part) in after.first.iter().enumerate() {
            self.covers(before.at(index), part, &format!("{at}/{}/{index}", after.keywords.0), alone)?;
        }
        let rest = format!("{at}/{}", after.keywords.1);
        for part in before.first.iter().skip(after.first.len()) {
            self.covers(part, after.rest, &rest, alone)?;
        }
        self.covers(before.rest, after.rest, &rest, alone)
    }

    fn contains(
        &mut self,
        value: &'a Value,
        had: &'a Map<String, Value>,
        wanted: &'a Map<String, Value>,
        keyword: &str,
        here: &str,
    ) -> Outcome {
        let counts = ["minContains", "maxContains"];
        let same_counts = counts.iter().all(|count| had.get(*count) == wanted.get(*count));
        match had.get(keyword) {
            _ if !wanted.contains_key("contains") => Ok(()),
            Some(before) if keyword != "contains" && before == value => Ok(()),
            // With a bound from above the part may become neither wider nor narrower.
            Some(before) if same_counts && self.is_same(before, value, &mut Default::default()) => Ok(()),
            Some(before) if same_counts && !wanted.contains_key("maxContains") => {
                self.covers(before, value, here, false)
            }
            _ => refuse(here, "added or changed"),
        }
    }
}
