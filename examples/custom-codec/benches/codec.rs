//! What the codec costs: a frame in both directions, and a commit to a log on this disk, with it and without.
//!
//! `cargo bench --bench codec`. `BENCH_LINES` names a file whose lines are the records, in place of those made up here.

use std::{env, fs, hint::black_box, path::Path, sync::Arc};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use custom_codec::RunLength;
use narad_core::{
    format::{Batch, Offset},
    log::{Log, LogOptions},
    plugin::{Codec, FrameContext, LogIdentity, PluginError},
    runtime::Runtime,
    testkit::Verbatim,
};

fn records() -> Result<Batch, PluginError> {
    Ok(match env::var_os("BENCH_LINES") {
        Some(file) => fs::read_to_string(file)?.lines().take(1000).map(|line| (b"k", line)).collect(),
        None => (0..1000).map(|n| (b"k", format!("{n}{}", "0".repeat(100)))).collect(),
    })
}

fn frames(criterion: &mut Criterion, codec: &dyn Codec) -> Result<(), PluginError> {
    let (log, batch) = (LogIdentity::named("bench"), records()?);
    let raw = batch.as_bytes();
    let frame = FrameContext::new(&log, Offset::ZERO, 1000, u32::try_from(raw.len())?);
    let mut stored = Vec::new();
    codec.encode(&frame, raw, &mut stored)?;
    println!("{} bytes become {}", raw.len(), stored.len());

    let mut group = criterion.benchmark_group(codec.name());
    group.throughput(Throughput::Bytes(raw.len() as u64));
    let mut out = Vec::new();
    group.bench_function("encode", |bencher| {
        bencher.iter(|| {
            out.clear();
            codec.encode(&frame, black_box(raw), &mut out)
        });
    });
    group.bench_function("decode", |bencher| {
        bencher.iter(|| {
            out.clear();
            codec.decode(&frame, black_box(&stored), &mut out)
        });
    });
    Ok(())
}

/// A commit is durable when it returns: what the codec adds is to be seen beside an fsync.
fn commits(criterion: &mut Criterion, dir: &Path, codec: Arc<dyn Codec>) -> Result<(), PluginError> {
    let name = format!("{}/commit", codec.name());
    let log = Log::open(&Runtime::default(), &dir.join(codec.name()), LogOptions::new("bench", codec))?;
    let batch = records()?;
    criterion.bench_function(&name, |bencher| bencher.iter(|| log.commit(batch.clone())));
    Ok(log.close()?)
}

fn bench(criterion: &mut Criterion) {
    let dir = env::temp_dir().join(format!("custom-codec-bench-{}", std::process::id()));
    let benched = frames(criterion, &RunLength)
        .and_then(|()| commits(criterion, &dir, Arc::new(RunLength)))
        .and_then(|()| commits(criterion, &dir, Arc::new(Verbatim)));
    // What is left there harms nobody.
    let _ = fs::remove_dir_all(&dir);
    if let Err(error) = benched {
        eprintln!("{error}");
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
