//! The built binary, started and stopped as a user would, and what its tests share: a client and a ledger.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test uses a part of it")]

mod client;
mod copy;
mod ledger;
mod strace;

use std::{
    io::{BufRead, BufReader, Lines},
    path::Path,
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

pub use client::Client;
pub use copy::copy_tree;
pub use ledger::Ledger;
use parking_lot::Mutex;
pub use strace::{Attached, can_trace, has_injected, under_strace};

/// A running `narad serve --dev`. Killed when dropped.
pub struct Broker {
    child: Child,
    url: String,
    said: Said,
}

/// What the broker has written to standard error so far.
pub type Said = Arc<Mutex<String>>;

/// It ended instead of listening.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub said: String,
}

/// What a case that runs as a task of its own panicked with.
pub fn reason(panic: tokio::task::JoinError) -> String {
    let payload = panic.into_panic();
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    payload.downcast_ref::<String>().cloned().or(text).unwrap_or_default()
}

/// `narad serve --dev` on a free port.
pub fn serve(data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_narad"));
    add_arguments(&mut command, data_dir);
    command
}

fn add_arguments(command: &mut Command, data_dir: &Path) {
    command.args(["serve", "--dev", "--addr", "127.0.0.1:0", "--data-dir"]).arg(data_dir);
}

impl Broker {
    /// Starts it and waits until it is ready.
    pub async fn start(data_dir: &Path) -> Self {
        let broker =
            Self::spawn(serve(data_dir)).unwrap_or_else(|ended| panic!("the broker ended: {ended:?}"));
        broker.ready().await;
        broker
    }

    /// The same with every message going through the produce log, also one that comes alone.
    pub async fn start_through_log(data_dir: &Path) -> Self {
        let mut command = serve(data_dir);
        command.env("NARAD_STORAGE_DIRECT_PRODUCE", "false");
        let broker = Self::spawn(command).unwrap_or_else(|ended| panic!("the broker ended: {ended:?}"));
        broker.ready().await;
        broker
    }

    /// Starts it and waits until it listens, or has ended.
    pub fn spawn(mut command: Command) -> Result<Self, Ended> {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = Said::default();
        let Some(url) = listening(&mut lines, &said) else {
            let status = child.wait().unwrap();
            return Err(Ended { status, said: said.lock().clone() });
        };
        // Whatever it says later is read, so that it never blocks on a full pipe.
        let log = Arc::clone(&said);
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| add(&log, &line)));
        Ok(Self { child, url, said })
    }

    /// Waits until it is ready.
    pub async fn ready(&self) {
        for _ in 0..1500 {
            let answer = reqwest::get(format!("{}/readyz", self.url)).await;
            if answer.is_ok_and(|answer| answer.status() == 200) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the broker did not become ready: {}", self.said());
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard error so far.
    pub fn said(&self) -> String {
        self.said.lock().clone()
    }

    pub fn client(&self, topic: &str) -> Client {
        Client::new(self.url(), topic)
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
        panic!("the broker did not end within 15 s of SIGTERM: {}", self.said());
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Reads up to the line that says where it listens; none when it ended without.
fn listening(lines: &mut Lines<BufReader<ChildStderr>>, said: &Said) -> Option<String> {
    loop {
        let line = lines.next()?.ok()?;
        if let Some(url) = line.strip_prefix("listening on ") {
            return Some(url.to_owned());
        }
        add(said, &line);
    }
}

fn add(said: &Said, line: &str) {
    let mut said = said.lock();
    said.push_str(line);
    said.push('\n');
}
