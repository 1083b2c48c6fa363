//! `narad user` and `narad ctx` against a broker with security on, and where the command's credentials come from.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::secured::{ROOT_PASSWORD, Secured};
use reqwest::Method;
use serde_json::{Value, json};

/// How a run of the command ended.
#[derive(Debug)]
struct Ran {
    status: i32,
    out: String,
    err: String,
}

impl Ran {
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.status, 0, "{self:?}");
        self.out
    }

    #[track_caller]
    fn fails(self, status: i32, with: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert!(self.err.contains(with), "{self:?}");
    }
}

/// A broker, and a home for the command's contexts.
struct Bed {
    narad: Secured,
    home: tempfile::TempDir,
}

impl Bed {
    async fn new() -> Self {
        Self { narad: Secured::start().await, home: tempfile::tempdir().unwrap() }
    }

    fn server(&self) -> String {
        self.narad.server().addr().to_string()
    }

    fn file(&self) -> PathBuf {
        self.home.path().join(".narad/contexts.json")
    }

    /// Runs the command with that environment and nothing else of ours in it.
    async fn run(&self, variables: &[(&str, &str)], args: &[&str], stdin: &str) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_narad"));
        for variable in ["NARAD_ADDR", "NARAD_USER", "NARAD_PASS", "NARAD_CONTEXT", "XDG_CONFIG_HOME"] {
            command.env_remove(variable);
        }
        command.env("HOME", self.home.path()).envs(variables.iter().copied()).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let stdin = stdin.to_owned();
        let run = move || {
            let mut child = command.spawn().unwrap();
            let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
            child.wait_with_output().unwrap()
        };
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        Ran {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    async fn root(&self, args: &[&str], stdin: &str) -> Ran {
        let variables =
            [("NARAD_ADDR", &*self.server()), ("NARAD_USER", "admin"), ("NARAD_PASS", ROOT_PASSWORD)];
        self.run(&variables, args, stdin).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_managed_and_no_password_is_an_argument() {
    let bed = Bed::new().await;
    let add = ["user", "add", "ann", "--grant", "produce:orders,eu-*", "--password-file", "-"];
    let out = bed.root(&add, "correct horse\n").await.ok();
    assert_eq!(out, "created ann: produce:orders,eu-*\n");
    bed.narad.ask("ann", "correct horse", Method::GET, "/v1/topics", &Value::Null).await.is(200);
    bed.root(&add, "x\n").await.fails(1, "user ann exists already (409 Conflict)");

    let listed = bed.root(&["--json", "user", "ls"], "").await.ok();
    let objects: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&objects[0]["username"], &objects[0]["root"]), (&json!("admin"), &json!(true)));
    assert_eq!(objects[1]["grants"], json!([{"action": "produce", "patterns": ["orders", "eu-*"]}]));
    let table = bed.root(&["user", "ls"], "").await.ok();
    assert!(table.contains("admin  root") && table.contains("ann    produce:orders,eu-*"), "{table}");

    let granted = bed.root(&["user", "grant", "ann", "--grant", "consume:*", "--grant", "admin"], "").await;
    assert_eq!(granted.ok(), "changed ann: consume:* admin\n");
    assert_eq!(bed.root(&["user", "grant", "ann", "--none"], "").await.ok(), "changed ann: no grants\n");

    let file = bed.home.path().join("new-password");
    fs::write(&file, "from a file\nand no more of it\n").unwrap();
    bed.root(&["user", "passwd", "ann", "--password-file", file.to_str().unwrap()], "").await.ok();
    bed.narad.ask("ann", "from a file", Method::GET, "/v1/topics", &Value::Null).await.is(200);
    // One's own, with the variable for the new one.
    let own = [
        ("NARAD_ADDR", &*bed.server()),
        ("NARAD_USER", "ann"),
        ("NARAD_PASS", "from a file"),
        ("NARAD_NEW_PASSWORD", "her own"),
    ];
    bed.run(&own, &["user", "passwd", "ann"], "").await.ok();
    bed.narad.ask("ann", "her own", Method::GET, "/v1/topics", &Value::Null).await.is(200);
    bed.run(&own, &["user", "ls"], "").await.fails(1, "401");

    assert_eq!(bed.root(&["user", "rm", "ann"], "").await.ok(), "deleted ann\n");
    bed.root(&["user", "rm", "ann"], "").await.fails(1, "there is no user ann");
    bed.root(&["user", "add", "bob"], "").await.fails(2, "--password-file FILE or NARAD_NEW_PASSWORD");
    bed.root(&["user", "add", "bob", "--password-file", "-"], "\n").await.fails(2, "standard input is empty");
    bed.narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_says_where_and_as_whom() {
    let bed = Bed::new().await;
    bed.narad.user("ann", "horse", json!([{"action": "create", "patterns": ["*"]}])).await;
    let server = bed.server();
    let add = |user: &'static str, name: &'static str| {
        ["--server", &*server, "--user", user, "ctx", "add", name, "--password-file", "-"].map(str::to_owned)
    };
    let run = async |args: &[String], stdin: &str| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        bed.run(&[], &args, stdin).await
    };
    bed.run(&[], &["ctx", "add", "x"], "").await.fails(2, "--server");
    run(&add("admin", "prod"), &format!("{ROOT_PASSWORD}\n")).await.ok();
    run(&add("ann", "mine"), "horse\n").await.ok();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&bed.file()), mode(bed.file().parent().unwrap())), (0o600, 0o700));

    for args in [&["ctx", "ls"][..], &["--json", "ctx", "ls"]] {
        let shown = bed.run(&[], args, "").await.ok();
        assert!(shown.contains("prod") && shown.contains("mine") && shown.contains(&server), "{shown}");
        assert!(!shown.contains("horse") && !shown.contains(ROOT_PASSWORD), "{shown}");
    }
    // The first is selected; a flag and a variable name another.
    bed.run(&[], &["user", "ls"], "").await.ok();
    bed.run(&[], &["--context", "mine", "user", "ls"], "").await.fails(1, "403");
    bed.run(&[("NARAD_CONTEXT", "mine")], &["topic", "add", "t"], "").await.ok();
    bed.run(&[], &["ctx", "select", "mine"], "").await.ok();
    bed.run(&[], &["user", "ls"], "").await.fails(1, "403");
    bed.run(&[("NARAD_CONTEXT", "prod")], &["user", "ls"], "").await.ok();
    // What the environment and the flags say wins.
    bed.run(&[("NARAD_USER", "admin"), ("NARAD_PASS", ROOT_PASSWORD)], &["user", "ls"], "").await.ok();
    bed.run(&[("NARAD_USER", "admin")], &["user", "ls"], "").await.fails(2, "NARAD_PASS");
    bed.run(&[("NARAD_PASS", "other")], &["topic", "ls"], "").await.fails(1, "401");
    // A server that somebody names does not get the password of a context that nobody named.
    bed.run(&[], &["--server", &server, "topic", "ls"], "").await.fails(1, "narad ctx add");

    bed.run(&[], &["ctx", "rm", "mine"], "").await.ok();
    bed.run(&[], &["ctx", "rm", "mine"], "").await.fails(2, "no context mine");
    bed.run(&[], &["ctx", "select", "mine"], "").await.fails(2, "no context mine");
    let left = bed.run(&[], &["--json", "ctx", "ls"], "").await.ok();
    assert!(left.contains("prod") && left.contains("\"selected\":false"), "{left}");

    let config = bed.home.path().join("config");
    let elsewhere = [("XDG_CONFIG_HOME", config.to_str().unwrap()), ("NARAD_PASS", "p")];
    bed.run(&elsewhere, &["--server", ":1", "--user", "u", "ctx", "add", "x"], "").await.ok();
    assert!(config.join("narad/contexts.json").is_file());
    bed.narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn contexts_that_others_can_read_or_that_are_damaged_are_refused_unquoted() {
    let bed = Bed::new().await;
    let variables = [("NARAD_PASS", ROOT_PASSWORD)];
    bed.run(&variables, &["--server", &bed.server(), "--user", "admin", "ctx", "add", "prod"], "").await.ok();
    fs::set_permissions(bed.file(), fs::Permissions::from_mode(0o644)).unwrap();
    bed.run(&[], &["topic", "ls"], "").await.fails(1, "chmod 600");
    fs::set_permissions(bed.file(), fs::Permissions::from_mode(0o600)).unwrap();
    bed.run(&[], &["topic", "ls"], "").await.ok();
    let text = fs::read_to_string(bed.file()).unwrap();
    fs::write(bed.file(), text.replace(&format!("\"{ROOT_PASSWORD}\""), "hunter2")).unwrap();
    let ran = bed.run(&[], &["topic", "ls"], "").await;
    assert!(!ran.err.contains("hunter2"), "{ran:?}");
    ran.fails(1, "contexts.json");
    // Who says everything needs no contexts.
    bed.root(&["topic", "ls"], "").await.ok();
    bed.narad.stop().await;
}
