//! Both ciphers, both directions, one record a frame and a thousand; over no codec, so that the cipher alone is measured.
//! `BENCH_LINES` names a file whose lines are the records.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs, reason = "a benchmark")]

use std::{hint::black_box, sync::Arc};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use narad_codec_aead::{Aead, Cipher, KeyRing};
use narad_core::{
    format::{Batch, Offset},
    plugin::{Codec, FrameContext, LogIdentity},
};

const KEY: &str = "1:c2l4dGVlbiBieXRlcywgYW5kIHNpeHRlZW4gbW9yZS4=";

fn lines() -> Vec<String> {
    match std::env::var_os("BENCH_LINES") {
        Some(file) => std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect(),
        None => (0..1000).map(|n| format!("{{\"order\":{n},\"state\":\"shipped\"}}")).collect(),
    }
}

fn bench(criterion: &mut Criterion) {
    let log = LogIdentity::named("bench");
    for (records, cipher) in [1_usize, 1000]
        .into_iter()
        .flat_map(|records| [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305].map(|cipher| (records, cipher)))
    {
        let codec = Aead::new(KeyRing::parse(KEY).unwrap(), cipher, Arc::new(narad_codecs::None)).unwrap();
        let batch: Batch = lines().iter().take(records).map(|line| (b"k", line)).collect();
        let raw = batch.as_bytes();
        let frame = FrameContext::new(&log, Offset::ZERO, records as u32, raw.len() as u32);
        let mut stored = Vec::new();
        codec.encode(&frame, raw, &mut stored).unwrap();

        let mut group = criterion.benchmark_group(format!("{cipher:?}, {records} records"));
        group.throughput(Throughput::Bytes(raw.len() as u64));
        let mut out = Vec::new();
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
}

criterion_group!(benches, bench);
criterion_main!(benches);
