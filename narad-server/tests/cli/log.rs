//! `narad log dump` and `narad log verify` on directories that another implementation wrote, some of them damaged.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use crate::http_support::{Answer, Narad};
use serde_json::{Value, json};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../narad-core/tests/fixtures/golden").join(name)
}

fn narad(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narad")).args(args).arg(dir).stdin(Stdio::null()).output().unwrap()
}

fn objects(output: &Output) -> Vec<Value> {
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// Every golden directory with its manifest.
fn manifests() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(golden("")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            found.push((name, serde_json::from_slice(&fs::read(path).unwrap()).unwrap()));
        }
    }
    assert!(found.len() >= 30, "{} manifests", found.len());
    found
}

fn offsets(ranges: &Value) -> BTreeSet<u64> {
    let ends = |range: &Value| range[0].as_u64().unwrap()..=range[1].as_u64().unwrap();
    ranges.as_array().unwrap().iter().flat_map(ends).collect()
}

fn content(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn dump_says_what_every_manifest_says_and_changes_nothing() {
    for (name, manifest) in manifests() {
        let dir = golden(&name);
        let before = content(&dir);
        let output = narad(&["log", "dump"], &dir);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(content(&dir), before, "{name}: a dump only reads");

        let mut lines = objects(&output);
        let summary = lines.pop().unwrap();
        for field in ["next_offset", "high_watermark"] {
            assert_eq!(summary[field], manifest[field], "{name}: {field}");
        }
        let segments = before.keys().filter(|path| path.extension().is_some_and(|end| end == "log")).count();
        assert!(summary["segments"].as_u64().unwrap() <= segments as u64, "{name}: segments");

        let (mut records, mut lost, mut unknown) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for line in &lines {
            match line["error"].as_str() {
                Some("gap") => lost.extend(line["from"].as_u64().unwrap()..=line["to"].as_u64().unwrap()),
                Some("corrupt") => _ = lost.insert(line["offset"].as_u64().unwrap()),
                Some("unknown_codec") => _ = unknown.insert(line["offset"].as_u64().unwrap()),
                Some(other) => panic!("{name}: {other}"),
                None => records.push(json!({
                    "offset": line["offset"], "key_b64": line["key"],
                    "committed_at_ms": line["committed_at_ms"], "payload_len": line["payload_len"],
                    "payload_sha256": line["payload_sha256"]
                })),
            }
        }
        assert_eq!(Value::from(records), manifest["records"], "{name}: records");
        assert_eq!(lost, offsets(&manifest["lost"]), "{name}: lost");
        assert_eq!(unknown, offsets(&manifest["unknown_codec"]), "{name}: of an unknown codec");
        let place = |line: &Value| line["offset"].as_u64().or(line["from"].as_u64()).unwrap();
        assert!(lines.is_sorted_by_key(place), "{name}: in offset order");
    }
}

#[test]
fn verify_tells_damage_from_what_a_crash_leaves() {
    for (name, manifest) in manifests() {
        let output = narad(&["--json", "log", "verify"], &golden(&name));
        let damaged = !manifest["lost"].as_array().unwrap().is_empty();
        let found = objects(&output).pop().unwrap();
        assert_eq!(output.status.code(), Some(i32::from(damaged)), "{name}: {found}");
        assert_eq!(found["records"], manifest["records"].as_array().unwrap().len(), "{name}");
        assert_eq!(found["unknown_codec"], offsets(&manifest["unknown_codec"]).len(), "{name}");
        if name.starts_with("torn_") {
            let zeros = if name.contains("zero") { "prepared_bytes" } else { "torn_tail_bytes" };
            assert!(found[zeros].as_u64().unwrap() > 0, "{name}: {found}");
        }
        let lengths = lengths(&golden(&name));
        if !damaged && found["segments"] == lengths.len() {
            assert_eq!(told(&found).iter().sum::<u64>(), lengths.iter().sum::<u64>(), "{name}: {found}");
        }
    }
}

/// How long the segments in a directory are.
fn lengths(dir: &Path) -> Vec<u64> {
    let segments = content(dir).into_iter().filter(|(path, _)| path.extension() == Some("log".as_ref()));
    segments.map(|(_, bytes)| bytes.len() as u64).collect()
}

/// The bytes of frames, of a torn tail and of what is prepared.
fn told(found: &Value) -> [u64; 3] {
    ["bytes", "torn_tail_bytes", "prepared_bytes"].map(|field| found[field].as_u64().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_running_broker_verify_tells_frames_from_the_zeros_behind_them() {
    let broker = Narad::start().await;
    broker.ready().await;
    broker.create("t").await;
    let stats = |answer: &Answer| answer.json()["partition_stats"][0].clone();
    let mut size_bytes = Value::Null;
    for produced in 1..=10 {
        broker.post("/v1/topics/t/produce?partition=1", "x".repeat(100)).await.is(202);
        // One commit each: a partition is filled ahead once it has grown a few times.
        let committed = |answer: &Answer| stats(answer)["high_watermark"] == produced;
        size_bytes = stats(&broker.until("/v1/topics/t?partition=1", committed).await)["size_bytes"].clone();
    }

    let dir = broker.dir.path().join("topics/t/p00001");
    let found = objects(&narad(&["--json", "log", "verify"], &dir)).pop().unwrap();
    let [bytes, torn, prepared] = told(&found);
    assert_eq!((&found["records"], json!(bytes)), (&json!(10), size_bytes), "{found}");
    assert!(torn == 0 && prepared > 0, "{found}");
    assert_eq!(vec![bytes + prepared], lengths(&dir));
    let table = String::from_utf8(narad(&["log", "verify"], &dir).stdout).unwrap();
    let names: Vec<&str> = table.lines().next().unwrap().split("  ").map(str::trim).collect();
    assert!(names.ends_with(&["TORN TAIL", "PREPARED", "STATE"]), "{table}");
    assert!(table.trim_end().ends_with("KiB  ok"), "{table}");
}

#[test]
fn the_range_of_a_dump_includes_both_ends() {
    let output = narad(&["log", "dump", "--from", "3", "--to", "5", "--payload"], &golden("clean_none"));
    let mut lines = objects(&output);
    let summary = lines.pop().unwrap();
    let offsets: Vec<u64> = lines.iter().map(|line| line["offset"].as_u64().unwrap()).collect();
    assert_eq!(offsets, [3, 4, 5]);
    assert!(lines.iter().all(|line| line["payload"].is_string()));
    assert!(summary["next_offset"].as_u64().unwrap() > 6, "the summary is of the whole partition");
}

#[test]
fn a_data_directory_is_checked_partition_by_partition() {
    let root = tempfile::tempdir().unwrap();
    for (partition, source) in [("p00000", "clean_zstd"), ("p00001", "corrupt_mid_crc_zstd")] {
        let to = root.path().join("topics/orders").join(partition);
        fs::create_dir_all(&to).unwrap();
        for (path, bytes) in content(&golden(source)) {
            fs::write(to.join(path.file_name().unwrap()), bytes).unwrap();
        }
    }
    let output = narad(&["--json", "log", "verify"], root.path());
    assert_eq!(output.status.code(), Some(1));
    let found = objects(&output);
    assert_eq!(found[0]["partition"], "topics/orders/p00000");
    assert_eq!((&found[0]["gaps"], &found[1]["gaps"]), (&json!(0), &json!(1)));
    let table = narad(&["log", "verify"], &root.path().join("topics/orders"));
    let table = String::from_utf8(table.stdout).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("PARTITION") && lines[1].ends_with("ok") && lines[2].ends_with("DAMAGED"),
        "{table}"
    );
}

#[test]
fn what_cannot_be_looked_at_is_not_called_damaged() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("notes.txt"), "x").unwrap();
    for dir in [root.path().to_owned(), root.path().join("absent")] {
        assert_eq!(narad(&["log", "verify"], &dir).status.code(), Some(2), "{dir:?}");
    }
    assert_eq!(narad(&["log", "dump"], &root.path().join("absent")).status.code(), Some(2));
    fs::create_dir_all(root.path().join("topics/t/p00000")).unwrap();
    assert_eq!(narad(&["log", "dump"], root.path()).status.code(), Some(2), "several partitions");
    assert_eq!(
        narad(&["log", "dump"], &root.path().join("topics/t/p00000")).status.code(),
        Some(0),
        "an empty one"
    );
}

#[test]
fn a_reader_that_goes_away_ends_a_dump_quietly() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut dump = Command::new(env!("CARGO_BIN_EXE_narad"));
    let output = dump.args(["log", "dump"]).arg(golden("segments_none")).stdout(writer).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
}
