//! Reading back, opening, and what idle logs cost.
//!
//! `cargo bench -p narad-core --bench read`; `-- idle`, `-- sequential` and `-- open` measure a part alone. `BENCH_DIR` names a directory on the file system to measure.
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
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use narad_codecs::{None as NoCodec, Zstd};
use narad_core::{
    format::{Batch, FrameHeader, HEADER_LEN, Offset},
    log::{Log, LogOptions},
    plugin::Codec,
    runtime::Runtime,
};
use support::{Comparison, bench_dir, cpu_ticks, records::json_batches, resident_bytes};

const ROUNDS: usize = 5;

fn main() {
    if support::only_compiled() {
        return;
    }
    let root = bench_dir();
    // Idle logs first, while the process holds nothing else.
    type Part = fn(&Path);
    let parts: [(&str, Part); 3] =
        [("idle", idle_logs), ("sequential", sequential_read), ("open", open_time)];
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for (name, part) in parts {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            part(&root.path().join(name));
        }
    }
}

fn open_with(dir: &Path, codec: &Arc<dyn Codec>) -> Log {
    Log::open(&Runtime::default(), dir, LogOptions::new("bench", Arc::clone(codec))).unwrap()
}

/// Everything from the first record to the last, by a log that was just opened, beside the same files read and summed in a
/// loop, and beside zstd alone on the same frames.
fn sequential_read(root: &Path) {
    let zstd: Arc<dyn Codec> = Arc::new(Zstd::default());
    let none: Arc<dyn Codec> = Arc::new(NoCodec);
    for (codec, records, bytes, frames) in [
        (&none, 64, 1024, 8192),
        (&none, 1000, 1024, 524),
        (&none, 64, 256, 16384),
        (&none, 1, 256, 50_000),
        (&zstd, 64, 1024, 8192),
        (&zstd, 1000, 1024, 524),
    ] {
        let dir = root.join(format!("{}-{records}-{bytes}", codec.name()));
        let expected = fill(&dir, codec, frames, records, bytes);
        let is_none = codec.name() == "none";
        let name = format!("read, {}, {records} x {bytes} B a frame", codec.name());
        let mut comparison = Comparison::new(&name, if is_none { "read + crc" } else { "zstd alone" });
        for _ in 0..ROUNDS {
            let raw = if is_none { read_and_sum(&dir) } else { zstd_alone(&dir) };
            comparison.add(read_all(&dir, codec, expected), expected as f64 / raw);
        }
        comparison.print("records/s", if is_none { 0.0 } else { 0.85 });
        fs::remove_dir_all(&dir).unwrap();
    }
}

/// Fills a log. Answers how many records it has.
fn fill(dir: &Path, codec: &Arc<dyn Codec>, frames: usize, records: usize, bytes: usize) -> u64 {
    let log = open_with(dir, codec);
    let batches = json_batches(8, records, bytes);
    for frame in 0..frames {
        log.commit(batches[frame % 8].clone()).unwrap();
    }
    let end = log.high_watermark();
    log.close().unwrap();
    end.get()
}

/// Records a second.
fn read_all(dir: &Path, codec: &Arc<dyn Codec>, expected: u64) -> f64 {
    let start = Instant::now();
    let log = open_with(dir, codec);
    let (mut from, mut seen) = (Offset::ZERO, 0u64);
    while from < log.high_watermark() {
        let batch = log.read_batch(from, 10_000, 4 << 20).unwrap();
        seen += batch.records.len() as u64;
        from = batch.next;
    }
    assert_eq!(seen, expected);
    seen as f64 / start.elapsed().as_secs_f64()
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|ext| ext == "log")).collect();
    paths.sort();
    paths
}

/// Seconds for all bytes, 256 KiB at a time, into one buffer.
fn read_and_sum(dir: &Path) -> f64 {
    let (start, mut buffer, mut sum) = (Instant::now(), vec![0; 256 << 10], 0u32);
    for path in segments(dir) {
        let mut file = fs::File::open(path).unwrap();
        loop {
            let read = file.read(&mut buffer).unwrap();
            if read == 0 {
                break;
            }
            sum ^= crc_fast::crc32_iscsi(&buffer[..read]);
        }
    }
    std::hint::black_box(sum);
    start.elapsed().as_secs_f64()
}

/// Seconds for the payload of every frame, in memory, by one context into one buffer.
fn zstd_alone(dir: &Path) -> f64 {
    let (mut context, mut out) = (zstd::bulk::Decompressor::new().unwrap(), vec![0; 4 << 20]);
    let mut took = 0.0;
    for path in segments(dir) {
        let bytes = fs::read(path).unwrap();
        let (start, mut rest) = (Instant::now(), &bytes[..]);
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_LEN>() {
            let (stored, next) = after.split_at(FrameHeader::decode(header).unwrap().stored_len as usize);
            context.decompress_to_buffer(stored, &mut out[..]).unwrap();
            rest = next;
        }
        took += start.elapsed().as_secs_f64();
    }
    took
}

/// Opening after a crash with few and with many sealed segments, the same active segment given.
fn open_time(root: &Path) {
    let (few, many) = (root.join("open-4"), root.join("open-256"));
    let none: Arc<dyn Codec> = Arc::new(NoCodec);
    for (dir, sealed) in [(&few, 1), (&many, 4)] {
        fill(dir, &none, sealed * 64 + 16, 1024, 1024);
        fs::write(dir.join("hwm"), []).unwrap();
    }
    let mut comparison = Comparison::new("opens/s, 256 MiB sealed, 16 MiB active", "64 MiB sealed");
    for _ in 0..ROUNDS {
        let opens = |dir: &Path| {
            let start = Instant::now();
            for _ in 0..10 {
                drop(open_with(dir, &none));
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
