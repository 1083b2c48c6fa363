//! What configuration makes of the codecs, and what it refuses.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use narad_core::{
    format::CodecNumber,
    plugin::{LogIdentity, PluginContext, Registry, RegistryError},
};
use serde_json::{Value, json};

fn registry() -> (Registry, PluginContext<'static>) {
    let mut registry = Registry::new();
    narad_codecs::register(&mut registry).unwrap();
    (registry, PluginContext::new(LogIdentity::named("orders")))
}

fn number(spec: Value) -> u32 {
    let (registry, context) = registry();
    registry.build_codec(&spec, &context).unwrap().number().get()
}

fn refusal(spec: Value) -> String {
    let (registry, context) = registry();
    registry.build_codec(&spec, &context).unwrap_err().to_string()
}

#[test]
fn a_name_alone_is_enough() {
    assert_eq!(number(json!("none")), 0);
    assert_eq!(number(json!("zstd")), 1);
    assert_eq!(number(json!({ "name": "zstd", "level": 22 })), 1);
}

#[test]
fn unknown_keys_and_levels_are_refused_by_name() {
    assert!(refusal(json!({ "name": "zstd", "levle": 3 })).contains("`level`"));
    assert!(refusal(json!({ "name": "none", "level": 3 })).contains("level"));
    for level in [-1, 0, 23] {
        let refusal = refusal(json!({ "name": "zstd", "level": level }));
        assert!(refusal.contains(&format!("level {level} is not between 1 and 22")), "{refusal}");
    }
    assert!(refusal(json!("lz4")).contains("none, zstd"));
}

#[test]
fn a_second_registration_is_refused() {
    let (mut registry, _) = registry();
    assert!(matches!(narad_codecs::register(&mut registry), Err(RegistryError::Duplicate { .. })));
}

#[test]
fn both_are_readable_without_configuration() {
    let (registry, context) = registry();
    let readable = registry.readable_codecs(&context).unwrap();
    for number in [0, 1] {
        assert!(readable.get(CodecNumber::new(number).unwrap()).is_some());
    }
}

#[test]
fn the_schema_tells_the_levels() {
    let (registry, _) = registry();
    let zstd = registry.plugins().find(|plugin| plugin.name == "zstd").unwrap();
    assert_eq!((zstd.number, zstd.origin.package), (CodecNumber::new(1), "narad-codecs"));
    let (schema, level) = (zstd.schema, zstd.schema.pointer("/properties/level").unwrap());
    assert_eq!((level["minimum"].as_i64(), level["maximum"].as_i64()), (Some(1), Some(22)));
    assert_eq!(schema.get("additionalProperties"), Some(&json!(false)));
}
