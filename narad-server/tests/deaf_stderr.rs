//! A broker whose log cannot be written goes on: nobody has to be listening for messages to be kept.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]
#![cfg(target_os = "linux")]

use std::{
    fs::OpenOptions,
    net::TcpListener,
    process::{Child, Command},
    time::Duration,
};

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_log_on_a_full_disk_neither_stops_the_start_nor_the_work() {
    let dir = tempfile::tempdir().unwrap();
    // Free a moment ago; what the broker picks by itself nobody could read here.
    let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let broker = Command::new(env!("CARGO_BIN_EXE_narad"))
        .args(["serve", "--dev", "--addr", &addr, "--data-dir"])
        .arg(dir.path())
        .stderr(full)
        .spawn()
        .unwrap();
    let mut broker = Killed(broker);
    let (client, url) = (reqwest::Client::new(), format!("http://{addr}"));
    let mut ready = false;
    for _ in 0..500 {
        assert_eq!(broker.0.try_wait().unwrap(), None, "it ended");
        ready = client.get(format!("{url}/readyz")).send().await.is_ok_and(|answer| answer.status() == 200);
        if ready {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(ready);
    // Each of these writes a line of log.
    for _ in 0..2 {
        let created = client.post(format!("{url}/v1/topics")).body(r#"{"name":"t"}"#).send().await.unwrap();
        assert_eq!(created.status(), 201);
        let deleted = client.delete(format!("{url}/v1/topics/t")).send().await.unwrap();
        assert_eq!(deleted.status(), 204);
    }
    let terminated = Command::new("kill").arg(broker.0.id().to_string()).status().unwrap();
    assert!(terminated.success());
    let status = tokio::task::spawn_blocking(move || broker.0.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
}
