//! Clients that leave, or close their side and wait for the answer, over real sockets.

use std::time::{Duration, Instant};

use crate::http_support::Narad;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::TcpStream,
};

/// Far less than a lease lasts, and far more than anything takes.
const SOON: Duration = Duration::from_secs(10);

async fn send(narad: &Narad, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(narad.server.addr()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}

/// Sends, closes this side, and reads what comes.
async fn half_closed(narad: &Narad, request: &str) -> String {
    let mut stream = send(narad, request).await;
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(SOON, stream.read_to_string(&mut answer)).await.expect("an answer").unwrap();
    answer
}

async fn parked(narad: &Narad, count: u32) {
    // Its own request is one more.
    let line = format!("narad_http_requests_in_flight {}\n", count + 1);
    narad.until("/metrics", |metrics| metrics.text.contains(&line)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_closes_its_side_gets_its_answer() {
    let narad = Narad::start().await;
    narad.create("t").await;
    let produce = "POST /v1/topics/t/produce HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nhello";
    let answer = half_closed(&narad, produce).await;
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    // Until it is there to be had.
    narad
        .until("/metrics", |metrics| metrics.text.contains("narad_ingress_dispatch_backlog_records 0\n"))
        .await;
    let answer = half_closed(&narad, &get("/v1/topics/t/consume")).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"hello\""), "{answer}");
    for path in ["/v1/topics/t", "/healthz", "/v1/nowhere"] {
        let answer = half_closed(&narad, &get(path)).await;
        assert!(answer.contains("\r\ncontent-length: ") && answer.ends_with('}'), "{path}: {answer}");
    }
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_poll_whose_client_closes_its_side_is_answered_with_what_is_there() {
    let narad = Narad::start().await;
    narad.create("t").await;
    let mut stream = send(&narad, &get("/v1/topics/t/consume?wait=10s")).await;
    parked(&narad, 1).await;
    let start = Instant::now();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    assert!(start.elapsed() < Duration::from_secs(8), "it was answered when its wait was over");
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_while_it_waits_takes_no_message() {
    let narad = Narad::start().await;
    narad.create("t").await;
    let stream = send(&narad, &get("/v1/topics/t/consume?wait=10s")).await;
    parked(&narad, 1).await;
    drop(stream);
    parked(&narad, 0).await;
    narad.post("/v1/topics/t/produce", "x").await.is(202);
    narad.get("/v1/topics/t/consume?wait=10s").await.is(200);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_before_it_reads_its_answer_gives_the_messages_back() {
    let narad = Narad::start().await;
    narad.create("t").await;
    for close in ["keep-alive", "close"] {
        for payload in ["one", "two"] {
            narad.post("/v1/topics/t/produce?partition=0", payload).await.is(202);
        }
        narad
            .until("/metrics", |metrics| metrics.text.contains("narad_ingress_dispatch_backlog_records 0\n"))
            .await;
        let request = format!(
            "GET /v1/topics/t/consume?wait=10s&max=2 HTTP/1.1\r\nhost: localhost\r\nconnection: {close}\r\n\r\n"
        );
        let stream = send(&narad, &request).await;
        stream.ready(Interest::READABLE).await.unwrap();
        // The answer is here, and nobody looks at it.
        drop(stream);
        let again = Instant::now();
        let mut handles = Vec::new();
        while handles.len() < 2 {
            let message = narad.get("/v1/topics/t/consume?wait=10s").await.is(200).json();
            handles.push(message["receipt_handle"].as_str().unwrap().to_owned());
        }
        assert!(again.elapsed() < SOON, "they came back when their leases ended");
        for handle in handles {
            narad.post(&format!("/v1/topics/t/ack?receipt_handle={handle}"), "").await.is(204);
        }
    }
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_its_answer_and_leaves_keeps_its_message() {
    let narad = Narad::start().await;
    narad.create("t").await;
    narad.post("/v1/topics/t/produce", "x").await.is(202);
    let mut stream = send(&narad, &get("/v1/topics/t/consume?wait=10s")).await;
    let (mut answer, mut bytes) = (String::new(), [0; 1024]);
    while !answer.ends_with('}') {
        let read = stream.read(&mut bytes).await.unwrap();
        answer.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
    }
    drop(stream);
    narad.get("/v1/topics/t/consume?wait=300ms").await.is(204);
    let handle = answer.split("\"receipt_handle\":\"").nth(1).unwrap().split('"').next().unwrap();
    narad.post(&format!("/v1/topics/t/ack?receipt_handle={handle}"), "").await.is(204);
    narad.stop().await;
}
