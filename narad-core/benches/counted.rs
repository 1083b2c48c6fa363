//! The hot ways of a log, one function each, for a count of their instructions: clocks are noisy, counts are not.
//!
//! `bash .ci/instructions` counts them under callgrind and compares with what is recorded; see there. Run by hand, with the
//! name of a job, it does the job once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a benchmark"
)]

mod support;

use std::{path::Path, sync::Arc};

use narad_codecs::None as NoCodec;
use narad_core::{
    format::Batch,
    log::{Log, LogOptions},
    runtime::Runtime,
};
use support::bench_dir;

fn main() {
    if support::only_compiled() {
        return;
    }
    let root = bench_dir();
    let job = std::env::args()
        .find(|argument| !argument.starts_with('-') && JOBS.iter().any(|job| job.0 == argument));
    for (name, run) in JOBS.iter().filter(|(name, _)| job.as_deref().is_none_or(|job| job == *name)) {
        run(&root.path().join(name));
    }
}

/// A job's name, and what does it in a directory.
type Job = (&'static str, fn(&Path));

/// By the name under which the count is recorded. Only what is within `counted` counts.
const JOBS: &[Job] = &[
    ("commit_of_1_record", |dir| commit(dir, 100, 1, 256)),
    ("commit_of_64_records", |dir| commit(dir, 50, 64, 256)),
    ("commit_of_1000_records", |dir| commit(dir, 10, 1000, 1024)),
    ("read_of_small_frames", |dir| read(dir, 2000, 1, 256)),
    ("read_of_large_frames", |dir| read(dir, 20, 1000, 1024)),
    ("recovery_of_an_active_segment", |dir| {
        // Not closed, as after a crash.
        std::mem::forget(fill(dir, 2000, 8, 256));
        counted(|| std::mem::forget(open(dir)));
    }),
];

#[inline(never)]
fn counted(job: impl FnOnce()) {
    job();
}

fn commit(dir: &Path, commits: usize, records: usize, bytes: usize) {
    let log = fill(dir, 10, records, bytes);
    let batches = batches(commits, records, bytes);
    counted(|| {
        for batch in batches {
            log.commit(batch).unwrap();
        }
    });
}

fn read(dir: &Path, commits: usize, records: usize, bytes: usize) {
    drop(fill(dir, commits, records, bytes));
    let log = open(dir);
    counted(|| {
        let mut next = log.oldest_offset();
        while next < log.high_watermark() {
            let read = log.read_batch(next, 1000, 4 << 20).unwrap();
            assert!(read.next > next && read.unreadable.is_empty());
            next = read.next;
        }
    });
}

fn open(dir: &Path) -> Log {
    Log::open(&Runtime::default(), dir, LogOptions::new("counted", Arc::new(NoCodec))).unwrap()
}

fn fill(dir: &Path, commits: usize, records: usize, bytes: usize) -> Log {
    let log = open(dir);
    for batch in batches(commits, records, bytes) {
        log.commit(batch).unwrap();
    }
    log
}

fn batches(count: usize, records: usize, bytes: usize) -> Vec<Batch> {
    let payload: Vec<u8> = (0..bytes).map(|n| (n * 31) as u8).collect();
    (0..count).map(|_| (0..records).map(|_| ("", &payload)).collect()).collect()
}
