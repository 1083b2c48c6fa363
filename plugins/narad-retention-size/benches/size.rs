//! What a decision costs: a sweep asks once a minute for each log.
#![allow(missing_docs, reason = "a benchmark")]

use std::{hint::black_box, num::NonZeroU64};

use criterion::{Criterion, criterion_group, criterion_main};
use narad_core::{
    format::Offset,
    plugin::{RetentionPolicy, RetentionView, SegmentInfo},
};
use narad_retention_size::Size;

fn decide(criterion: &mut Criterion) {
    let policy = Size::new(NonZeroU64::new(500 << 20).unwrap_or(NonZeroU64::MIN));
    for count in [10_u32, 1_000] {
        let segments: Vec<_> = (0..count)
            .map(|index| SegmentInfo::sealed(index.into(), (index + 1).into(), 64 << 20, 0, 0))
            .collect();
        let view = RetentionView::new(0, &segments, Offset::MAX);
        criterion.bench_function(&format!("decide over {count} segments"), |bench| {
            bench.iter(|| policy.decide(black_box(&view)));
        });
    }
}

criterion_group!(benches, decide);
criterion_main!(benches);
