//! Measures a running broker from outside, as `docs/performance.md` tells: one message at a time to a parked consumer,
//! then 64 clients in the full flow.
//!
//! `cargo run --release --example latency -- HOST:PORT PID DIR [MESSAGES]`: where the broker listens (security off), its
//! process, a directory on its disk for the raw fsyncs, and how many messages go one at a time (1000).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a tool")]

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::FileExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

const PAYLOAD: usize = 256;
const CLIENTS: u64 = 64;
const FLOW: Duration = Duration::from_secs(10);

/// A connection that sends one request at a time.
struct Client {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Client {
    fn new(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, answer: Vec::new() }
    }

    /// The status; the answer's bytes are in `answer`.
    fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> u16 {
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
        self.stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        self.answer.clear();
        let mut bytes = [0; 4096];
        loop {
            let read = self.stream.read(&mut bytes).unwrap();
            assert!(read > 0, "the broker closed the connection");
            self.answer.extend_from_slice(&bytes[..read]);
            let text = String::from_utf8_lossy(&self.answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return head[9..12].parse().unwrap();
            }
        }
    }

    fn ack(&mut self, topic: &str) {
        let text = String::from_utf8_lossy(&self.answer).into_owned();
        let handle = text.split("\"receipt_handle\":\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(self.ask("POST", &format!("/v1/topics/{topic}/ack?receipt_handle={handle}"), b""), 204);
    }
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort();
    times[(times.len() - 1) * percent / 100]
}

/// Fsyncs of one message each, over blocks that are there: the fastest tenth, and the median, which on a busy machine says
/// more of the scheduler than of the disk.
fn raw(dir: &Path) -> (Duration, Duration) {
    let path = dir.join("latency.raw");
    let file = std::fs::File::create(&path).unwrap();
    file.write_all_at(&vec![1; 512 * PAYLOAD], 0).unwrap();
    file.sync_all().unwrap();
    let mut times = Vec::new();
    for n in 0..500 {
        let begin = Instant::now();
        file.write_all_at(&[2; PAYLOAD], n * PAYLOAD as u64).unwrap();
        file.sync_data().unwrap();
        times.push(begin.elapsed());
    }
    std::fs::remove_file(path).unwrap();
    (percentile(&mut times, 10), percentile(&mut times, 50))
}

fn create(address: &str, topic: &str, partitions: u32) {
    let body = format!("{{\"name\":\"{topic}\",\"partitions\":{partitions}}}");
    let status = Client::new(address).ask("POST", "/v1/topics", body.as_bytes());
    assert!(status == 201 || status == 409, "{status}");
}

fn one_at_a_time(address: &str, messages: usize) -> (Vec<Duration>, Vec<Duration>) {
    create(address, "latency", 3);
    let (told, arrivals) = mpsc::channel();
    let of_consumer = address.to_owned();
    std::thread::spawn(move || {
        let mut client = Client::new(&of_consumer);
        loop {
            if client.ask("GET", "/v1/topics/latency/consume?wait=10s", b"") == 200 {
                let arrived = Instant::now();
                client.ack("latency");
                if told.send(arrived).is_err() {
                    return;
                }
            }
        }
    });
    let mut producer = Client::new(address);
    let (mut produced, mut delivered) = (Vec::new(), Vec::new());
    for n in 0..messages + 50 {
        // The consumer is parked again, and nothing else is under way.
        std::thread::sleep(Duration::from_millis(3));
        let begin = Instant::now();
        assert_eq!(producer.ask("POST", "/v1/topics/latency/produce", &[b'x'; PAYLOAD]), 202);
        let accepted = begin.elapsed();
        let arrived = arrivals.recv().unwrap();
        if n >= 50 {
            produced.push(accepted);
            delivered.push(arrived - begin);
        }
    }
    (produced, delivered)
}

/// User and system time of a process, in hundredths of a second.
fn ticks(pid: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn flow(address: &str, pid: &str) {
    create(address, "flow", 6);
    let (stop, produced, consumed) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (before, begin) = ((ticks(pid), ticks("self")), Instant::now());
    let mut threads = Vec::new();
    for n in 0..CLIENTS {
        let (address, stop) = (address.to_owned(), Arc::clone(&stop));
        let (produced, consumed) = (Arc::clone(&produced), Arc::clone(&consumed));
        threads.push(std::thread::spawn(move || {
            let mut client = Client::new(&address);
            while !stop.load(Ordering::Relaxed) {
                if n % 2 == 0 {
                    assert_eq!(client.ask("POST", "/v1/topics/flow/produce", &[b'x'; PAYLOAD]), 202);
                    produced.fetch_add(1, Ordering::Relaxed);
                } else if client.ask("GET", "/v1/topics/flow/consume?wait=1s", b"") == 200 {
                    client.ack("flow");
                    consumed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }));
    }
    std::thread::sleep(FLOW);
    stop.store(true, Ordering::Relaxed);
    let seconds = begin.elapsed().as_secs_f64();
    let (server, own) = (ticks(pid) - before.0, ticks("self") - before.1);
    let rate = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64 / seconds;
    println!(
        "{CLIENTS} clients, half of them produce: {:.0} produced/s, {:.0} consumed and acked/s, {:.2} cores broker, {:.2} cores \
         clients",
        rate(&produced),
        rate(&consumed),
        server as f64 / 100.0 / seconds,
        own as f64 / 100.0 / seconds
    );
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, pid, dir, rest @ ..] = arguments.as_slice() else {
        panic!("HOST:PORT PID DIR [MESSAGES]");
    };
    let messages = rest.first().map_or(1000, |text| text.parse().expect("MESSAGES"));
    let before = raw(Path::new(dir));
    let (mut produced, mut delivered) = one_at_a_time(address, messages);
    let after = raw(Path::new(dir));
    let fsync = (before.0 + after.0) / 2;
    println!("raw fsync, fastest tenth and median: {before:?} before, {after:?} after");
    for (what, times) in [("produce answered", &mut produced), ("at the consumer", &mut delivered)] {
        let median = percentile(times, 50);
        println!(
            "{what}: median {median:?} ({:.1} of the fastest fsyncs), p99 {:?}",
            median.as_secs_f64() / fsync.as_secs_f64(),
            percentile(times, 99)
        );
    }
    flow(address, pid);
}
