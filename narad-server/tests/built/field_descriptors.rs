//! Field fault: descriptors run out. The loop that accepts rests and does not spin, connections that are open are
//! served, and once there are descriptors again everything goes on.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::real_broker::Broker;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// Clock ticks, usually hundredths of a second, that the process has spent.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name in parentheses may hold anything; utime and stime are the 14th and 15th field.
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Sets the soft limit; the hard one, which the broker inherited from here, cannot be raised again by everybody.
fn limit(pid: u32, files: u64) {
    let files = Rlimit { current: Some(files), maximum: getrlimit(Resource::Nofile).maximum };
    prlimit(Pid::from_raw(pid.try_into().unwrap()), Resource::Nofile, files).unwrap();
}

fn ask(stream: &mut TcpStream, path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = vec![0; 4096];
    let len = stream.read(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..len]).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_accept_loop_does_not_spin_without_descriptors_and_goes_on_when_there_are_some() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path()).await;
    broker.create_topic("t").await;
    let (pid, address) = (broker.pid(), broker.url().replace("http://", ""));
    let connect = || {
        let stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    };
    let mut early = connect();
    assert!(ask(&mut early, "/healthz").starts_with("HTTP/1.1 200"));
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
    limit(pid, open + 2);
    // The system takes all of them; the broker has descriptors for two.
    let late: Vec<_> = (0..20).map(|_| connect()).collect();
    let (before, start) = (ticks(pid), Instant::now());
    while start.elapsed() < Duration::from_millis(1500) {
        assert!(ask(&mut early, "/healthz").starts_with("HTTP/1.1 200"), "an open connection is served");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let spent = ticks(pid) - before;
    assert!(spent < 50, "{spent} of 150 ticks: it spins");
    drop(late);
    limit(pid, open + 100);
    assert!(ask(&mut connect(), "/healthz").starts_with("HTTP/1.1 200"), "new connections are served again");
    let produced =
        reqwest::Client::new().post(format!("{}/v1/topics/t/produce", broker.url())).body("x").send();
    assert_eq!(produced.await.unwrap().status(), 202);
    assert!(broker.terminate().await.success());
}
