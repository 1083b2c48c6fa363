//! The program tries itself out: it starts itself as a broker, sends it a message, takes that back, and stops it.

use std::{
    env,
    error::Error,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
};

use reqwest::{Client, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Stops the broker also when something fails.
struct Broker(Child);

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

/// Tries a broker out whose data are in `dir`.
pub(crate) fn run(dir: &Path) -> ExitCode {
    match try_out(dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn try_out(dir: &Path) -> Result<(), Box<dyn Error>> {
    let mut serve = Command::new(env::current_exe()?);
    serve.args(["serve", "--dev", "--addr", "127.0.0.1:0", "--data-dir"]).arg(dir).stderr(Stdio::piped());
    serve.env("NARAD_STORAGE_CODEC", "rot13").env("NARAD_STORAGE_WAKE", "tally");
    let mut broker = Broker(serve.spawn()?);
    let mut said = BufReader::new(broker.0.stderr.take().ok_or("no standard error")?).lines();
    let url = loop {
        let line = said.next().ok_or("the broker has ended")??;
        if let Some(url) = line.strip_prefix("listening on ") {
            break url.to_owned();
        }
    };
    // What else it says goes nowhere; somebody must take it.
    std::thread::spawn(move || said.for_each(drop));

    tokio::runtime::Runtime::new()?.block_on(one_message(&url))?;
    kill_process(Pid::from_child(&broker.0), Signal::TERM)?;
    let ended = broker.0.wait()?;
    if ended.success() { Ok(()) } else { Err(format!("the broker ended with {ended}").into()) }
}

async fn one_message(url: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::new();
    let topic = json!({ "name": "letters", "retention": { "name": "newest", "segments": 10 } });
    let made = client.post(format!("{url}/v1/topics")).json(&topic).send().await?;
    println!("created: {}", made.error_for_status()?.text().await?);
    let letters = format!("{url}/v1/topics/letters");
    client.post(format!("{letters}/produce")).body("hello").send().await?.error_for_status()?;

    let got = client.get(format!("{letters}/consume?wait=10s")).send().await?.error_for_status()?;
    let message: Value = got.json().await?;
    println!("consumed: {message}");
    let handle = message.get("receipt_handle").and_then(Value::as_str).ok_or("no receipt")?;
    let ack = client.post(format!("{letters}/ack")).query(&[("receipt_handle", handle)]).send().await?;
    let tally = client.get(format!("{url}/tally")).send().await?.error_for_status()?.text().await?;
    println!("announcements: {tally}");
    match (message.get("payload").and_then(Value::as_str), ack.status()) {
        (Some("hello"), StatusCode::NO_CONTENT) => Ok(()),
        _ => Err("another message than was sent".into()),
    }
}
