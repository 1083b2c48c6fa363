//! Requests that are odd and not hostile, over real sockets: each gets a small JSON error, and the connection goes on.

use std::time::Duration;

use crate::http_support::Narad;
use reqwest::Method;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// One connection, kept open.
struct Raw(TcpStream);

impl Raw {
    async fn to(narad: &Narad) -> Self {
        Self(TcpStream::connect(narad.server.addr()).await.unwrap())
    }

    /// The status and the body of the answer to one request.
    async fn ask(&mut self, method: &str, target: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.0.write_all(request.as_bytes()).await.unwrap();
        let (mut answer, mut bytes) = (String::new(), [0; 4096]);
        loop {
            let read = tokio::time::timeout(Duration::from_secs(20), self.0.read(&mut bytes)).await;
            let read =
                read.unwrap_or_else(|_| panic!("no answer to {method} {target:.100}: {answer}")).unwrap();
            assert!(read > 0, "closed after {method} {target:.100}: {answer}");
            answer.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
            let Some((head, body)) = answer.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.parse::<usize>().unwrap());
            if method == "HEAD" || body.len() >= length {
                return (head[9..12].parse().unwrap(), body.to_owned());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_goes_on_after_every_refusal() {
    let narad = Narad::start().await;
    narad.create("t").await;
    let mut raw = Raw::to(&narad).await;
    for (method, target, body, status) in [
        ("POST", "/v1/topics/t/produce", "", 400),
        ("GET", "/v1/nowhere", "", 404),
        ("PUT", "/v1/topics", "{}", 405),
        ("OPTIONS", "/v1/topics/t/produce", "", 405),
        ("BREW", "/healthz", "", 405),
        ("POST", "/v1/topics", "{\"name\":\"t\"}", 409),
        ("POST", "/v1/topics", "no json", 400),
        ("POST", "/v1/topics", "{\"name\":\"x\",\"nmae\":1}", 400),
        ("POST", "/v1/topics/t/ack?receipt_handle=0:0:0", "", 410),
        ("GET", "/v1/topics/gone/consume", "", 404),
    ] {
        let (got, answer) = raw.ask(method, target, body).await;
        assert_eq!(got, status, "{method} {target}: {answer}");
        let error: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert!(
            error["error"].as_str().is_some_and(|error| !error.is_empty()),
            "{method} {target}: {answer}"
        );
    }
    assert_eq!(raw.ask("HEAD", "/v1/topics/t", "").await, (200, String::new()));
    assert_eq!(raw.ask("HEAD", "/v1/nowhere", "").await.0, 404);
    assert_eq!(raw.ask("POST", "/v1/topics/t/produce", "x").await.0, 202);
    assert_eq!(raw.ask("GET", "/v1/topics/t/consume?wait=10s", "").await.0, 200);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_are_repeated_or_malformed_are_refused_by_name() {
    let narad = Narad::start().await;
    narad.create("t").await;
    for (method, target, name) in [
        ("POST", "/v1/topics/t/produce?partition=0&partition=1", "partition"),
        ("POST", "/v1/topics/t/produce?partition=x", "partition"),
        ("POST", "/v1/topics/t/produce?partition=", "partition"),
        ("POST", "/v1/topics/t/produce?partition=-1", "partition"),
        ("POST", "/v1/topics/t/produce?partition=3", "partition"),
        ("POST", "/v1/topics/t/produce?key=a&key=a", "key"),
        ("POST", "/v1/topics/t/produce?key=%zz", "key"),
        ("GET", "/v1/topics/t/consume?wait=5", "wait"),
        ("GET", "/v1/topics/t/consume?wait=1s&wait=1s", "wait"),
        ("GET", "/v1/topics/t/consume?wait=soon", "wait"),
        ("GET", "/v1/topics/t/consume?max=0", "max"),
        ("GET", "/v1/topics/t/consume?max=101", "max"),
        ("GET", "/v1/topics/t/consume?max=1&max=1", "max"),
        ("GET", "/v1/topics/t/consume?partition=3", "partition"),
        ("GET", "/v1/topics/t/consume?partition=0&offset=-1", "offset"),
        ("GET", "/v1/topics/t/consume?partition=0&offset=0&max=2", "max"),
        ("POST", "/v1/topics/t/ack?receipt_handle=a&receipt_handle=a", "receipt_handle"),
        ("POST", "/v1/topics/t/ack?receipt_handle=nonsense", "receipt_handle"),
        ("POST", "/v1/topics/t/ack?receipt_handle=0:0:0&extend=maybe", "extend"),
        ("GET", "/v1/topics?limit=none", "limit"),
        ("GET", "/v1/topics/t?partition=9", "partition"),
    ] {
        let body = if target.contains("/produce") { "x" } else { "" };
        let refused = narad.send(Method::from_bytes(method.as_bytes()).unwrap(), target, body).await;
        let error = refused.error(400);
        assert!(error.contains(name), "{target}: {error}");
    }
    // What nobody knows is nobody's business.
    narad.post("/v1/topics/t/produce?colour=red&colour=blue&%zz", "x").await.is(202);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_as_names_are_refused_on_every_route() {
    let narad = Narad::start().await;
    for name in ["..", ".", "%2e%2e", "%2E", "a%2Fb", "..%2f..%2fetc", "a%00b", "%00", "a%5Cb", "%ff"] {
        for (method, rest, body) in [
            ("GET", "", ""),
            ("PATCH", "", "{\"retention_ms\":0}"),
            ("DELETE", "", ""),
            ("POST", "/produce", "x"),
            ("POST", "/produce/batch", "{\"messages\":[{\"payload\":1}]}"),
            ("GET", "/consume", ""),
            ("GET", "/consume?partition=0&offset=0", ""),
            ("POST", "/ack?receipt_handle=0:0:0", ""),
            ("POST", "/ack", "{\"receipt_handles\":[\"0:0:0\"]}"),
            ("GET", "/schema", ""),
        ] {
            let mut raw = Raw::to(&narad).await;
            let (status, answer) = raw.ask(method, &format!("/v1/topics/{name}{rest}"), body).await;
            assert!(
                status == 400 && answer.contains("\"error\""),
                "{method} {name}{rest}: {status} {answer}"
            );
        }
        narad
            .post("/v1/topics", serde_json::json!({"name": name.replace('%', "/")}).to_string())
            .await
            .error(400);
    }
    assert_eq!(std::fs::read_dir(narad.dir.path().join("topics")).unwrap().count(), 0);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_too_long_is_answered_and_nothing_else_suffers() {
    let narad = Narad::start().await;
    for length in [60_000, 66_000, 300_000] {
        let mut stream = TcpStream::connect(narad.server.addr()).await.unwrap();
        let head = format!(
            "GET /healthz?x={} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
            "y".repeat(length)
        );
        // The end of it may not be taken any more.
        let _ = stream.write_all(head.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer))
            .await
            .expect("an end");
        let answer = String::from_utf8_lossy(&answer);
        let expected = if length < 65_000 { ["200", "200"] } else { ["414", "431"] };
        assert!(
            answer.is_empty() && length > 65_000
                || expected.iter().any(|status| answer.starts_with(&format!("HTTP/1.1 {status}"))),
            "{length}: {answer}"
        );
    }
    narad.get("/healthz").await.is(200);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_limit_wait_and_are_served_when_others_end() {
    let narad = Narad::start_with(|config| config.http.max_connections = 2).await;
    let mut held = vec![Raw::to(&narad).await, Raw::to(&narad).await];
    for raw in &mut held {
        assert_eq!(raw.ask("GET", "/healthz", "").await.0, 200);
    }
    let mut waiting = Raw::to(&narad).await;
    let asked = tokio::spawn(async move { waiting.ask("GET", "/healthz", "").await.0 });
    assert_eq!(held[0].ask("GET", "/healthz", "").await.0, 200);
    assert!(!asked.is_finished());
    drop(held.pop());
    assert_eq!(asked.await.unwrap(), 200);
    drop(held);
    narad.stop().await;
}
