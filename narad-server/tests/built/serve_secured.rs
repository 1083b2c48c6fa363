//! The built binary without `--dev`: the first user, its password, and what is said of it.

use std::{path::Path, process::Command};

use crate::real_broker::Broker;
use reqwest::StatusCode;

fn serve(data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_narad"));
    command.args(["serve", "--addr", "127.0.0.1:0", "--data-dir"]).arg(data_dir);
    command.env_remove("NARAD_ADMIN_PASSWORD");
    command
}

async fn status(broker: &Broker, password: Option<&str>) -> StatusCode {
    let request = reqwest::Client::new().get(format!("{}/v1/users", broker.url()));
    let request = match password {
        Some(password) => request.basic_auth("admin", Some(password)),
        None => request,
    };
    request.send().await.unwrap().status()
}

fn told(broker: &Broker) -> Option<String> {
    let said = broker.said();
    let mut lines = said.lines().filter_map(|line| line.strip_prefix("admin password: "));
    let password = lines.next().map(str::to_owned);
    assert_eq!(lines.next(), None, "{said}");
    password
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_start_makes_a_user_and_says_its_password_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut quiet = serve(dir.path());
    // A log that is off does not swallow it.
    quiet.env("NARAD_LOG_LEVEL", "off");
    let mut broker = Broker::spawn(quiet).unwrap();
    broker.ready().await;
    let password = told(&broker).expect("nobody gave one");
    assert!(password.len() >= 20, "{password}");
    assert_eq!(status(&broker, None).await, 401);
    assert_eq!(status(&broker, Some("guess")).await, 401);
    assert_eq!(status(&broker, Some(&password)).await, 200);
    // What was told is durable.
    broker.kill();
    let broker = Broker::spawn(serve(dir.path())).unwrap();
    assert_eq!(status(&broker, Some(&password)).await, 200);
    assert_eq!(told(&broker), None);
    assert!(broker.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_is_given_is_taken_and_never_said() {
    let dir = tempfile::tempdir().unwrap();
    let given = "hunter2-and-more";
    for _ in 0..2 {
        let mut command = serve(dir.path());
        command.env("NARAD_ADMIN_PASSWORD", given).env("NARAD_LOG_LEVEL", "trace");
        let broker = Broker::spawn(command).unwrap();
        assert_eq!(status(&broker, Some(given)).await, 200);
        assert_eq!(status(&broker, Some("another-guess")).await, 401);
        assert_eq!(told(&broker), None);
        let said = broker.said();
        for secret in [given, "another-guess", "argon2id", "YWRtaW46"] {
            assert!(!said.contains(secret), "{secret} in the log");
        }
        assert!(broker.terminate().await.success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn security_that_is_turned_off_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = serve(dir.path());
    command.env("NARAD_SECURITY_ENABLED", "false");
    let broker = Broker::spawn(command).unwrap();
    assert_eq!(status(&broker, None).await, 200);
    assert!(broker.said().contains("security is off"), "{}", broker.said());
    assert!(broker.terminate().await.success());
}
