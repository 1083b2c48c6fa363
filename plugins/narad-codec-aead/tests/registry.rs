//! What configuration makes of the codec, and what it refuses; keys from a file and from the environment.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod support;

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, process::Command};

use narad_codec_aead::{Aead, Cipher};
use narad_core::{
    format::CodecNumber,
    plugin::{Codec, Lacking, LogIdentity, PluginContext, Registry, RegistryError},
};
use serde_json::{Value, json};
use support::{ONE, RECORDS, TWO, aead, frame, orders, place};
use tempfile::TempDir;

fn registry() -> (Registry, PluginContext<'static>) {
    let mut registry = Registry::new();
    narad_codecs::register(&mut registry).unwrap();
    narad_codec_aead::register(&mut registry).unwrap();
    (registry, PluginContext::new(LogIdentity::named("orders")))
}

fn keys(lines: &[&str]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys");
    fs::write(&path, lines.join("\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    (dir, path)
}

fn refusal(spec: Value) -> String {
    let (registry, context) = registry();
    registry.build_codec(&spec, &context).unwrap_err().to_string()
}

#[test]
fn a_key_file_is_enough_and_frames_over_other_codecs_are_read() {
    let (registry, context) = registry();
    let (_dir, path) = keys(&[ONE, TWO]);
    let over = |codec: Value| {
        let spec = json!({ "name": "aead", "codec": codec, "keys": { "file": path }, "active_key": 1 });
        registry.build_codec(&spec, &context).unwrap()
    };
    let codec = registry.build_codec(&json!({ "name": "aead", "keys": { "file": path } }), &context).unwrap();
    let log = orders();
    let here = place(&log, 42, 2, RECORDS.len());
    let under_two =
        Aead::new(support::ring(&[TWO]), Cipher::default(), std::sync::Arc::new(narad_codecs::None));
    let mut stored = Vec::new();
    codec.encode(&here, RECORDS, &mut stored).unwrap();
    assert_eq!(stored[1..5], [0, 0, 0, 2], "the last key is used");
    assert!(under_two.unwrap().decode(&here, &stored, &mut Vec::new()).unwrap_err().is::<Lacking>());
    for other in [over(json!("none")), over(json!({ "name": "zstd", "level": 19 }))] {
        let mut out = Vec::new();
        other.decode(&here, &stored, &mut out).unwrap();
        assert_eq!(out, RECORDS);
        stored.clear();
        other.encode(&here, RECORDS, &mut stored).unwrap();
        assert_eq!(stored[1..5], [0, 0, 0, 1], "the key that was named");
        out.clear();
        codec.decode(&here, &stored, &mut out).unwrap();
        assert_eq!(out, RECORDS);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_named() {
    let (_dir, path) = keys(&[ONE]);
    let with = |key: &str, value: Value| {
        let mut spec = json!({ "name": "aead", "keys": { "file": path } });
        spec[key] = value;
        refusal(spec)
    };
    for (refused, named) in [
        (with("cypher", json!("aes-256-gcm")), "cypher"),
        (with("cipher", json!("des")), "chacha20-poly1305"),
        (with("active_key", json!(9)), "key 9 is to encrypt new frames and is not there; there are [1]"),
        (with("codec", json!("brotli")), "unknown codec \"brotli\""),
        (with("codec", json!({ "name": "zstd", "level": 99 })), "level 99"),
        (with("codec", json!({ "name": "aead", "keys": { "file": path } })), "aead cannot stand under aead"),
        (with("keys", json!({ "file": "/nowhere/keys" })), "key file /nowhere/keys"),
        (with("keys", json!({ "vault": "x" })), "expected {\"file\": PATH} or {\"env\": NAME}"),
        // Put where their place is named, keys are not shown either.
        (with("keys", json!(ONE)), "keys themselves are not put here"),
        (with("keys", json!({ "env": ONE })), "expected {\"file\": PATH}"),
        (with("keys", json!({ ONE: 1 })), "expected {\"file\": PATH}"),
        (with("keys", json!({ "file": path, "env": "KEYS" })), "expected {\"file\": PATH}"),
        (with("keys", json!({ "file": [ONE] })), "expected {\"file\": PATH}"),
        (with("keys", json!({ "env": "NARAD_TEST_NOT_SET" })), "NARAD_TEST_NOT_SET: it is not set"),
    ] {
        assert!(refused.contains(named), "{refused}");
        assert!(!refused.contains("b25lb25l"), "{refused}");
    }
}

#[test]
fn somebody_from_outside_names_no_place_of_keys_and_learns_nothing_of_any() {
    let (registry, context) = registry();
    let (_dir, path) = keys(&[ONE]);
    let context = context.from_outside();
    let mut said = Vec::new();
    for source in [json!({ "file": path }), json!({ "file": "/nowhere" }), json!({ "env": "PATH" })] {
        let spec = json!({ "name": "aead", "keys": source });
        said.push(registry.build_codec(&spec, &context).unwrap_err().to_string());
        // Nor inside of another.
        let nested = json!({ "name": "aead", "keys": { "env": "NARAD_AEAD_KEYS" }, "codec": spec });
        let nested = registry.build_codec(&nested, &context).unwrap_err().to_string();
        assert!(!nested.contains("/nowhere"), "{nested}");
    }
    said.dedup();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("only an admin may say where keys are"), "{said:?}");
}

#[test]
fn its_schema_tells_ciphers_and_sources() {
    let (registry, _) = registry();
    let aead = registry.plugins().find(|plugin| plugin.name == "aead").unwrap();
    assert_eq!((aead.number, aead.origin.package), (CodecNumber::new(9), "narad-codec-aead"));
    let schema = aead.schema.as_value().to_string();
    for word in ["aes-256-gcm", "chacha20-poly1305", "\"file\"", "\"env\"", "active_key"] {
        assert!(schema.contains(word), "{word} in {schema}");
    }
    let (mut registry, _) = self::registry();
    assert!(matches!(narad_codec_aead::register(&mut registry), Err(RegistryError::Duplicate { .. })));
}

/// The process that this starts has the variable; this one does not, and other tests rely on that.
#[test]
fn with_keys_in_the_environment_its_name_alone_is_enough_and_its_frames_are_read_in_any_log() {
    if std::env::var("NARAD_AEAD_KEYS").is_ok() {
        let (registry, context) = registry();
        let codec = registry.build_codec(&json!("aead"), &context).unwrap();
        let readable = registry.readable_codecs(&context).unwrap();
        let log = orders();
        let here = place(&log, 42, 2, RECORDS.len());
        for codec in [&codec, readable.get(Aead::NUMBER).unwrap()] {
            let mut out = Vec::new();
            codec.decode(&here, &frame(&aead(&[TWO], Cipher::default())), &mut out).unwrap();
            assert_eq!(out, RECORDS);
        }
        return;
    }
    // Without it, frames of a topic that was encrypted before are not taken for those of an unknown codec.
    let (registry, context) = registry();
    let readable = registry.readable_codecs(&context).unwrap();
    let log = orders();
    let error = readable
        .get(Aead::NUMBER)
        .unwrap()
        .decode(&place(&log, 42, 2, 5), &frame(&aead(&[TWO], Cipher::default())), &mut Vec::new())
        .unwrap_err();
    assert!(error.is::<Lacking>() && error.to_string().contains("NARAD_AEAD_KEYS: it is not set"), "{error}");

    let status = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "with_keys_in_the_environment_its_name_alone_is_enough_and_its_frames_are_read_in_any_log",
        ])
        .env("NARAD_AEAD_KEYS", format!("{ONE},{TWO}"))
        .status()
        .unwrap();
    assert!(status.success());
}
