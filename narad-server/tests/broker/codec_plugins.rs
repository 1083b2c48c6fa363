//! The codecs that keys and dictionaries make readable, in a broker: encrypted topics over HTTP, and `narad log` on them.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::http_support::Narad;
use crate::secured::{ROOT_PASSWORD, Secured};
use reqwest::Method;
use serde_json::{Value, json};

const ONE: &str = "1:b25lb25lb25lb25lb25lb25lb25lb25lb25lb25lb24=";
const TWO: &str = "2:dHdvdHdvdHdvdHdvdHdvdHdvdHdvdHdvdHdvdHdvdHc=";
const PEEK: &str = "/v1/topics/secrets/consume?partition=0&offset=0";

struct Keys(tempfile::TempDir);

impl Keys {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("keys")
    }

    fn hold(&self, lines: &[&str]) {
        fs::write(self.path(), lines.join("\n")).unwrap();
        fs::set_permissions(self.path(), fs::Permissions::from_mode(0o600)).unwrap();
    }
}

async fn start_in(dir: tempfile::TempDir) -> Narad {
    let narad = Narad::start_in(dir, |_| ()).await;
    narad.ready().await;
    narad
}

/// A topic that is encrypted, with one message in its partition.
async fn encrypted(keys: &Keys) -> Narad {
    keys.hold(&[ONE]);
    let narad = start_in(tempfile::tempdir().unwrap()).await;
    let codec = json!({ "name": "aead", "codec": "zstd-dict", "keys": { "file": keys.path() } });
    let topic = json!({ "name": "secrets", "partitions": 3, "codec": codec });
    narad.post("/v1/topics", topic.to_string()).await.is(201);
    narad.post("/v1/topics/secrets/produce?partition=0", "nobody else reads this").await.is(202);
    narad.until(PEEK, |answer| answer.status == 200).await;
    narad
}

fn log_command(verb: &str, data: &Path, keys: Option<&str>) -> (bool, Vec<Value>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_narad"));
    command.args(["log", verb]).arg(data.join("topics/secrets/p00000")).env_remove("NARAD_AEAD_KEYS");
    if let Some(keys) = keys {
        command.env("NARAD_AEAD_KEYS", keys);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let objects = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    (output.status.success(), objects, text)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_topic_is_served_and_nothing_of_it_is_in_its_files() {
    let keys = Keys::new();
    let narad = encrypted(&keys).await;
    let read = narad.get("/v1/topics/secrets/consume?wait=10s").await.is(200);
    assert!(read.text.contains("nobody else reads this"));
    let shown = narad.get("/v1/topics/secrets").await.is(200).json();
    assert_eq!(shown["codec"]["keys"]["file"], json!(keys.path()));
    let dir = narad.stop().await;
    let segment = fs::read(dir.path().join("topics/secrets/p00000/00000000000000000000.log")).unwrap();
    assert!(!segment.windows(6).any(|window| window == b"nobody"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_under_a_missing_key_waits_for_the_key_and_is_not_passed_over() {
    let keys = Keys::new();
    let dir = encrypted(&keys).await.stop().await;
    keys.hold(&[TWO]);
    let narad = start_in(dir).await;
    for path in [PEEK, "/v1/topics/secrets/consume?wait=100ms"] {
        let answer = narad.get(path).await;
        let names_it = answer.text.contains("key 1, which is not there");
        assert!(answer.status.is_server_error() && names_it, "{path}: {} {}", answer.status, answer.text);
    }
    let dir = narad.stop().await;
    keys.hold(&[ONE, TWO]);
    let narad = start_in(dir).await;
    let read = narad.get("/v1/topics/secrets/consume?wait=10s").await.is(200);
    assert!(read.text.contains("nobody else reads this"));
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_commands_read_it_with_the_keys_and_call_it_no_damage_without() {
    let keys = Keys::new();
    let dir = encrypted(&keys).await.stop().await;
    let (ok, lines, said) = log_command("dump", dir.path(), Some(ONE));
    assert!(ok, "{said}");
    assert_eq!(
        (lines[0]["codec"].as_str(), lines[0]["payload_len"].as_u64()),
        (Some("aead"), Some(22)),
        "{said}"
    );
    let (_, lines, said) = log_command("dump", dir.path(), None);
    assert_eq!(lines[0]["error"], json!("lacking"), "{said}");
    for keys in [Some(ONE), Some(TWO), None] {
        let (ok, _, said) = log_command("verify", dir.path(), keys);
        assert!(ok && !said.contains("DAMAGED"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_admin_says_where_keys_are() {
    const PASSWORD: &str = "correct horse";
    let keys = Keys::new();
    keys.hold(&[ONE]);
    let narad = Secured::start().await;
    narad.user("ann", PASSWORD, json!([{ "action": "create", "patterns": ["*"] }])).await;
    let with = |source: Value| json!({ "name": "aead", "keys": source });
    let create = async |who: &str, password: &str, name: &str, codec: Value| {
        let topic = json!({ "name": name, "codec": codec });
        narad.ask(who, password, Method::POST, "/v1/topics", &topic).await
    };
    // Whether there is such a file, whether it holds keys, and whether it is a file at all: the answers are alike.
    let mut said = Vec::new();
    for source in [json!({ "file": keys.path() }), json!({ "file": "/nowhere" }), json!({ "env": "PATH" })] {
        said.push(create("ann", PASSWORD, "hers", with(source)).await.error(400));
    }
    said.dedup();
    assert!(said.len() == 1 && said[0].contains("only an admin"), "{said:?}");

    let codec = with(json!({ "file": keys.path() }));
    create("ann", PASSWORD, "hers", json!("zstd")).await.is(201);
    let change = async |who: &str, password: &str, body: Value| {
        narad.ask(who, password, Method::PATCH, "/v1/topics/hers", &body).await
    };
    change("ann", PASSWORD, json!({ "codec": codec })).await.error(400);
    change("admin", ROOT_PASSWORD, json!({ "codec": codec })).await.is(200);
    // She may send along what the topic has, and change the rest.
    change("ann", PASSWORD, json!({ "codec": codec, "retention_ms": 0 })).await.is(200);
    change("ann", PASSWORD, json!({ "codec": with(json!({ "env": "PATH" })) })).await.error(400);
    narad.stop().await;
}
