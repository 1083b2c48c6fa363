//! README.md: its two walks of five minutes work as they stand there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod documented;
mod real_broker;

use std::{
    path::Path,
    process::{Command, Output},
};

use documented::{ADDRESS, blocks, can_run};
use real_broker::Broker;

/// The commands of the section with that heading.
fn commands(heading: &str) -> String {
    let readme = include_str!("../../README.md");
    let (_, section) = readme.split_once(&format!("\n## {heading}\n")).expect("the section is there");
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    blocks(section, "").into_iter().map(|(_, text)| text).collect()
}

fn start(home: &Path) -> Broker {
    let mut serve = Command::new(env!("CARGO_BIN_EXE_narad"));
    serve.args(["serve", "--dev", "--addr", "127.0.0.1:0"]).env("HOME", home);
    Broker::spawn(serve).unwrap()
}

/// Runs the commands as one script that ends at the first failure.
fn run(script: &str, broker: &Broker, home: &Path) -> Output {
    let address = broker.url().replace("http://", "");
    let script = format!(
        "set -euo pipefail\ncurl() {{ command curl -sS --fail-with-body \"$@\"; }}\n{}",
        script.replace(ADDRESS, &address)
    );
    let binaries = Path::new(env!("CARGO_BIN_EXE_narad")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-c", &script])
        .current_dir(home)
        .env("HOME", home)
        .env("PATH", path)
        .env("NARAD_ADDR", &address);
    let ran = bash.output().unwrap();
    let (said, complaints) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{script}\n{said}\n{complaints}");
    ran
}

#[tokio::test(flavor = "multi_thread")]
async fn five_minutes_with_curl() {
    if !can_run("bash") || !can_run("curl") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let broker = start(home.path());
    broker.ready().await;
    let ran = run(&commands("Five minutes with curl"), &broker, home.path());
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(said.contains("202 Accepted") && said.contains(r#""payload":{"order":1}"#), "{said}");
    assert!(said.trim_end().lines().any(|line| line.starts_with("HTTP/1.1 204")), "the ack: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn five_minutes_with_the_command() {
    if !can_run("bash") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let broker = start(home.path());
    broker.ready().await;
    run(&commands("Five minutes with the command"), &broker, home.path());
    let back = std::fs::read_to_string(home.path().join("back.jsonl")).unwrap();
    assert_eq!(back.lines().count(), 10_001, "every message came back");
}
