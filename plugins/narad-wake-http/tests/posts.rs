//! What arrives at a receiver, and what becomes of it when the receiver is not as it should be.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod receiver;

use std::time::{Duration, Instant};

use narad_core::{
    plugin::{Incarnation, LogIdentity, PartitionId, WakeNotifier, WakeReason},
    units::duration::WithUnits,
};
use narad_wake_http::{HttpWake, HttpWakeConfig};
use receiver::{Answer, PATIENCE, Receiver};
use serde_json::{Value, json};

fn log(topic: &str, partition: u32) -> LogIdentity {
    LogIdentity::partition(topic, Incarnation::new(0x5eed), PartitionId(partition))
}

fn millis(ms: u64) -> WithUnits {
    WithUnits(Duration::from_millis(ms))
}

/// A notifier that waits for nothing longer than it must.
fn notifier(receiver: &Receiver, adjust: impl FnOnce(&mut HttpWakeConfig)) -> HttpWake {
    let mut config = HttpWakeConfig::new(&*receiver.url);
    (config.linger, config.max_backoff) = (millis(0), millis(1));
    adjust(&mut config);
    HttpWake::new("broker-1", config).unwrap()
}

fn committed(notifier: &HttpWake, topic: &str, partition: u32) {
    notifier.wake(&log(topic, partition), WakeReason::Committed);
}

/// All (topic, partition) of a notification.
fn told(body: &Value) -> Vec<(String, u64)> {
    let topics = body["topics"].as_array().unwrap();
    let of = |topic: &Value| -> Vec<(String, u64)> {
        let partitions = topic["partitions"].as_array().unwrap();
        partitions.iter().map(|p| (topic["name"].as_str().unwrap().to_owned(), p.as_u64().unwrap())).collect()
    };
    topics.iter().flat_map(of).collect()
}

/// Waits until `holds`; what it waits for happens in another thread.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_notification_is_a_post_of_what_the_documentation_says() {
    let receiver = Receiver::start([]);
    let notifier = notifier(&receiver, |_| ());
    committed(&notifier, "orders", 2);
    let request = receiver.next();
    assert!(request.head.starts_with("POST /wake HTTP/1.1\r\n"), "{}", request.head);
    assert!(request.head.to_ascii_lowercase().contains("content-type: application/json\r\n"));
    let topics = json!([{ "name": "orders", "id": "0000000000005eed", "partitions": [2] }]);
    assert_eq!(request.body, json!({ "from": "broker-1", "topics": topics, "more": false }));
    notifier.wake(&log("orders", 0), WakeReason::Requested);
    assert_eq!(told(&receiver.next().body), [("orders".to_owned(), 0)]);
    eventually("both are counted", || notifier.counts().taken == 2);
    assert_eq!(receiver.connections(), 1, "a connection is used again");
}

#[test]
fn what_comes_while_a_request_is_under_way_is_posted_once_with_the_next() {
    let receiver = Receiver::start([]);
    let notifier = notifier(&receiver, |config| config.linger = millis(50));
    for _ in 0..1_000 {
        for partition in 0..3 {
            committed(&notifier, "orders", partition);
        }
    }
    let mut told_of = 0;
    while told_of < 3 {
        told_of += told(&receiver.next().body).len();
    }
    eventually("the posts are counted", || notifier.counts().taken > 0);
    assert!(notifier.counts().taken <= 3, "3,000 announcements, {:?}", notifier.counts());
}

#[test]
fn a_failure_is_tried_again_with_what_came_meanwhile_and_a_refusal_is_not() {
    let receiver = Receiver::start([Answer::Status(503), Answer::Hangup, Answer::Status(429)]);
    let notifier = notifier(&receiver, |_| ());
    committed(&notifier, "orders", 0);
    for _ in 0..4 {
        assert_eq!(told(&receiver.next().body)[0], ("orders".to_owned(), 0));
        committed(&notifier, "orders", 1);
    }
    eventually("the fourth is taken", || notifier.counts().taken >= 1 && notifier.counts().failed == 3);

    let receiver = Receiver::start([Answer::Status(404)]);
    let notifier = self::notifier(&receiver, |_| ());
    committed(&notifier, "orders", 0);
    receiver.next();
    eventually("the refusal is counted", || notifier.counts().refused == 1);
    committed(&notifier, "bills", 0);
    assert_eq!(told(&receiver.next().body), [("bills".to_owned(), 0)], "and the refused one is gone");
}

