//! What the spans of a produce cost while nobody traces.
#![allow(missing_docs, reason = "a benchmark")]

use axum::http::HeaderMap;
use criterion::{Criterion, criterion_group, criterion_main};
use narad_server::telemetry::spans::{Operation, answered, current, messages, messaging, request};

fn untraced_produce(criterion: &mut Criterion) {
    let headers = HeaderMap::new();
    criterion.bench_function("the spans of a produce that nobody traces", |bencher| {
        bencher.iter(|| {
            let span = request("POST", Some("/v1/topics/{topic}/produce"), "/v1/topics/t/produce", &headers);
            let send = messaging(Operation::Send, "t");
            messages(&send, [(0, 256)]);
            assert!(current().is_none());
            answered(&span, 202);
        });
    });
}

criterion_group!(benches, untraced_produce);
criterion_main!(benches);
