//! The built binary on a data directory that was damaged while it was down: what is not damaged is served, what is
//! damaged never comes as other bytes, no consumer is moved past a message, and foreign files are left alone.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::real_broker::{Broker, Client, copy_tree, reason, serve};
use narad_core::{
    format::Batch,
    log::{Log, LogOptions},
    runtime::Runtime,
};
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use tokio::{sync::Semaphore, task::JoinSet};

const PARTITIONS: u32 = 3;
const AT_ONCE: usize = 6;
/// Messages that go through the broker, to each partition in turn.
const MESSAGES: u32 = 18;
/// Messages of partition 0 that lie in small segments.
const IN_SEGMENTS: u32 = 12;
const P0: &str = "topics/t/p00000";
const WAL: &str = "ingress/produce/00000000000000000000.log";

type Harm = Box<dyn FnOnce(&Path) + Send>;

/// What a damage may cost.
#[derive(Clone, Debug)]
enum Cost {
    /// Nothing.
    Nothing,
    /// At most so many offsets of partition 0, wherever they are.
    Offsets(usize),
    /// Offsets of this range of partition 0.
    Within(Range<u64>),
    /// The start: it ends, says which file keeps it, and changes nothing.
    TheStart(&'static str),
}

struct Case {
    name: String,
    harm: Harm,
    cost: Cost,
}

/// What the undamaged directory holds.
struct Template {
    dir: tempfile::TempDir,
    contents: BTreeMap<(u32, u64), String>,
    settled: HashSet<String>,
    /// The segments of partition 0, ascending.
    segments: Vec<PathBuf>,
}

fn case(name: impl Into<String>, cost: Cost, harm: impl FnOnce(&Path) + Send + 'static) -> Case {
    Case { name: name.into(), harm: Box::new(harm), cost }
}

async fn write() -> Template {
    let dir = tempfile::tempdir().unwrap();
    // The messages are in the produce log as well.
    let broker = Broker::start_through_log(dir.path()).await;
    broker.create_topic("t").await;
    let client = broker.client("t");
    for n in 0..MESSAGES {
        let answer = client.produce(&format!("?partition={}", n % PARTITIONS), &message(n)).await;
        assert_eq!(answer.status, 202);
        // So that each has a frame of its own.
        client.settled().await;
    }
    let mut settled = HashSet::new();
    for partition in 0..PARTITIONS {
        let leased = client.consume(&format!("?partition={partition}")).await;
        let leased: serde_json::Value = serde_json::from_str(&leased.body).unwrap();
        settled.insert(leased["payload"].as_str().unwrap().to_owned());
        assert_eq!(client.ack(&leased).await.status, 204);
    }
    while !dir.path().join(P0).join("consumer.ahead").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(broker.terminate().await.success());
    let partition = dir.path().join(P0);
    tokio::task::spawn_blocking(move || add_segments(&partition)).await.unwrap();

    let mut broker = Broker::start(dir.path()).await;
    let contents = everything(&broker.client("t")).await;
    assert_eq!(contents.len(), (MESSAGES + IN_SEGMENTS) as usize);
    broker.kill();
    let mut segments: Vec<_> =
        fs::read_dir(dir.path().join(P0)).unwrap().map(|entry| entry.unwrap().path()).collect();
    // The last one is empty.
    segments.retain(|path| {
        path.extension().is_some_and(|ext| ext == "log") && fs::metadata(path).unwrap().len() > 0
    });
    segments.sort();
    assert!(segments.len() >= 4, "{segments:?}");
    let segments = segments.iter().map(|path| path.strip_prefix(dir.path()).unwrap().to_owned()).collect();
    Template { contents, settled, segments, dir }
}

/// Of a size that frames differ in; nothing in it compresses to nothing.
fn message(n: u32) -> String {
    let mut random = StdRng::seed_from_u64(n.into());
    let words: Vec<String> = (0..n % 7 + 2).map(|_| format!("{:x}", random.next_u64())).collect();
    format!("message {n}: {}", words.join(" "))
}

/// The broker's own segments are too large for a test.
fn add_segments(partition: &Path) {
    let mut options = LogOptions::new("t/0", Arc::new(narad_codecs::Zstd::default()));
    options.segment_bytes = 300;
    let log = Log::open(&Runtime::default(), partition, options).unwrap();
    for n in 0..IN_SEGMENTS {
        log.commit(Batch::of(b"", message(MESSAGES + n).as_bytes())).unwrap();
    }
    log.close().unwrap();
}

/// What each offset holds that can be read.
async fn everything(client: &Client) -> BTreeMap<(u32, u64), String> {
    let mut contents = BTreeMap::new();
    for partition in 0..PARTITIONS {
        for (offset, payload) in client.replay(partition, 0).await {
            contents.extend(payload.map(|payload| ((partition, offset), payload)));
        }
    }
    contents
}

fn cases(template: &Template, seed: u64) -> Vec<Case> {
    let mut cases = state_files();
    cases.extend(foreign_entries());
    cases.extend(metadata());
    cases.extend(produce_log(template));
    cases.extend(segments(template, seed));
    cases
}

/// Every small state file, harmed in every way: it costs nothing but duplicates.
fn state_files() -> Vec<Case> {
    let mut cases = Vec::new();
    let files = ["hwm", "consumer.offset", "consumer.ahead"].map(|name| format!("{P0}/{name}"));
    for file in
        files.into_iter().chain(["ingress/produce/hwm".to_owned(), "ingress/produce/checkpoint".to_owned()])
    {
        let mut add = |how: &str, harm: fn(&Path)| {
            let path = file.clone();
            cases.push(case(format!("{file}: {how}"), Cost::Nothing, move |dir| harm(&dir.join(path))));
        };
        add("zeros", |path| fs::write(path, vec![0; 8]).unwrap());
        add("zeros of its size", |path| {
            let len = fs::metadata(path).map_or(8, |file| file.len());
            fs::write(path, vec![0; usize::try_from(len).unwrap()]).unwrap();
        });
        add("empty", |path| fs::write(path, []).unwrap());
        add("an odd size", |path| fs::write(path, [0, 0, 1]).unwrap());
        add("all ones", |path| fs::write(path, [0xFF; 8]).unwrap());
        add("far ahead", |path| fs::write(path, 1_000_000_000_i64.to_be_bytes()).unwrap());
        add("gone", |path| _ = fs::remove_file(path));
        add("a directory", |path| {
            _ = fs::remove_file(path);
            fs::create_dir(path).unwrap();
        });
    }
    // Settled is what the files say: one that says too much is believed, as far as the log goes.
    cases.retain(|case| !(case.name.contains("consumer.offset") && case.name.ends_with("far ahead")));
    cases
}

/// What other programs leave in a directory is no topic, no segment and no reason not to start.
fn foreign_entries() -> Vec<Case> {
    let dirs = ["", "topics", "topics/t", P0, "ingress", "ingress/produce", "meta"];
    dirs.map(|parent| {
        case(format!("foreign entries in {parent:?}"), Cost::Nothing, move |dir| {
            let parent = dir.join(parent);
            for name in ["lost+found", ".snapshot", "0.log", "00000000000000000099.log.tmp"] {
                fs::create_dir(parent.join(name)).unwrap();
            }
            for name in
                [".DS_Store", "1.log", "+0000000000000000001.log", "hwm.tmp", "00000000000000000007.LOG"]
            {
                fs::write(parent.join(name), "not a log").unwrap();
            }
        })
    })
    .into()
}

/// Without its metadata a broker knows no topic, and must not take their messages for nobody's.
fn metadata() -> Vec<Case> {
    let file = "meta/meta.redb";
    vec![
        case("metadata gone", Cost::TheStart("meta"), move |dir| fs::remove_file(dir.join(file)).unwrap()),
        case("the directory of the metadata gone", Cost::TheStart("meta"), |dir| {
            fs::remove_dir_all(dir.join("meta")).unwrap();
        }),
        case("metadata empty", Cost::TheStart(file), move |dir| fs::write(dir.join(file), []).unwrap()),
        case("metadata of zeros", Cost::TheStart(file), move |dir| {
            let len = fs::metadata(dir.join(file)).unwrap().len();
            fs::write(dir.join(file), vec![0; usize::try_from(len).unwrap()]).unwrap();
        }),
        case("metadata that are something else", Cost::TheStart(file), move |dir| {
            fs::write(dir.join(file), "something else".repeat(1000)).unwrap();
        }),
        case("metadata cut in the middle", Cost::TheStart(file), move |dir| {
            let bytes = fs::read(dir.join(file)).unwrap();
            fs::write(dir.join(file), &bytes[..bytes.len() / 3]).unwrap();
        }),
        case("the reserve gone", Cost::Nothing, |dir| fs::remove_file(dir.join("meta/reserve")).unwrap()),
    ]
}

/// Everything in the produce log has reached its partition: it is needed no more, but to bring a partition back.
fn produce_log(template: &Template) -> Vec<Case> {
    let through_wal = u64::from(MESSAGES / PARTITIONS);
    let last = template.contents.keys().filter(|(partition, _)| *partition == 0).count() as u64;
    vec![
        case("produce log gone", Cost::Nothing, |dir| fs::remove_dir_all(dir.join("ingress")).unwrap()),
        case("produce log cut", Cost::Nothing, |dir| truncate(&dir.join(WAL), 100)),
        case("produce log of zeros", Cost::Nothing, |dir| zero(&dir.join(WAL), 0..usize::MAX)),
        case("produce log flipped and read again", Cost::Nothing, |dir| {
            flip(&dir.join(WAL), 40 * 8);
            fs::write(dir.join("ingress/produce/checkpoint"), [0; 8]).unwrap();
        }),
        // It comes back from the produce log, as far as it went through it.
        case("partition 0 gone", Cost::Within(through_wal..last), |dir| {
            fs::remove_dir_all(dir.join(P0)).unwrap();
            fs::write(dir.join("ingress/produce/checkpoint"), [0; 8]).unwrap();
        }),
    ]
}

fn segments(template: &Template, seed: u64) -> Vec<Case> {
    let mut random = StdRng::seed_from_u64(seed);
    let (files, mut cases) = (&template.segments, Vec::new());
    let len = |file: &Path| fs::metadata(template.dir.path().join(file)).unwrap().len();
    let base = |file: &Path| -> u64 { file.file_stem().unwrap().to_str().unwrap().parse().unwrap() };
    let end = template.contents.keys().filter(|(partition, _)| *partition == 0).count() as u64;
    for _ in 0..24 {
        let file = files[random.random_range(0..files.len())].clone();
        let bit = random.random_range(0..len(&file) * 8);
        // A frame holds one message here.
        let name = format!("{}: bit {bit} flipped", file.display());
        cases.push(case(name, Cost::Offsets(1), move |dir| flip(&dir.join(file), bit)));
    }
    for _ in 0..8 {
        let index = random.random_range(0..files.len());
        let file = files[index].clone();
        let (cut, next) =
            (random.random_range(0..len(&file)), files.get(index + 1).map_or(end, |next| base(next)));
        let name = format!("{}: cut at {cut}", file.display());
        cases.push(case(name, Cost::Within(base(&file)..next), move |dir| truncate(&dir.join(file), cut)));
    }
    for _ in 0..8 {
        let index = random.random_range(0..files.len());
        let file = files[index].clone();
        let from = usize::try_from(random.random_range(0..len(&file))).unwrap();
        let next = files.get(index + 1).map_or(end, |next| base(next));
        let name = format!("{}: 64 zeros from {from} on", file.display());
        cases.push(case(name, Cost::Within(base(&file)..next), move |dir| {
            zero(&dir.join(file), from..from + 64)
        }));
    }
    let (one, other, third) = (files[1].clone(), files[2].clone(), files[3].clone());
    let lost = base(&one)..base(&third);
    let (a, b) = (one.clone(), other.clone());
    cases.push(case("two segments swapped", Cost::Within(lost), move |dir| {
        fs::rename(dir.join(&a), dir.join("aside")).unwrap();
        fs::rename(dir.join(&b), dir.join(&a)).unwrap();
        fs::rename(dir.join("aside"), dir.join(&b)).unwrap();
    }));
    let (a, b) = (one.clone(), other.clone());
    cases.push(case("a segment copied over another", Cost::Within(base(&other)..base(&third)), move |dir| {
        fs::copy(dir.join(a), dir.join(b)).unwrap();
    }));
    let lost = base(&one)..base(&other);
    cases.push(case("a segment in the middle gone", Cost::Within(lost), move |dir| {
        fs::remove_file(dir.join(one)).unwrap()
    }));
    cases
}

fn truncate(path: &Path, len: u64) {
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn flip(path: &Path, bit: u64) {
    let mut bytes = fs::read(path).unwrap();
    bytes[usize::try_from(bit / 8).unwrap()] ^= 1 << (bit % 8);
    fs::write(path, bytes).unwrap();
}

fn zero(path: &Path, range: Range<usize>) {
    let mut bytes = fs::read(path).unwrap();
    let end = range.end.min(bytes.len());
    bytes[range.start..end].fill(0);
    fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undamaged_messages_are_served_and_damaged_ones_never_as_other_bytes() {
    let seed =
        std::env::var("NARAD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    eprintln!("NARAD_SEED={seed}");
    let template = Arc::new(write().await);
    let (room, mut running) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
    for case in cases(&template, seed) {
        let (room, template) = (Arc::clone(&room), Arc::clone(&template));
        running.spawn(async move {
            let _place = room.acquire_owned().await.unwrap();
            let name = case.name.clone();
            let outcome = tokio::spawn(async move { run(&template, case).await }).await;
            outcome.map_err(|panic| format!("{name}: {}", reason(panic)))
        });
    }
    let mut failed = Vec::new();
    while let Some(outcome) = running.join_next().await {
        failed.extend(outcome.unwrap().err());
    }
    assert!(failed.is_empty(), "{} cases, NARAD_SEED={seed}:\n{}", failed.len(), failed.join("\n"));
}

async fn run(template: &Template, Case { harm, cost, .. }: Case) {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("data");
    copy_tree(template.dir.path(), &dir);
    harm(&dir);
    let before = names(&dir);
    let broker = match (Broker::spawn(serve(&dir)), &cost) {
        (Err(ended), Cost::TheStart(file)) => {
            assert!(!ended.status.success());
            let path = dir.join(file);
            assert!(ended.said.contains(path.to_str().unwrap()), "it names {file}: {}", ended.said);
            let left = names(&dir);
            assert!(before.iter().all(|name| left.contains(name)), "a refused start deletes nothing");
            return;
        }
        (Err(ended), _) => panic!("it does not start: {}", ended.said),
        (Ok(broker), Cost::TheStart(_)) => panic!("it starts: {}", broker.said()),
        (Ok(broker), _) => broker,
    };
    broker.ready().await;
    let client = broker.client("t");
    client.settled().await;
    let topics = client.get("/v1/topics").await.body;
    assert_eq!(topics.matches("\"name\"").count(), 1, "{topics}");

    let served = everything(&client).await;
    let payloads: HashSet<&String> = template.contents.values().collect();
    for (at, payload) in &served {
        match template.contents.get(at) {
            Some(true_payload) => assert_eq!(payload, true_payload, "{at:?} is served with other bytes"),
            // Dispatched again.
            None => assert!(payloads.contains(payload), "{at:?} holds what nobody sent: {payload}"),
        }
    }
    let lost: Vec<_> = template.contents.keys().filter(|at| !served.contains_key(at)).collect();
    match &cost {
        Cost::Nothing => assert!(lost.is_empty(), "lost {lost:?}"),
        Cost::Offsets(most) => {
            assert!(
                lost.len() <= *most && lost.iter().all(|(partition, _)| *partition == 0),
                "lost {lost:?}"
            );
        }
        Cost::Within(range) => {
            let allowed = |(partition, offset): &(u32, u64)| *partition == 0 && range.contains(offset);
            assert!(lost.iter().all(|at| allowed(at)), "lost {lost:?}, {range:?} was damaged");
        }
        Cost::TheStart(_) => unreachable!(),
    }

    let delivered: HashSet<String> = client.drain().await.into_iter().collect();
    assert!(delivered.iter().all(|payload| payloads.contains(payload)), "consumed what nobody sent");
    let skipped: Vec<_> = served
        .values()
        .filter(|payload| !delivered.contains(*payload) && !template.settled.contains(*payload))
        .collect();
    assert!(skipped.is_empty(), "a consumer was moved past {skipped:?}");
    for partition in 0..PARTITIONS {
        assert_eq!(client.produce(&format!("?partition={partition}"), "new").await.status, 202);
    }
    assert_eq!(client.drain().await, ["new", "new", "new"]);
    assert!(broker.terminate().await.success());
    let left = names(&dir);
    let foreign = before.iter().filter(|name| name.contains("lost+found") || name.contains(".DS_Store"));
    assert!(foreign.into_iter().all(|name| left.contains(name)), "foreign entries are left alone");
}

/// Every path below `dir`, but for the lock.
fn names(dir: &Path) -> HashSet<String> {
    let mut found = HashSet::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            found.insert(entry.path().display().to_string());
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    found
}
