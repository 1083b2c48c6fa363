//! What the HTTP layer itself answers: unknown routes, limits, times, browsers.

use std::time::{Duration, Instant};

use crate::http_support::{Narad, answer};
use reqwest::Method;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Sends `head` as it stands and reads what comes until the server closes.
async fn raw(narad: &Narad, head: &str) -> String {
    let mut stream = TcpStream::connect(narad.server.addr()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
    assert!(closed.is_ok(), "still open: {head:.80} {}", String::from_utf8_lossy(&answer));
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_routes_and_methods_are_json_errors() {
    let narad = Narad::start().await;
    narad.create("t").await;
    for path in ["/", "/v1", "/v2/topics", "/v1/topics/t/nope", "/v1/topics/t/produce/"] {
        narad.get(path).await.error(404);
    }
    for (method, path) in [
        (Method::PUT, "/v1/topics"),
        (Method::GET, "/v1/topics/t/produce"),
        (Method::POST, "/v1/topics/t/consume"),
        (Method::DELETE, "/healthz"),
    ] {
        let refused = narad.send(method, path, "").await;
        assert!(refused.headers.contains_key("allow"), "{path}");
        refused.error(405);
    }
    narad.post("/v1/topics/t/produce", "x").await.is(202);
    let head = narad.send(Method::HEAD, "/v1/topics/t/consume?wait=5s", "").await.is(405);
    assert_eq!(head.headers["allow"], "GET");
    let post = narad.post("/v1/topics/t/consume", "").await.is(405);
    assert_eq!(post.headers["allow"], "GET", "what leases takes no HEAD");
    narad.get("/v1/topics/t/consume?wait=10s").await.is(200);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_no_topic_can_have_are_refused_on_every_route() {
    let narad = Narad::start().await;
    let long = "x".repeat(201);
    for name in ["%2e%2e", "a%2Fb", "a%00b", "a%20b", "%FF", "%C3%A4", &long] {
        for (method, tail) in [
            (Method::GET, ""),
            (Method::DELETE, ""),
            (Method::POST, "/produce"),
            (Method::GET, "/consume"),
            (Method::POST, "/ack?receipt_handle=0:0:0"),
        ] {
            let mut stream = TcpStream::connect(narad.server.addr()).await.unwrap();
            let request = format!(
                "{method} /v1/topics/{name}{tail} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx"
            );
            let request = if tail.starts_with("/ack") {
                request.replace("length: 1\r\n\r\nx", "length: 0\r\n\r\n")
            } else {
                request
            };
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            assert!(
                text.starts_with("HTTP/1.1 400") && text.contains("{\"error\":"),
                "{method} {name}{tail}: {text}"
            );
        }
    }
    let topics = narad.dir.path().join("topics");
    assert_eq!(std::fs::read_dir(topics).unwrap().count(), 0);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_beyond_its_limit_is_answered_readably() {
    let narad = Narad::start().await;
    narad.create("t").await;
    for size in [(1 << 20) + 1, 12 << 20] {
        narad.post("/v1/topics/t/produce", vec![b'x'; size]).await.error(413);
    }
    narad.post("/v1/topics/t/ack", vec![b' '; (64 << 10) + 1]).await.error(413);
    narad.post("/v1/nowhere", vec![b'x'; 2 << 20]).await.error(413);
    let asking = "POST /v1/topics/t/produce HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9000000\r\nexpect: 100-continue\r\n\r\n";
    let text = raw(&narad, asking).await;
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    narad.get("/v1/topics/t/consume").await.is(204);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_are_limited_in_size_and_time() {
    let narad = Narad::start_with(|config| {
        config.http.read_header_timeout.0 = Duration::from_millis(300);
        config.http.read_timeout.0 = Duration::from_millis(300);
    })
    .await;
    for size in [66_000, 200_000] {
        let large = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(size));
        let text = raw(&narad, &large).await;
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 431"), "{text}");
    }
    let fits = format!(
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: {}\r\n\r\n",
        "y".repeat(60_000)
    );
    assert!(raw(&narad, &fits).await.starts_with("HTTP/1.1 200"));
    let start = Instant::now();
    assert_eq!(raw(&narad, "").await, "");
    assert_eq!(raw(&narad, "GET /healthz HTTP/1.1\r\nhost:").await, "");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let text =
        raw(&narad, "POST /v1/topics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{").await;
    assert!(text.starts_with("HTTP/1.1 408") && text.contains("\"error\""), "{text}");
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_kept_open_is_closed_after_its_idle_time_whatever_the_request_was() {
    let narad = Narad::start_with(|config| config.http.idle_timeout.0 = Duration::from_millis(300)).await;
    narad.create("t").await;
    for request in [
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /nowhere HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /v1/topics/t/consume HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /v1/topics/t/consume?wait=100ms HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "POST /v1/topics/t/produce HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\nx",
    ] {
        assert!(raw(&narad, request).await.starts_with("HTTP/1.1 "), "{request}");
    }
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_whose_client_left_behind_a_second_request_takes_no_message() {
    let narad = Narad::start().await;
    narad.create("t").await;
    let mut stream = TcpStream::connect(narad.server.addr()).await.unwrap();
    let poll = "GET /v1/topics/t/consume?wait=10s HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(format!("{poll}{poll}").as_bytes()).await.unwrap();
    narad.until("/metrics", |metrics| metrics.text.contains("narad_http_requests_in_flight 2\n")).await;
    let start = Instant::now();
    drop(stream);
    narad.until("/metrics", |metrics| metrics.text.contains("narad_http_requests_in_flight 1\n")).await;
    assert!(start.elapsed() < Duration::from_secs(5), "the poll went on: {:?}", start.elapsed());
    narad.post("/v1/topics/t/produce", "x").await.is(202);
    narad.get("/v1/topics/t/consume?wait=10s").await.is(200);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_of_other_origins_and_other_hosts_are_refused() {
    let narad = Narad::start().await;
    narad.create("t").await;
    let with = |method: Method, path: &str, headers: &[(&str, &str)]| {
        let mut request = narad.client.request(method, narad.url(path)).body("x");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        answer(request)
    };
    with(Method::POST, "/v1/topics/t/produce", &[("sec-fetch-site", "cross-site")]).await.error(403);
    with(Method::POST, "/v1/topics/t/produce", &[("origin", "http://evil.example")]).await.error(403);
    with(Method::GET, "/v1/topics/t/consume", &[("sec-fetch-site", "same-site")]).await.error(403);
    with(Method::GET, "/v1/topics/t", &[("sec-fetch-site", "cross-site")]).await.is(200);
    let own = format!("http://{}", narad.server.addr());
    with(Method::POST, "/v1/topics/t/produce", &[("origin", &own)]).await.is(202);
    with(Method::POST, "/v1/topics/t/produce", &[("sec-fetch-site", "none")]).await.is(202);
    with(Method::GET, "/healthz", &[("host", "evil.example:7942")]).await.error(403);
    with(Method::GET, "/healthz", &[("host", "localhost:7942")]).await.is(200);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn consumes_in_flight_are_limited_for_each_client() {
    let narad = Narad::start_with(|config| config.http.max_consume_in_flight_per_identity = 1).await;
    narad.create("t").await;
    let (client, url) = (narad.client.clone(), narad.url("/v1/topics/t/consume?wait=10s"));
    let parked = tokio::spawn(async move {
        loop {
            // The tries below may be in the way.
            let parked = answer(client.get(&url)).await;
            if parked.status != 429 {
                return parked;
            }
        }
    });
    let refused = narad.until("/v1/topics/t/consume", |answer| answer.status == 429).await;
    assert!(refused.headers.contains_key("retry-after"));
    refused.error(429);
    narad.post("/v1/topics/t/produce", "x").await.is(202);
    parked.await.unwrap().is(200);
    narad.get("/v1/topics/t/consume").await.is(204);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_is_the_clusters_one_member() {
    let narad = Narad::start().await;
    let members = narad.get("/v1/cluster/members").await.is(200).json();
    assert_eq!(members["members"].as_array().unwrap().len(), 1);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_what_went_through() {
    let narad = Narad::start().await;
    narad.create("t").await;
    narad.post("/v1/topics/t/produce?partition=0", "four").await.is(202);
    narad.get("/v1/topics/t/consume?wait=10s").await.is(200);
    let text = narad.get("/metrics").await.is(200).text;
    for line in [
        "narad_messages_produced_total{topic=\"t\",partition=\"0\"} 1",
        "narad_bytes_consumed_total{topic=\"t\",partition=\"0\"} 4",
        "narad_http_requests_total{route=\"/v1/topics/{topic}/produce\",method=\"POST\",status=\"202\"} 1",
        "# TYPE narad_http_requests_in_flight gauge",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    narad.send(Method::DELETE, "/v1/topics/t", "").await.is(204);
    assert!(!narad.get("/metrics").await.text.contains("topic=\"t\""));
    narad.stop().await;
}
