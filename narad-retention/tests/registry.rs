//! What configuration makes of the policies, and what it refuses.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::{sync::Arc, time::Duration};

use narad_core::plugin::{LogIdentity, PluginContext, Registry, RegistryError, RetentionPolicy};
use serde_json::{Value, json};

fn build(spec: Value) -> Result<Arc<dyn RetentionPolicy>, RegistryError> {
    let mut registry = Registry::new();
    narad_retention::register(&mut registry).unwrap();
    registry.build_retention(&spec, &PluginContext::new(LogIdentity::named("orders")))
}

#[test]
fn age_takes_milliseconds_and_0_is_forever() {
    let day = build(json!({ "name": "age", "retention_ms": 86_400_000 })).unwrap();
    assert_eq!((day.name(), day.roll_age()), ("age", Some(Duration::from_secs(86_400))));
    let forever = build(json!({ "name": "age", "retention_ms": 0 })).unwrap();
    assert_eq!((forever.name(), forever.roll_age()), ("forever", None));
    let longest = build(json!({ "name": "age", "retention_ms": u64::MAX })).unwrap();
    assert_eq!(longest.roll_age(), Some(Duration::from_millis(u64::MAX)));
    assert_eq!(build(json!("forever")).unwrap().name(), "forever");
}

#[test]
fn what_is_no_retention_is_refused_by_name() {
    for retention_ms in [json!(-1), json!(1.5), json!("1d"), json!(null), json!(1e30)] {
        let refused = build(json!({ "name": "age", "retention_ms": retention_ms }));
        assert!(matches!(refused, Err(RegistryError::Config { .. })), "{retention_ms}");
    }
    let missing = build(json!("age")).unwrap_err().to_string();
    assert!(missing.contains("retention_ms"), "{missing}");
    let misspelt = build(json!({ "name": "age", "retention": 5 })).unwrap_err().to_string();
    assert!(misspelt.contains("`retention_ms`"), "{misspelt}");
    assert!(build(json!({ "name": "forever", "retention_ms": 5 })).is_err());
}

#[test]
fn policies_of_policies_are_built_from_the_same_registry() {
    let week = json!({ "name": "age", "retention_ms": 604_800_000_u64 });
    let any =
        build(json!({ "name": "any", "of": [week, "forever", { "name": "age", "retention_ms": 1_000 }] }));
    assert_eq!(any.unwrap().roll_age(), Some(Duration::from_secs(1)));
    let nested = json!({ "name": "any", "of": ["forever", { "name": "all", "of": [week] }] });
    assert_eq!(build(nested).unwrap().roll_age(), Some(Duration::from_secs(604_800)));
}

#[test]
fn a_policy_of_policies_says_which_one_is_wrong() {
    let said = |of: Value| build(json!({ "name": "all", "of": of })).unwrap_err().to_string();
    assert!(said(json!([])).contains("at least one policy"));
    let unknown = said(json!(["forever", "fortnight"]));
    assert!(unknown.contains("\"fortnight\"") && unknown.contains("age, all, any, forever"), "{unknown}");
    let misfit = said(json!([{ "name": "age", "retention_ms": "1d" }]));
    assert!(misfit.contains("\"age\"") && misfit.contains("\"1d\""), "{misfit}");
    let mut deep = json!("forever");
    for _ in 0..64 {
        deep = json!({ "name": "any", "of": [deep] });
    }
    assert!(matches!(build(deep), Err(RegistryError::Build { .. })), "nesting has an end");
}
