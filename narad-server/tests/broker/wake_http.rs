//! `storage.wake`: a broker tells a URL that a topic has messages, and nobody waits for whoever listens there.

use std::time::Duration;

use crate::http_support::Narad;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// Longer than anything takes that does not hang, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The body of the next request on the connection.
async fn body(connection: &mut BufReader<TcpStream>) -> Value {
    let mut length = 0;
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).await.unwrap();
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None if line == "\r\n" => break,
            None => assert_eq!(line, "POST /wake HTTP/1.1\r\n"),
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await.unwrap();
    serde_json::from_slice(&body).unwrap()
}

async fn start(receiver: &TcpListener) -> Narad {
    let url = format!("http://{}/wake", receiver.local_addr().unwrap());
    let narad = Narad::start_with(|config| {
        config.node.id = "broker-1".to_owned();
        config.storage.wake = json!({ "name": "http", "url": url, "linger": "0s", "max_backoff": "1ms" });
    });
    let narad = narad.await;
    narad.ready().await;
    narad
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_told_of_and_told_again_when_the_receiver_has_gone() {
    let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let narad = start(&receiver).await;
    let topic = narad.create("orders").await;
    narad.post("/v1/topics/orders/produce?partition=1", "a message").await.is(202);
    let told = json!({
        "from": "broker-1", "topics": [{ "name": "orders", "id": topic["id"], "partitions": [1] }], "more": false
    });
    for answered in [false, true] {
        let (connection, _) = timeout(PATIENCE, receiver.accept()).await.unwrap().unwrap();
        let mut connection = BufReader::new(connection);
        assert_eq!(timeout(PATIENCE, body(&mut connection)).await.unwrap(), told);
        if answered {
            connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        }
    }
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_says_nothing_holds_nobody_up() {
    let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let narad = start(&receiver).await;
    narad.create("orders").await;
    for _ in 0..50 {
        narad.post("/v1/topics/orders/produce", "a message").await.is(202);
        narad.get("/v1/topics/orders/consume?wait=10s").await.is(200);
    }
    let (_silent, _) = timeout(PATIENCE, receiver.accept()).await.unwrap().unwrap();
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_that_nothing_can_be_posted_to_stops_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = crate::http_support::config(dir.path());
    config.storage.wake = json!({ "name": "http", "url": "ftp://there" });
    let refused = narad_server::serve::Server::start(config).await.map(drop).unwrap_err().to_string();
    assert!(
        refused.contains("wake notifier \"http\"") && refused.contains("cannot post to ftp"),
        "{refused}"
    );
}
