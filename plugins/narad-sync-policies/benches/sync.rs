//! What a policy costs: it is asked at each drain and told of each sync, under the log's produce lock.
#![allow(clippy::expect_used, missing_docs, reason = "a benchmark")]

use std::{hint::black_box, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use narad_core::plugin::{SyncPolicy, Synced, Unsynced};
use narad_sync_policies::{Adaptive, AdaptiveLimits, EveryWrite, Never};

fn decide(criterion: &mut Criterion) {
    let unsynced = Unsynced::new(4_096, 16, Duration::from_millis(3));
    let adaptive = Adaptive::new(AdaptiveLimits::default()).expect("limits that can be kept to");
    let policies: [&dyn SyncPolicy; 3] = [&EveryWrite, &adaptive, &Never];
    for policy in policies {
        criterion.bench_function(&format!("{} decides", policy.name()), |bench| {
            bench.iter(|| policy.decide(black_box(&unsynced)));
        });
    }
    let synced = Synced::new(unsynced, Duration::from_millis(2));
    criterion.bench_function("adaptive hears of a sync", |bench| {
        bench.iter(|| adaptive.synced(black_box(&synced)));
    });
}

criterion_group!(benches, decide);
criterion_main!(benches);
