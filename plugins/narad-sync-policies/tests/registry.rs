//! What configuration makes of the policies, and what it refuses.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::{sync::Arc, time::Duration};

use narad_core::plugin::{
    LogIdentity, PluginContext, Registry, RegistryError, SyncDecision, SyncPolicy, Unsynced,
};
use serde_json::{Value, json};

fn build(spec: Value) -> Result<Arc<dyn SyncPolicy>, RegistryError> {
    let mut registry = Registry::new();
    narad_sync_policies::register(&mut registry).unwrap();
    registry.build_sync(&spec, &PluginContext::new(LogIdentity::named("metrics")))
}

#[test]
fn a_name_is_enough() {
    for name in ["every-write", "adaptive", "never"] {
        assert_eq!(build(json!(name)).unwrap().name(), name);
    }
}

#[test]
fn limits_are_written_as_people_write_them() {
    let spec =
        json!({ "name": "adaptive", "share": 1, "min_wait": "2s", "max_wait": "1m", "max_unsynced": "1KiB" });
    let policy = build(spec).unwrap();
    let decide = |bytes| policy.decide(&Unsynced::new(bytes, 1, Duration::ZERO));
    assert_eq!(decide(1_023), SyncDecision::Within(Duration::from_secs(2)));
    assert_eq!(decide(1_024), SyncDecision::Now);
}

#[test]
fn limits_that_nothing_can_keep_to_are_refused_and_say_why() {
    for (keys, says) in [
        (json!({ "share": 0.0 }), "share is 0"),
        (json!({ "share": 1.1 }), "share is 1.1"),
        (json!({ "share": -0.1 }), "share is -0.1"),
        (json!({ "min_wait": "2s" }), "min_wait, 2s, is longer than max_wait, 1s"),
        (json!({ "max_unsynced": 0 }), "every-write"),
        (json!({ "max_wait": 1000 }), "\"1000s\""),
        (json!({ "max_unsynced": "lots" }), "not a size"),
        (json!({ "maxwait": "1s" }), "expected one of `share`, `min_wait`, `max_wait`, `max_unsynced`"),
    ] {
        let mut spec = keys.clone();
        spec.as_object_mut().unwrap().insert("name".to_owned(), json!("adaptive"));
        let refused = build(spec).unwrap_err().to_string();
        assert!(refused.contains(says), "{keys}: {refused}");
    }
    assert!(matches!(build(json!({ "name": "never", "share": 1 })), Err(RegistryError::Config { .. })));
}
