//! `narad plugin ls`: what the program is built with, for people and for programs.

use std::process::Command;

use serde_json::Value;

fn narad(args: &[&str]) -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_narad")).args(args).env_clear().output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn plugins_are_listed_with_number_crate_and_keys() {
    let listed = narad(&["plugin", "ls"]);
    let row =
        |name: &str| listed.lines().find(|line| line.split_whitespace().any(|word| word == name)).unwrap();
    let zstd: Vec<&str> = row("zstd").split_whitespace().collect();
    assert_eq!(zstd[..4], ["codec", "zstd", "1", "narad-codecs"], "{listed}");
    assert!(row("zstd").ends_with("level") && row("age").trim_end().ends_with("retention_ms*"), "{listed}");
    for stock in [
        "lz4",
        "zstd-dict",
        "aead",
        "size",
        "consumed",
        "any",
        "all",
        "every-write",
        "adaptive",
        "never",
        "http",
    ] {
        row(stock);
    }
    assert!(row("silent").starts_with("wake notifier"), "{listed}");
}

#[test]
fn programs_get_one_object_a_line_with_the_schema() {
    let listed: Vec<Value> =
        narad(&["--json", "plugin", "ls"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let zstd = listed.iter().find(|plugin| plugin["name"] == "zstd").unwrap();
    assert_eq!((&zstd["kind"], &zstd["number"]), (&Value::from("codec"), &Value::from(1)));
    assert!(!zstd["version"].as_str().unwrap().is_empty());
    assert_eq!(zstd["schema"]["properties"]["level"]["maximum"], 22);
    let age = listed.iter().find(|plugin| plugin["name"] == "age").unwrap();
    assert_eq!((age.get("number"), &age["package"]), (None, &Value::from("narad-retention")));
}
