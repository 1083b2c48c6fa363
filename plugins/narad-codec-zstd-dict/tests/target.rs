//! What small frames of real records gain: at least twice the compression of plain zstd at the same level.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod support;

use narad_core::{format::Record, testkit::SimDisk};
use support::{codec, maintain, record, total};

fn measure(name: &str, records: &[Record]) {
    let (sample, later) = records.split_at(records.len().min(2000) / 2);
    let codec = codec(&SimDisk::new(1));
    let plain = total(&codec, later);
    maintain(&codec, sample);
    let with = total(&codec, later);
    println!(
        "{name}: {plain} bytes plain, {with} with a dictionary: {:.2} times",
        plain as f64 / with as f64
    );
    assert!(with * 2 <= plain, "{name}: {plain} bytes plain, {with} with a dictionary");
}

#[test]
fn real_records_a_frame_each_take_half_of_what_plain_zstd_takes() {
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let mut found = 0;
    for file in ["flights.jsonl", "earthquakes.jsonl"] {
        let Ok(lines) = std::fs::read_to_string(format!("{shared}/{file}")) else { continue };
        let lines = lines.lines().zip(0..).map(|(line, n)| record(n, line.as_bytes().to_vec()));
        measure(file, &lines.collect::<Vec<_>>());
        found += 1;
    }
    if found == 0 {
        eprintln!("notice: no ../shared/data; records that are made here are measured alone");
    }
    measure("records made here", &support::records("order", 0..3000));
}
