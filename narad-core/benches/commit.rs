//! Commit throughput beside a raw loop of `pwrite` + `fdatasync` of the same bytes on the same file system, in turns.
//!
//! `cargo bench -p narad-core --bench commit`; `BENCH_DIR` names a directory on the file system to measure.
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
    fs::OpenOptions,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Barrier},
    time::{Duration, Instant},
};

use narad_codecs::None as NoCodec;
use narad_core::{
    format::Batch,
    log::{Log, LogOptions},
    runtime::Runtime,
};
use support::{Comparison, bench_dir};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(700);

fn main() {
    if support::only_compiled() {
        return;
    }
    let root = bench_dir();
    println!(
        "commit throughput, codec none, 256 B records; ratios to pwrite + fdatasync of the same bytes\n"
    );
    for (records, bytes, goal) in [(1, 256, 0.80), (64, 256, 0.75), (1000, 1024, 0.0)] {
        let name = format!("1 writer, {records} x {bytes} B a commit");
        let mut comparison = Comparison::new(&name, "raw loop");
        for round in 0..ROUNDS {
            let raw =
                raw_loop(&root.path().join(format!("raw-{records}-{round}")), frame_len(records, bytes));
            let ours = commits(&root.path().join(format!("log-{records}-{round}")), 1, records, bytes);
            comparison.add(ours, raw);
        }
        comparison.print("commits/s", goal);
    }
    let mut comparison = Comparison::new("16 threads, 1 x 256 B a commit", "1 thread");
    for round in 0..ROUNDS {
        let one = commits(&root.path().join(format!("one-{round}")), 1, 1, 256);
        let many = commits(&root.path().join(format!("many-{round}")), 16, 1, 256);
        comparison.add(many, one);
    }
    comparison.print("commits/s", 3.0);
}

/// Bytes of the frame that holds a batch.
fn frame_len(records: usize, bytes: usize) -> usize {
    27 + batch(records, bytes).size()
}

fn batch(records: usize, bytes: usize) -> Batch {
    let payload: Vec<u8> = (0..bytes).map(|n| (n * 31) as u8).collect();
    (0..records).map(|_| ("", &payload)).collect()
}

/// Appends of `bytes` to a growing file, each synced, per second.
fn raw_loop(path: &Path, bytes: usize) -> f64 {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
    let buffer: Vec<u8> = (0..bytes).map(|n| (n * 31) as u8).collect();
    let (start, mut writes) = (Instant::now(), 0u64);
    while start.elapsed() < ROUND {
        file.write_all_at(&buffer, writes * bytes as u64).unwrap();
        file.sync_data().unwrap();
        writes += 1;
    }
    writes as f64 / start.elapsed().as_secs_f64()
}

/// Commits per second of so many threads.
fn commits(dir: &Path, threads: usize, records: usize, bytes: usize) -> f64 {
    let runtime = Runtime::default();
    let log = Log::open(&runtime, dir, LogOptions::new("bench", Arc::new(NoCodec))).unwrap();
    let barrier = Barrier::new(threads);
    let start = Instant::now();
    let counts: Vec<u64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let batch = batch(records, bytes);
                    barrier.wait();
                    let mut commits = 0;
                    while start.elapsed() < ROUND {
                        log.commit(batch.clone()).unwrap();
                        commits += 1;
                    }
                    commits
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let rate = counts.iter().sum::<u64>() as f64 / start.elapsed().as_secs_f64();
    log.close().unwrap();
    rate
}
