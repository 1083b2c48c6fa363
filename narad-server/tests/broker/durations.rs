//! Field faults of durations: huge, negative, fractional or without a unit. Each is refused by name or has its
//! documented meaning, in every setting and every parameter; none panics or wraps.

use std::time::Duration;

use crate::http_support::Narad;
use narad_server::{
    config::{Config, ConfigErrors, Overrides, load},
    duration::WithUnits,
};
use reqwest::Method;
use serde_json::json;

/// Settings that carry their unit.
const WITH_UNITS: [&str; 5] =
    ["read_header_timeout", "read_timeout", "idle_timeout", "shutdown_grace", "max_consume_wait"];

/// Settings in milliseconds, by section.
const IN_MS: [(&str, &str); 5] = [
    ("storage", "idle_log_eviction_ms"),
    ("storage", "cold_retention_walk_ms"),
    ("storage", "consumer_offset_commit_interval_ms"),
    ("topic", "default_retention_age_ms"),
    ("topic", "default_visibility_timeout_ms"),
];

fn from_file(text: &str) -> Result<Config, ConfigErrors> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("narad.toml");
    std::fs::write(&path, text).unwrap();
    load(&Overrides { config: Some(path), ..Overrides::default() }, []).map(|(config, _)| config)
}

fn from_env(name: &str, value: &str) -> Result<Config, ConfigErrors> {
    load(&Overrides::default(), [(name.to_owned(), value.to_owned())]).map(|(config, _)| config)
}

#[track_caller]
fn refused(loaded: Result<Config, ConfigErrors>, key: &str, value: &str) {
    match loaded {
        Err(error) => assert!(error.to_string().contains(key), "{value}: {error}"),
        Ok(config) => panic!("{key} = {value} was taken: {config:?}"),
    }
}

#[test]
fn a_setting_with_a_unit_refuses_what_is_no_duration_and_names_itself() {
    let bad = [
        "-1s",
        "-0.5s",
        "5",
        "1.5",
        "",
        " ",
        "s",
        "1w",
        "1e3s",
        "NaNs",
        "infs",
        "1s ",
        "1.2.3s",
        "99999999999h",
        "18446744073709551616ns",
        "9223372036854775807h",
        "1s1",
        "٣s",
    ];
    for key in WITH_UNITS {
        for value in bad {
            refused(from_file(&format!("[http]\n{key} = \"{value}\"\n")), &format!("http.{key}"), value);
            let variable = format!("NARAD_HTTP_{}", key.to_uppercase());
            // An empty variable is one that is not set.
            if !value.is_empty() {
                refused(from_env(&variable, value), &format!("http.{key}"), value);
            }
        }
        for value in ["5", "-5", "1.5", "true", "[]", "1e300", "nan", "-inf"] {
            refused(from_file(&format!("[http]\n{key} = {value}\n")), key, value);
        }
    }
}

