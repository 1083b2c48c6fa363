//! What the benchmarks share: a directory on the file system to measure, and ratios of medians.
#![allow(dead_code, unreachable_pub, reason = "each benchmark uses a part of it")]

pub mod raw;
pub mod records;

/// Whether the run is a test of the harness (`cargo test --benches`), in which nothing is measured.
pub fn only_compiled() -> bool {
    !std::env::args().any(|argument| argument == "--bench")
}

/// A fresh directory, in `BENCH_DIR` if that is set.
pub fn bench_dir() -> tempfile::TempDir {
    match std::env::var_os("BENCH_DIR") {
        Some(dir) => tempfile::tempdir_in(dir).unwrap(),
        None => tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
    }
}

/// Two figures taken in turns, and their ratio pair by pair.
pub struct Comparison {
    name: String,
    other: &'static str,
    pairs: Vec<(f64, f64)>,
}

impl Comparison {
    pub fn new(name: &str, other: &'static str) -> Self {
        Self { name: name.to_owned(), other, pairs: Vec::new() }
    }

    pub fn add(&mut self, ours: f64, theirs: f64) {
        self.pairs.push((ours, theirs));
    }

    pub fn print(&self, unit: &str, goal: f64) {
        let of = |pick: fn(&(f64, f64)) -> f64| median(self.pairs.iter().map(pick).collect());
        let ratios: Vec<f64> = self.pairs.iter().map(|(ours, theirs)| ours / theirs).collect();
        let (low, high) = ratios.iter().fold((f64::MAX, 0f64), |(low, high), &r| (low.min(r), high.max(r)));
        println!(
            "{:<40} {:>9.0} {unit}; {} {:>9.0}; ratio {:.2} ({low:.2}-{high:.2}){}",
            self.name,
            of(|pair| pair.0),
            self.other,
            of(|pair| pair.1),
            median(ratios),
            if goal > 0.0 { format!(", goal {goal:.2}") } else { String::new() },
        );
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Memory of this process.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// CPU time of this process.
pub fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
