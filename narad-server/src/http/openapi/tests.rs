use std::collections::BTreeSet;

use super::*;

/// Calls `each` with every operation's place and what it says.
fn operations(document: &Value, mut each: impl FnMut(&str, &Value)) {
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if method != "parameters" {
                each(&format!("{method} {path}"), operation);
            }
        }
    }
}

#[test]
fn every_operation_is_named_once_and_says_what_it_answers() {
    let mut ids = BTreeSet::new();
    operations(&everything(), |place, operation| {
        let id = operation["operationId"].as_str().unwrap();
        assert!(!id.is_empty() && ids.insert(id.to_owned()), "{place}: {id}");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{place}");
        let answers = operation["responses"].as_object().unwrap();
        assert!(answers.keys().any(|status| status.starts_with('2')), "{place}");
    });
    assert!(ids.len() > 20);
}

#[test]
fn every_reference_leads_somewhere() {
    fn check(value: &Value, root: &Value) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    let found = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
                    assert!(found.is_some(), "{reference}");
                }
                map.values().for_each(|value| check(value, root));
            }
            Value::Array(values) => values.iter().for_each(|value| check(value, root)),
            _ => {}
        }
    }
    let document = everything();
    check(&document, &document);
    assert!(!document["components"]["schemas"].as_object().unwrap().is_empty());
}

#[test]
fn bodies_of_requests_take_no_unknown_field() {
    operations(&everything(), |place, operation| {
        if let Some(schema) = operation.pointer("/requestBody/content/application~1json/schema") {
            assert_eq!(schema["additionalProperties"], false, "{place}: {schema}");
            assert!(jsonschema::validator_for(schema).is_ok(), "{place}");
        }
    });
}
