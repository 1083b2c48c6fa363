//! Commit throughput beside loops of `pwrite` + `fdatasync` of the same bytes on the same file system, in turns, and beside zstd
//! alone.
//!
//! `cargo bench -p narad-core --bench commit`; `-- writer`, `-- threads`, `-- logs` and `-- zstd` measure a part alone.
//! `BENCH_DIR` names a directory on the file system to measure.
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
    sync::{Arc, Barrier},
    time::{Duration, Instant},
};

use narad_codecs::{None as NoCodec, Zstd};
use narad_core::{
    format::{Batch, FrameHeader, HEADER_LEN},
    log::{Log, LogOptions},
    plugin::Codec,
    runtime::Runtime,
};
use support::{
    Comparison, bench_dir,
    raw::{Blocks, RawFile},
    records::json_batches,
};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(700);

fn main() {
    if support::only_compiled() {
        return;
    }
    let root = bench_dir();
    type Part = fn(&Path);
    let parts: [(&str, Part); 4] = [
        ("writer", one_writer),
        ("threads", one_log_of_many),
        ("logs", many_logs),
        ("zstd", one_writer_zstd),
    ];
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for (name, part) in parts {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            let dir = root.path().join(name);
            fs::create_dir(&dir).unwrap();
            part(&dir);
        }
    }
}

/// One log of one writer, beside one file.
fn one_writer(root: &Path) {
    for (records, bytes, goal) in [(1, 256, 0.92), (64, 256, 0.88), (1000, 1024, 0.58)] {
        let name = format!("1 writer, {records} x {bytes} B a commit");
        let len = frame_len(records, bytes);
        beside_files(root, &name, 1, len, goal, |dir| {
            let batch = batch(records, bytes);
            logs(dir, 1, 1, &none(), &|_| batch.clone())
        });
    }
}

/// 16 threads that share a log, beside one that has it for itself.
fn one_log_of_many(root: &Path) {
    let mut comparison = Comparison::new("16 threads, 1 x 256 B a commit", "1 thread");
    let batch = batch(1, 256);
    for round in 0..ROUNDS {
        let commits = |threads| {
            let dir = root.join(format!("{threads}-{round}"));
            logs(&dir, 1, threads, &none(), &|_| batch.clone())
        };
        comparison.add(commits(16), commits(1));
    }
    comparison.print("commits/s", 3.0);
}

/// 16 threads, each with a log for itself, beside as many that have a file for themselves.
fn many_logs(root: &Path) {
    let batch = batch(1, 256);
    beside_files(root, "16 logs, 1 x 256 B a commit", 16, frame_len(1, 256), 0.80, |dir| {
        logs(dir, 16, 1, &none(), &|_| batch.clone())
    });
}

/// One writer with zstd of level 1, beside zstd alone on the same bytes, and beside loops that write and sync what they have
/// compressed as well.
fn one_writer_zstd(root: &Path) {
    let (batches, zstd) = (json_batches(8, 1000, 1024), Arc::new(Zstd::default()) as Arc<dyn Codec>);
    let mut alone = Comparison::new("1 writer, zstd 1, 1000 x 1024 B a commit", "zstd alone");
    let others = [("zstd, written blocks", Blocks::Written(1)), ("zstd, growing file", Blocks::New)];
    let mut synced = others.map(|(name, blocks)| (Comparison::new("", name), blocks));
    for round in 0..ROUNDS {
        let dir = root.join(round.to_string());
        let ours = logs(&dir, 1, 1, &zstd, &|commit| batches[commit % batches.len()].clone());
        let raw = raw_frames(&dir.join("0"), batches.len());
        alone.add(ours, compress(&raw, |_| {}));
        for (comparison, blocks) in &mut synced {
            let mut file = RawFile::new(&dir.join(format!("{blocks:?}")), *blocks);
            comparison.add(ours, compress(&raw, |compressed| file.write(compressed)));
        }
        fs::remove_dir_all(&dir).unwrap();
    }
    alone.print("commits/s", 0.85);
    synced.iter().for_each(|(comparison, _)| comparison.print("commits/s", 0.0));
}

