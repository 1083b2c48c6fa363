//! What a document can cost that is checked against a schema, told from the schema alone.
//!
//! Parts that refer to each other can make a small document expensive: each `$ref` that is met twice doubles the work,
//! at every level again if the schema is recursive. So a schema whose parts multiply is refused, and one whose parts
//! multiply with each level of the document takes documents of fewer levels. What is left multiplies with the values of a
//! document, of which a schema with long lists or many parts takes fewer.

use std::collections::{HashMap, VecDeque};

use jsonschema::Draft;
use serde_json::Value;

use super::{
    MAX_DEPTH, MAX_PATTERN_BYTES, MAX_PATTERNS, SchemaError,
    walk::{Target, parts, resolve},
};

/// Parts of a schema, at most.
const MAX_PARTS: usize = 5000;
/// Parts that one document may meet without recursion, and by recursion, at most: each takes some tens of nanoseconds.
const MAX_MET: u64 = 100_000;
const MAX_MET_BY_RECURSION: u64 = 1_000_000;
/// Levels that any schema takes; below that it is of no use and is refused.
const MIN_DEPTH: usize = 4;
/// Parts and list entries that all values of one document together may meet, at most: each takes nanoseconds.
const MAX_MET_BY_ALL: u64 = 1 << 27;
/// Bytes that a part takes in memory, about.
const BYTES_OF_PART: usize = 1 << 10;

/// What checking against a schema costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    parts: usize,
    patterns: usize,
    depth: usize,
    load: Load,
}

/// What one value of a document can meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Load {
    /// Parts and list entries, with those that its children meet without recursion.
    met: u64,
    /// How much more often they are met on each level further down.
    factor: u64,
}

impl Cost {
    /// The cost of `root`.
    ///
    /// # Errors
    /// It is beyond the bounds, or a part refers to nothing but itself, outside, or nowhere.
    pub(super) fn of(root: &Value, draft: Draft) -> Result<Self, SchemaError> {
        let patterns = survey(root, draft, true)?;
        if patterns > MAX_PATTERNS {
            let reason = format!("{patterns} regular expressions; at most {MAX_PATTERNS} are taken");
            return Err(SchemaError::new(reason));
        }
        let graph = Graph::of(root, draft)?;
        graph.check_in_place()?;
        let (depth, load) = graph.depth()?;
        Ok(Self { parts: graph.edges.len(), patterns, depth, load })
    }

    /// Levels that a document may have.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Parts and list entries that one value may meet.
    pub(super) fn met(&self) -> u64 {
        self.load.met
    }

    /// How many values a document may have that nests `levels` deep.
    pub(super) fn values(&self, levels: usize) -> u64 {
        let levels = u32::try_from(levels).unwrap_or(u32::MAX);
        let met = self.load.factor.saturating_pow(levels).saturating_mul(self.load.met);
        MAX_MET_BY_ALL / met.max(1)
    }

    /// About how much memory the schema takes that has `text` bytes, made ready.
    pub(super) fn bytes(&self, text: usize) -> usize {
        2 * text + self.parts * BYTES_OF_PART + self.patterns * MAX_PATTERN_BYTES
    }
}

/// Counts the expressions in `value`, and refuses keywords that make a `$ref` mean something else than its text says.
fn survey(value: &Value, draft: Draft, is_root: bool) -> Result<usize, SchemaError> {
    let mut patterns = 0;
    match value {
        Value::Array(values) => {
            for value in values {
                patterns += survey(value, draft, false)?;
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                let renames = !is_root && (key == "$id" || key == "id" && draft == Draft::Draft4);
                let leads_elsewhere = key == "$dynamicRef" || key == "$recursiveRef";
                if value.is_string() && (renames || leads_elsewhere) {
                    return Err(SchemaError::new(format!(
                        "{key}: not taken here; refer with $ref, by a pointer"
                    )));
                }
                patterns += match (key.as_str(), value) {
                    ("pattern", Value::String(_)) => 1,
                    ("patternProperties", Value::Object(by_pattern)) => by_pattern.len(),
                    _ => 0,
                };
                patterns += survey(value, draft, false)?;
            }
        }
        _ => {}
    }
    Ok(patterns)
}

/// The parts that validation can meet, and which leads to which.
struct Graph<'a> {
    edges: Vec<Vec<(Target<'a>, usize)>>,
    /// By part: 1, and the entries of its lists, of which each may be looked at for one value.
    own: Vec<u64>,
}

