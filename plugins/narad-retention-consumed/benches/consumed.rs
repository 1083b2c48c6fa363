//! What a decision costs: a sweep asks once a minute for each log.
#![allow(missing_docs, reason = "a benchmark")]

use std::{hint::black_box, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use narad_core::{
    format::Offset,
    plugin::{RetentionPolicy, RetentionView, SegmentInfo},
};
use narad_retention_consumed::Consumed;

fn decide(criterion: &mut Criterion) {
    let policy = Consumed::new(Duration::from_secs(60));
    for count in [10_u32, 1_000] {
        let segments: Vec<_> = (0..count)
            .map(|index| SegmentInfo::sealed(index.into(), (index + 1).into(), 64 << 20, 0, 0))
            .collect();
        let frontier = Some(Offset::from(count - 2));
        let view = RetentionView::new(i64::MAX, &segments, Offset::MAX).with_frontier(frontier);
        criterion.bench_function(&format!("decide over {count} segments"), |bench| {
            bench.iter(|| policy.decide(black_box(&view)));
        });
    }
}

criterion_group!(benches, decide);
criterion_main!(benches);
