//! The parts of a schema, and where they apply: to the instance itself, or to something in it.

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::SchemaError;

/// What of an instance a part of a schema applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Target<'a> {
    /// All of it.
    Itself,
    /// The property of that name.
    Name(&'a str),
    /// The item of that number.
    Item(usize),
    /// Some properties, by a rule: a part of each such keyword may apply to one property.
    Names,
    /// Some items.
    Items,
}

/// Calls `each` with every part of `schema` but the target of its `$ref`: what it applies to, its keyword, what names it
/// below the keyword, and the part.
pub(super) fn parts<'a>(
    schema: &'a Map<String, Value>,
    draft: Draft,
    mut each: impl FnMut(Target<'a>, &'a str, Option<String>, &'a Value),
) {
    if ref_stands_alone(schema, draft) {
        return;
    }
    for (keyword, value) in schema {
        let (keyword, listed, whole) = match keyword.as_str() {
            keyword @ ("allOf" | "anyOf" | "oneOf") => (keyword, true, Target::Itself),
            keyword @ ("not" | "if" | "then" | "else") => (keyword, false, Target::Itself),
            keyword @ ("dependentSchemas" | "dependencies") => (keyword, true, Target::Itself),
            keyword @ ("properties" | "patternProperties") => (keyword, true, Target::Names),
            keyword @ ("additionalProperties" | "unevaluatedProperties" | "propertyNames") => {
                (keyword, false, Target::Names)
            }
            keyword @ ("additionalItems" | "unevaluatedItems" | "contains") => {
                (keyword, false, Target::Items)
            }
            "prefixItems" => ("prefixItems", true, Target::Items),
            "items" => ("items", value.is_array(), Target::Items),
            _ => continue,
        };
        if !listed {
            each(whole, keyword, None, value);
            continue;
        }
        match value {
            Value::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    let target = if whole == Target::Items { Target::Item(index) } else { whole };
                    each(target, keyword, Some(index.to_string()), value);
                }
            }
            Value::Object(values) => {
                for (name, value) in values {
                    let target = if keyword == "properties" { Target::Name(name) } else { whole };
                    each(target, keyword, Some(name.clone()), value);
                }
            }
            _ => {}
        }
    }
}

/// Whether whatever stands beside a `$ref` counts for nothing: so it is up to draft 7.
pub(super) fn ref_stands_alone(schema: &Map<String, Value>, draft: Draft) -> bool {
    matches!(draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7) && schema.contains_key("$ref")
}

/// What the `$ref` of a schema leads to, within `root`.
///
/// # Errors
/// It leads outside, or nowhere.
pub(super) fn resolve<'a>(root: &'a Value, reference: &str) -> Result<&'a Value, SchemaError> {
    let base = root.get("$id").or_else(|| root.get("id")).and_then(Value::as_str);
    let local = match base.map(|base| base.trim_end_matches('#')) {
        Some(base) if !base.is_empty() => reference.strip_prefix(base).unwrap_or(reference),
        _ => reference,
    };
    let Some(fragment) = local.strip_prefix('#') else {
        return Err(SchemaError::new(format!(
            "$ref: \"{reference}\" is outside of the schema; nothing is fetched"
        )));
    };
    let nowhere = || SchemaError::new(format!("$ref: \"{reference}\" leads nowhere"));
    let fragment = unescaped(fragment).ok_or_else(nowhere)?;
    if !fragment.is_empty() && !fragment.starts_with('/') {
        let reason = format!("$ref: \"{reference}\": refer by a pointer, such as #/$defs/name");
        return Err(SchemaError::new(reason));
    }
    root.pointer(&fragment).ok_or_else(nowhere)
}

/// Undoes percent encoding.
fn unescaped(text: &str) -> Option<String> {
    let (mut out, mut bytes) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        out.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(out).ok()
}
