//! What a CRC-32C costs: the crate that the engine uses beside another one, which uses no instruction newer than SSE 4.2.
//!
//! `cargo bench -p narad-core --bench crc`. Sums go on from another, as a frame's does from its header to its payload.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a benchmark"
)]

mod support;

use std::{hint::black_box, time::Instant};

use crc_fast::{CrcAlgorithm, Digest, get_calculator_target};
use support::Comparison;

const ROUNDS: usize = 9;

fn main() {
    if support::only_compiled() {
        return;
    }
    println!("crc-fast takes {}", get_calculator_target(CrcAlgorithm::Crc32Iscsi));
    for len in [21, 256, 272, 512, 1024, 4 << 10, 16 << 10, 64 << 10, 1 << 20, 16 << 20] {
        let bytes: Vec<u8> = (0..len).map(|n| (n * 31) as u8).collect();
        let mut comparison = Comparison::new(&format!("{len} bytes"), "crate crc32c");
        for _ in 0..ROUNDS {
            let ours = megabytes_a_second(&bytes, |crc, bytes| {
                let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
                digest.update(bytes);
                digest.finalize() as u32
            });
            comparison.add(ours, megabytes_a_second(&bytes, crc32c::crc32c_append));
        }
        comparison.print("MB/s", 0.0);
    }
}

fn megabytes_a_second(bytes: &[u8], append: impl Fn(u32, &[u8]) -> u32) -> f64 {
    let times = (64 << 20) / bytes.len().max(64);
    let start = Instant::now();
    for _ in 0..times {
        black_box(append(black_box(7), black_box(bytes)));
    }
    (times * bytes.len()) as f64 / start.elapsed().as_secs_f64() / 1e6
}
