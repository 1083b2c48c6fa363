//! Settings: which layer wins, and what stops the start.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

use std::{path::Path, time::Duration};

use narad_server::config::{Config, ConfigError, ConfigErrors, LogFormat, Overrides, load};

fn with(overrides: &Overrides, env: &[(&str, &str)]) -> Result<(Config, Vec<String>), ConfigErrors> {
    load(overrides, env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

fn from_file(name: &str, text: &str, env: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    with(&Overrides { config: Some(path), ..Overrides::default() }, env).map(|(config, _)| config)
}

#[test]
fn defaults_are_those_of_the_table() {
    let (config, strangers) = with(&Overrides::default(), &[]).unwrap();
    assert_eq!(config.http.addr.to_string(), ":7942");
    assert_eq!(config.storage.data_dir, Path::new("data"));
    assert_eq!(config.http.read_header_timeout.0, Duration::from_secs(10));
    assert_eq!(config.log.format, LogFormat::Json);
    assert!(config.security.enabled);
    assert!(!config.node.id.is_empty());
    assert!(strangers.is_empty());
}

#[test]
fn dev_listens_on_loopback_and_keeps_its_data_at_home() {
    let dev = Overrides { dev: true, ..Overrides::default() };
    let (config, _) = with(&dev, &[("HOME", "/home/me")]).unwrap();
    assert_eq!(config.http.addr.to_string(), "127.0.0.1:7942");
    assert_eq!(config.storage.data_dir, Path::new("/home/me/.narad/data"));
    assert_eq!(config.log.format, LogFormat::Text);
    assert!(!config.security.enabled);
    let homeless = with(&dev, &[]).unwrap_err().to_string();
    assert!(homeless.contains("--data-dir"), "{homeless}");
    let (config, _) = with(&dev, &[("NARAD_DATA_DIR", "/srv/narad")]).unwrap();
    assert_eq!(config.storage.data_dir, Path::new("/srv/narad"));
    let open = Overrides { addr: Some("0.0.0.0:7942".into()), data_dir: Some("x".into()), ..dev };
    assert!(with(&open, &[]).unwrap_err().to_string().contains("127.0.0.1"));
}

#[test]
fn later_layers_win() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("narad.toml");
    std::fs::write(
        &path,
        "[http]\naddr = \"127.0.0.1:1\"\nmax_connections = 7\nidle_timeout = \"1m30s\"\n[storage]\ncodec = { name = \"zstd\", level = 3 }\n",
    )
    .unwrap();
    let overrides =
        Overrides { config: Some(path), addr: Some("127.0.0.1:3".into()), ..Overrides::default() };
    let env =
        [("NARAD_HTTP_ADDR", "127.0.0.1:2"), ("NARAD_HTTP_MAX_CONNECTIONS", "8"), ("NARAD_NODE_ID", "7")];
    let (config, _) = with(&overrides, &env).unwrap();
    assert_eq!(config.http.addr.to_string(), "127.0.0.1:3");
    assert_eq!(config.http.max_connections, 8);
    assert_eq!(config.http.idle_timeout.0, Duration::from_secs(90));
    assert_eq!(config.storage.codec, serde_json::json!({"name": "zstd", "level": 3}));
    assert_eq!(config.node.id, "7", "a name that looks like a number stays a name");
}

#[test]
fn json_files_and_plugins_in_the_environment_are_read() {
    let config = from_file(
        "narad.json",
        r#"{"topic": {"default_partitions": 6}}"#,
        &[("NARAD_STORAGE_CODEC", r#"{"name":"zstd","level":5}"#), ("NARAD_STORAGE_RETENTION", "forever")],
    )
    .unwrap();
    assert_eq!(config.topic.default_partitions, 6);
    assert_eq!(config.storage.codec, serde_json::json!({"name": "zstd", "level": 5}));
    assert_eq!(config.storage.retention, serde_json::json!("forever"));
    let codec = [("NARAD_STORAGE_CODEC", r#"{"name":"other"}"#)];
    let config = from_file("n.toml", "[storage]\ncodec = { name = \"zstd\", level = 3 }\n", &codec).unwrap();
    assert_eq!(
        config.storage.codec,
        serde_json::json!({"name": "other"}),
        "no key of the layer below shines through"
    );
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_known_one() {
    let message = from_file("n.toml", "[http]\nmax_conections = 7\n", &[]).unwrap_err().to_string();
    assert!(message.contains("http.max_conections") && message.contains("http.max_connections"), "{message}");
    let message = from_file("n.toml", "[htpp]\naddr = \":1\"\n", &[]).unwrap_err().to_string();
    assert!(message.contains("htpp") && message.contains("did you mean http?"), "{message}");
    let message = with(&Overrides::default(), &[("NARAD_STORAGE_DATA_DIR", "d")]).unwrap_err().to_string();
    assert!(message.contains("did you mean NARAD_DATA_DIR?"), "{message}");
    let message = with(&Overrides::default(), &[("NARAD_HTTP_ADR", ":1")]).unwrap_err().to_string();
    assert!(message.contains("NARAD_HTTP_ADR;") && message.contains("NARAD_HTTP_ADDR?"), "{message}");
    let env = [("NARAD_FANOUT_linger_ms", "1")];
    let message = with(&Overrides::default(), &env).unwrap_err().to_string();
    assert!(message.contains("did you mean NARAD_FANOUT_LINGER_MS?"), "{message}");
    for text in ["linger_ms = 1\n", "\"fanout.linger_ms\" = 1\n"] {
        let message = from_file("n.toml", text, &[]).unwrap_err().to_string();
        assert!(
            message.contains("did you mean linger_ms in the section fanout, which is fanout.linger_ms?"),
            "{message}"
        );
    }
}

#[test]
#[cfg(unix)]
fn a_data_directory_that_cannot_be_named_as_it_is_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let dir = std::ffi::OsString::from_vec(b"/srv/\xff".to_vec());
    let overrides = Overrides { data_dir: Some(dir.into()), ..Overrides::default() };
    let message = with(&overrides, &[]).unwrap_err().to_string();
    assert!(message.starts_with("storage.data_dir: ") && message.contains("(flag --data-dir)"), "{message}");
}

#[test]
fn variables_that_somebody_else_set_are_named_and_change_nothing() {
    let env = [("NARAD_PORT", "tcp://10.0.0.1:7942"), ("NARAD_ADDR", "http://x:1"), ("PATH", "/bin")];
    let (_, strangers) = with(&Overrides::default(), &env).unwrap();
    assert_eq!(strangers, ["NARAD_PORT"]);
    let env = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317"), ("OTEL_SERVICE_NAME", "x")];
    let (_, strangers) = with(&Overrides::default(), &env).unwrap();
    assert_eq!(strangers.is_empty(), cfg!(feature = "otlp"), "a build that sends nothing there says so");
}

#[test]
fn values_out_of_bounds_stop_the_start_and_are_named() {
    for (text, key) in [
        ("[http]\nshutdown_grace = \"1s\"\n", "http.shutdown_grace"),
        (
            "[http]\nmax_consume_wait = \"20s\"\n",
            "http.max_consume_wait: is 20s, and must be at most http.shutdown_grace, which is 10s (default): raise \
             http.shutdown_grace too (file ",
        ),
        ("[log]\nformat = \"xml\"\n", "log.format: \"xml\" is none of json, text (file "),
        ("[security]\nenabled = 1\n", "security.enabled: 1 is not true or false (file "),
        ("[storage]\ndata_dir = \"\"\n", "storage.data_dir: must not be empty (file "),
        ("[http]\nidle_timeout = \"0\"\n", "http.idle_timeout"),
        (
            "[http]\nidle_timeout = 5\n",
            "http.idle_timeout: 5 has no unit; write \"5s\" for seconds, or \"5ms\" (file ",
        ),
        ("http = 5\n", "http"),
        ("[http]\nmax_header_bytes = 10\n", "http.max_header_bytes"),
        ("[storage]\nidle_log_eviction_ms = 10\n", "storage.idle_log_eviction_ms"),
        ("[storage]\ncold_retention_walk_ms = 59999\n", "storage.cold_retention_walk_ms"),
        ("[storage]\nconsumer_offset_commit_interval_ms = 5\n", "storage.consumer_offset_commit_interval_ms"),
        ("[topic]\ndefault_partitions = 2\n", "topic.default_partitions"),
        ("[topic]\nmax_partitions = 109\n", "topic.max_partitions"),
        ("[topic]\ndefault_retention_age_ms = 1000\n", "topic.default_retention_age_ms"),
        ("[topic]\ndefault_partitions = -3\n", "default_partitions"),
        ("[log]\nlevel = \"???=!\"\n", "log.level"),
        ("[log]\nlevel = \"infoo\"\n", "log.level"),
        ("[log]\nlevel = \"\"\n", "log.level"),
        ("[log]\nlevel = \"info,narad_core\"\n", "log.level"),
    ] {
        let message = from_file("n.toml", text, &[]).unwrap_err().to_string();
        assert!(message.contains(key), "{text}: {message}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let missing = Overrides { config: Some("/nowhere/narad.toml".into()), ..Overrides::default() };
    assert!(with(&missing, &[]).unwrap_err().to_string().contains("/nowhere/narad.toml"));
    let yaml = from_file("narad.yaml", "", &[]).unwrap_err();
    assert!(matches!(yaml.iter().next(), Some(ConfigError::Extension(_))), "{yaml}");
    assert!(from_file("narad.toml", "[http", &[]).is_err());
    assert!(from_file("narad.json", "{", &[]).is_err());
    for (name, text) in [
        ("n.toml", "[fanout]\nlinger_ms = 1\nlinger_ms = 2\n"),
        ("n.json", r#"{"fanout": {"linger_ms": 1, "linger_ms": 2}}"#),
        ("n.json", r#"{"http": {}, "storage": {"sync": [{"linger_ms": null, "linger_ms": "x"}]}}"#),
    ] {
        let message = from_file(name, text, &[]).unwrap_err().to_string();
        assert!(message.contains(name) && message.contains("linger_ms"), "{message}");
    }
    let every_kind =
        r#"{"http": {"metrics_addr": null, "max_connections": 5}, "security": {"enabled": true}}"#;
    assert_eq!(from_file("n.json", every_kind, &[]).unwrap().http.max_connections, 5);
}

#[test]
fn every_error_is_told_with_its_key_and_where_it_stands() {
    let text = "[http]\nidle_timeout = 5\nmax_header_bytes = \"64KiB\"\nmax_conections = 1\nshutdown_grace = \"1s\"\n\
                [storage]\nidle_log_eviction_ms = \"1h\"\n[topic]\ndefault_partitions = 1\n";
    let env =
        [("NARAD_HTTP_READ_TIMEOUT", "7"), ("NARAD_TOPIC_MAX_PARTITIONS", "many"), ("NARAD_NODE_NAME", "x")];
    let errors = from_file("n.toml", text, &env).unwrap_err();
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    for (start, end) in [
        ("http.idle_timeout: 5 has no unit", "n.toml)"),
        ("http.max_header_bytes: ", "it is an integer of bytes: write 65536 (file "),
        ("unknown key \"http.max_conections\"", "did you mean http.max_connections?"),
        ("http.shutdown_grace: is 1s, and must be at least http.max_consume_wait, which is 10s", "n.toml)"),
        ("storage.idle_log_eviction_ms: ", "it is an integer of milliseconds: write 3600000 (file "),
        ("topic.default_partitions: is 1, and must lie between 3 and 108", "n.toml)"),
        ("http.read_timeout: a duration needs a unit", "(environment variable NARAD_HTTP_READ_TIMEOUT)"),
        (
            "topic.max_partitions: \"many\" is not a whole number",
            "(environment variable NARAD_TOPIC_MAX_PARTITIONS)",
        ),
        ("unknown variable NARAD_NODE_NAME", ""),
    ] {
        assert!(
            lines.iter().any(|line| line.starts_with(start) && line.contains(end)),
            "{start}: {lines:#?}"
        );
    }
    assert_eq!(lines.len(), 9, "{lines:#?}");
}

#[test]
fn nothing_is_said_of_a_bound_that_hangs_on_a_value_that_is_none() {
    let errors =
        from_file("n.toml", "[http]\nmax_consume_wait = 60\nshutdown_grace = \"1s\"\n", &[]).unwrap_err();
    assert_eq!(errors.iter().len(), 1, "{errors}");
}

#[test]
fn secrets_in_files_are_refused_as_such() {
    let message = from_file("n.toml", "[security]\nadmin_password = \"x\"\n", &[]).unwrap_err().to_string();
    assert!(message.contains("NARAD_ADMIN_PASSWORD"), "{message}");
}

#[test]
fn the_first_password_is_of_the_environment_alone_and_is_never_shown() {
    let dev = Overrides::default();
    let (config, strangers) = with(&dev, &[("NARAD_ADMIN_PASSWORD", "hunter2")]).unwrap();
    assert_eq!(config.admin_password.as_ref().unwrap().expose(), b"hunter2");
    assert!(strangers.is_empty() && !format!("{config:?}").contains("hunter2"));
    assert!(!serde_json::to_string(&config).unwrap().contains("hunter2"));
    assert!(with(&dev, &[("NARAD_ADMIN_PASSWORD", "")]).unwrap().0.admin_password.is_none());
    let long = "hunter2".repeat(11);
    let error = with(&dev, &[("NARAD_ADMIN_PASSWORD", &long)]).unwrap_err().to_string();
    assert!(error.contains("NARAD_ADMIN_PASSWORD") && !error.contains("hunter2"), "{error}");
}

#[test]
fn metrics_have_a_listener_of_their_own_or_none() {
    let dev = Overrides { dev: true, data_dir: Some("x".into()), ..Overrides::default() };
    let refused = |overrides: &Overrides, addr: &str| {
        with(overrides, &[("NARAD_HTTP_METRICS_ADDR", addr)]).err().map(|error| error.to_string())
    };
    assert_eq!(refused(&dev, "127.0.0.1:9000"), None);
    assert_eq!(refused(&Overrides::default(), ":9000"), None);
    for (overrides, addr) in [(&dev, ":9000"), (&dev, "127.0.0.1:7942"), (&Overrides::default(), ":7942")] {
        let error = refused(overrides, addr).unwrap();
        assert!(error.contains("http.metrics_addr"), "{addr}: {error}");
    }
}

#[test]
fn a_collector_is_an_address_that_is_spoken_to_in_what_the_build_speaks() {
    for (text, key) in [
        ("[telemetry]\notlp_endpoint = \"collector:4317\"\n", "telemetry.otlp_endpoint"),
        ("[telemetry]\notlp_endpoint = \"https://collector:4317\"\n", "telemetry.otlp_endpoint"),
        ("[telemetry]\notlp_protocol = \"thrift\"\n", "telemetry.otlp_protocol"),
    ] {
        let message = from_file("n.toml", text, &[]).unwrap_err().to_string();
        assert!(message.starts_with(key), "{message}");
    }
    let env = [("NARAD_TELEMETRY_OTLP_ENDPOINT", "http://c:4317"), ("NARAD_TELEMETRY_OTLP_PROTOCOL", "grpc")];
    let outcome = with(&Overrides::default(), &env);
    assert_eq!(outcome.is_ok(), cfg!(feature = "otlp"), "{outcome:?}");
}
