//! The notifier keeps the contract of its trait, also when nobody takes what it posts.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

mod receiver;

use std::sync::Arc;

use narad_core::testkit::conformance;
use narad_wake_http::{HttpWake, HttpWakeConfig};
use receiver::{Answer, Receiver};

fn run(url: &str) {
    conformance::wake_notifier(|| Arc::new(HttpWake::new("broker-1", HttpWakeConfig::new(url)).unwrap()));
}

#[test]
fn with_a_receiver_that_takes_everything() {
    run(&Receiver::start([]).url);
}

#[test]
fn with_a_receiver_that_says_nothing() {
    run(&Receiver::start([Answer::Silence; 64]).url);
}

#[test]
fn with_nobody_there() {
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    run(&format!("http://{dead}/wake"));
}
