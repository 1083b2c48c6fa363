//! What configuration makes of the policy, and what it refuses.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::{sync::Arc, time::Duration};

use narad_core::plugin::{LogIdentity, PluginContext, Registry, RegistryError, RetentionPolicy};
use serde_json::{Value, json};

fn build(spec: Value) -> Result<Arc<dyn RetentionPolicy>, RegistryError> {
    let mut registry = Registry::new();
    narad_retention_consumed::register(&mut registry).unwrap();
    registry.build_retention(&spec, &PluginContext::new(LogIdentity::named("orders")))
}

#[test]
fn a_name_is_enough_and_a_time_is_written_as_people_write_it() {
    assert_eq!(build(json!("consumed")).unwrap().roll_age(), None);
    let hour = build(json!({ "name": "consumed", "keep": "1h" })).unwrap();
    assert_eq!(hour.roll_age(), Some(Duration::from_secs(3_600)));
    let blink = build(json!({ "name": "consumed", "keep": "1ms" })).unwrap();
    assert_eq!(blink.roll_age(), Some(Duration::from_secs(60)), "a file a minute is enough");
}

#[test]
fn what_is_no_time_is_refused_by_name() {
    for keep in [json!(60), json!("-1s"), json!("soon"), json!(null), json!("1d2")] {
        let refused = build(json!({ "name": "consumed", "keep": keep }));
        assert!(matches!(refused, Err(RegistryError::Config { .. })), "{keep}: {refused:?}");
    }
    let misspelt = build(json!({ "name": "consumed", "keep_ms": 5 })).unwrap_err().to_string();
    assert!(misspelt.contains("expected `keep`"), "{misspelt}");
}