impl<'a> Graph<'a> {
    fn of(root: &'a Value, draft: Draft) -> Result<Self, SchemaError> {
        let (mut numbers, mut found) = (HashMap::from([(std::ptr::from_ref(root), 0usize)]), vec![root]);
        let (mut edges, mut own) = (Vec::new(), Vec::new());
        while let Some(&value) = found.get(edges.len()) {
            let mut of_this = Vec::new();
            own.push(1 + listed(value));
            if let Value::Object(map) = value {
                let mut add = |target, part: &'a Value| {
                    let next = found.len();
                    let number = *numbers.entry(std::ptr::from_ref(part)).or_insert(next);
                    if number == next {
                        found.push(part);
                    }
                    of_this.push((target, number));
                };
                if let Some(Value::String(reference)) = map.get("$ref") {
                    add(Target::Itself, resolve(root, reference)?);
                }
                // `not`, `dependencies` and their like may hold what is no schema.
                parts(map, draft, |target, _, _, part| {
                    if part.is_object() {
                        add(target, part);
                    }
                });
            }
            edges.push(of_this);
            if found.len() > MAX_PARTS {
                return Err(SchemaError::new(format!("more than {MAX_PARTS} parts")));
            }
        }
        Ok(Self { edges, own })
    }

    /// Takes away parts that lead to nothing that is still there, until none is left that does. Calls `done` with each
    /// in that order, and answers which stay: those from which one can go in circles.
    fn peel(&self, follows: impl Fn(Target<'a>) -> bool, mut done: impl FnMut(usize)) -> Vec<bool> {
        let mut waits_for = vec![0usize; self.edges.len()];
        let mut leads_here = vec![Vec::new(); self.edges.len()];
        for (from, edges) in self.edges.iter().enumerate() {
            for &(_, to) in edges.iter().filter(|(target, _)| follows(*target)) {
                if let (Some(waits), Some(here)) = (waits_for.get_mut(from), leads_here.get_mut(to)) {
                    *waits += 1;
                    here.push(from);
                }
            }
        }
        let mut stays = vec![true; self.edges.len()];
        let mut ready: VecDeque<usize> =
            (0..waits_for.len()).filter(|&at| waits_for.get(at) == Some(&0)).collect();
        while let Some(at) = ready.pop_front() {
            if let Some(stays) = stays.get_mut(at) {
                *stays = false;
            }
            done(at);
            for &from in leads_here.get(at).into_iter().flatten() {
                if let Some(waits) = waits_for.get_mut(from) {
                    *waits -= 1;
                    if *waits == 0 {
                        ready.push_back(from);
                    }
                }
            }
        }
        stays
    }

    fn edges(&self, at: usize) -> impl Iterator<Item = (Target<'a>, usize)> {
        self.edges.get(at).into_iter().flatten().copied()
    }

    fn check_in_place(&self) -> Result<(), SchemaError> {
        let stays = self.peel(|target| target == Target::Itself, |_| ());
        if stays.contains(&true) {
            return Err(SchemaError::new("$ref: a part that is defined by nothing but itself"));
        }
        Ok(())
    }

    /// How deep a document may nest, and what its values meet.
    fn depth(&self) -> Result<(usize, Load), SchemaError> {
        let mut met = self.own.clone();
        let recursive = self.peel(
            |_| true,
            |at| {
                let own = weight(&self.own, at);
                let sum = self.edges(at).fold(own, |sum, (_, to)| sum.saturating_add(weight(&met, to)));
                if let Some(met) = met.get_mut(at) {
                    *met = sum;
                }
            },
        );
        let is_recursive = |at: usize| recursive.get(at) == Some(&true);
        let mut growth = vec![Growth::default(); self.edges.len()];
        let (mut in_place, mut factor) = (1u64, 1u64);
        self.peel(
            |target| target == Target::Itself,
            |at| {
                let mut sum = Growth { met: weight(&self.own, at), ..Growth::default() };
                for (target, to) in self.edges(at) {
                    match target {
                        Target::Itself if is_recursive(to) => sum.add(growth.get(to)),
                        _ if is_recursive(to) => sum.count(target),
                        // Met without recursion: with all that it leads to.
                        _ => sum.met = sum.met.saturating_add(weight(&met, to)),
                    }
                }
                in_place = in_place.max(sum.met);
                if is_recursive(at) {
                    factor = factor.max(sum.factor());
                }
                if let Some(growth) = growth.get_mut(at) {
                    *growth = sum;
                }
            },
        );
        if in_place > MAX_MET {
            let reason = format!(
                "its parts refer to each other in more than {MAX_MET} ways, lists counted by their entries"
            );
            return Err(SchemaError::new(reason));
        }
        let (mut depth, mut met) = (0, 1u64);
        while depth < MAX_DEPTH && met.saturating_mul(factor) <= MAX_MET_BY_RECURSION {
            depth += 1;
            met = met.saturating_mul(factor);
        }
        if depth < MIN_DEPTH {
            return Err(SchemaError::new("it refers to itself in too many ways at once"));
        }
        Ok((depth, Load { met: in_place, factor }))
    }
}

