//! `narad config`, and what `serve` does before it opens anything.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};

/// Runs `narad` in an environment of these variables and `HOME`.
fn narad(args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_narad"));
    command.args(args).env_clear().env("HOME", "/home/me").envs(env.iter().copied()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn file(dir: &Path, name: &str, content: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Settings by key, as `config show --json` tells them.
fn shown(args: &[&str], env: &[(&str, &str)]) -> BTreeMap<String, Value> {
    let ran = narad(&[&["--json", "config", "show"], args].concat(), env);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    text(&ran.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|setting| (setting["key"].as_str().unwrap().to_owned(), setting))
        .collect()
}

#[test]
fn check_says_everything_that_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let good = file(dir.path(), "good.toml", "[storage]\ncodec = { name = \"zstd\", level = 3 }\n");
    let ran = narad(&["config", "check", "--config", &good], &[("NARAD_PORT", "tcp://x")]);
    assert_eq!((ran.status.code(), text(&ran.stdout)), (Some(0), "the settings can be used\n"));
    assert!(text(&ran.stderr).contains("NARAD_PORT"), "{}", text(&ran.stderr));

    let bad =
        "[http]\nidle_timeout = 5\n[storage]\ncodec = \"gzip\"\nretention = { name = \"age\", days = 3 }\n";
    let bad = file(dir.path(), "bad.toml", bad);
    let ran = narad(&["config", "check", "--config", &bad], &[("NARAD_LOG_LEVEL", "loud")]);
    let complaints = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1));
    for part in ["http.idle_timeout: 5 has no unit", "storage.codec: ", "zstd", "storage.retention: ", "days"]
    {
        assert!(complaints.contains(part), "{part}: {complaints}");
    }
    assert!(
        complaints.contains("log.level: ") && complaints.contains("(environment variable NARAD_LOG_LEVEL)")
    );
    let ran = narad(&["--json", "config", "check", "--config", &bad], &[]);
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((&told["ok"], told["errors"].as_array().unwrap().len()), (&json!(false), 3), "{told}");
    assert_eq!(ran.status.code(), Some(1));
}

#[test]
fn show_tells_where_a_value_comes_from_and_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "n.json", r#"{"http": {"max_connections": 7, "idle_timeout": "90s"}}"#);
    let env = [
        ("NARAD_LOG_LEVEL", "debug"),
        ("NARAD_ADMIN_PASSWORD", "hunter2"),
        ("NARAD_HTTP_MAX_CONNECTIONS", "8"),
    ];
    let settings = shown(&["--dev", "--config", &path, "--data-dir", "d"], &env);
    for (key, value, layer, name) in [
        ("http.max_connections", json!(8), "environment", Some("NARAD_HTTP_MAX_CONNECTIONS")),
        ("http.idle_timeout", json!("90s"), "file", Some(&*path)),
        ("http.read_timeout", json!("30s"), "default", None),
        ("http.addr", json!("127.0.0.1:7942"), "dev", None),
        ("storage.data_dir", json!("d"), "flag", Some("--data-dir")),
        ("log.level", json!("debug"), "environment", Some("NARAD_LOG_LEVEL")),
        ("NARAD_ADMIN_PASSWORD", json!("********"), "environment", Some("NARAD_ADMIN_PASSWORD")),
    ] {
        let setting = &settings[key];
        let told = (&setting["value"], setting["layer"].as_str().unwrap(), setting["name"].as_str());
        assert_eq!(told, (&value, layer, name), "{key}");
    }
    let ran = narad(&["config", "show", "--config", &path], &env);
    assert!(!text(&ran.stdout).contains("hunter2"));
    let line = text(&ran.stdout).lines().find(|line| line.starts_with("log.level")).unwrap();
    assert!(line.contains("\"debug\"") && line.ends_with("environment variable NARAD_LOG_LEVEL"), "{line}");
}

#[test]
fn the_schema_takes_what_the_server_takes() {
    let ran = narad(&["config", "schema"], &[]);
    let schema: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for (fits, config) in [
        (true, json!({})),
        (true, json!({"http": {"addr": ":1", "idle_timeout": "1m"}, "storage": {"codec": "zstd"}})),
        (true, json!({"storage": {"codec": {"name": "zstd", "level": 3}, "retention": {"name": "age"}}})),
        (true, json!({"storage": {"sync": {"name": "batched", "interval_ms": 5}, "retention": "age"}})),
        (false, json!({"storage": {"codec": {"name": "zstd", "levle": 3}}})),
        (false, json!({"storage": {"codec": "gzip"}})),
        (false, json!({"storage": {"codec": 3}})),
        (false, json!({"htpp": {}})),
        (false, json!({"http": {"max_connections": "many"}})),
        (false, json!({"http": {"idle_timeout": 5}})),
        (false, json!({"log": {"format": "xml"}})),
    ] {
        assert_eq!(schema.is_valid(&config), fits, "by the schema: {config}");
        let path = file(dir.path(), "n.json", &config.to_string());
        let ran = narad(&["config", "check", "--config", &path], &[]);
        assert_eq!(ran.status.success(), fits, "by the server: {config}: {}", text(&ran.stderr));
    }
}

/// A table row of the manual that states a setting: key, variable, default.
fn documented() -> Vec<[String; 3]> {
    let manual = include_str!("../../../docs/configuration.md");
    let cell = |text: &str| text.trim().trim_matches('`').to_owned();
    manual
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|row| row.split(" | ").map(cell).collect::<Vec<_>>())
        .filter(|cells| cells[0].contains('.'))
        .map(|cells| [cells[0].clone(), cells[1].clone(), cells[2].clone()])
        .collect()
}

#[test]
fn the_manual_lists_every_setting_with_its_variable_and_default() {
    let settings = shown(&[], &[]);
    let documented = documented();
    let names = |rows: &[[String; 3]]| {
        rows.iter().map(|[key, ..]| key.clone()).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(names(&documented), settings.keys().cloned().collect(), "docs/configuration.md, and the tree");
    for [key, variable, default] in documented {
        if key != "node.id" {
            let value = &settings[&key]["value"];
            let absent = value.is_null() && default == "none";
            assert!(
                absent || *value == serde_json::from_str::<Value>(&default).unwrap(),
                "{key}: {default}, {value}"
            );
        }
        // What the setting refuses shows that the variable is read.
        let ran = narad(&["config", "show"], &[(&variable, "{")]);
        let known = !text(&ran.stderr).contains("unknown variable");
        let read = text(&ran.stdout).contains(&variable) || text(&ran.stderr).contains(&format!("{key}: "));
        assert!(known && read, "{variable}: {}", text(&ran.stderr));
    }
}

#[test]
fn a_port_that_is_taken_leaves_no_data_directory_behind() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (addr, data) = (taken.local_addr().unwrap().to_string(), dir.path().join("data"));
    let ran = narad(&["serve", "--dev", "--addr", &addr, "--data-dir", data.to_str().unwrap()], &[]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(text(&ran.stderr).contains("--addr HOST:PORT"), "{}", text(&ran.stderr));
    assert!(!data.exists());
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_narad"));
    let ran = command.args(["config", "schema"]).env_clear().stdout(writer).output().unwrap();
    assert_eq!((ran.status.code(), text(&ran.stderr)), (Some(0), ""));
}