/// What `commits` makes a second, beside so many files of which each is written and synced by a thread of its own: over blocks
/// that were written before, which is the goal, and behind the end.
fn beside_files(
    root: &Path,
    name: &str,
    files: usize,
    bytes: usize,
    goal: f64,
    commits: impl Fn(&Path) -> f64,
) {
    let mut written = Comparison::new(name, "written blocks");
    let mut growing = Comparison::new("", "growing files");
    for round in 0..ROUNDS {
        let dir = root.join(format!("{bytes}-{round}"));
        fs::create_dir(&dir).unwrap();
        let over = raw(&dir, files, bytes, Blocks::Written(files as u64));
        let ours = commits(&dir.join("logs"));
        let behind = raw(&dir, files, bytes, Blocks::New);
        written.add(ours, over);
        growing.add(ours, behind);
        fs::remove_dir_all(&dir).unwrap();
    }
    written.print("commits/s", goal);
    growing.print("commits/s", 0.0);
}

/// Writes a second, of all files together.
fn raw(dir: &Path, files: usize, bytes: usize, blocks: Blocks) -> f64 {
    let mut files: Vec<_> =
        (0..files).map(|file| RawFile::new(&dir.join(format!("{blocks:?}-{file}")), blocks)).collect();
    let start = Instant::now();
    let writes: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = files.iter_mut().map(|file| scope.spawn(|| file.run(bytes, ROUND))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    writes as f64 / start.elapsed().as_secs_f64()
}

/// Commits a second of all logs together, with so many threads each. `batch` gives the one of a thread's n-th commit.
fn logs(
    dir: &Path,
    logs: usize,
    threads: usize,
    codec: &Arc<dyn Codec>,
    batch: &(impl Fn(usize) -> Batch + Sync),
) -> f64 {
    let runtime = Runtime::default();
    let logs: Vec<Log> = (0..logs)
        .map(|log| {
            let options = LogOptions::new(&format!("bench-{log}"), Arc::clone(codec));
            Log::open(&runtime, &dir.join(log.to_string()), options).unwrap()
        })
        .collect();
    let barrier = Barrier::new(logs.len() * threads);
    let writer = |log: &Log| {
        barrier.wait();
        // To make a batch is not the log's work.
        let (mut commits, mut took) = (0, Duration::ZERO);
        while took < ROUND {
            let batch = batch(commits);
            let start = Instant::now();
            log.commit(batch).unwrap();
            took += start.elapsed();
            commits += 1;
        }
        commits as f64 / took.as_secs_f64()
    };
    let rate: f64 = std::thread::scope(|scope| {
        let writers: Vec<_> = logs
            .iter()
            .flat_map(|log| std::iter::repeat_n(log, threads))
            .map(|log| scope.spawn(|| writer(log)))
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    logs.iter().for_each(|log| log.close().unwrap());
    rate
}

/// What a codec was given for each of the first `frames` frames of a log.
fn raw_frames(dir: &Path, frames: usize) -> Vec<Vec<u8>> {
    let first = fs::read(dir.join(format!("{:020}.log", 0))).unwrap();
    let mut rest = &first[..];
    let mut next = || {
        let (header, after) = rest.split_first_chunk::<HEADER_LEN>().unwrap();
        let header = FrameHeader::decode(header).unwrap();
        let (stored, next) = after.split_at(header.stored_len as usize);
        rest = next;
        zstd::bulk::decompress(stored, header.uncompressed_len as usize).unwrap()
    };
    (0..frames).map(|_| next()).collect()
}

/// Frames a second that one context compresses into one buffer, each handed on.
fn compress(raw: &[Vec<u8>], mut hand_on: impl FnMut(&[u8])) -> f64 {
    let mut context = zstd::bulk::Compressor::new(Zstd::DEFAULT_LEVEL).unwrap();
    let mut out = vec![0; zstd::zstd_safe::compress_bound(raw[0].len())];
    let (start, mut frames) = (Instant::now(), 0);
    while start.elapsed() < ROUND {
        let len = context.compress_to_buffer(&raw[frames % raw.len()], &mut out[..]).unwrap();
        hand_on(&out[..len]);
        frames += 1;
    }
    frames as f64 / start.elapsed().as_secs_f64()
}

fn none() -> Arc<dyn Codec> {
    Arc::new(NoCodec)
}

/// Bytes of the frame that holds a batch.
fn frame_len(records: usize, bytes: usize) -> usize {
    HEADER_LEN + batch(records, bytes).size()
}

fn batch(records: usize, bytes: usize) -> Batch {
    let payload: Vec<u8> = (0..bytes).map(|n| (n * 31) as u8).collect();
    (0..records).map(|_| ("", &payload)).collect()
}
