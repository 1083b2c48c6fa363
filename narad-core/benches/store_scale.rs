//! What a store of many logs costs: memory and CPU of idle logs, passes of retention, the start after a crash, and what
//! a recovery does to the commits of another topic.
//!
//! `cargo bench -p narad-core --bench store_scale`; `-- idle`, `-- start`, `-- retained` and `-- recovery`
//! measure a part alone. `BENCH_DIR` names a directory on the file system to measure. Needs about 1 GiB there, and a limit of more than
//! 10,000 open files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a benchmark"
)]

mod support;

use std::{
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use narad_codecs::None as NoCodec;
use narad_core::{
    format::Batch,
    log::{Log, LogOptions},
    plugin::{Incarnation, PartitionId},
    runtime::{Runtime, RuntimeOptions},
    store::{Store, StoreOptions, TopicSpec},
    testkit::ManualClock,
};
use narad_retention::Age;
use support::{Comparison, bench_dir, cpu_ticks, median, resident_bytes};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const PASSES: usize = 101;

fn main() {
    if support::only_compiled() {
        return;
    }
    let root = bench_dir();
    // Idle logs first, while the process holds nothing else.
    type Part = fn(&Path);
    let parts: [(&str, Part); 4] = [
        ("idle", idle_logs),
        ("start", start_after_a_crash),
        ("retained", start_with_much),
        ("recovery", beside_a_recovery),
    ];
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for (name, part) in parts {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            part(&root.path().join(name));
        }
    }
}

/// Topics of so many partitions each, whose files are copies of one log's.
struct Data {
    dir: PathBuf,
    specs: Vec<TopicSpec>,
    segments: Vec<String>,
}

impl Data {
    /// `segments` of `frames` frames of `bytes` bytes, the last one active; as a crash leaves it, or closed.
    fn new(
        dir: &Path,
        topics: usize,
        partitions: u32,
        segments: usize,
        (frames, bytes): (usize, usize),
        crashed: bool,
    ) -> Self {
        let template = dir.join("template");
        let mut options = LogOptions::new("template", Arc::new(NoCodec));
        options.segment_bytes = (bytes * frames) as u64;
        let log = Log::open(&Runtime::default(), &template, options).unwrap();
        let record = vec![7u8; bytes];
        // One frame less in the active one, or it would be sealed too.
        (1..segments * frames).for_each(|_| _ = log.commit(Batch::of(b"", &record)).unwrap());
        assert_eq!(log.stats().segments, segments);
        log.close().unwrap();
        if crashed {
            fs::write(template.join("hwm"), []).unwrap();
        }
        let mut names: Vec<String> = fs::read_dir(&template)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let specs: Vec<_> =
            (0..topics).map(|topic| spec(&format!("topic-{topic}"), topic, partitions)).collect();
        for spec in &specs {
            let topic = dir.join("data/topics").join(&*spec.name);
            fs::create_dir_all(&topic).unwrap();
            fs::write(topic.join("incarnation"), spec.incarnation.to_string()).unwrap();
            for partition in 0..partitions {
                let partition = topic.join(format!("p{partition:05}"));
                fs::create_dir(&partition).unwrap();
                names
                    .iter()
                    .for_each(|name| _ = fs::copy(template.join(name), partition.join(name)).unwrap());
            }
        }
        rustix::fs::sync();
        let segments = names.into_iter().filter(|name| name.ends_with(".log")).collect();
        Self { dir: dir.join("data"), specs, segments }
    }

    fn partition_dirs(&self) -> Vec<PathBuf> {
        let topics =
            self.specs.iter().map(|spec| (self.dir.join("topics").join(&*spec.name), spec.partitions));
        topics.flat_map(|(dir, count)| (0..count).map(move |n| dir.join(format!("p{n:05}")))).collect()
    }
}

fn spec(name: &str, id: usize, partitions: u32) -> TopicSpec {
    let mut spec = TopicSpec::new(name, Incarnation::new(id as u64 + 1), partitions, Arc::new(NoCodec));
    spec.retention = Arc::new(Age::new(7 * DAY));
    spec
}