/// The entries of the lists of a part: each is looked at for a value, or for an object.
fn listed(part: &Value) -> u64 {
    let entries = |value: &Value| value.as_array().map_or(0, Vec::len);
    let lists = ["enum", "required"].into_iter().filter_map(|keyword| part.get(keyword)).map(entries);
    let by_name = ["dependentRequired", "dependencies"].into_iter().filter_map(|keyword| part.get(keyword));
    let by_name =
        by_name.filter_map(Value::as_object).flat_map(|lists| lists.values().map(|list| 1 + entries(list)));
    let sum = lists.chain(by_name).fold(0usize, usize::saturating_add);
    u64::try_from(sum).unwrap_or(u64::MAX - 1)
}

fn weight(met: &[u64], at: usize) -> u64 {
    met.get(at).copied().unwrap_or(u64::MAX)
}

/// How often recursive parts are met one level below a part.
#[derive(Debug, Clone, Default)]
struct Growth<'a> {
    met: u64,
    by_target: HashMap<Target<'a>, u64>,
}

impl<'a> Growth<'a> {
    fn count(&mut self, target: Target<'a>) {
        let count = self.by_target.entry(target).or_default();
        *count = count.saturating_add(1);
    }

    fn add(&mut self, other: Option<&Self>) {
        let Some(other) = other else { return };
        self.met = self.met.saturating_add(other.met);
        for (&target, &count) in &other.by_target {
            let sum = self.by_target.entry(target).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    /// How often one child of an instance can meet them: by its own name or number, and by every rule.
    fn factor(&self) -> u64 {
        let (mut by_name, mut by_number) = (0, 0);
        for (target, &count) in &self.by_target {
            match target {
                Target::Name(_) => by_name = count.max(by_name),
                Target::Item(_) => by_number = count.max(by_number),
                _ => {}
            }
        }
        let by_rule = |target| self.by_target.get(&target).copied().unwrap_or(0);
        let properties = by_rule(Target::Names).saturating_add(by_name);
        properties.max(by_rule(Target::Items).saturating_add(by_number)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn depth(schema: &Value) -> Result<usize, String> {
        Cost::of(schema, Draft::Draft202012).map(|cost| cost.depth()).map_err(|error| error.to_string())
    }

    #[test]
    fn recursion_that_meets_each_child_once_is_free() {
        for schema in [
            json!({"properties": {"next": {"$ref": "#"}}}),
            json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}),
            json!({"items": {"$ref": "#"}}),
            json!({"additionalProperties": {"anyOf": [{"type": "string"}, {"$ref": "#"}]}}),
        ] {
            assert_eq!(depth(&schema), Ok(MAX_DEPTH), "{schema}");
        }
    }

    #[test]
    fn recursion_that_multiplies_takes_fewer_levels() {
        let node = |kind: &str| json!({"properties": {"kind": {"const": kind}, "child": {"$ref": "#"}}});
        assert_eq!(depth(&json!({"oneOf": [node("a"), node("b")]})), Ok(19));
        let many: Vec<_> = (0..40).map(|number| node(&number.to_string())).collect();
        assert!(depth(&json!({ "oneOf": many })).is_err());
    }

    #[test]
    fn lists_count_by_their_entries_and_long_ones_take_fewer_values() {
        let cost = |schema: &Value| Cost::of(schema, Draft::Draft202012);
        let names = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
        for (schema, met) in [
            (json!({"enum": names(1000)}), 1001),
            (json!({"items": {"required": names(1000)}}), 1002),
            (json!({"dependentRequired": {"a": names(500), "b": names(499)}}), 1002),
            (json!({"$schema": "", "dependencies": {"a": names(10)}}), 12),
        ] {
            assert_eq!(cost(&schema).unwrap().met(), met, "{schema:.60}");
        }
        let plain = cost(&json!({"properties": {"a": {"type": "string"}}})).unwrap();
        assert!(plain.values(256) > 1 << 20, "all that fit into a payload");
        let listed = cost(&json!({"items": {"enum": names(5000)}})).unwrap();
        assert!((10_000..50_000).contains(&listed.values(1)), "{}", listed.values(1));
        let node = |kind: &str| json!({"properties": {"kind": {"const": kind}, "child": {"$ref": "#"}}});
        let recursive = cost(&json!({"oneOf": [node("a"), node("b")]})).unwrap();
        assert!(recursive.values(2) > 1_000_000 && recursive.values(19) < 100, "{}", recursive.values(19));
        let many = json!({"allOf": vec![json!({"$ref": "#/$defs/long"}); 30], "$defs": {"long": {"enum": names(5000)}}});
        assert!(cost(&many).unwrap_err().to_string().contains("entries"));
    }

    #[test]
    fn references_that_double_are_refused_and_some_repetition_is_not() {
        let doubling = |levels: usize| {
            let mut parts = serde_json::Map::new();
            for level in 0..levels {
                let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
                parts.insert(level.to_string(), json!({"allOf": [next, next]}));
            }
            parts.insert(levels.to_string(), json!({"type": "object"}));
            json!({"$defs": parts, "$ref": "#/$defs/0"})
        };
        assert_eq!(depth(&doubling(10)), Ok(MAX_DEPTH));
        assert!(depth(&doubling(30)).unwrap_err().contains("ways"));
    }
}
