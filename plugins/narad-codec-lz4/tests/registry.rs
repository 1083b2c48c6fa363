//! What configuration makes of the codec, and what it refuses.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use narad_core::{
    format::CodecNumber,
    plugin::{LogIdentity, PluginContext, Registry, RegistryError},
};
use serde_json::json;

fn registry() -> (Registry, PluginContext<'static>) {
    let mut registry = Registry::new();
    narad_codec_lz4::register(&mut registry).unwrap();
    (registry, PluginContext::new(LogIdentity::named("orders")))
}

#[test]
fn its_name_alone_builds_it() {
    let (registry, context) = registry();
    for spec in [json!("lz4"), json!({ "name": "lz4" })] {
        let codec = registry.build_codec(&spec, &context).unwrap();
        assert_eq!((codec.number().get(), codec.name()), (2, "lz4"));
    }
    let readable = registry.readable_codecs(&context).unwrap();
    assert!(readable.get(CodecNumber::new(2).unwrap()).is_some());
}

#[test]
fn keys_that_it_does_not_know_are_refused_by_name() {
    let (registry, context) = registry();
    let refusal = registry.build_codec(&json!({ "name": "lz4", "level": 3 }), &context).unwrap_err();
    assert!(refusal.to_string().contains("level"), "{refusal}");
}

#[test]
fn a_second_registration_is_refused() {
    let (mut registry, _) = registry();
    assert!(matches!(narad_codec_lz4::register(&mut registry), Err(RegistryError::Duplicate { .. })));
}
