//! What configuration makes of the notifier, and what it refuses.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::sync::Arc;

use narad_core::plugin::{LogIdentity, PluginContext, Registry, RegistryError, WakeNotifier};
use serde_json::{Value, json};

fn build(keys: Value) -> Result<Arc<dyn WakeNotifier>, RegistryError> {
    let mut registry = Registry::new();
    narad_wake_http::register(&mut registry).unwrap();
    let mut spec = keys;
    spec.as_object_mut().unwrap().insert("name".to_owned(), json!("http"));
    registry.build_wake(&spec, &PluginContext::new(LogIdentity::named("broker-1")))
}

#[test]
fn a_url_is_enough_and_the_rest_is_written_as_people_write_it() {
    build(json!({ "url": "http://localhost:8080" })).unwrap();
    build(json!({
        "url": "http://[::1]:8080/wake?who=narad", "topics": ["orders"], "linger": "1s", "timeout": "500ms",
        "max_backoff": "1m", "max_pending": 10
    }))
    .unwrap();
}

#[test]
fn a_url_that_nothing_can_be_posted_to_is_refused_at_once_and_not_shown() {
    for (url, says) in [
        ("", "not a URL"),
        ("not a url", "not a URL"),
        ("/wake", "begin with http://"),
        ("localhost", "begin with http://"),
        ("ftp://localhost/wake", "cannot post to ftp"),
        ("http://", "not a URL"),
        ("http://:80/", "names no host"),
        ("http://user:hidden@localhost/", "bearer_token_env"),
    ] {
        let refused = build(json!({ "url": url })).unwrap_err().to_string();
        assert!(refused.contains(says), "{url}: {refused}");
        assert!(!refused.contains("hidden"), "{refused}");
    }
    let https = build(json!({ "url": "https://localhost/wake" }));
    assert_eq!(https.is_ok(), cfg!(feature = "https"));
}

#[test]
fn settings_out_of_their_bounds_are_refused_by_name() {
    for (key, value, says) in [
        ("timeout", json!("0s"), "timeout is 0s; it has to be 1ms to 1h"),
        ("timeout", json!("2h"), "timeout is 7200s"),
        ("linger", json!("2h"), "linger is 7200s"),
        ("max_backoff", json!("0s"), "max_backoff is 0s"),
        ("max_pending", json!(0), "max_pending is 0; it has to be 1 to 1048576"),
        ("max_pending", json!(1_048_577), "max_pending is 1048577"),
        ("bearer_token_env", json!("NOBODY_SETS_THIS"), "NOBODY_SETS_THIS is not set"),
        ("retries", json!(3), "expected one of `url`, `topics`"),
    ] {
        let mut keys = json!({ "url": "http://localhost" });
        keys.as_object_mut().unwrap().insert(key.to_owned(), value.clone());
        let refused = build(keys).unwrap_err().to_string();
        assert!(refused.contains(says), "{key}: {refused}");
    }
    let missing = build(json!({})).unwrap_err().to_string();
    assert!(missing.contains("`url`"), "{missing}");
}
