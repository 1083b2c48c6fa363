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

#[test]
fn every_link_leads_to_an_operation_that_has_its_parameters() {
    let document = everything();
    let mut takes: std::collections::BTreeMap<String, BTreeSet<String>> = std::collections::BTreeMap::new();
    for item in document["paths"].as_object().unwrap().values() {
        let of_path = item.get("parameters").and_then(Value::as_array).into_iter().flatten();
        let of_path: Vec<_> = of_path.map(|one| one["name"].as_str().unwrap().to_owned()).collect();
        for operation in item.as_object().unwrap().values().filter(|one| one.is_object()) {
            let own = operation.get("parameters").and_then(Value::as_array).into_iter().flatten();
            let own = own.map(|one| one["name"].as_str().unwrap().to_owned());
            let id = operation["operationId"].as_str().unwrap().to_owned();
            takes.insert(id, of_path.iter().cloned().chain(own).collect());
        }
    }
    let mut seen = 0;
    operations(&document, |place, operation| {
        for answer in operation["responses"].as_object().unwrap().values() {
            for link in
                answer.get("links").and_then(Value::as_object).into_iter().flat_map(|links| links.values())
            {
                let takes = &takes[link["operationId"].as_str().unwrap()];
                assert!(
                    link["parameters"].as_object().unwrap().keys().all(|name| takes.contains(name)),
                    "{place}"
                );
                seen += 1;
            }
        }
    });
    assert!(seen > 10, "{seen}");
}
