//! Batches that are sent compressed, over real sockets.

use std::io::Write;

use crate::http_support::{Answer, Narad, answer};
use serde_json::json;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

async fn send(narad: &Narad, path: &str, encoding: &str, body: Vec<u8>) -> Answer {
    let request = narad.client.post(narad.url(path)).header("content-encoding", encoding);
    answer(request.body(body)).await
}

const BATCH: &str = "/v1/topics/t/produce/batch";

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_may_be_sent_as_zstd_or_gzip() {
    let narad = Narad::start().await;
    narad.create("t").await;
    let messages: Vec<_> = (0..1000).map(|n| json!({"payload": {"n": n}, "partition": 0})).collect();
    let body = json!({"messages": messages}).to_string().into_bytes();
    for (encoding, body) in [("zstd", zstd(&body)), ("GZip", gzip(&body)), ("identity", body.clone())] {
        let accepted = send(&narad, BATCH, encoding, body).await.is(202).json();
        assert_eq!(accepted, json!({"accepted": 1000}), "{encoding}");
    }
    narad.until("/v1/topics/t/consume?partition=0&offset=2999", |answer| answer.status == 200).await;
    for offset in [0, 999, 1000, 1999, 2999] {
        let message =
            narad.get(&format!("/v1/topics/t/consume?partition=0&offset={offset}")).await.is(200).json();
        assert_eq!(message["payload"], json!({"n": offset % 1000}));
    }
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_what_it_says_or_too_large_is_refused_and_the_connection_goes_on() {
    let narad = Narad::start().await;
    narad.create("t").await;
    let body = br#"{"messages":[{"payload":1}]}"#;
    for (name, encode) in [("zstd", zstd as fn(&[u8]) -> Vec<u8>), ("gzip", gzip)] {
        let good = encode(body);
        send(&narad, BATCH, name, good[..good.len() - 1].to_vec()).await.error(400);
        send(&narad, BATCH, name, [&good[..], b"garbage"].concat()).await.error(400);
        send(&narad, BATCH, name, body.to_vec()).await.error(400);
        send(&narad, BATCH, name, Vec::new()).await.error(400);
        // A few kilobytes that become a gigabyte's sixteenth and one byte.
        send(&narad, BATCH, name, encode(&vec![b' '; (16 << 20) + 1])).await.error(413);
        send(&narad, BATCH, name, encode(&vec![b' '; 16 << 20])).await.error(400);
        let refused =
            send(&narad, BATCH, name, encode(br#"{"messages":[{"payload":1},{"paylod":1}]}"#)).await;
        assert!(refused.error(400).starts_with("message 1: "));
    }
    for encoding in ["br", "gzip, zstd", "deflate"] {
        send(&narad, BATCH, encoding, gzip(body)).await.error(415);
    }
    narad.get("/v1/topics/t/consume?wait=100ms").await.is(204);
    send(&narad, BATCH, "gzip", gzip(body)).await.is(202);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_message_is_stored_as_it_was_sent_whatever_its_encoding() {
    let narad = Narad::start().await;
    narad.create("t").await;
    let bytes = gzip(b"hello");
    send(&narad, "/v1/topics/t/produce", "gzip", bytes.clone()).await.is(202);
    let message = narad.get("/v1/topics/t/consume?wait=10s").await.is(200).json();
    assert_eq!(message["payload_encoding"], "base64");
    use base64::Engine;
    let payload =
        base64::engine::general_purpose::STANDARD.decode(message["payload"].as_str().unwrap()).unwrap();
    assert_eq!(payload, bytes);
    narad.stop().await;
}
