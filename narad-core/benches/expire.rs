//! What commits wait for while 1 GiB of another log expires, beside the same commits with nothing else going on, and
//! beside raw unlinks of the same bytes.
//!
//! `cargo bench -p narad-core --bench expire`; `BENCH_DIR` names a directory on the file system to measure. Needs about
//! 1.5 GiB there.
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
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use narad_codecs::None as NoCodec;
use narad_core::{
    format::Batch,
    log::{Log, LogOptions},
    plugin::{RetentionDecision, RetentionPolicy, RetentionView},
    runtime::Runtime,
};
use support::{bench_dir, median};

const ROUNDS: usize = 5;
/// How long commits are looked at. What expires is gone long before the end.
const WINDOW: Duration = Duration::from_millis(1500);
const BEFORE: Duration = Duration::from_millis(200);
const GIB: u64 = 1 << 30;

fn main() {
    if support::only_compiled() {
        return;
    }
    let root = bench_dir();
    let runtime = Runtime::default();
    let bystander = open(&runtime, &root.path().join("bystander"), "bystander");
    let mut cases: Vec<(&str, Vec<Latencies>)> = [
        "nothing beside",
        "1 GiB expires",
        "raw: 16 files unlinked at once",
        "raw: one file unlinked at once",
        "raw: one file, 32 MiB steps, 5 ms apart",
    ]
    .map(|name| (name, Vec::new()))
    .into();
    for round in 0..ROUNDS {
        let dir = root.path().join(round.to_string());
        let log = full(&runtime, &dir.join("log"));
        let many: Vec<PathBuf> = (0..16).map(|n| file(&dir.join(n.to_string()), GIB / 16)).collect();
        let one = file(&dir.join("one"), GIB);
        let other = file(&dir.join("other"), GIB);
        rustix::fs::sync();
        for (index, (_, taken)) in cases.iter_mut().enumerate() {
            let beside = || match index {
                0 => {}
                1 => _ = log.sweep(None).unwrap(),
                2 => many.iter().for_each(|path| fs::remove_file(path).unwrap()),
                3 => fs::remove_file(&one).unwrap(),
                _ => in_steps(&other),
            };
            taken.push(commits(&bystander, beside));
        }
        let left = fs::read_dir(log.dir()).unwrap().filter(|entry| {
            entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "log")
        });
        assert_eq!(left.count(), 1, "all but the active segment is gone");
        log.close().unwrap();
    }
    println!("1 x 256 B a commit, medians of {ROUNDS} rounds taken in turns\n");
    let p999 = |taken: &[Latencies]| median(taken.iter().map(|one| one.p999).collect());
    let alone = p999(&cases[0].1);
    for (name, taken) in &cases {
        let of = |pick: fn(&Latencies) -> f64| median(taken.iter().map(pick).collect());
        let beside: Vec<f64> =
            taken.iter().zip(&cases[0].1).map(|(one, alone)| one.p999 / alone.p999).collect();
        println!(
            "{name:<42} median {:>6.3} ms, p99.9 {:>7.3} ms, worst {:>7.3} ms; p99.9 against nothing {:.2} (of medians {:.2})",
            of(|one| one.median),
            of(|one| one.p999),
            of(|one| one.worst),
            median(beside),
            p999(taken) / alone,
        );
    }
}

#[derive(Debug)]
struct Latencies {
    median: f64,
    p999: f64,
    worst: f64,
}

/// Commits for the whole window, and what happens beside them after a while.
fn commits(log: &Log, beside: impl Fn() + Sync) -> Latencies {
    let mut taken = Vec::new();
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(BEFORE);
            beside();
            assert!(start.elapsed() < WINDOW, "the window is too short");
        });
        while start.elapsed() < WINDOW {
            let before = Instant::now();
            log.commit(Batch::of(b"", &[7; 256])).unwrap();
            taken.push(before.elapsed().as_secs_f64() * 1e3);
        }
    });
    taken.sort_by(f64::total_cmp);
    let at = |share: f64| taken[((taken.len() as f64 * share) as usize).min(taken.len() - 1)];
    Latencies { median: at(0.5), p999: at(0.999), worst: at(1.0) }
}

/// Everything but the active segment may go.
#[derive(Debug)]
struct Everything;

impl RetentionPolicy for Everything {
    fn name(&self) -> &str {
        "everything"
    }
    fn roll_age(&self) -> Option<Duration> {
        None
    }
    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        let sealed = view.segments.iter().take_while(|segment| segment.sealed).count();
        RetentionDecision::expire(sealed, "bench")
    }
}

fn open(runtime: &Runtime, dir: &Path, name: &str) -> Log {
    let mut options = LogOptions::new(name, Arc::new(NoCodec));
    options.retention = Arc::new(Everything);
    Log::open(runtime, dir, options).unwrap()
}

/// A log with 1 GiB in its sealed segments.
fn full(runtime: &Runtime, dir: &Path) -> Log {
    let log = open(runtime, dir, "expiring");
    let batch: Batch = (0..1000).map(|_| ("", [7u8; 1024])).collect();
    while log.stats().segments <= 16 {
        log.commit(batch.clone()).unwrap();
    }
    log
}

fn file(path: &Path, bytes: u64) -> PathBuf {
    use std::io::Write;
    let mut file = fs::File::create(path).unwrap();
    let chunk = vec![7u8; 1 << 20];
    (0..bytes >> 20).for_each(|_| file.write_all(&chunk).unwrap());
    file.sync_all().unwrap();
    path.to_owned()
}

fn in_steps(path: &Path) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    let mut len = file.metadata().unwrap().len();
    while len > 0 {
        len = len.saturating_sub(32 << 20);
        file.set_len(len).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::remove_file(path).unwrap();
}
