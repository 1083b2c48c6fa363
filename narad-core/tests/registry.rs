//! What the registry builds and what it refuses, each refusal naming what it concerns.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod store_support;

use std::sync::Arc;

use narad_core::{
    format::CodecNumber,
    plugin::{
        Codec, FrameContext, Lacking, LogIdentity, MAX_NESTING, Origin, PluginContext, PluginError,
        PluginKind, Registry, RegistryError, RetentionPolicy, SilentWake,
    },
};
use serde_json::{Value, json};
use store_support::{TakeAll, Verbatim};

const ONE: Origin = Origin::new("one", "1.0.0");
const OTHER: Origin = Origin::new("other", "2.0.0");

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoKeys {}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Over {
    inner: Option<Value>,
}

fn context() -> PluginContext<'static> {
    PluginContext::new(LogIdentity::named("orders"))
}

fn verbatim(_: NoKeys, _: &PluginContext<'_>) -> Result<Arc<dyn Codec>, PluginError> {
    Ok(Arc::new(Verbatim))
}

fn number(number: u32) -> CodecNumber {
    CodecNumber::new(number).unwrap()
}

#[test]
fn a_second_claim_of_a_name_or_number_is_refused_and_names_both() {
    let mut registry = Registry::new();
    registry.codec(ONE, "none", number(0), verbatim).unwrap();
    let same_name = registry.codec(OTHER, "none", number(9000), verbatim).unwrap_err();
    assert_eq!(same_name.to_string(), "codec \"none\" is claimed by one 1.0.0 and by other 2.0.0");
    let same_number = registry.codec(OTHER, "mine", number(0), verbatim).unwrap_err();
    assert_eq!(
        same_number.to_string(),
        "codec number 0 is claimed by \"none\" (one 1.0.0) and by \"mine\" (other 2.0.0)"
    );
    assert_eq!(registry.plugins().count(), 1);
}

#[test]
fn a_codec_with_another_number_than_it_was_registered_with_is_refused() {
    let mut registry = Registry::new();
    registry.codec(ONE, "mine", number(9000), verbatim).unwrap();
    let refused = registry.build_codec(&json!("mine"), &context()).unwrap_err();
    assert!(refused.to_string().contains("has number 0, and was registered with 9000"), "{refused}");
    assert!(registry.readable_codecs(&context()).unwrap().get(number(0)).is_none());
}

#[test]
fn what_does_not_fit_a_configuration_is_named_by_its_key() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Keyed {
        _days: u32,
        _limits: Option<Limits>,
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Limits {
        _of: Vec<u8>,
    }
    let mut registry = Registry::new();
    registry.retention(ONE, "keyed", |_: Keyed, _| Ok(Arc::new(TakeAll))).unwrap();
    for (spec, said) in [
        (
            json!({ "name": "keyed", "_days": -1 }),
            "\"keyed\": _days: invalid value: integer `-1`, expected u32",
        ),
        (
            json!({ "name": "keyed", "_days": "x" }),
            "\"keyed\": _days: invalid type: string \"x\", expected u32",
        ),
        (
            json!({ "name": "keyed", "dasy": 1 }),
            "\"keyed\": dasy: unknown field `dasy`, expected `_days` or `_limits`",
        ),
        (json!("keyed"), "\"keyed\": missing field `_days`"),
        (
            json!({ "name": "keyed", "_days": 1, "_limits": { "_of": [1, 300] } }),
            "\"keyed\": _limits._of[1]: invalid value: integer `300`, expected u8",
        ),
        (json!({ "name": "keyed", "_days": 1, "_limits": {} }), "\"keyed\": _limits: missing field `_of`"),
        (json!(5), "5: expected a name, or an object with a \"name\""),
        (json!({ "nmae": "keyed" }), "{\"nmae\":\"keyed\"}: expected a name, or an object with a \"name\""),
    ] {
        let refused = registry.build_retention(&spec, &context()).unwrap_err();
        assert_eq!(refused.to_string(), format!("retention policy {said}"));
    }
}

#[test]
fn a_name_that_could_be_a_path_is_refused() {
    let mut registry = Registry::new();
    for name in ["", "..", "a/b", "A", "-a", "a b", &"x".repeat(65)] {
        let refused = registry.codec(ONE, name, number(0), verbatim);
        assert!(matches!(refused, Err(RegistryError::Name { .. })), "{name:?}");
    }
    registry.codec(ONE, "codec-2_b", number(0), verbatim).unwrap();
}

