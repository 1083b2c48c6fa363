//! The codec keeps the contract of its trait, and is what a configuration names.

use std::sync::Arc;

use custom_codec::{RunLength, register};
use narad_core::{
    plugin::{LogIdentity, PluginContext, Registry},
    testkit::conformance,
};
use serde_json::json;

#[test]
fn keeps_the_contract() {
    conformance::codec(|| Arc::new(RunLength));
}

#[test]
fn is_built_by_its_name_and_takes_no_other_key() {
    let mut registry = Registry::new();
    register(&mut registry).expect("the name and the number are free");
    let context = PluginContext::new(LogIdentity::named("readings"));
    let codec = registry.build_codec(&json!({ "name": "run-length" }), &context).expect("it is built");
    assert_eq!(codec.name(), "run-length");
    assert!(registry.build_codec(&json!({ "name": "run-length", "level": 3 }), &context).is_err());
}
