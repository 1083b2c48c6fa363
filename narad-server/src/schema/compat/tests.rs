use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

use super::*;

fn check_values(old: &Value, new: &Value) -> Outcome {
    let schema =
        |value: &Value| Schema::new(&value.to_string()).unwrap_or_else(|error| panic!("{error}: {value}"));
    schema(new).check_successor_of(&schema(old))
}

#[track_caller]
fn takes(old: Value, new: Value) {
    assert_eq!(check_values(&old, &new), Ok(()), "{old} -> {new}");
}

#[track_caller]
fn refuses(old: Value, new: Value, place: &str) {
    let refusal = check_values(&old, &new).expect_err(&format!("{old} -> {new}"));
    assert_eq!(refusal.place, place, "{old} -> {new}: {refusal}");
}

fn order(more: Value) -> Value {
    let mut order = json!({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]});
    order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    order
}

#[test]
fn properties() {
    let both = json!({"id": {"type": "integer"}, "note": {"type": "string"}});
    let closed = json!({"additionalProperties": false});
    takes(order(json!({})), order(json!({"title": "Order", "description": "x", "$comment": "y"})));
    takes(order(json!({})), order(json!({"properties": both})));
    takes(order(closed.clone()), order(json!({"properties": both, "additionalProperties": false})));
    takes(order(closed.clone()), order(json!({})));
    takes(order(json!({})), order(json!({"required": []})));
    takes(order(json!({})), order(json!({"properties": {}})));
    refuses(order(json!({})), order(closed.clone()), "/additionalProperties");
    refuses(
        order(closed.clone()),
        json!({"type": "object", "additionalProperties": false}),
        "/additionalProperties",
    );
    refuses(order(json!({})), order(json!({"properties": both, "required": ["id", "note"]})), "/required");
    refuses(
        order(json!({})),
        order(json!({"properties": {"id": {"type": "string"}}})),
        "/properties/id/type",
    );
    refuses(
        order(json!({})),
        order(json!({"properties": {"id": {"type": "integer", "minimum": 0}}})),
        "/properties/id/minimum",
    );
    let any_string = json!({"additionalProperties": {"type": "string"}});
    refuses(
        order(any_string.clone()),
        order(json!({"properties": {"id": {}, "n": {"type": "integer"}}})),
        "/properties/n/type",
    );
    takes(order(any_string), order(json!({"properties": {"id": {}, "n": {"type": ["integer", "string"]}}})));
    refuses(
        json!({"required": ["a"]}),
        json!({"required": ["a"], "properties": {"a": {"type": "string"}}}),
        "/properties/a/type",
    );
    refuses(
        json!({"patternProperties": {"^a": {"type": "string"}}}),
        json!({"properties": {"ab": {"type": "integer"}}}),
        "/properties/ab/type",
    );
    refuses(
        json!({}),
        json!({"patternProperties": {"^a": {"type": "string"}}}),
        "/patternProperties/^a/type",
    );
    refuses(json!({}), json!({"propertyNames": {"maxLength": 3}}), "/propertyNames/maxLength");
    refuses(json!({}), json!({"dependentRequired": {"a": ["b"]}}), "/dependentRequired");
    takes(json!({"required": ["b"]}), json!({"required": ["b"], "dependentRequired": {"a": ["b"]}}));
    refuses(json!({"properties": {"a/~": {}}}), json!({"properties": {"a/~": false}}), "/properties/a~1~0");
}

#[test]
fn a_property_that_another_part_describes_is_not_new() {
    let two = |a: Value, b: Value| json!({"allOf": [{"properties": a}, {"properties": b}]});
    let (text, whole) = (json!({"b": {"type": "string"}}), json!({"b": {"type": "integer"}}));
    refuses(two(json!({}), text.clone()), two(whole.clone(), text.clone()), "/allOf/0/properties/b");
    takes(two(json!({}), text.clone()), two(json!({"c": {"type": "integer"}}), text.clone()));
    let old = json!({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"properties": text}}, "$ref": "#/definitions/a"});
    let new = json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"b": {"type": "integer"}}});
    refuses(old, new, "/properties/b");
    let nested = |of_b: Value| json!({"properties": {"a": {"properties": {"x": {"type": "string"}}}, "b": {"properties": of_b}}});
    takes(nested(json!({})), nested(json!({"x": {"type": "integer"}})));
    let items = |of_items: Value| json!({"properties": {"x": {}}, "items": {"properties": of_items}});
    takes(items(json!({})), items(json!({"x": {"type": "integer"}})));
    // Nor is one that a rule describes, or a listed value has.
    for old in [
        json!({"allOf": [{"additionalProperties": {"type": "string"}}]}),
        json!({"unevaluatedProperties": {"type": "string"}}),
        json!({"$defs": {"c": {}, "d": {"$ref": "#/$defs/c"}}, "enum": [{"b": ""}]}),
    ] {
        let mut new = old.clone();
        new["properties"] = whole.clone();
        refuses(old, new, "/properties/b");
    }
}