#[test]
fn a_redirect_is_not_followed() {
    let receiver = Receiver::start([Answer::Status(307)]);
    let notifier = notifier(&receiver, |_| ());
    committed(&notifier, "orders", 0);
    receiver.next();
    eventually("it counts as a refusal", || notifier.counts().refused == 1);
    assert!(receiver.is_quiet());
}

#[test]
fn a_receiver_that_says_nothing_costs_a_bounded_memory_and_is_told_everything_once_it_listens() {
    let receiver = Receiver::start([Answer::Held]);
    let notifier =
        notifier(&receiver, |config| (config.timeout, config.max_pending) = (WithUnits::seconds(60), 10));
    committed(&notifier, "orders", 0);
    receiver.next();
    for round in 0..1_000 {
        for partition in 0..100 {
            committed(&notifier, if round % 2 == 0 { "orders" } else { "bills" }, partition);
        }
    }
    receiver.let_go();
    let body = receiver.next().body;
    assert_eq!((told(&body).len(), &body["more"]), (10, &json!(true)), "200 partitions have records");
    eventually("it is taken", || notifier.counts().taken == 1 && notifier.counts().failed == 1);
    committed(&notifier, "orders", 7);
    assert_eq!(receiver.next().body["more"], json!(false));
}

#[test]
fn a_receiver_that_does_not_answer_in_time_has_failed() {
    let receiver = Receiver::start([Answer::Silence]);
    let notifier = notifier(&receiver, |config| config.timeout = millis(100));
    committed(&notifier, "orders", 0);
    for _ in 0..2 {
        assert_eq!(told(&receiver.next().body), [("orders".to_owned(), 0)]);
    }
    eventually("it is taken", || notifier.counts().failed >= 1 && notifier.counts().taken == 1);
}

#[test]
fn nobody_who_listens_is_no_error_of_those_who_announce() {
    let receiver = Receiver::start([]);
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut config = HttpWakeConfig::new(format!("http://{dead}"));
    (config.linger, config.max_backoff) = (millis(0), millis(1));
    let notifier = HttpWake::new("broker-1", config).unwrap();
    committed(&notifier, "orders", 0);
    eventually("it goes on trying", || notifier.counts().failed > 3);
    drop(receiver);
}

#[test]
fn only_the_topics_that_were_asked_for_are_told_of_and_no_closing() {
    let receiver = Receiver::start([]);
    let notifier =
        notifier(&receiver, |config| config.topics = Some(["bills".to_owned()].into_iter().collect()));
    committed(&notifier, "orders", 0);
    notifier.wake(&log("bills", 1), WakeReason::Closed);
    committed(&notifier, "bills", 2);
    assert_eq!(told(&receiver.next().body), [("bills".to_owned(), 2)]);
}

#[test]
fn dropping_it_waits_for_nothing_and_posts_nothing_more() {
    let receiver = Receiver::start([Answer::Silence]);
    let notifier = notifier(&receiver, |config| config.timeout = WithUnits::seconds(600));
    committed(&notifier, "orders", 0);
    receiver.next();
    committed(&notifier, "orders", 1);
    let started = Instant::now();
    drop(notifier);
    assert!(started.elapsed() < PATIENCE, "a request that hangs for ten minutes is not waited for");
    assert!(receiver.is_quiet());
}

#[test]
fn a_token_comes_from_the_environment_and_is_shown_to_nobody() {
    // PATH is set wherever tests run, and is text that a header can hold.
    let receiver = Receiver::start([]);
    let notifier = notifier(&receiver, |config| config.bearer_token_env = Some("PATH".to_owned()));
    committed(&notifier, "orders", 0);
    let token = std::env::var("PATH").unwrap();
    assert!(receiver.next().head.contains(&format!("Bearer {token}\r\n")));
    assert!(!format!("{notifier:?}").contains(&token));
}
