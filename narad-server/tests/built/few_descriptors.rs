//! The built binary with fewer descriptors than partitions: 300 partitions of five segments each under `ulimit -n 128`,
//! and under 64. What cannot be opened now is answered 503 and works later, without a restart and without a loss.

use std::{
    collections::BTreeSet,
    net::TcpStream,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::real_broker::{Broker, copy_tree, serve};
use narad_core::{
    format::Batch,
    plugin::{Incarnation, PartitionId},
    runtime::Runtime,
    store::{Store, StoreOptions, TopicSpec},
};
use serde_json::Value;
use tokio::{task::JoinSet, time::Instant};

const TOPICS: u64 = 100;
const PARTITIONS: u32 = 3;
const SEGMENTS: u64 = 5;
/// Records of one segment.
const RECORDS: u64 = 2;
/// How long something may be refused before it counts as not healing.
const HEALS: Duration = Duration::from_secs(60);
/// Requests at one time.
const AT_ONCE: usize = 6;

/// A partition, by its topic's number and its own.
type Place = (u64, u32);

fn name(topic: u64) -> String {
    format!("few-{topic:02}")
}

fn payload((topic, partition): Place, offset: u64) -> String {
    format!("{topic}/{partition}/{offset} ").repeat(40)
}

fn places() -> BTreeSet<Place> {
    (0..TOPICS).flat_map(|topic| (0..PARTITIONS).map(move |partition| (topic, partition))).collect()
}

/// Writes the data directory through the library, five segments to a partition.
fn write(dir: &Path) {
    let store = Store::open(&Runtime::default(), dir, StoreOptions::default()).unwrap();
    let topics: Vec<u64> = (0..TOPICS).collect();
    std::thread::scope(|scope| {
        for topics in topics.chunks(13) {
            scope.spawn(|| topics.iter().for_each(|&topic| write_topic(&store, topic)));
        }
    });
    store.close().unwrap();
    let (segments, _) = files(&dir.join("topics"));
    assert_eq!(segments, TOPICS * u64::from(PARTITIONS) * SEGMENTS);
}

fn write_topic(store: &Store, topic: u64) {
    let codec = Arc::new(narad_codecs::None);
    let mut spec = TopicSpec::new(name(topic), Incarnation::new(topic + 1), PARTITIONS, codec);
    spec.segment_bytes = 256;
    for partition in 0..PARTITIONS {
        let log = store.log(&spec, PartitionId(partition)).unwrap();
        for segment in 0..SEGMENTS {
            let offsets = segment * RECORDS..(segment + 1) * RECORDS;
            let records = offsets.map(|offset| (Vec::new(), payload((topic, partition), offset)));
            log.commit(records.collect::<Batch>()).unwrap();
        }
    }
}

/// How many segments there are below `dir`, and how many files beside them.
fn files(dir: &Path) -> (u64, u64) {
    let mut count = (0, 0);
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let (segments, others) = files(&path);
            count = (count.0 + segments, count.1 + others);
        } else if path.extension().is_some_and(|extension| extension == "log")
            && path.metadata().unwrap().len() > 0
        {
            count.0 += 1;
        } else {
            count.1 += 1;
        }
    }
    count
}

/// Makes topics of the directories, without a limit.
async fn adopt(dir: &Path) {
    let broker = Broker::start(dir).await;
    let asking = Asking::of(&broker);
    for topic in 0..TOPICS {
        let (status, body) = asking.post(&format!("/v1/directories/{}/adopt", name(topic)), "").await;
        assert_eq!(status, 201, "{body}");
    }
    assert!(broker.terminate().await.success());
}

/// The broker as a shell starts it that has lowered both limits.
fn serve_under(files: u64, dir: &Path) -> Command {
    let narad = serve(dir);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", &files.to_string()]);
    shell.arg(narad.get_program()).args(narad.get_args());
    shell
}

/// Asks, and knows what may be answered when descriptors are few.
#[derive(Clone)]
struct Asking {
    http: reqwest::Client,
    url: String,
    refused: Arc<AtomicU64>,
}

