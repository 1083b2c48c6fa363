//! What configuration makes of the codec, and what it refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

use narad_core::{
    format::CodecNumber,
    plugin::{LogIdentity, PluginContext, Registry, RegistryError},
};
use serde_json::json;

fn registry() -> (Registry, PluginContext<'static>) {
    let mut registry = Registry::new();
    narad_codec_zstd_dict::register(&mut registry).unwrap();
    (registry, PluginContext::new(LogIdentity::named("orders")))
}

#[test]
fn its_name_alone_builds_it_also_where_nothing_can_be_kept() {
    let (registry, context) = registry();
    let codec = registry.build_codec(&json!("zstd-dict"), &context).unwrap();
    assert_eq!((codec.number().get(), codec.name(), codec.wants_sample()), (8, "zstd-dict", false));
    assert!(registry.readable_codecs(&context).unwrap().get(CodecNumber::new(8).unwrap()).is_some());
}

#[test]
fn settings_outside_of_their_bounds_are_refused_by_name() {
    let (registry, context) = registry();
    for (key, values) in [
        ("level", [-1_i64, 0, 23]),
        ("dictionary_bytes", [0, 1023, (1 << 20) + 1]),
        ("max_dictionaries", [0, 129, 4_000_000_000]),
    ] {
        for value in values {
            let refused = registry.build_codec(&json!({ "name": "zstd-dict", key: value }), &context);
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(&format!("{key} is {value}, which is not between")), "{refused}");
        }
    }
    let with_unit = json!({ "name": "zstd-dict", "dictionary_bytes": "64KiB" });
    assert!(registry.build_codec(&with_unit, &context).is_ok());
    let refused = registry.build_codec(&json!({ "name": "zstd-dict", "lvl": 1 }), &context).unwrap_err();
    assert!(refused.to_string().contains("`dictionary_bytes`"), "{refused}");
}

#[test]
fn its_schema_tells_the_bounds() {
    let (mut registry, _) = registry();
    let info = registry.plugins().find(|plugin| plugin.name == "zstd-dict").unwrap();
    let level = info.schema.pointer("/properties/level").unwrap();
    assert_eq!((level["minimum"].as_i64(), level["maximum"].as_i64()), (Some(1), Some(22)));
    assert!(matches!(narad_codec_zstd_dict::register(&mut registry), Err(RegistryError::Duplicate { .. })));
}
