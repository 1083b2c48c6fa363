//! The notifier on a log that runs: every commit is told of, and none waits for the network.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod receiver;

use std::{path::Path, sync::Arc};

use narad_core::{
    format::Batch,
    log::{Log, LogOptions},
    runtime::{Runtime, RuntimeOptions},
    testkit::{SimDisk, Verbatim},
};
use narad_wake_http::{HttpWake, HttpWakeConfig};
use receiver::{Answer, Receiver};
use serde_json::json;

fn open(url: &str) -> (Log, Arc<HttpWake>) {
    let mut runtime = RuntimeOptions::default();
    runtime.disk = Arc::new(SimDisk::new(1));
    let wake = Arc::new(HttpWake::new("here", HttpWakeConfig::new(url)).unwrap());
    let mut options = LogOptions::new("orders", Arc::new(Verbatim));
    options.wake = wake.clone();
    (Log::open(&Runtime::new(runtime), Path::new("/data/orders"), options).unwrap(), wake)
}

#[test]
fn a_commit_is_told_of() {
    let receiver = Receiver::start([]);
    let (log, _) = open(&receiver.url);
    log.commit(Batch::of(b"key", b"payload")).unwrap();
    let topics = json!([{ "name": "orders", "partitions": [0] }]);
    assert_eq!(receiver.next().body, json!({ "from": "here", "topics": topics, "more": false }));
    log.close().unwrap();
}

#[test]
fn commits_go_on_while_the_receiver_says_nothing() {
    let receiver = Receiver::start([Answer::Silence; 64]);
    let (log, wake) = open(&receiver.url);
    log.commit(Batch::of(b"key", b"payload")).unwrap();
    receiver.next();
    // The request hangs for the five seconds of its timeout; these do not.
    for _ in 0..1_000 {
        log.commit(Batch::of(b"key", b"payload")).unwrap();
    }
    assert_eq!(wake.counts().taken, 0);
    log.close().unwrap();
}
