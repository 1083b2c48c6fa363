//! Both directions on frames of one record, as plain zstd and with a dictionary, and a training. `BENCH_LINES` names a
//! file whose lines are the records.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs, reason = "a benchmark")]

use std::{hint::black_box, sync::Arc};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use narad_core::{
    format::{Batch, Offset, Record},
    plugin::{Codec, FrameContext, LogIdentity, PluginContext, Registry, Sample},
    testkit::SimDisk,
};

fn records() -> Vec<Record> {
    let made =
        || (0..2000).map(|n| format!("{{\"order\":{n},\"state\":\"shipped\",\"total\":{}}}", n * 37 % 991));
    let lines: Vec<String> = match std::env::var_os("BENCH_LINES") {
        Some(file) => std::fs::read_to_string(file).unwrap().lines().take(2000).map(str::to_owned).collect(),
        None => made().collect(),
    };
    let record = |(line, n): (String, u32)| {
        Record::new(Offset::from(n), 1_767_222_000_000 + i64::from(n), Vec::new(), line.into_bytes())
    };
    lines.into_iter().zip(0..).map(record).collect()
}

fn fresh() -> Arc<dyn Codec> {
    let mut registry = Registry::new();
    narad_codec_zstd_dict::register(&mut registry).unwrap();
    let context =
        PluginContext::new(LogIdentity::named("bench")).in_dir(Arc::new(SimDisk::new(1)), "/plugins");
    registry.build_codec(&"zstd-dict".into(), &context).unwrap()
}

fn bench(criterion: &mut Criterion) {
    let (records, log) = (records(), LogIdentity::named("bench"));
    let (sample, later) = records.split_at(records.len() / 2);
    let batch = Batch::of(&later[0].key, &later[0].payload);
    let raw = batch.as_bytes();
    let frame = FrameContext::new(&log, Offset::ZERO, 1, raw.len() as u32);

    let (plain, trained) = (fresh(), fresh());
    trained.maintain(&Sample::new(sample)).unwrap();
    for (name, codec) in [("plain", plain), ("with a dictionary", trained)] {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(raw.len() as u64));
        let (mut stored, mut out) = (Vec::new(), Vec::new());
        codec.encode(&frame, raw, &mut stored).unwrap();
        println!("{name}: {} bytes become {}", raw.len(), stored.len());
        group.bench_function("encode", |bencher| {
            bencher.iter(|| {
                out.clear();
                codec.encode(&frame, black_box(raw), &mut out).unwrap();
            });
        });
        group.bench_function("decode", |bencher| {
            bencher.iter(|| {
                out.clear();
                codec.decode(&frame, black_box(&stored), &mut out).unwrap();
            });
        });
    }
    let mut group = criterion.benchmark_group("training");
    group.sample_size(10);
    group.bench_function("a sample", |bencher| {
        bencher.iter_with_setup(fresh, |codec| codec.maintain(&Sample::new(sample)).unwrap());
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