#[test]
fn types_values_and_bounds() {
    takes(json!({"type": "integer"}), json!({"type": "number"}));
    takes(json!({"type": "string"}), json!({"type": ["string", "null"]}));
    refuses(json!({"type": "number"}), json!({"type": "integer"}), "/type");
    refuses(json!({}), json!({"type": "object"}), "/type");
    refuses(json!({}), json!(false), "");
    takes(json!(false), json!({"type": "object"}));
    takes(json!({"enum": ["a", "b"]}), json!({"enum": ["b", "c", "a"]}));
    takes(json!({"const": "a"}), json!({"enum": ["a", 1]}));
    takes(json!({"enum": [1, 2]}), json!({"type": "integer", "minimum": 1}));
    refuses(json!({"enum": [1, 2]}), json!({"minimum": 2}), "");
    refuses(json!({"enum": ["a", "b"]}), json!({"enum": ["a"]}), "");
    refuses(json!({"type": "string"}), json!({"enum": ["a"]}), "/enum");
    for (keyword, strict, relaxed) in [
        ("minimum", 5, 4),
        ("exclusiveMinimum", 5, 4),
        ("minLength", 5, 4),
        ("minItems", 5, 4),
        ("minProperties", 5, 4),
        ("maximum", 5, 6),
        ("exclusiveMaximum", 5, 6),
        ("maxLength", 5, 6),
        ("maxItems", 5, 6),
        ("maxProperties", 5, 6),
        ("multipleOf", 6, 3),
    ] {
        takes(json!({keyword: strict}), json!({keyword: relaxed}));
        takes(json!({keyword: strict}), json!({}));
        refuses(json!({keyword: relaxed}), json!({keyword: strict}), &format!("/{keyword}"));
        refuses(json!({}), json!({keyword: strict}), &format!("/{keyword}"));
        takes(json!({"type": "null"}), json!({keyword: strict}));
    }
    takes(json!({"exclusiveMinimum": 5}), json!({"minimum": 5}));
    takes(json!({"minimum": 5.5}), json!({"exclusiveMinimum": 5}));
    refuses(json!({"minimum": 5}), json!({"exclusiveMinimum": 5}), "/exclusiveMinimum");
    refuses(
        json!({"maximum": 9_007_199_254_740_993_u64}),
        json!({"maximum": 9_007_199_254_740_992_u64}),
        "/maximum",
    );
    refuses(json!({"type": "string"}), json!({"type": "string", "pattern": "a"}), "/pattern");
    refuses(json!({"pattern": "a"}), json!({"pattern": "b"}), "/pattern");
    takes(json!({"pattern": "a"}), json!({}));
    let draft4 = |exclusive: bool| json!({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": exclusive});
    takes(draft4(true), draft4(false));
    refuses(draft4(false), draft4(true), "/exclusiveMinimum");
    refuses(
        json!({"type": "string"}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#"}),
        "/$schema",
    );
}

#[test]
fn items() {
    let text = json!({"type": "string"});
    takes(json!({"items": text}), json!({"items": {"type": ["string", "null"]}}));
    refuses(json!({"items": {}}), json!({"items": text}), "/items/type");
    refuses(json!({"prefixItems": [text]}), json!({"prefixItems": [text, text]}), "/prefixItems/1/type");
    takes(
        json!({"prefixItems": [text], "items": false}),
        json!({"prefixItems": [text, text], "items": false}),
    );
    takes(json!({"prefixItems": [text, text], "items": text}), json!({"items": text}));
    refuses(json!({"prefixItems": [{}], "items": text}), json!({"items": text}), "/items/type");
    let draft7 = |first: Value, rest: Value| json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": first, "additionalItems": rest});
    takes(draft7(json!([text]), json!(false)), draft7(json!([text, text]), json!(false)));
    refuses(draft7(json!([text]), json!(true)), draft7(json!([text]), json!(false)), "/additionalItems");
    takes(draft7(text.clone(), json!(true)), draft7(text.clone(), json!(false)));
    refuses(json!({}), json!({"uniqueItems": true}), "/uniqueItems");
    takes(json!({"uniqueItems": true}), json!({"uniqueItems": false}));
    refuses(json!({}), json!({"contains": text}), "/contains");
    takes(json!({"contains": text}), json!({"contains": {}}));
    refuses(
        json!({"contains": text, "maxContains": 2}),
        json!({"contains": {}, "maxContains": 2}),
        "/contains",
    );
}

#[test]
fn combinations() {
    let (text, number) = (json!({"type": "string"}), json!({"type": "number"}));
    takes(json!({"anyOf": [text, number]}), json!({"type": ["number", "string"]}));
    takes(text.clone(), json!({"anyOf": [number, text]}));
    takes(json!({"anyOf": [text]}), json!({"anyOf": [number, text]}));
    refuses(json!({"anyOf": [text, number]}), json!({"anyOf": [text]}), "/anyOf");
    takes(json!({"oneOf": [text]}), json!({"oneOf": [number, text]}));
    refuses(json!({"oneOf": [{"minimum": 1}]}), json!({"oneOf": [{"minimum": 1}, {"maximum": 9}]}), "/oneOf");
    let event =
        |kind: &str| json!({"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]});
    takes(json!({"oneOf": [event("a")]}), json!({"oneOf": [event("a"), event("b")]}));
    refuses(json!({"oneOf": [event("a")]}), json!({"oneOf": [event("a"), event("a")]}), "/oneOf");
    takes(json!({"allOf": [text, {"minLength": 2}]}), json!({"allOf": [{"minLength": 1}]}));
    takes(json!({"type": "string", "minLength": 3}), json!({"allOf": [text, {"minLength": 1}]}));
    refuses(json!({"allOf": [text]}), json!({"allOf": [text, {"minLength": 1}]}), "/allOf/1");
    refuses(json!({}), json!({"not": text}), "/not");
    takes(json!({"not": text}), json!({}));
    let when = |then: Value| json!({"if": {"required": ["a"]}, "then": then});
    takes(when(json!({"minProperties": 3})), when(json!({"minProperties": 2})));
    refuses(when(json!({"minProperties": 2})), when(json!({"minProperties": 3})), "/then/minProperties");
    refuses(json!({}), when(json!({"minProperties": 3})), "/if");
}

#[test]
fn references() {
    let list = |of: Value| json!({"$defs": {"list": {"properties": {"value": of, "next": {"$ref": "#/$defs/list"}}}}, "$ref": "#/$defs/list"});
    takes(list(json!({"type": "integer"})), list(json!({"type": "number"})));
    refuses(list(json!({"type": "number"})), list(json!({"type": "integer"})), "/$ref/properties/value/type");
    let tree =
        |of: Value| json!({"properties": {"value": of, "left": {"$ref": "#"}, "right": {"$ref": "#"}}});
    takes(tree(json!({"type": "integer"})), tree(json!({"type": "number"})));
    refuses(tree(json!({})), tree(json!({"type": "integer"})), "/properties/value/type");
    // The same text that means something else.
    let named = |of: Value| json!({"$defs": {"a": of}, "not": {"$ref": "#/$defs/a"}});
    refuses(named(json!({"type": "string"})), named(json!({"type": ["string", "null"]})), "/not");
    let inlined = json!({"properties": {"a": {"type": "integer"}}});
    let shared = json!({"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}});
    takes(inlined.clone(), shared.clone());
    takes(shared, inlined);
}

#[test]
fn what_takes_too_long_to_compare_is_refused() {
    let many = |keyword: &str, depth: usize| {
        let mut schema = json!({"type": "string"});
        for level in 0..depth {
            schema = json!({keyword: [schema, {"minLength": level}, {"maxLength": level}]});
        }
        schema
    };
    let _ = check_values(&many("allOf", 60), &many("anyOf", 60));
    let _ = check_values(&many("anyOf", 60), &many("allOf", 61));
}

/// Schemas whose properties are named by the path to them, so that a name that a schema mentions is described where it
/// stands.
struct Random(StdRng);

impl Random {
    fn chance(&mut self, percent: u32) -> bool {
        self.0.random_range(0..100) < percent
    }

    fn schema(&mut self, path: &str, depth: u32) -> Value {
        if depth == 0 || self.chance(10) {
            return [json!(true), json!({}), json!({"type": "integer"}), json!(false)]
                .choose(&mut self.0)
                .unwrap()
                .clone();
        }
        let mut map = serde_json::Map::new();
        for _ in 0..self.0.random_range(1..5) {
            let (keyword, value) = self.keyword(path, depth);
            map.insert(keyword.to_owned(), value);
        }
        Value::Object(map)
    }

    fn keyword(&mut self, path: &str, depth: u32) -> (&'static str, Value) {
        let keywords = [
            "type",
            "type",
            "type",
            "properties",
            "properties",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "prefixItems",
            "minimum",
            "exclusiveMinimum",
            "maximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
            "maxProperties",
            "minProperties",
            "enum",
            "const",
            "anyOf",
            "oneOf",
            "allOf",
            "not",
            "if",
            "then",
            "else",
            "contains",
            "maxContains",
            "uniqueItems",
            "patternProperties",
            "propertyNames",
            "dependentRequired",
            "dependentSchemas",
            "unevaluatedProperties",
            "pattern",
        ];
        let keyword = *keywords.choose(&mut self.0).unwrap();
        let child = format!("{path}i");
        let value = match keyword {
            "type" => {
                let names = ["object", "array", "string", "integer", "number", "null", "boolean"];
                let count = self.0.random_range(1..4);
                let mut chosen: Vec<_> = (0..count).map(|_| *names.choose(&mut self.0).unwrap()).collect();
                chosen.sort_unstable();
                chosen.dedup();
                json!(chosen)
            }
            "properties" => self.named(path, depth),
            "dependentSchemas" => json!({format!("{path}a"): self.schema(path, depth - 1)}),
            "patternProperties" => {
                json!({format!("^{path}[ab]$"): self.schema(&format!("{path}a"), depth - 1)})
            }
            "required" => json!([format!("{path}{}", ["a", "b"].choose(&mut self.0).unwrap())]),
            "dependentRequired" => json!({format!("{path}a"): [format!("{path}b")]}),
            "additionalProperties" | "unevaluatedProperties" => {
                if self.chance(50) {
                    json!(false)
                } else {
                    self.schema(&format!("{path}o"), depth - 1)
                }
            }
            "propertyNames" => json!({"maxLength": self.0.random_range(1..4)}),
            "items" | "contains" => self.schema(&child, depth - 1),
            "prefixItems" => json!([self.schema(&child, depth - 1)]),
            "minimum" | "exclusiveMinimum" | "maximum" => json!(self.0.random_range(-2..4)),
            "multipleOf" => json!(self.0.random_range(1..5)),
            "minLength" | "maxLength" | "minItems" | "maxProperties" | "minProperties" | "maxContains" => {
                json!(self.0.random_range(0..3))
            }
            "enum" => json!([self.document(path, 1, &[]), 1, "x"]),
            "const" => self.document(path, 1, &[]),
            "anyOf" | "oneOf" | "allOf" => {
                let count = self.0.random_range(1..4);
                json!((0..count).map(|_| self.schema(path, depth - 1)).collect::<Vec<_>>())
            }
            "uniqueItems" => json!(self.chance(50)),
            "pattern" => json!("x"),
            _ => self.schema(path, depth - 1),
        };
        (keyword, value)
    }

    fn named(&mut self, path: &str, depth: u32) -> Value {
        let mut map = serde_json::Map::new();
        for letter in ["a", "b"] {
            if self.chance(60) {
                let path = format!("{path}{letter}");
                let part = self.schema(&path, depth - 1);
                map.insert(path, part);
            }
        }
        Value::Object(map)
    }

    /// A schema that differs from `schema` in some places.
    fn edited(&mut self, schema: &Value, path: &str, depth: u32) -> Value {
        let Value::Object(map) = schema else {
            return if self.chance(20) { self.schema(path, depth) } else { schema.clone() };
        };
        let mut edited = serde_json::Map::new();
        for (keyword, value) in map {
            if self.chance(8) {
                continue;
            }
            let child = format!("{path}i");
            let value = match (keyword.as_str(), value) {
                ("properties", Value::Object(parts)) => {
                    let mut parts: serde_json::Map<_, _> = parts
                        .iter()
                        .map(|(name, part)| (name.clone(), self.edited(part, name, depth.saturating_sub(1))))
                        .collect();
                    if depth > 0 && self.chance(30) {
                        for (name, part) in self.named(path, depth).as_object().unwrap() {
                            parts.entry(name).or_insert_with(|| part.clone());
                        }
                    }
                    Value::Object(parts)
                }
                ("anyOf" | "oneOf" | "allOf", Value::Array(parts)) => {
                    let mut parts: Vec<_> =
                        parts.iter().map(|part| self.edited(part, path, depth.saturating_sub(1))).collect();
                    if self.chance(20) {
                        parts.push(self.schema(path, depth.saturating_sub(1)));
                    }
                    Value::Array(parts)
                }
                ("items" | "contains", part) => self.edited(part, &child, depth.saturating_sub(1)),
                ("not" | "if" | "then" | "else", part) => self.edited(part, path, depth.saturating_sub(1)),
                ("minimum" | "maxLength" | "minLength" | "minItems" | "maximum", Value::Number(number))
                    if self.chance(30) =>
                {
                    json!((number.as_i64().unwrap() + self.0.random_range(-1..2)).max(0))
                }
                ("type", Value::Array(names)) if self.chance(30) => {
                    let mut names = names.clone();
                    if !names.contains(&json!("null")) {
                        names.push(json!("null"));
                    }
                    Value::Array(names)
                }
                (_, value) => value.clone(),
            };
            edited.insert(keyword.clone(), value);
        }
        if self.chance(8) && depth > 0 {
            let (keyword, value) = self.keyword(path, depth);
            edited.insert(keyword.to_owned(), value);
        }
        let edited = Value::Object(edited);
        match self.0.random_range(0..60) {
            0 => json!({"anyOf": [edited, {"type": "null"}]}),
            1 => json!({"allOf": [edited]}),
            _ => edited,
        }
    }

    /// A document with properties of the names that `names` holds, and one that no schema mentions.
    fn document(&mut self, path: &str, depth: u32, names: &[&str]) -> Value {
        let nested = if depth == 0 { 5 } else { 9 };
        match self.0.random_range(0..nested) {
            0 => json!(null),
            1 => json!(self.chance(50)),
            2 => json!(self.0.random_range(-3..5)),
            3 => json!(1.5),
            4 => json!(["", "x", "xyz"].choose(&mut self.0).unwrap()),
            5 => {
                let count = self.0.random_range(0..3);
                json!(
                    (0..count)
                        .map(|_| self.document(&format!("{path}i"), depth - 1, names))
                        .collect::<Vec<_>>()
                )
            }
            _ => {
                let mut map = serde_json::Map::new();
                for letter in ["a", "b", "z"] {
                    let name = format!("{path}{letter}");
                    if self.chance(60) && (letter == "z" || names.contains(&name.as_str())) {
                        let value = self.document(&name, depth - 1, names);
                        map.insert(name, value);
                    }
                }
                Value::Object(map)
            }
        }
    }
}

#[test]
fn whatever_the_current_version_takes_a_compatible_one_takes() {
    let seed = std::env::var("NARAD_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(rand::random::<u64>);
    let (mut random, mut compatible, mut taken) = (Random(StdRng::seed_from_u64(seed)), 0, 0);
    for round in 0..6000 {
        let old = random.schema("", 3);
        let new = random.edited(&old, "", 3);
        let schemas = (Schema::new(&old.to_string()), Schema::new(&new.to_string()));
        let (Ok(old_schema), Ok(new_schema)) = schemas else { continue };
        if old == new || new_schema.check_successor_of(&old_schema).is_err() {
            continue;
        }
        compatible += 1;
        let (before, after) = (old_schema.compiled().unwrap(), new_schema.compiled().unwrap());
        let mut mentioned = HashSet::new();
        mentions(&old, &mut mentioned);
        // A pattern mentions two names: `^ai[ab]$` does aia and aib.
        let prefixes = mentioned.iter().filter_map(|text| text.strip_prefix('^')?.strip_suffix("[ab]$"));
        let by_pattern: Vec<_> = prefixes.flat_map(|path| [format!("{path}a"), format!("{path}b")]).collect();
        let names: Vec<_> = mentioned.iter().copied().chain(by_pattern.iter().map(String::as_str)).collect();
        for _ in 0..60 {
            let document = random.document("", 3, &names);
            if before.is_valid(&document) {
                taken += 1;
                assert!(
                    after.is_valid(&document),
                    "NARAD_SEED={seed}, round {round}: {document}\n{old}\n{new}"
                );
            }
        }
    }
    assert!(
        compatible > 100 && taken > 1000,
        "NARAD_SEED={seed}: {compatible} compatible, {taken} documents"
    );
}
