//! The built binary with all the connections that it takes by default: consumers that wait and producers. Each message
//! wakes one consumer, whoever comes later waits for a place, and the server stays answerable.
//!
//! It takes 4096 descriptors on both sides: where the hard limit of open files is below 8400 it says so and is skipped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]
#![cfg(target_os = "linux")]

mod real_broker;

use std::{collections::BTreeSet, io::ErrorKind, net::SocketAddr, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use real_broker::{Broker, serve};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

const BOUND: Duration = Duration::from_secs(120);
/// `http.max_connections` by default.
const CONNECTIONS: usize = 4096;
const PRODUCERS: usize = 512;

async fn connect(to: SocketAddr, number: usize) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    // Consumes are bounded by the client's address.
    socket.bind(([127, 0, 0, 2 + u8::try_from(number % 8).unwrap()], 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

async fn send(stream: &mut TcpStream, method: &str, path: &str, body: &str) {
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
}

/// The status of the answer that comes next, and its body.
async fn answer(stream: &mut TcpStream) -> (u16, String) {
    let mut text = Vec::new();
    loop {
        let so_far = String::from_utf8_lossy(&text).into_owned();
        if let Some((head, body)) = so_far.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            if body.len() >= length.map_or(0, |length| length.trim().parse().unwrap()) {
                return (head[9..12].parse().unwrap(), body.to_owned());
            }
        }
        let read = timeout(BOUND, stream.read_buf(&mut text)).await.expect("no answer").unwrap();
        assert!(read > 0, "the connection was closed");
    }
}

async fn get(stream: &mut TcpStream, path: &str) -> String {
    send(stream, "GET", path, "").await;
    let (status, body) = answer(stream).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

async fn in_flight(observer: &mut TcpStream, expected: usize) {
    let line = format!("narad_http_requests_in_flight {expected}\n");
    let asking = async { while !get(observer, "/metrics").await.contains(&line) {} };
    timeout(BOUND, asking).await.unwrap_or_else(|_| panic!("not {expected} in flight"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_connection_is_served_and_the_next_waits_for_a_place() {
    let hard = getrlimit(Resource::Nofile).maximum;
    if hard.is_some_and(|hard| hard < 8400) {
        eprintln!("notice: skipped, for the hard limit of open files is {hard:?} and 8400 are needed");
        return;
    }
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut command = serve(dir.path());
    command.env("NARAD_HTTP_MAX_CONSUME_WAIT", "5m").env("NARAD_HTTP_SHUTDOWN_GRACE", "5m");
    let broker = Broker::spawn(command).unwrap();
    broker.ready().await;
    broker.create_topic("t").await;
    let address: SocketAddr = broker.url().replace("http://", "").parse().unwrap();

    let mut crowd = Vec::new();
    for number in 0..CONNECTIONS {
        crowd.push(connect(address, number).await);
    }
    let mut parked = crowd.split_off(PRODUCERS + 1);
    let mut observer = crowd.pop().unwrap();
    let mut producers = crowd;
    for consumer in &mut parked {
        send(consumer, "GET", "/v1/topics/t/consume?wait=5m", "").await;
    }
    in_flight(&mut observer, parked.len() + 1).await;
    for (number, producer) in producers.iter_mut().enumerate() {
        send(producer, "POST", "/v1/topics/t/produce", &format!("\"{number}\"")).await;
    }
    for producer in &mut producers {
        assert_eq!(answer(producer).await.0, 202);
    }
    in_flight(&mut observer, parked.len() + 1 - PRODUCERS).await;

    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", broker.pid())).unwrap().count();
    eprintln!("{descriptors} descriptors");
    let answers = parked.into_iter().map(|mut consumer| async move { answer(&mut consumer).await });
    let (mut answers, mut payloads) = (answers.collect::<FuturesUnordered<_>>(), BTreeSet::new());
    for _ in 0..PRODUCERS {
        let (status, body) = answers.next().await.unwrap();
        assert_eq!(status, 200, "{body}");
        let message: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert!(payloads.insert(message["payload"].to_string()), "{message} came twice");
    }
    drop((answers, producers));

    // Others take the places of those that have gone, and one more has none.
    let mut others = Vec::new();
    for number in 1..CONNECTIONS {
        let mut other = connect(address, number).await;
        get(&mut other, "/healthz").await;
        others.push(other);
    }
    let mut late = connect(address, 0).await;
    send(&mut late, "GET", "/healthz", "").await;
    for _ in 0..50 {
        get(&mut observer, "/healthz").await;
    }
    assert!(late.try_read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
    drop(others.pop());
    assert_eq!(answer(&mut late).await.0, 200);
    drop((others, late, observer));
    assert!(broker.terminate().await.success());
}
