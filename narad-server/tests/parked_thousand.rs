//! The built binary with a thousand consumers that wait on an idle topic: they cost no processor time, and one message
//! wakes one of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]
#![cfg(target_os = "linux")]

mod real_broker;

use std::time::Duration;

use real_broker::{Broker, serve};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{Instant, timeout},
};

const BOUND: Duration = Duration::from_secs(60);

/// Clock ticks, usually hundredths of a second, that the process has spent.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name in parentheses may hold anything; utime and stime are the 14th and 15th field.
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// As many as this process may have connections, at most a thousand.
fn crowd() -> usize {
    let hard = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard });
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / 2).unwrap().saturating_sub(50).min(1000)
}

async fn in_flight(client: &real_broker::Client, expected: usize) {
    let line = format!("narad_http_requests_in_flight {expected}\n");
    let asking = async {
        while !client.get("/metrics").await.body.contains(&line) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(BOUND, asking).await.unwrap_or_else(|_| panic!("not {expected} in flight"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_parked_consumers_cost_nothing_and_one_message_wakes_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = serve(dir.path());
    command.env("NARAD_HTTP_MAX_CONSUME_WAIT", "5m").env("NARAD_HTTP_SHUTDOWN_GRACE", "5m");
    let broker = Broker::spawn(command).unwrap();
    broker.ready().await;
    broker.create_topic("t").await;
    let (client, address) = (broker.client("t"), broker.url().replace("http://", ""));
    let count = crowd();
    let mut parked = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream
            .write_all(b"GET /v1/topics/t/consume?wait=5m HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        parked.push(stream);
    }
    in_flight(&client, count + 1).await;
    // What the start and the opening of partitions left to do.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (before, begin) = (ticks(broker.pid()), Instant::now());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (spent, of) = (ticks(broker.pid()) - before, begin.elapsed().as_millis() / 10);
    eprintln!("{count} parked consumers: {spent} of {of} ticks");
    assert!(u128::from(spent) * 10 < of, "{spent} of {of} ticks");

    assert_eq!(client.produce("", "one").await.status, 202);
    in_flight(&client, count).await;
    // Who is first in line is not who connected first.
    let (mut served, mut bytes) = (0, [0; 1024]);
    for stream in &parked {
        match stream.try_read(&mut bytes) {
            Ok(read) => {
                assert!(
                    bytes[..read].starts_with(b"HTTP/1.1 200"),
                    "{}",
                    String::from_utf8_lossy(&bytes[..read])
                );
                served += 1;
            }
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    assert_eq!(served, 1);
    drop(parked);
    let left = Instant::now();
    in_flight(&client, 1).await;
    // Those who were not missed would be found out when the message comes back, after 30 s.
    assert!(left.elapsed() < Duration::from_secs(25), "{:?}", left.elapsed());
    assert!(broker.terminate().await.success());
}
