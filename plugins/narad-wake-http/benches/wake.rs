//! What an announcement costs: whoever commits calls it.
#![allow(clippy::expect_used, missing_docs, reason = "a benchmark")]

use std::{hint::black_box, net::TcpListener};

use criterion::{Criterion, criterion_group, criterion_main};
use narad_core::plugin::{Incarnation, LogIdentity, PartitionId, WakeNotifier, WakeReason};
use narad_wake_http::{HttpWake, HttpWakeConfig};

fn wake(criterion: &mut Criterion) {
    // Nobody accepts: the worst that a receiver can do.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", silent.local_addr().expect("it has an address"));
    let notifier = HttpWake::new("here", HttpWakeConfig::new(url)).expect("a URL to post to");
    let logs: Vec<_> = (0..1_000)
        .map(|number| {
            LogIdentity::partition(
                format!("topic-{}", number % 100),
                Incarnation::new(1),
                PartitionId(number / 100),
            )
        })
        .collect();
    let mut next = logs.iter().cycle();
    criterion.bench_function("wake, 1,000 partitions, a receiver that says nothing", |bench| {
        bench.iter(|| {
            notifier.wake(black_box(next.next().expect("there is always one")), WakeReason::Committed)
        });
    });
}

criterion_group!(benches, wake);
criterion_main!(benches);
