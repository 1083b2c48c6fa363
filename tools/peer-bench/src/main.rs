//! Appends a second of embedded logs at the same durability, against a raw loop on the same file system; see README.md.

mod peers;

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use peers::{Append, PEERS};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(700);
/// What the raw loop writes over, in bytes.
const RAW_BYTES: usize = 64 << 20;

/// Threads that append, records in an append, bytes of a record.
const JOBS: &[(usize, usize, usize)] = &[(1, 1, 256), (1, 64, 256), (1, 1000, 1024), (16, 1, 256)];

fn main() {
    let dir = std::env::args_os().nth(1).expect("the directory to measure in, as the only argument");
    let root = tempfile::tempdir_in(dir).expect("a directory of its own");
    let raw = RawLoop::new(&root.path().join("raw"));
    let names = PEERS.iter().map(|(name, _)| *name);
    println!("| appends a second | raw loop | {} |", names.collect::<Vec<_>>().join(" | "));
    println!("| --- | --- |{}", " --- |".repeat(PEERS.len()));
    for &(threads, records, bytes) in JOBS {
        let batch = vec![vec![0x5A; bytes]; records];
        let dirs = PEERS.iter().map(|(name, open)| {
            let dir = tempfile::tempdir_in(root.path()).expect(name);
            let append = open(dir.path());
            (dir, append)
        });
        let logs: Vec<_> = dirs.collect();
        let mut rates = vec![Vec::new(); logs.len()];
        let mut raw_rates = Vec::new();
        for _ in 0..ROUNDS {
            for ((_, append), rates) in logs.iter().zip(&mut rates) {
                let limit = raw.run(records * bytes);
                raw_rates.push(limit);
                let rate = rate_of(threads, append, &batch);
                rates.push((rate, rate / limit));
            }
        }
        let cells = rates.into_iter().map(|rates| {
            let (rate, ratio): (Vec<_>, Vec<_>) = rates.into_iter().unzip();
            format!("{:.0} ({:.2})", median(rate), median(ratio))
        });
        let cells: Vec<_> = cells.collect();
        println!("| {threads} x {records} x {bytes} B | {:.0} | {} |", median(raw_rates), cells.join(" | "));
    }
}

/// `pwrite` and `fdatasync` over blocks that were written before.
struct RawLoop {
    file: File,
    bytes: Vec<u8>,
}

impl RawLoop {
    fn new(path: &Path) -> Self {
        let file = File::create_new(path).expect("the raw loop's file");
        let bytes = vec![0xA5; RAW_BYTES];
        file.write_all_at(&bytes, 0).and_then(|()| file.sync_all()).expect("the raw loop's blocks");
        Self { file, bytes }
    }

    fn run(&self, bytes: usize) -> f64 {
        let mut at = 0;
        rate(|| {
            if at + bytes > RAW_BYTES {
                at = 0;
            }
            self.file.write_all_at(&self.bytes[..bytes], at as u64).expect("the raw loop writes");
            self.file.sync_data().expect("the raw loop syncs");
            at += bytes;
        })
    }
}

/// What `threads` reach together.
fn rate_of(threads: usize, append: &Append, batch: &[Vec<u8>]) -> f64 {
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(|| rate(|| append(batch)))).collect();
        running.into_iter().map(|thread| thread.join().expect("no append panics")).sum()
    })
}

/// How often a second `once` can be done.
fn rate(mut once: impl FnMut()) -> f64 {
    let (began, mut count) = (Instant::now(), 0u32);
    while began.elapsed() < ROUND {
        once();
        count += 1;
    }
    f64::from(count) / began.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
