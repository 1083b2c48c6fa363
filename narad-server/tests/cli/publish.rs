//! `narad pub`: one message, and every line of a file with an account of what was not accepted.

use crate::stub::{Answer, Asked, Stub, narad};
use serde_json::json;

const ACCEPTED: u16 = 202;

async fn accepting() -> Stub {
    Stub::start(|_| Answer::status(ACCEPTED)).await
}

fn last_object(ran: &crate::stub::Ran) -> serde_json::Value {
    ran.objects().pop().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_sent_byte_for_byte() {
    let stub = accepting().await;
    let ran = stub.narad(&["pub", "t", "hello", "--key", "a b&c", "--partition", "2"], b"").await;
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let ran = stub.narad(&["pub", "t"], b"line\r\n\xFF\n").await;
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let asked = stub.asked();
    assert_eq!(asked[0].request, "POST /v1/topics/t/produce?key=a+b%26c&partition=2");
    assert_eq!(&asked[0].body[..], b"hello");
    assert_eq!(
        asked[1],
        Asked { request: "POST /v1/topics/t/produce".into(), body: b"line\r\n\xFF\n"[..].into() }
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_told_and_is_no_success() {
    let stub = Stub::start(|_| Answer::body(404, r#"{"error":"topic t does not exist"}"#)).await;
    let ran = stub.narad(&["pub", "t", "hello"], b"").await;
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("topic t does not exist"), "{}", ran.stderr);
    assert!(ran.stdout.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_named_with_the_way_out() {
    // Bound and dropped, so nobody listens there.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for args in [&["pub", "t", "hello"][..], &["pub", "t", "--lines", "-"], &["topic", "ls"]] {
        let ran = narad(&free, args, b"a\nb\n").await;
        assert_eq!(ran.status, 1, "{args:?}");
        assert!(ran.stderr.contains(&free) && ran.stderr.contains("narad serve --dev"), "{}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_is_a_message_and_empty_ones_are_left_out() {
    let stub = accepting().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lines");
    let lines: Vec<String> = (0..500).map(|n| format!("{{\"n\":{n}}}")).collect();
    std::fs::write(&file, format!("\n{}\n\n", lines.join("\n"))).unwrap();
    let ran = stub.narad(&["--json", "pub", "t", "--lines", file.to_str().unwrap()], b"").await;
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let summary = last_object(&ran);
    assert_eq!(
        (&summary["accepted"], &summary["failed"], &summary["empty"]),
        (&json!(500), &json!(0), &json!(2))
    );
    let mut sent = lines;
    sent.sort();
    assert_eq!(stub.produced(), sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_without_newline_at_the_end_and_carriage_returns_are_kept() {
    let stub = accepting().await;
    let ran = stub.narad(&["pub", "t", "--lines", "-"], b"a\r\n b \nlast").await;
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(stub.produced(), [" b ", "a\r", "last"]);
    assert!(ran.text().starts_with("3 accepted, 0 failed"), "{}", ran.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_answers_are_tried_again() {
    let stub = accepting().await;
    stub.script("second", [Answer(503, Some(0), String::new()), Answer(429, Some(0), String::new())]);
    let ran = stub.narad(&["--json", "pub", "t", "--lines", "-"], b"first\nsecond\nthird\n").await;
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let summary = last_object(&ran);
    assert_eq!((&summary["accepted"], &summary["retries"]), (&json!(3), &json!(2)));
    assert_eq!(stub.produced(), ["first", "second", "second", "second", "third"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tries_are_bounded_and_the_line_is_reported() {
    let stub = Stub::start(|asked| match &asked.body[..] {
        b"bad" => Answer(503, Some(0), r#"{"error":"the disk is full"}"#.into()),
        _ => Answer::status(ACCEPTED),
    })
    .await;
    let args = ["--json", "pub", "t", "--lines", "-", "--retries", "2", "--in-flight", "1"];
    let ran = stub.narad(&args, b"ok\nbad\n").await;
    assert_eq!(ran.status, 1);
    let objects = ran.objects();
    assert_eq!((&objects[0]["line"], &objects[0]["outcome"]), (&json!(2), &json!("refused")));
    assert!(objects[0]["error"].as_str().unwrap().contains("the disk is full"));
    assert_eq!((&objects[1]["accepted"], &objects[1]["failed"]), (&json!(1), &json!(1)));
    assert_eq!(stub.produced(), ["bad", "bad", "bad", "ok"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_line_does_not_keep_the_others_from_going() {
    let stub = Stub::start(|asked| match &asked.body[..] {
        b"bad" => Answer::body(400, r#"{"error":"schema says no"}"#),
        b"lost" => Answer::body(500, r#"{"error":"the WAL failed"}"#),
        _ => Answer::status(ACCEPTED),
    })
    .await;
    let ran = stub.narad(&["pub", "t", "--lines", "-"], b"a\nbad\nbad\nlost\nb\n").await;
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("lines 2-3: not accepted: schema says no"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("line 4: unknown: the WAL failed"),
        "a 500 may have been written: {}",
        ran.stderr
    );
    assert!(ran.text().starts_with("2 accepted, 3 failed"), "{}", ran.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_too_long_for_any_broker_is_not_sent() {
    let stub = accepting().await;
    let mut input = vec![b'x'; (1 << 20) + 1];
    input.extend(b"\nshort\n");
    let ran = stub.narad(&["pub", "t", "--lines", "-"], &input).await;
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("line 1: not accepted: 1048577 bytes"), "{}", ran.stderr);
    assert_eq!(stub.produced(), ["short"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn publishing_stops_where_every_line_would_be_refused() {
    let stub = Stub::start(|_| Answer::body(404, r#"{"error":"topic t does not exist"}"#)).await;
    let input = "line\n".repeat(10_000);
    let ran = stub.narad(&["--json", "pub", "t", "--lines", "-", "--in-flight", "4"], input.as_bytes()).await;
    assert_eq!(ran.status, 1);
    assert!(stub.asked().len() <= 8, "{} requests", stub.asked().len());
    let stopped = last_object(&ran)["stopped_at_line"].as_u64().unwrap();
    assert_eq!(stopped, stub.asked().len() as u64 + 1, "the first line that was not sent");
    assert!(ran.stderr.contains(&format!("nothing from line {stopped} on was sent")), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_that_cannot_be_read_are_named() {
    let stub = accepting().await;
    for option in ["--file", "--lines"] {
        let ran = stub.narad(&["pub", "t", option, "/no/such/file"], b"").await;
        assert_eq!(ran.status, 1);
        assert!(ran.stderr.contains("/no/such/file"), "{}", ran.stderr);
    }
    assert_eq!(stub.narad(&["pub", "t", "x", "--in-flight", "3"], b"").await.status, 2);
    assert!(stub.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_whose_answer_is_lost_may_have_been_accepted() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // Takes one request whole, then is gone without an answer, as after `kill -9`.
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        crate::stub::close(listener);
        let mut request = Vec::new();
        while !request.ends_with(b"only") {
            let mut byte = [0];
            std::io::Read::read_exact(&mut connection, &mut byte).unwrap();
            request.extend(byte);
        }
    });
    let ran =
        narad(&address, &["--json", "pub", "t", "--lines", "-", "--in-flight", "1"], b"only\nnext\n").await;
    server.join().unwrap();
    assert_eq!(ran.status, 1);
    let objects = ran.objects();
    assert_eq!((&objects[0]["line"], &objects[0]["outcome"]), (&json!(1), &json!("unknown")));
    assert_eq!((&objects[1]["line"], &objects[1]["outcome"]), (&json!(2), &json!("refused")), "never sent");
    assert_eq!(objects[2]["unknown"], 1);
    assert_eq!((&objects[2]["first_not_accepted"], &objects[2]["stopped_at_line"]), (&json!(1), &json!(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_lines_are_kept_and_resent_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let (failed, again) = (dir.path().join("failed"), dir.path().join("again"));
    let stub = Stub::start(|asked| match &asked.body[..] {
        b"bad\r" | b" b\xFFd" => Answer::body(400, r#"{"error":"schema says no"}"#),
        b"lost" => Answer::body(500, r#"{"error":"the WAL failed"}"#),
        _ => Answer::status(ACCEPTED),
    })
    .await;
    std::fs::write(&failed, "of an earlier run").unwrap();
    let args = ["pub", "t", "--lines", "-", "--in-flight", "1", "--failed", failed.to_str().unwrap()];
    let ran = stub.narad(&args, b"a\nbad\r\n\nlost\nb\n b\xFFd").await;
    assert_eq!(ran.status, 1);
    assert!(ran.text().contains("3 failed (1 of them unknown"), "{}", ran.text());
    assert_eq!(std::fs::read(&failed).unwrap(), b"bad\r\nlost\n b\xFFd\n");

    let healed = accepting().await;
    let args = [
        "pub",
        "t",
        "--lines",
        failed.to_str().unwrap(),
        "--failed",
        again.to_str().unwrap(),
        "--in-flight",
        "1",
    ];
    let ran = healed.narad(&args, b"").await;
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let sent: Vec<Vec<u8>> = healed.asked().iter().map(|asked| asked.body.to_vec()).collect();
    assert_eq!(sent, [&b"bad\r"[..], b"lost", b" b\xFFd"]);
    assert_eq!(std::fs::read(&again).unwrap(), b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_input_is_not_taken_for_the_file_of_failed_lines() {
    let stub = accepting().await;
    let dir = tempfile::tempdir().unwrap();
    let (lines, link) = (dir.path().join("lines"), dir.path().join("link"));
    std::fs::write(&lines, "a\n").unwrap();
    std::os::unix::fs::symlink(&lines, &link).unwrap();
    let args = ["pub", "t", "--lines", lines.to_str().unwrap(), "--failed", link.to_str().unwrap()];
    assert_eq!(stub.narad(&args, b"").await.status, 2);
    assert_eq!(std::fs::read(&lines).unwrap(), b"a\n");
    let args = ["pub", "t", "--lines", lines.to_str().unwrap(), "--failed", "/no/such/dir/f"];
    let ran = stub.narad(&args, b"").await;
    assert!(ran.status == 1 && ran.stderr.contains("cannot write /no/such/dir/f"), "{}", ran.stderr);
    assert!(stub.asked().is_empty(), "nothing is sent that could not be accounted for");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_advice_begins_at_the_first_line_that_was_not_accepted() {
    // Line 2 is refused on its own account, and later the topic goes.
    let stub = Stub::start(|asked| match &asked.body[..] {
        b"bad" => Answer::body(400, r#"{"error":"schema says no"}"#),
        b"gone" => Answer::body(404, r#"{"error":"there is no topic t"}"#),
        _ => Answer::status(ACCEPTED),
    })
    .await;
    let args = ["--json", "pub", "t", "--lines", "-", "--in-flight", "1"];
    let ran = stub.narad(&args, b"a\nbad\nb\ngone\nnever\n").await;
    assert_eq!(ran.status, 1);
    let summary = last_object(&ran);
    assert_eq!((&summary["first_not_accepted"], &summary["stopped_at_line"]), (&json!(2), &json!(5)));
    assert!(ran.stderr.contains("tail -n +2 FILE") && ran.stderr.contains("repeat"), "{}", ran.stderr);
}
