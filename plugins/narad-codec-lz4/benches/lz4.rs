//! Both directions, one record a frame and a thousand. `BENCH_LINES` names a file whose lines are the records.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs, reason = "a benchmark")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use narad_codec_lz4::Lz4;
use narad_core::{
    format::{Batch, Offset},
    plugin::{Codec, FrameContext, LogIdentity},
};

fn lines() -> Vec<String> {
    match std::env::var_os("BENCH_LINES") {
        Some(file) => std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect(),
        None => (0..1000)
            .map(|n| format!("{{\"order\":{n},\"state\":\"shipped\",\"total\":{}}}", n * 37 % 991))
            .collect(),
    }
}

fn bench(criterion: &mut Criterion) {
    let log = LogIdentity::named("bench");
    for records in [1_usize, 1000] {
        let batch: Batch = lines().iter().take(records).map(|line| (b"k", line)).collect();
        let raw = batch.as_bytes();
        let frame = FrameContext::new(&log, Offset::ZERO, records as u32, raw.len() as u32);
        let mut stored = Vec::new();
        Lz4.encode(&frame, raw, &mut stored).unwrap();
        println!("{records} records: {} bytes become {}", raw.len(), stored.len());

        let mut group = criterion.benchmark_group(format!("{records} records"));
        group.throughput(Throughput::Bytes(raw.len() as u64));
        let mut out = Vec::new();
        group.bench_function("encode", |bencher| {
            bencher.iter(|| {
                out.clear();
                Lz4.encode(&frame, black_box(raw), &mut out).unwrap();
            });
        });
        group.bench_function("decode", |bencher| {
            bencher.iter(|| {
                out.clear();
                Lz4.decode(&frame, black_box(&stored), &mut out).unwrap();
            });
        });
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
