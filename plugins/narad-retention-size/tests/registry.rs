//! What configuration makes of the policy, and what it refuses.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::sync::Arc;

use narad_core::plugin::{LogIdentity, PluginContext, Registry, RegistryError, RetentionPolicy};
use serde_json::{Value, json};

fn build(spec: Value) -> Result<Arc<dyn RetentionPolicy>, RegistryError> {
    let mut registry = Registry::new();
    narad_retention_size::register(&mut registry).unwrap();
    registry.build_retention(&spec, &PluginContext::new(LogIdentity::named("orders")))
}

#[test]
fn a_size_is_written_as_people_write_it() {
    for (max, built) in [
        (json!("10GiB"), "Size { max_bytes: 10737418240 }"),
        (json!("1.5 MB"), "Size { max_bytes: 1500000 }"),
        (json!(4096), "Size { max_bytes: 4096 }"),
    ] {
        assert_eq!(format!("{:?}", build(json!({ "name": "size", "max": max })).unwrap()), built);
    }
}

#[test]
fn what_is_no_size_is_refused_by_name() {
    for max in [json!(-1), json!("much"), json!(null), json!(1.5), json!("99999999TiB")] {
        let refused = build(json!({ "name": "size", "max": max }));
        assert!(matches!(refused, Err(RegistryError::Config { .. })), "{max}: {refused:?}");
    }
    let nothing = build(json!({ "name": "size", "max": 0 })).unwrap_err().to_string();
    assert!(nothing.contains("forever"), "{nothing}");
    let missing = build(json!("size")).unwrap_err().to_string();
    assert!(missing.contains("`max`"), "{missing}");
    let misspelt = build(json!({ "name": "size", "max_bytes": 5 })).unwrap_err().to_string();
    assert!(misspelt.contains("expected `max`"), "{misspelt}");
}