/// Memory and CPU of 10,000 open logs that nobody uses, and what looking after them costs, open and closed.
fn idle_logs(dir: &Path) {
    const LOGS: u64 = 10_000;
    let data = Data::new(dir, 100, (LOGS / 100) as u32, 2, (2, 4096), false);
    // Passes come when the clock says so; the store's threads wait by the system's.
    let clock = ManualClock::at(unix_ms_now());
    let mut options = RuntimeOptions::default();
    options.clock = Arc::new(clock.clone());
    let runtime = Runtime::new(options);

    let mut options = StoreOptions::default();
    // The passes take less time than they would by the clock.
    options.idle_eviction = Some(DAY);
    let store = Store::open(&runtime, &data.dir, options).unwrap();
    let before = resident_bytes();
    assert_eq!(store.open_all(&data.specs, None).len(), 0);
    let each = |before: u64| resident_bytes().saturating_sub(before) / LOGS;
    println!("{LOGS} idle logs of 2 segments: {} bytes resident each", each(before));

    let pass = |after: Duration| {
        clock.advance(after);
        let start = Instant::now();
        store.tick();
        start.elapsed().as_secs_f64() * 1e6 / LOGS as f64
    };
    let sweep = Duration::from_secs(61);
    let first = pass(sweep);
    println!(
        "reaper pass, nothing to do: {:.2} us a log; the first one, which learns when segments were written, {first:.2}",
        median((0..PASSES).map(|_| pass(sweep)).collect()),
    );

    let before_commits = resident_bytes();
    commit_once_each(&store, &data.specs, 64 << 10, 1000);
    let used = resident_bytes().saturating_sub(before_commits) / 1000;
    (0..3).for_each(|_| _ = pass(sweep));
    println!(
        "and after a commit of 64 KiB: {used} bytes more, {} more once they are idle again",
        resident_bytes().saturating_sub(before_commits) / 1000,
    );

    assert_eq!(store.counts().evicted, 0);
    store.start().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let cpu = cpu_ticks();
    std::thread::sleep(Duration::from_secs(10));
    println!("CPU of {LOGS} idle logs with the store's threads: {} clock ticks in 10 s", cpu_ticks() - cpu);
    drop(store);

    let mut options = StoreOptions::default();
    options.idle_eviction = Some(Duration::ZERO);
    let store = Store::open(&runtime, &data.dir, options).unwrap();
    assert_eq!(store.open_all(&data.specs, None).len(), 0);
    clock.advance(sweep);
    store.tick();
    assert_eq!(store.counts().evicted, LOGS);
    let walk = || {
        clock.advance(Duration::from_secs(301));
        let start = Instant::now();
        store.tick();
        start.elapsed().as_secs_f64() * 1e6 / LOGS as f64
    };
    println!(
        "cold walk, nothing to do: {:.2} us a closed log",
        median((0..PASSES).map(|_| walk()).collect())
    );
}

fn unix_ms_now() -> i64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64
}

/// A commit of `bytes` on the first `logs` logs.
fn commit_once_each(store: &Store, specs: &[TopicSpec], bytes: usize, logs: usize) {
    let payload = vec![7u8; bytes];
    let partitions = specs.iter().flat_map(|spec| (0..spec.partitions).map(move |n| (spec, PartitionId(n))));
    let partitions: Vec<_> = partitions.take(logs).collect();
    side_by_side(&partitions, 16, |&(spec, partition)| {
        store.log(spec, partition).unwrap().commit(Batch::of(b"", &payload)).unwrap();
    });
}

fn side_by_side<T: Sync>(items: &[T], threads: usize, work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(item);
                }
            });
        }
    });
}

/// From start to ready with 2,000 partitions, beside a loop that reads and syncs the active segments and does no more.
fn start_after_a_crash(dir: &Path) {
    let data = Data::new(dir, 100, 20, 3, (4, 4096), true);
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(8));
    let active: Vec<PathBuf> =
        data.partition_dirs().iter().map(|dir| dir.join(data.segments.last().unwrap())).collect();
    let mut comparison = Comparison::new("2,000 partitions, start after a crash", "raw loop");
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let store = Store::open(&Runtime::default(), &data.dir, StoreOptions::default()).unwrap();
        assert_eq!(store.open_all(&data.specs, None).len(), 0);
        let ours = start.elapsed();
        // As after another crash: nothing was closed.
        drop(store);
        let start = Instant::now();
        side_by_side(&active, threads, |path| read_and_sync(path));
        comparison.add(ours.as_secs_f64() * 1e3, start.elapsed().as_secs_f64() * 1e3);
    }
    comparison.print("ms", 0.0);
}

