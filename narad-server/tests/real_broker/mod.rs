//! The built binary, started and stopped as a user would.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

/// A running `narad serve --dev`. Killed when dropped.
pub struct Broker {
    child: Child,
    url: String,
}

impl Broker {
    /// Starts it on a free port and waits until it is ready.
    pub async fn start(data_dir: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_narad"))
            .args(["serve", "--dev", "--addr", "127.0.0.1:0", "--data-dir"])
            .arg(data_dir)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        let url = loop {
            let line = lines.next().unwrap_or_else(|| panic!("the broker ended: {said}")).unwrap();
            if let Some(url) = line.strip_prefix("listening on ") {
                break url.to_owned();
            }
            said.push_str(&line);
            said.push('\n');
        };
        // Whatever it says later is read, so that it never blocks on a full pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let broker = Self { child, url };
        broker.ready().await;
        broker
    }

    async fn ready(&self) {
        for _ in 0..600 {
            let answer = reqwest::get(format!("{}/readyz", self.url)).await;
            if answer.is_ok_and(|answer| answer.status() == 200) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the broker did not become ready");
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub async fn create_topic(&self, name: &str) {
        let body = format!("{{\"name\":\"{name}\"}}");
        let answer =
            reqwest::Client::new().post(format!("{}/v1/topics", self.url)).body(body).send().await.unwrap();
        assert_eq!(answer.status(), 201);
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and the status it ends with.
    pub async fn terminate(mut self) -> ExitStatus {
        let kill = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(kill.success());
        for _ in 0..1500 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the broker did not end within 15 s of SIGTERM");
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