#[test]
fn what_is_registered_is_listed_with_where_it_comes_from() {
    let mut registry = Registry::new();
    registry.codec(ONE, "none", number(0), verbatim).unwrap();
    registry.retention(narad_core::origin!(), "all", |_: NoKeys, _| Ok(Arc::new(TakeAll))).unwrap();
    registry.wake(OTHER, "silent", |_: NoKeys, _| Ok(Arc::new(SilentWake))).unwrap();
    let listed: Vec<_> = registry.plugins().map(|one| (one.kind, one.name, one.origin, one.number)).collect();
    let here = Origin::new("narad-core", env!("CARGO_PKG_VERSION"));
    let expected = [
        (PluginKind::Codec, "none", ONE, Some(number(0))),
        (PluginKind::Retention, "all", here, None),
        (PluginKind::Wake, "silent", OTHER, None),
    ];
    assert_eq!(listed, expected);
    assert_eq!(registry.build_wake(&json!("silent"), &context()).unwrap().name(), "silent");
}

/// A registry with a policy that stands over another, or alone.
fn over() -> Registry {
    fn build(config: Over, context: &PluginContext<'_>) -> Result<Arc<dyn RetentionPolicy>, PluginError> {
        assert_eq!(&*context.log.name, "orders");
        match config.inner {
            Some(inner) => Ok(context.retention(&inner)?),
            None => Ok(Arc::new(TakeAll)),
        }
    }
    let mut registry = Registry::new();
    registry.retention(ONE, "over", build).unwrap();
    registry
}

fn nested(times: u8) -> Value {
    (0..times).fold(json!("over"), |inner, _| json!({ "name": "over", "inner": inner }))
}

#[test]
fn a_constructor_builds_others_from_the_same_registry_up_to_a_depth() {
    let registry = over();
    for times in [0, 1, MAX_NESTING] {
        assert_eq!(registry.build_retention(&nested(times), &context()).unwrap().name(), "take-all");
    }
    let refused = registry.build_retention(&nested(MAX_NESTING + 1), &context()).unwrap_err().to_string();
    assert!(refused.ends_with("retention policy \"over\" stands in more than 8 others"), "{refused}");
    let unknown = json!({ "name": "over", "inner": { "name": "elsewhere" } });
    let refused = registry.build_retention(&unknown, &context()).unwrap_err().to_string();
    assert!(refused.contains("unknown retention policy \"elsewhere\"; known are over"), "{refused}");
    assert!(context().codec(&json!("none")).unwrap_err().to_string().contains("none is registered"));
}

#[test]
fn a_configuration_cannot_make_a_constructor_recurse_for_ever() {
    fn itself(_: NoKeys, context: &PluginContext<'_>) -> Result<Arc<dyn Codec>, PluginError> {
        Ok(context.codec(&json!("itself"))?)
    }
    let mut registry = Registry::new();
    registry.codec(ONE, "itself", number(0), itself).unwrap();
    let refused = registry.build_codec(&json!("itself"), &context()).unwrap_err().to_string();
    assert!(refused.contains("stands in more than 8 others"), "{refused}");
}

#[test]
fn the_panic_of_a_constructor_is_its_error() {
    let mut registry = Registry::new();
    registry.codec(ONE, "mine", number(0), |_: NoKeys, _| panic!("on purpose")).unwrap();
    let refused = registry.build_codec(&json!("mine"), &context()).unwrap_err();
    assert!(refused.to_string().contains("its constructor panicked"), "{refused}");
    registry.readable_codecs(&context()).unwrap();
}

#[test]
fn frames_of_a_codec_that_could_not_be_built_are_not_taken_for_those_of_an_unknown_one() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Needs {
        _key: String,
    }
    let mut registry = Registry::new();
    registry.codec(ONE, "keyed", number(9000), |_: Needs, _| verbatim(NoKeys {}, &context())).unwrap();
    registry.codec(ONE, "broken", number(9001), |_: NoKeys, _| Err("no descriptor".into())).unwrap();
    let readable = registry.readable_codecs(&context()).unwrap();
    let log = LogIdentity::named("orders");
    let frame = FrameContext::new(&log, 0.into(), 1, 5);
    for (number, why) in [(number(9000), "missing field `_key`"), (number(9001), "no descriptor")] {
        let codec = readable.get(number).unwrap();
        let error = codec.decode(&frame, b"bytes", &mut Vec::new()).unwrap_err();
        assert!(error.is::<Lacking>() && error.to_string().contains(why), "{error}");
    }
    assert!(readable.get(CodecNumber::new(9002).unwrap()).is_none());
}