#[test]
fn a_setting_in_milliseconds_refuses_what_is_no_number_in_its_bounds_and_names_itself() {
    for (section, key) in IN_MS {
        for value in ["-1", "1.5", "1e300", "nan", "inf", "\"10s\"", "\"\"", "true", "9223372036854775808"] {
            refused(from_file(&format!("[{section}]\n{key} = {value}\n")), key, value);
        }
        let variable = format!("NARAD_{}_{}", section.to_uppercase(), key.to_uppercase());
        for value in
            ["-1", "1.5", "10s", "18446744073709551616", "18446744073709551615", "9223372036854775807"]
        {
            let loaded = from_env(&variable, value);
            let named = loaded
                .as_ref()
                .is_err_and(|e| [&*variable, key].iter().any(|name| e.to_string().contains(name)));
            assert!(named, "{variable}={value}: {loaded:?}");
        }
        // The largest that a file can state.
        refused(from_file(&format!("[{section}]\n{key} = {}\n", i64::MAX)), key, "the largest integer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_durations_that_settings_take_are_served_with() {
    let longest = WithUnits(Duration::from_nanos(u64::MAX));
    let narad = Narad::start_with(|config| {
        let http = &mut config.http;
        for setting in [
            &mut http.read_header_timeout,
            &mut http.read_timeout,
            &mut http.idle_timeout,
            &mut http.shutdown_grace,
            &mut http.max_consume_wait,
        ] {
            *setting = longest;
        }
        config.topic.default_retention_age_ms = 315_360_000_000;
        config.topic.default_visibility_timeout_ms = 315_360_000_000;
        config.storage.idle_log_eviction_ms = u64::from(u32::MAX);
        config.storage.cold_retention_walk_ms = u64::from(u32::MAX);
        config.storage.consumer_offset_commit_interval_ms = 60_000;
    })
    .await;
    narad.create("t").await;
    let parked = tokio::spawn({
        let poll = narad.client.get(narad.url("/v1/topics/t/consume?wait=5124095h"));
        async move { crate::http_support::answer(poll).await }
    });
    narad.post("/v1/topics/t/produce", "x").await.is(202);
    let message = parked.await.unwrap().is(200).json();
    let handle = message["receipt_handle"].as_str().unwrap();
    narad.post(&format!("/v1/topics/t/ack?receipt_handle={handle}&extend=true"), "").await.is(204);
    narad.post(&format!("/v1/topics/t/ack?receipt_handle={handle}"), "").await.is(204);
    tokio::time::timeout(Duration::from_secs(20), narad.stop())
        .await
        .expect("it ends when nothing is left to do");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_that_is_no_duration_is_400_and_one_too_long_is_clamped() {
    let narad =
        Narad::start_with(|config| config.http.max_consume_wait = WithUnits(Duration::from_millis(50))).await;
    narad.create("t").await;
    for wait in [
        "5",
        "1.5",
        "",
        "%20",
        "s",
        "1w",
        "1e3s",
        "NaNs",
        "inf",
        "infs",
        "null",
        "1s%20",
        "1s%00",
        "%FF",
        "1.2.3s",
        "99999999999h",
        "18446744073709551616ns",
        "9223372036854775808",
        "-1",
        "1s&wait=1s",
    ] {
        let message = narad.get(&format!("/v1/topics/t/consume?wait={wait}")).await.error(400);
        assert!(message.contains("wait"), "{wait}: {message}");
    }
    // Below zero is no wait, as docs/http-api.md has it; above the limit is the limit.
    for wait in ["0", "-0", "-1s", "-99999999999h", "0.0000001ns", "1ns", "0.01s"] {
        let answer = narad.get(&format!("/v1/topics/t/consume?wait={wait}")).await.is(204);
        assert!(!answer.headers.contains_key("x-narad-wait-clamped"), "{wait}");
    }
    for wait in ["51ms", "1.5h", "584y", "5124095h", "18446744073709551615ns"] {
        let answer = narad.get(&format!("/v1/topics/t/consume?wait={wait}")).await;
        if wait == "584y" {
            answer.error(400);
            continue;
        }
        assert_eq!(answer.is(204).headers["x-narad-wait-clamped"], "50ms", "{wait}");
    }
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duration_in_a_body_that_is_out_of_bounds_is_400_and_changes_nothing() {
    let narad = Narad::start().await;
    narad.create("t").await;
    let before = narad.get("/v1/topics/t").await.is(200).json();
    let bad = [
        "-1",
        "1.5",
        "1e3",
        "1e300",
        "1e999",
        "\"1h\"",
        "\"\"",
        "true",
        "[]",
        "{}",
        "18446744073709551615",
        "18446744073709551616",
        "9223372036854775807",
        "315360000001",
        "-9223372036854775808",
    ];
    for value in bad {
        for key in ["retention_ms", "visibility_timeout_ms", "fanout_delay_ms"] {
            let body = format!("{{\"name\":\"new\",\"{key}\":{value}}}");
            let answer = narad.post("/v1/topics", body).await;
            // What is well formed and not there yet says so.
            let delay = key == "fanout_delay_ms" && answer.status == 501;
            assert!(answer.status == 400 || delay, "{key}: {value}: {answer:?}");
        }
        for key in ["retention_ms", "visibility_timeout_ms"] {
            let body = format!("{{\"{key}\":{value}}}");
            narad.send(Method::PATCH, "/v1/topics/t", body).await.error(400);
        }
    }
    assert_eq!(narad.get("/v1/topics/t").await.is(200).json(), before);
    narad.get("/v1/topics/new").await.error(404);
    // The longest of both are taken, and served with.
    let longest = json!({"name": "long", "retention_ms": 315_360_000_000_u64, "visibility_timeout_ms": 315_360_000_000_u64});
    narad.post("/v1/topics", longest.to_string()).await.is(201);
    narad.post("/v1/topics/long/produce", "x").await.is(202);
    let message = narad.get("/v1/topics/long/consume?wait=10s").await.is(200).json();
    let handle = message["receipt_handle"].as_str().unwrap();
    narad.post(&format!("/v1/topics/long/ack?receipt_handle={handle}&extend=1"), "").await.is(204);
    narad.stop().await;
}
