//! `narad sub` and `narad replay`: bytes out as they went in, acks only after that.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::stub::{Answer, Asked, Stub};
use serde_json::{Value, json};

/// Payloads as `/v1` writes them, and the bytes they stand for.
const PAYLOADS: [(&str, &[u8]); 5] = [
    (r#"{"a": 1.0,  "b":[1]}"#, br#"{"a": 1.0,  "b":[1]}"#),
    (" 42 ", b" 42 "),
    (r#""hello""#, b"hello"),
    (r#""hello""#, br#""hello""#),
    (r#""AP8=""#, b"\0\xFF"),
];
const TYPES: [&str; 5] = ["json", "json", "text", "json", "binary"];

fn message(index: usize) -> String {
    let (payload, _) = PAYLOADS[index];
    let encoding = if TYPES[index] == "binary" { r#","payload_encoding":"base64""# } else { "" };
    format!(
        r#"{{"topic":"t","partition":0,"offset":{index},"payload":{payload}{encoding},"payload_type":"{}","timestamp":1700000000,"receipt_handle":"0:{index}:77"}}"#,
        TYPES[index]
    )
}

/// A topic of all payloads: hands out up to `max` from where it stands, and acks everything.
async fn topic() -> Stub {
    let next = AtomicUsize::new(0);
    Stub::start(move |asked| {
        if asked.request.contains("/ack") {
            return ack_all(asked, 204);
        }
        let from = next.load(Ordering::SeqCst);
        let to = PAYLOADS.len().min(from + max(asked));
        next.store(to, Ordering::SeqCst);
        match (from..to).map(message).collect::<Vec<_>>() {
            none if none.is_empty() => Answer::status(204),
            some => Answer::body(200, &format!(r#"{{"messages":[{}]}}"#, some.join(","))),
        }
    })
    .await
}

fn max(asked: &Asked) -> usize {
    let (_, query) = asked.request.split_once('?').unwrap();
    query.split('&').find_map(|part| part.strip_prefix("max=")).unwrap().parse().unwrap()
}

fn receipts(asked: &Asked) -> Vec<String> {
    let body: Value = serde_json::from_slice(&asked.body).unwrap();
    serde_json::from_value(body["receipt_handles"].clone()).unwrap()
}

fn ack_all(asked: &Asked, status: u16) -> Answer {
    let results: Vec<Value> = receipts(asked).iter().map(|_| json!({"status": status})).collect();
    Answer::body(200, &json!({"results": results}).to_string())
}

fn acks(stub: &Stub) -> Vec<Asked> {
    stub.asked().into_iter().filter(|asked| asked.request.contains("/ack")).collect()
}

fn all_lines() -> Vec<u8> {
    PAYLOADS.iter().flat_map(|(_, bytes)| [bytes, &b"\n"[..]].concat()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_gives_every_payload_byte_for_byte_and_acks_it() {
    let stub = topic().await;
    let ran = stub.narad(&["sub", "t", "--raw", "--wait", "0"], b"").await;
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout, all_lines());
    let acks = acks(&stub);
    assert_eq!(acks.len(), 1);
    assert_eq!(acks[0].request, "POST /v1/topics/t/ack");
    assert_eq!(receipts(&acks[0]), ["0:0:77", "0:1:77", "0:2:77", "0:3:77", "0:4:77"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn max_leases_no_more_than_it_writes() {
    let stub = topic().await;
    let ran = stub.narad(&["sub", "t", "--max", "2", "--partition", "0"], b"").await;
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout, b"{\"a\": 1.0,  \"b\":[1]}\n 42 \n");
    let asked = stub.asked();
    assert_eq!(asked.len(), 2, "one consume and one ack");
    assert_eq!(asked[0].request, "GET /v1/topics/t/consume?wait=10000ms&max=2&partition=0");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_ack_settles_nothing() {
    let stub = topic().await;
    let ran = stub.narad(&["sub", "t", "--no-ack", "--wait", "0"], b"").await;
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout, all_lines());
    assert!(acks(&stub).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_one_object_a_line() {
    let stub = topic().await;
    let ran = stub.narad(&["--json", "sub", "t", "--wait", "0"], b"").await;
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let objects = ran.objects();
    assert_eq!(objects.len(), PAYLOADS.len());
    assert_eq!(objects[0]["payload"], json!({"a": 1.0, "b": [1]}));
    assert_eq!((&objects[4]["payload_encoding"], &objects[4]["payload"]), (&json!("base64"), &json!("AP8=")));
    assert_eq!(objects[2]["receipt_handle"], "0:2:77");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_that_is_gone_is_reported() {
    let stub = topic().await;
    let results = json!({"results": [{"status": 204}, {"status": 410, "error": "the lease ran out"}]});
    stub.script("/ack", [Answer::body(200, &results.to_string())]);
    let ran = stub.narad(&["sub", "t", "--max", "2"], b"").await;
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("partition 0 offset 1: not acked"), "{}", ran.stderr);
    assert!(ran.stderr.contains("the lease ran out"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_away_is_no_error_and_messages_go_back() {
    let stub = topic().await;
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut narad = std::process::Command::new(env!("CARGO_BIN_EXE_narad"));
    narad.args(["--server", stub.address(), "sub", "t", "--raw", "--wait", "0"]).stdout(writer);
    let output = tokio::task::spawn_blocking(move || narad.output().unwrap()).await.unwrap();
    assert!(output.status.success());
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let acks = acks(&stub);
    assert_eq!(acks.len(), 1);
    assert_eq!(acks[0].request, "POST /v1/topics/t/ack?extend=0", "given back, not acked");
    assert_eq!(receipts(&acks[0]).len(), PAYLOADS.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_away_while_nothing_comes_ends_it() {
    let stub = topic().await;
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut narad = std::process::Command::new(env!("CARGO_BIN_EXE_narad"));
    narad.args(["--server", stub.address(), "sub", "t", "--raw"]).stdout(writer);
    let mut child = narad.spawn().unwrap();
    drop(narad);
    let mut lines = vec![0; all_lines().len()];
    let read = move || std::io::Read::read_exact(&mut reader, &mut lines).map(|()| lines);
    assert_eq!(tokio::task::spawn_blocking(read).await.unwrap().unwrap(), all_lines());
    // The reader is gone, and no message comes that could tell.
    let ended = async {
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let ended = tokio::time::timeout(std::time::Duration::from_secs(120), ended).await;
    let _ = child.kill();
    assert!(ended.expect("it goes on although nobody reads").success());
}

/// Reads a request from `connection` up to the end of its head and body. Returns its first line.
fn read_request(connection: &std::net::TcpStream) -> String {
    use std::io::{BufRead, Read};
    let mut reader = std::io::BufReader::new(connection);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        if header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    first
}

/// Answers the next request on a connection of its own. Returns the request's first line.
fn answer_one(listener: &std::net::TcpListener, body: &str) -> String {
    let (mut connection, _) = listener.accept().unwrap();
    let first = read_request(&connection);
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    std::io::Write::write_all(&mut connection, format!("{head}{body}").as_bytes()).unwrap();
    first
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_restarts_is_waited_for() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let at = address.clone();
    let server = std::thread::spawn(move || {
        let batch = |index| format!(r#"{{"messages":[{}]}}"#, message(index));
        answer_one(&listener, &batch(0));
        let acked = answer_one(&listener, r#"{"results":[{"status":204}]}"#);
        assert!(acked.contains("/ack"), "{acked}");
        // The next consume loses its answer, then nobody listens for a moment.
        let (connection, _) = listener.accept().unwrap();
        read_request(&connection);
        crate::stub::close(listener);
        drop(connection);
        let listener = std::net::TcpListener::bind(&at).unwrap();
        answer_one(&listener, &batch(1));
        answer_one(&listener, r#"{"results":[{"status":204}]}"#);
    });
    let ran = crate::stub::narad(&address, &["sub", "t", "--max", "2", "--raw"], b"").await;
    assert_eq!(
        (ran.status, &ran.stdout[..]),
        (0, &b"{\"a\": 1.0,  \"b\":[1]}\n 42 \n"[..]),
        "{}",
        ran.stderr
    );
    server.join().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_does_not_come_back_is_an_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        answer_one(&listener, &format!(r#"{{"messages":[{}]}}"#, message(0)));
    });
    let ran = crate::stub::narad(&address, &["sub", "t", "--no-ack", "--raw"], b"").await;
    server.join().unwrap();
    assert_eq!(ran.status, 1);
    assert_eq!(ran.stdout, b"{\"a\": 1.0,  \"b\":[1]}\n", "what had come was written");
    assert!(ran.stderr.contains(&address), "{}", ran.stderr);
}

/// A partition whose offsets 0 and 1 have aged out, and whose offset 3 cannot be read.
async fn partition() -> Stub {
    Stub::start(|asked| {
        let Some((_, offset)) = asked.request.split_once("offset=") else {
            let stats = json!([{"index": 1, "oldest_offset": 2, "next_offset": 5, "high_watermark": 5}]);
            return Answer::body(
                200,
                &json!({"name": "t", "id": "00000000000000aa", "partitions": 3, "retention_ms": 0,
                        "visibility_timeout_ms": 30000, "max_in_flight_per_partition": 1024,
                        "max_acked_ahead_per_partition": 1024, "created_at": 1_700_000_000,
                        "role": "standalone", "partition_stats": stats})
                .to_string(),
            );
        };
        match offset.parse::<usize>().unwrap() {
            0 | 1 => Answer::body(410, r#"{"error":"aged out"}"#),
            3 => Answer::body(410, r#"{"error":"record 3 cannot be read"}"#),
            past if past > 4 => Answer::status(204),
            offset => Answer::body(200, &message(offset).replace(r#","receipt_handle""#, r#","unknown""#)),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_passes_over_what_is_gone_and_ends_at_the_end() {
    let stub = partition().await;
    let ran = stub.narad(&["replay", "t", "--partition", "1"], b"").await;
    assert_eq!(ran.stdout, b"hello\n\0\xFF\n");
    assert!(ran.stderr.contains("offset 3: passed over: record 3 cannot be read"), "{}", ran.stderr);
    assert_eq!(ran.status, 1, "not all of it could be read");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_records_that_cannot_be_read_is_one_complaint() {
    let stub = partition().await;
    for offset in 2..5 {
        let gone = Answer::body(410, &format!(r#"{{"error":"record {offset} cannot be read"}}"#));
        stub.script(&format!("offset={offset}"), [gone]);
    }
    let ran = stub.narad(&["replay", "t", "--partition", "1"], b"").await;
    assert_eq!((ran.status, ran.stdout.as_slice()), (1, &b""[..]));
    assert_eq!(ran.stderr, "narad: offsets 2 to 4: passed over: record 2 cannot be read\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_from_beyond_the_end_says_so() {
    let stub = partition().await;
    let ran = stub.narad(&["replay", "t", "--partition", "1", "--from", "5"], b"").await;
    assert_eq!((ran.status, ran.stdout.as_slice()), (0, &b""[..]));
    assert_eq!(ran.stderr, "nothing is at offset 5 yet: the end of partition 1 is 5\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn peek_shows_what_waits_and_leases_nothing() {
    let stub = partition().await;
    let ran = stub.narad(&["sub", "t", "--peek"], b"").await;
    assert_eq!(ran.stdout, b"hello\n\0\xFF\n");
    assert!(ran.stderr.contains("offset 3: passed over"), "{}", ran.stderr);
    assert_eq!(ran.status, 1);
    let ran = stub.narad(&["sub", "t", "--peek", "--max", "1", "--json"], b"").await;
    assert_eq!((ran.status, ran.objects().len()), (0, 1), "{}", ran.stderr);
    let requests = stub.asked();
    assert!(requests.iter().all(|asked| asked.request.starts_with("GET")));
    let consumes: Vec<_> = requests.iter().filter(|asked| asked.request.contains("/consume")).collect();
    assert!(consumes.iter().all(|asked| asked.request.contains("offset=")), "{consumes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_includes_both_ends() {
    let stub = partition().await;
    let ran =
        stub.narad(&["--json", "replay", "t", "--partition", "1", "--from", "2", "--to", "2"], b"").await;
    assert_eq!((ran.status, ran.objects().len()), (0, 1), "{}", ran.stderr);
    let read: Vec<_> = stub.asked().into_iter().filter(|asked| asked.request.contains("offset=")).collect();
    assert_eq!(read.len(), 1, "nothing past --to is asked for");
    let ran = stub.narad(&["replay", "t", "--partition", "1", "--from", "0", "--to", "2"], b"").await;
    assert_eq!(ran.stdout, b"hello\n");
    assert!(
        ran.stderr.contains("offsets 0 to 1: passed over: aged out; the oldest kept is 2"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.status, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_and_json_exclude_each_other() {
    let stub = topic().await;
    let ran = stub.narad(&["--json", "sub", "t", "--raw"], b"").await;
    assert_eq!(ran.status, 2);
    assert!(stub.asked().is_empty());
}
