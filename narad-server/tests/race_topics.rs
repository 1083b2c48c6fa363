//! Fifty names whose topics are created, used, deleted and created again for as long as the run lasts, with producers,
//! consumers, retention and idle close at work: no record lost or served in another life of its name, no directory or
//! descriptor left, nobody kept waiting.
//!
//! `NARAD_RACE_SECONDS` (60) says for how long, `NARAD_SEED` repeats what the users do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod http_support;
mod race;

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use narad_core::{
    plugin::PartitionId,
    testkit::{SeedGuard, seed},
};
use narad_server::{
    broker::{Broker, Message, NewTopic},
    queue::{Consume, Settle},
    security::Caller,
    serve::Server,
};
use race::{
    bed::{self, descriptors, entries, until_none},
    ledger::Ledger,
    life::{Name, Tally},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::time::Instant;

const NAMES: u32 = 50;
/// How long what a delete leaves to be done may take.
const SETTLES: Duration = Duration::from_secs(10);

fn seconds() -> u64 {
    std::env::var("NARAD_RACE_SECONDS").map_or(60, |text| text.parse().expect("NARAD_RACE_SECONDS"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn topics_come_and_go_under_load_and_nothing_is_lost_mixed_up_or_left() {
    let seed = SeedGuard::new(seed());
    let mut random = StdRng::seed_from_u64(seed.get());
    let dir = tempfile::tempdir().unwrap();
    let before = descriptors().len();
    let (server, runtime) = bed::start(http_support::config(dir.path())).await;
    let tally = Arc::<Tally>::default();
    let end = Instant::now() + Duration::from_secs(seconds());
    let (mut lives, mut ledgers) = (tokio::task::JoinSet::new(), Vec::new());
    for slot in 0..NAMES {
        let name = Name {
            name: format!("race-{slot:02}").into(),
            url: format!("http://{}", server.addr()),
            broker: server.broker().clone(),
            ledger: Arc::new(Ledger::new(slot)),
            tally: Arc::clone(&tally),
        };
        ledgers.push(Arc::clone(&name.ledger));
        lives.spawn(name.clone().live(end, StdRng::seed_from_u64(random.random())));
        lives.spawn(name.stray(end, StdRng::seed_from_u64(random.random())));
    }
    while let Some(ended) = lives.join_next().await {
        ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    }
    everything_settles(server.broker(), dir.path()).await;
    something_happened(server.broker(), &runtime, &tally, &ledgers).await;
    drop(runtime);
    server.shutdown().await.unwrap();
    nothing_is_left(dir.path(), before).await;
}

/// Nothing waits for a partition, and of no topic is anything left; and the next one is served at once.
async fn everything_settles(broker: &Broker, dir: &Path) {
    let begin = Instant::now();
    loop {
        let backlog = broker.gauges().await.backlog;
        if backlog == 0 {
            break;
        }
        assert!(begin.elapsed() < SETTLES, "the dispatcher is stuck on {backlog} messages");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    until_none("directories are left", SETTLES, || entries(dir)).await;
    until_none("descriptors are open", SETTLES, || leading_to(&dir.join("topics"))).await;
    tokio::time::timeout(Duration::from_secs(2), a_fresh_topic(broker)).await.expect("it is served at once");
    broker.delete_topic(&broker.topic("fresh").await.unwrap()).await.unwrap();
    until_none("directories are left", SETTLES, || entries(dir)).await;
}

async fn a_fresh_topic(broker: &Broker) {
    let topic = NewTopic { name: "fresh".to_owned(), ..NewTopic::default() };
    broker.create_topic(topic).await.unwrap();
    for partition in (0..3).map(PartitionId) {
        let payload = Bytes::from(vec![b'x'; partition.0 as usize + 1]);
        let message = Message { key: Bytes::new(), payload: payload.clone(), partition: Some(partition) };
        broker.produce("fresh", message).await.unwrap();
        let request =
            Consume { wait: Duration::from_secs(2), partition: Some(partition), max: 1, max_bytes: 1 << 20 };
        let got = broker.consume("fresh", request).await.unwrap();
        assert_eq!(got[0].record.payload, payload);
        broker.settle("fresh", got[0].nonce, Settle::Ack).await.unwrap();
    }
}

/// A run in which nothing was deleted, closed or delivered proves nothing.
async fn something_happened(
    broker: &Broker,
    runtime: &narad_core::runtime::Runtime,
    tally: &Tally,
    ledgers: &[Arc<Ledger>],
) {
    let gauges = broker.gauges().await;
    let deleted: u64 = runtime.metrics().deletions().iter().map(|(_, deleted)| deleted.messages).sum();
    let written: u64 = ledgers.iter().map(|ledger| ledger.written()).sum();
    eprintln!(
        "{tally:?} written {written}, deleted by retention {deleted}, {:?}, {:?}",
        gauges.store, gauges.errors
    );
    // A directory that was found to be of an earlier life is set aside, which is counted.
    let errors: Vec<_> =
        gauges.errors.iter().filter(|(what, _)| *what != ("storage", "quarantine")).collect();
    assert!(errors.is_empty(), "nothing fails: {errors:?}");
    assert!(ledgers.iter().all(|ledger| ledger.first() > 2), "every name had several lives");
    for count in [&tally.drained, &tally.parked_answered, &tally.delivered, &tally.strays_taken] {
        assert!(count.load(Ordering::SeqCst) > 0);
    }
    assert!(deleted > 0, "retention was at work");
    assert!(
        gauges.store.evicted > 0 && gauges.store.cold_swept > 0,
        "idle logs were closed, and walked over"
    );
}

/// Of no file of the data directory is anything open, and the next start finds no topic.
async fn nothing_is_left(dir: &Path, descriptors_before: usize) {
    until_none("descriptors are open", SETTLES, || leading_to(dir)).await;
    let more = || {
        let now = descriptors();
        if now.len() > descriptors_before { now } else { Vec::new() }
    };
    until_none("descriptors leak", SETTLES, more).await;
    let server = Server::start(http_support::config(dir)).await.unwrap();
    assert!(server.broker().topics(&Caller::anybody(), None, 1000).await.unwrap().topics.is_empty());
    assert!(server.broker().directories().await.unwrap().is_empty());
    server.shutdown().await.unwrap();
    assert_eq!(entries(dir), Vec::<String>::new());
}

fn leading_to(dir: &Path) -> Vec<String> {
    let dir = dir.to_str().unwrap();
    descriptors().into_iter().filter(|target| target.starts_with(dir)).collect()
}
