//! The lives of one name, one after the other, and those who use it meanwhile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use narad_core::plugin::PartitionId;
use narad_server::{
    broker::{Broker, BrokerError, Message, NewTopic},
    queue::{Consume, Settle},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::{task::JoinHandle, time::Instant};

use super::ledger::Ledger;

/// How long messages may take to reach a consumer before they count as lost, or the dispatcher as stuck.
const DELIVERY: Duration = Duration::from_secs(30);
/// How long whoever waits for a deleted topic may be kept waiting.
const PROMPT: Duration = Duration::from_secs(3);
/// The last one gets no message: whoever waits there waits for the delete.
const PARTITIONS: u32 = 3;

/// What happened, so that a run in which nothing did is no success.
#[derive(Debug, Default)]
pub struct Tally {
    pub lives: AtomicU64,
    pub drained: AtomicU64,
    pub parked_answered: AtomicU64,
    pub delivered: AtomicU64,
    pub strays_taken: AtomicU64,
}

/// One name and what its users share.
#[derive(Clone)]
pub struct Name {
    pub name: Arc<str>,
    pub url: String,
    pub broker: Broker,
    pub ledger: Arc<Ledger>,
    pub tally: Arc<Tally>,
}

/// What the users of one life are told.
#[derive(Default)]
struct Life {
    /// Producers are to end.
    enough: AtomicBool,
    /// Nobody does anything for a while, so that logs are idle.
    quiet: AtomicBool,
    /// The topic is being deleted, or was: it may be missing.
    ending: AtomicBool,
}

impl Life {
    async fn rests(&self) {
        while self.quiet.load(Ordering::SeqCst) && !self.ending.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// How a life ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// All that was taken is delivered before the topic is deleted.
    Drained,
    /// In the middle of everything.
    Abrupt,
    /// As abruptly, and the next life begins before those of this one have noticed.
    Overlapping,
}

impl Name {
    /// Creates, uses and deletes the topic until `end`.
    pub async fn live(self, end: Instant, mut random: StdRng) {
        let mut left_over = Vec::new();
        while Instant::now() < end {
            let number = self.ledger.begins();
            self.create().await;
            join_within(PROMPT, std::mem::take(&mut left_over)).await;
            self.tally.lives.fetch_add(1, Ordering::SeqCst);
            let life = Arc::new(Life::default());
            let mut fork = || StdRng::seed_from_u64(random.random());
            let producers: Vec<_> =
                (0..2).map(|_| tokio::spawn(self.clone().produce(Arc::clone(&life), fork()))).collect();
            let mut others: Vec<_> =
                (0..2).map(|_| tokio::spawn(self.clone().consume(Arc::clone(&life), fork()))).collect();
            others.push(tokio::spawn(self.clone().park(Arc::clone(&life))));
            pause(&mut random, 10..1200).await;
            if random.random_ratio(1, 3) {
                life.quiet.store(true, Ordering::SeqCst);
                pause(&mut random, 500..1500).await;
                life.quiet.store(false, Ordering::SeqCst);
            }
            let ending = match random.random_range(0..10) {
                0..4 => Ending::Drained,
                4..7 => Ending::Abrupt,
                _ => Ending::Overlapping,
            };
            if ending == Ending::Drained {
                life.enough.store(true, Ordering::SeqCst);
                join_within(PROMPT, producers).await;
                self.drained(number).await;
            } else {
                others.extend(producers);
            }
            life.ending.store(true, Ordering::SeqCst);
            self.broker.delete_topic(&self.broker.topic(&self.name).await.unwrap()).await.unwrap();
            self.ledger.ends();
            if ending == Ending::Overlapping {
                left_over = others;
            } else {
                join_within(PROMPT, others).await;
            }
        }
        join_within(PROMPT, left_over).await;
    }

    async fn create(&self) {
        let topic = NewTopic {
            name: self.name.to_string(),
            partitions: Some(PARTITIONS),
            visibility_timeout_ms: Some(500),
            ..NewTopic::default()
        };
        self.broker.create_topic(topic).await.unwrap();
    }

    /// Waits until everything that was taken in this life alone was delivered.
    async fn drained(&self, life: u32) {
        let begin = Instant::now();
        loop {
            let missing = self.ledger.missing(life);
            if missing.is_empty() {
                break;
            }
            if begin.elapsed() > DELIVERY {
                let backlog = self.broker.gauges().await.backlog;
                panic!("{} of life {life}, backlog {backlog}: not delivered: {missing:?}", self.name);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.tally.drained.fetch_add(1, Ordering::SeqCst);
    }

    /// Produces one message. Returns whether there was a topic.
    async fn produce_one(&self, random: &mut StdRng) -> bool {
        let (id, payload) = self.ledger.write();
        let partition = Some(PartitionId(random.random_range(0..PARTITIONS - 1)));
        let message = Message { key: Bytes::new(), payload, partition };
        let taken = match self.broker.produce(&self.name, message).await {
            Ok(()) => true,
            Err(BrokerError::NoTopic(_)) => false,
            Err(error) => panic!("produce to {}: {error}", self.name),
        };
        self.ledger.answered(id, taken);
        taken
    }

    async fn produce(self, life: Arc<Life>, mut random: StdRng) {
        while !life.enough.load(Ordering::SeqCst) {
            life.rests().await;
            if !self.produce_one(&mut random).await {
                assert!(life.ending.load(Ordering::SeqCst), "{} is missing", self.name);
                return;
            }
            if life.ending.load(Ordering::SeqCst) {
                return;
            }
            pause(&mut random, 0..20).await;
        }
    }

    /// Takes what there is. Returns whether there was a topic.
    async fn consume_some(&self, random: &mut StdRng) -> bool {
        let first = self.ledger.first();
        let partition = random.random_ratio(1, 3).then(|| PartitionId(random.random_range(0..PARTITIONS)));
        let wait = Duration::from_millis(random.random_range(0..200));
        let request = Consume { wait, partition, max: random.random_range(1..20), max_bytes: 1 << 20 };
        let deliveries = match self.broker.consume(&self.name, request).await {
            Ok(deliveries) => deliveries,
            Err(BrokerError::NoTopic(_)) => return false,
            Err(error) => panic!("consume of {}: {error}", self.name),
        };
        for delivery in deliveries {
            self.ledger.delivered(&delivery.record.payload, first);
            self.tally.delivered.fetch_add(1, Ordering::SeqCst);
            let how = match random.random_range(0..20) {
                // The lease ends by itself.
                0 => continue,
                1 => Settle::Release,
                _ => Settle::Ack,
            };
            match self.broker.settle(&self.name, delivery.nonce, how).await {
                Ok(()) | Err(BrokerError::LeaseGone | BrokerError::NoTopic(_)) => {}
                Err(error) => panic!("settle of {}: {error}", self.name),
            }
        }
        true
    }

    async fn consume(self, life: Arc<Life>, mut random: StdRng) {
        loop {
            life.rests().await;
            if !self.consume_some(&mut random).await {
                assert!(life.ending.load(Ordering::SeqCst), "{} is missing", self.name);
                return;
            }
            if life.ending.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Waits over HTTP where nothing comes, until the topic is deleted.
    async fn park(self, life: Arc<Life>) {
        let last = PARTITIONS - 1;
        let url = format!("{}/v1/topics/{}/consume?wait=10s&partition={last}", self.url, self.name);
        let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
        while !life.ending.load(Ordering::SeqCst) {
            let answer = client.get(&url).send().await.unwrap();
            match answer.status().as_u16() {
                204 => {}
                404 => {
                    assert!(life.ending.load(Ordering::SeqCst), "{} is missing", self.name);
                    self.tally.parked_answered.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                status => panic!("a parked consume of {}: {status} {:?}", self.name, answer.text().await),
            }
        }
        panic!("a parked consume of {} was not told that the topic is gone", self.name);
    }

    /// Goes on from life to life, whether there is a topic or not.
    pub async fn stray(self, end: Instant, mut random: StdRng) {
        while Instant::now() < end {
            if random.random_ratio(1, 2) {
                let taken = self.produce_one(&mut random).await;
                self.tally.strays_taken.fetch_add(u64::from(taken), Ordering::SeqCst);
            } else {
                self.consume_some(&mut random).await;
            }
            pause(&mut random, 0..40).await;
        }
    }
}

async fn pause(random: &mut StdRng, ms: std::ops::Range<u64>) {
    tokio::time::sleep(Duration::from_millis(random.random_range(ms))).await;
}

/// Waits for those who were told, or have noticed, that a topic is gone.
async fn join_within(patience: Duration, tasks: Vec<JoinHandle<()>>) {
    let until = Instant::now() + patience;
    for task in tasks {
        match tokio::time::timeout_at(until, task).await {
            Ok(ended) => ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())),
            Err(_) => panic!("somebody still waits for a deleted topic after {patience:?}"),
        }
    }
}