/// 1 GiB in the active segments of one topic's 16 partitions, beside a loop that reads them once.
fn start_with_much(dir: &Path) {
    let data = Data::new(dir, 1, 16, 1, (64, 1 << 20), true);
    let last = data.segments.last().unwrap();
    let active: Vec<PathBuf> = data.partition_dirs().iter().map(|dir| dir.join(last)).collect();
    let mut comparison = Comparison::new("1 GiB in 16 partitions, start after a crash", "read once");
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let store = Store::open(&Runtime::default(), &data.dir, StoreOptions::default()).unwrap();
        assert_eq!(store.open_all(&data.specs, None).len(), 0);
        let ours = start.elapsed();
        drop(store);
        let (start, mut buffer) = (Instant::now(), vec![0; 256 << 10]);
        for path in &active {
            let mut file = fs::File::open(path).unwrap();
            while std::io::Read::read(&mut file, &mut buffer).unwrap() > 0 {}
        }
        comparison.add(ours.as_secs_f64() * 1e3, start.elapsed().as_secs_f64() * 1e3);
    }
    comparison.print("ms", 1.5);
}

fn read_and_sync(path: &Path) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut &file, &mut bytes).unwrap();
    black_box(&bytes);
    file.sync_data().unwrap();
}

/// The slowest commits of one topic while another one's 64 MiB are recovered again and again.
fn beside_a_recovery(dir: &Path) {
    let runtime = Runtime::default();
    let neighbour = dir.join("neighbour");
    let log = Log::open(&runtime, &neighbour, LogOptions::new("neighbour", Arc::new(NoCodec))).unwrap();
    let batch: Batch = (0..64).map(|_| ("", vec![7u8; 4096])).collect();
    while log.stats().bytes < (64 << 20) - 2 * batch.size() as u64 {
        log.commit(batch.clone()).unwrap();
    }
    drop(log);
    let file = fs::read_dir(&neighbour).unwrap().next().unwrap().unwrap().path();

    let store = Store::open(&runtime, &dir.join("data"), StoreOptions::default()).unwrap();
    let log = store.log(&spec("topic", 0, 1), PartitionId(0)).unwrap();
    let recover = || {
        let options = LogOptions::new("neighbour", Arc::new(NoCodec));
        drop(Log::open(&runtime, &neighbour, options).unwrap());
    };
    let recover_from_disk = || {
        let cached = fs::File::open(&file).unwrap();
        rustix::fs::fadvise(&cached, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        recover();
    };
    let read = || read_and_sync(&file);
    let others: [(&str, &(dyn Fn() + Sync)); 3] = [
        ("p99 of commits beside a recovery", &recover),
        ("the same, its file not in memory", &recover_from_disk),
        ("beside a loop that reads and syncs it", &read),
    ];
    let mut comparisons = others.map(|(name, _)| Comparison::new(name, "alone"));
    for _ in 0..ROUNDS {
        let alone = p99_beside(&log, None);
        for ((_, other), comparison) in others.iter().zip(&mut comparisons) {
            comparison.add(p99_beside(&log, Some(other)), alone);
        }
    }
    comparisons.iter().for_each(|comparison| comparison.print("us", 1.5));
    store.close().unwrap();
}

const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_millis(1500);

/// The 99th percentile of commits in microseconds, while another thread does `other` without a pause.
fn p99_beside(log: &Log, other: Option<&(dyn Fn() + Sync)>) -> f64 {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if let Some(other) = other {
            let ended = &ended;
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    other();
                }
            });
        }
        let (start, mut times) = (Instant::now(), Vec::new());
        let record = [7u8; 256];
        while start.elapsed() < ROUND {
            let before = Instant::now();
            log.commit(Batch::of(b"", &record)).unwrap();
            times.push(before.elapsed().as_secs_f64() * 1e6);
        }
        ended.store(true, Ordering::Relaxed);
        times.sort_by(f64::total_cmp);
        times[times.len() * 99 / 100]
    })
}
