//! Reading back, opening, and what idle logs cost.
//!
//! `cargo bench -p narad-core --bench read`; `BENCH_DIR` names a directory on the file system to measure.
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
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use narad_codecs::None as NoCodec;
use narad_core::{
    format::{Batch, Offset},
    log::{Log, LogOptions},
    runtime::Runtime,
};
use support::{Comparison, bench_dir, cpu_ticks, median, resident_bytes};

const ROUNDS: usize = 5;

fn main() {
    if support::only_compiled() {
        return;
    }
    let root = bench_dir();
    // First, while the process holds nothing else.
    idle_logs(&root.path().join("idle"));
    sequential_read(&root.path().join("read"));
    open_time(root.path());
}

fn open(dir: &Path) -> Log {
    Log::open(&Runtime::default(), dir, LogOptions::new("bench", Arc::new(NoCodec))).unwrap()
}

fn fill(dir: &Path, frames: usize, records: usize, bytes: usize) -> Log {
    let log = open(dir);
    let payload = vec![7u8; bytes];
    let batch: Batch = (0..records).map(|_| ("", &payload)).collect();
    for _ in 0..frames {
        log.commit(batch.clone()).unwrap();
    }
    log
}

/// Everything from the first record to the last, by a log that was just opened.
fn sequential_read(dir: &Path) {
    let records = 1_000_000;
    fill(dir, records / 64, 64, 256).close().unwrap();
    let rates: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let log = open(dir);
            let (start, mut from, mut seen) = (Instant::now(), Offset::ZERO, 0usize);
            while from < log.high_watermark() {
                let batch = log.read_batch(from, 10_000, 4 << 20).unwrap();
                seen += batch.records.iter().filter(|record| record.payload.len() == 256).count();
                from = batch.next;
            }
            assert_eq!(seen, records / 64 * 64);
            seen as f64 / start.elapsed().as_secs_f64()
        })
        .collect();
    println!(
        "sequential read, 256 B in frames of 64, cold open: {:.0} records/s on one thread, goal 1000000",
        median(rates)
    );
}

/// Opening after a crash with few and with many sealed segments, the same active segment given.
fn open_time(root: &Path) {
    let (few, many) = (root.join("open-4"), root.join("open-256"));
    for (dir, sealed) in [(&few, 1), (&many, 4)] {
        fill(dir, sealed * 64 + 16, 1024, 1024);
        fs::write(dir.join("hwm"), []).unwrap();
    }
    let mut comparison = Comparison::new("opens/s, 256 MiB sealed, 16 MiB active", "64 MiB sealed");
    for _ in 0..ROUNDS {
        let opens = |dir: &Path| {
            let start = Instant::now();
            for _ in 0..10 {
                drop(open(dir));
            }
            10.0 / start.elapsed().as_secs_f64()
        };
        let (many, few) = (opens(&many), opens(&few));
        comparison.add(many, few);
    }
    comparison.print("opens/s", 0.0);
}

/// Memory and CPU of 500 open logs that nobody uses.
fn idle_logs(dir: &Path) {
    let runtime = Runtime::default();
    let options = || LogOptions::new("idle", Arc::new(NoCodec));
    let before = resident_bytes();
    let logs: Vec<Log> = (0..500)
        .map(|n| {
            let log = Log::open(&runtime, &dir.join(n.to_string()), options()).unwrap();
            log.commit(Batch::of(b"k", b"v")).unwrap();
            log
        })
        .collect();
    let each = resident_bytes().saturating_sub(before) / logs.len() as u64;
    std::thread::sleep(Duration::from_secs(1));
    let cpu = cpu_ticks();
    std::thread::sleep(Duration::from_secs(10));
    println!(
        "500 idle logs: {each} bytes resident each, goal 65536; {} clock ticks of CPU in 10 s",
        cpu_ticks() - cpu
    );
}