impl Asking {
    fn of(broker: &Broker) -> Self {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
        Self { http, url: broker.url(), refused: Arc::default() }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> (u16, String) {
        let answer = request.send().await.unwrap_or_else(|error| panic!("no answer: {error:?}"));
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = answer.text().await.unwrap();
        assert!(status < 500 || status == 503, "{status}: {body}");
        if status == 503 {
            self.refused.fetch_add(1, Ordering::SeqCst);
            assert!(headers.contains_key("retry-after"), "it says when to try again: {body}");
            let error: Value = serde_json::from_str(&body).unwrap();
            assert!(
                error["error"].as_str().unwrap().contains("open files"),
                "it says what is missing: {body}"
            );
        }
        (status, body)
    }

    async fn get(&self, path: &str) -> (u16, String) {
        self.send(self.http.get(format!("{}{path}", self.url))).await
    }

    async fn post(&self, path: &str, body: &str) -> (u16, String) {
        self.send(self.http.post(format!("{}{path}", self.url)).body(body.to_owned())).await
    }

    /// One record: true when it came, with the bytes that were written.
    async fn replays(&self, place: Place, offset: u64) -> bool {
        let (topic, partition) = place;
        let path = format!("/v1/topics/{}/consume?partition={partition}&offset={offset}", name(topic));
        let (status, body) = self.get(&path).await;
        if status == 200 {
            let message: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(message["payload"].as_str(), Some(&*payload(place, offset)));
        }
        // Past the end is what a message is that still waits in the produce log.
        assert!(
            status == 200 || status == 503 || (status == 204 && offset >= SEGMENTS * RECORDS),
            "{status}: {body}"
        );
        status == 200
    }

    async fn produces(&self, place: Place) -> bool {
        let (topic, partition) = place;
        let path = format!("/v1/topics/{}/produce?partition={partition}", name(topic));
        let (status, body) = self.post(&path, &payload(place, SEGMENTS * RECORDS)).await;
        assert!(status == 202 || status == 503, "{status}: {body}");
        status == 202
    }

    /// All records of a partition, up to `end`.
    async fn replays_all(self, place: Place, end: u64) {
        for offset in 0..end {
            let begin = Instant::now();
            while !self.replays(place, offset).await {
                assert!(begin.elapsed() < HEALS, "{place:?} {offset} is not served after {HEALS:?}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    async fn produces_in_the_end(self, place: Place) {
        let begin = Instant::now();
        while !self.produces(place).await {
            assert!(begin.elapsed() < HEALS, "{place:?} takes nothing after {HEALS:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Does `work` with every partition, some at a time.
    async fn everywhere<F>(&self, work: impl Fn(Self, Place) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (mut running, mut places) = (JoinSet::new(), places().into_iter());
        loop {
            while running.len() < AT_ONCE
                && let Some(place) = places.next()
            {
                running.spawn(work(self.clone(), place));
            }
            match running.join_next().await {
                Some(ended) => ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())),
                None => return,
            }
        }
    }
}

/// Asks `/healthz` over a connection that is there, and over new ones when `anew` is set, until it is told to stop.
async fn stays_healthy(asking: Asking, anew: Arc<AtomicBool>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::SeqCst) {
        assert_eq!(asking.get("/healthz").await.0, 200);
        if anew.load(Ordering::SeqCst) {
            let fresh = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
            let asked = fresh.get(format!("{}/healthz", asking.url)).timeout(Duration::from_secs(15)).send();
            let answer =
                asked.await.unwrap_or_else(|error| panic!("a new connection gets no answer: {error:?}"));
            assert_eq!(answer.status(), 200);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Clock ticks, usually hundredths of a second, that the process has spent.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name in parentheses may hold anything; utime and stime are the 14th and 15th field.
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// More clients than there are descriptors: those that are connected are served or refused, and nothing spins.
async fn crowded(broker: &Broker, asking: &Asking, files: u64) {
    let address = broker.url().replace("http://", "");
    let crowd: Vec<_> = (0..files + 50).map(|_| TcpStream::connect(&address).unwrap()).collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (before, begin) = (ticks(broker.pid()), Instant::now());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (spent, of) = (ticks(broker.pid()) - before, begin.elapsed().as_millis() / 10);
    eprintln!("{files} descriptors and a crowd: {spent} of {of} ticks");
    assert!(u128::from(spent) * 3 < of, "{spent} of {of} ticks: it spins");
    let refused = asking.refused.load(Ordering::SeqCst);
    // Of what nobody has read since the start, so that none of it is in memory.
    for topic in 0..30 {
        asking.replays((topic, 0), topic % (SEGMENTS * RECORDS)).await;
    }
    let refused = asking.refused.load(Ordering::SeqCst) - refused;
    eprintln!("{refused} of 30 reads were refused");
    // Not how many are open: those that the test was started with are among them, whatever their number.
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", broker.pid())).unwrap();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    assert_eq!(limit.split_whitespace().next(), Some(&*files.to_string()), "{limits}");
    assert!(broker.said().contains("http.max_connections is more than half"), "{}", broker.said());
    drop(crowd);
}

async fn serves_all(dir: &Path, files: u64) {
    let broker = Broker::spawn(serve_under(files, dir)).unwrap_or_else(|ended| panic!("{ended:?}"));
    let asking = Asking::of(&broker);
    let (anew, stop) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    // From before the partitions are open.
    let health = tokio::spawn(stays_healthy(asking.clone(), Arc::clone(&anew), Arc::clone(&stop)));
    broker.ready().await;
    anew.store(false, Ordering::SeqCst);
    // One that is under way has its answer first.
    tokio::time::sleep(Duration::from_secs(1)).await;
    crowded(&broker, &asking, files).await;
    anew.store(true, Ordering::SeqCst);
    let written = SEGMENTS * RECORDS;
    asking.everywhere(|asking, place| asking.replays_all(place, written)).await;
    asking.everywhere(Asking::produces_in_the_end).await;
    asking.everywhere(|asking, place| asking.replays_all(place, written + 1)).await;
    stop.store(true, Ordering::SeqCst);
    health.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    let said = broker.said();
    assert!(!said.contains("panicked") && !said.contains("quarantine"), "{said}");
    assert!(broker.terminate().await.success());
    // Nothing was cut or set aside either: with descriptors enough all of it is there, and once.
    let broker = Broker::start(dir).await;
    let asking = Asking::of(&broker);
    asking.everywhere(|asking, place| asking.replays_all(place, written + 1)).await;
    assert_eq!(asking.refused.load(Ordering::SeqCst), 0);
    assert!(broker.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_partitions_are_served_with_128_descriptors_and_with_64() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    write(&whole);
    adopt(&whole).await;
    for files in [128, 64] {
        let data = dir.path().join(files.to_string());
        copy_tree(&whole, &data);
        serves_all(&data, files).await;
    }
}

#[test]
fn too_few_descriptors_to_start_with_are_said() {
    let dir = tempfile::tempdir().unwrap();
    let ended = Broker::spawn(serve_under(12, dir.path())).err().expect("it cannot start with 12");
    assert!(!ended.status.success());
    assert!(ended.said.contains("open files") && !ended.said.contains("panicked"), "{}", ended.said);
}
