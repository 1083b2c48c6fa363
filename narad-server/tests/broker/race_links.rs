//! Children attached, detached and deleted while messages are produced: each gets what the answers promise, nothing
//! reaches one that was detached, and nobody is kept waiting.
//!
//! `NARAD_ROUNDS` (30) says how often.

use std::{
    collections::HashSet,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use narad_core::{format::Offset, plugin::PartitionId, runtime::Runtime, testkit::SeedGuard};
use narad_server::{
    broker::{Broker, BrokerError, ChildOf, Message, NewTopic, Replayed, default_plugins},
    meta::Topic,
};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::task::JoinSet;

const PRODUCERS: usize = 6;
/// Longer than anything takes that is not stuck.
const BOUND: Duration = Duration::from_secs(60);

fn rounds() -> u64 {
    std::env::var("NARAD_ROUNDS").map_or(30, |text| text.parse().expect("NARAD_ROUNDS"))
}

async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, work).await.unwrap_or_else(|_| panic!("stuck: {what}"))
}

/// Who produced what, and in which order things were answered.
#[derive(Default)]
struct Course {
    clock: AtomicU64,
    sent: AtomicU64,
    /// What was acknowledged, and when.
    accepted: Mutex<Vec<(String, u64)>>,
    over: AtomicBool,
}

impl Course {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn accepted_between(&self, begin: u64, end: u64) -> HashSet<String> {
        let accepted = self.accepted.lock();
        accepted
            .iter()
            .filter(|(_, at)| (begin..end).contains(at))
            .map(|(payload, _)| payload.clone())
            .collect()
    }

    async fn produce(self: Arc<Self>, broker: Broker, parent: String) {
        while !self.over.load(Ordering::SeqCst) {
            let payload = format!("{parent}-{}", self.sent.fetch_add(1, Ordering::SeqCst));
            let message = Message { payload: Bytes::from(payload.clone()), ..Message::default() };
            match within("a produce", broker.produce(&parent, message)).await {
                Ok(()) => {
                    let at = self.now();
                    self.accepted.lock().push((payload, at));
                }
                Err(BrokerError::NoTopic(_)) => return,
                Err(error) => panic!("a produce fails: {error}"),
            }
        }
    }
}

/// Producers of one topic.
struct Load {
    course: Arc<Course>,
    tasks: JoinSet<()>,
}

impl Load {
    fn start(broker: &Broker, parent: &str) -> Self {
        let (course, mut tasks) = (Arc::<Course>::default(), JoinSet::new());
        for _ in 0..PRODUCERS {
            tasks.spawn(Arc::clone(&course).produce(broker.clone(), parent.to_owned()));
        }
        Self { course, tasks }
    }

    /// Waits until so many more messages were taken.
    async fn goes_on(&self, messages: usize) {
        let enough = self.course.accepted.lock().len() + messages;
        within("the load", async {
            while self.course.accepted.lock().len() < enough {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }

    async fn stop(mut self) -> Arc<Course> {
        self.course.over.store(true, Ordering::SeqCst);
        while let Some(ended) = within("a producer", self.tasks.join_next()).await {
            ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        }
        self.course
    }
}

async fn attach(broker: &Broker, parent: &str, child: &str) -> Result<Topic, BrokerError> {
    let (parent, child) = (broker.topic(parent).await?, broker.topic(child).await?);
    broker.attach(&parent, &child, 0).await
}

async fn create(broker: &Broker, name: &str, parent: Option<ChildOf>) {
    broker.create_topic(NewTopic { name: name.to_owned(), parent, ..NewTopic::default() }).await.unwrap();
}

async fn payloads(broker: &Broker, topic: &str) -> Vec<String> {
    let mut payloads = Vec::new();
    for partition in (0..3).map(PartitionId) {
        for offset in 0u32.. {
            match broker.replay(topic, partition, Offset::from(offset)).await.unwrap() {
                Replayed::Record(record) => {
                    payloads.push(String::from_utf8(record.payload.to_vec()).unwrap())
                }
                Replayed::PastTheEnd => break,
            }
        }
    }
    payloads
}

/// Waits until everything acknowledged is with the children.
async fn copied(broker: &Broker, parent: &str) {
    within("a copy", async {
        loop {
            let (_, children) = broker.children(parent).await.unwrap();
            let there = children.iter().all(|child| child.lag.complete && child.lag.messages == 0);
            if broker.gauges().await.backlog == 0 && there {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// What was acknowledged between two moments is there, once.
fn check(found: Vec<String>, expected: &HashSet<String>, context: &str) {
    let set: HashSet<String> = found.iter().cloned().collect();
    let missing: Vec<_> = expected.difference(&set).collect();
    assert!(
        missing.is_empty(),
        "{context}: {} of {} are missing: {missing:?}",
        missing.len(),
        expected.len()
    );
    assert_eq!(found.len(), set.len(), "{context}: some are there twice, and nothing crashed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn children_come_and_go_under_load_and_get_what_was_promised() {
    let seed = SeedGuard::new(narad_core::testkit::seed());
    let mut random = StdRng::seed_from_u64(seed.get());
    let dir = tempfile::tempdir().unwrap();
    let config = crate::http_support::config(dir.path());
    let broker = Broker::open(Runtime::default(), default_plugins().unwrap(), &config).await.unwrap();
    for round in 0..rounds() {
        let (parent, a, b) = (format!("p{round}"), format!("a{round}"), format!("b{round}"));
        create(&broker, &parent, None).await;
        create(&broker, &a, None).await;
        let load = Load::start(&broker, &parent);
        load.goes_on(random.random_range(0..60)).await;

        within("an attach", attach(&broker, &parent, &a)).await.unwrap();
        let a_begins = load.course.now();
        load.goes_on(random.random_range(0..60)).await;
        let of =
            ChildOf { parent: broker.topic(&parent).await.unwrap(), delay_ms: random.random_range(0..2) };
        create(&broker, &b, Some(of)).await;
        let b_begins = load.course.now();
        load.goes_on(random.random_range(1..60)).await;

        // Detached: nothing reaches it any more. Attached again: from there on.
        within("a detach", broker.detach(&parent, &a)).await.unwrap();
        let kept = payloads(&broker, &a).await;
        load.goes_on(random.random_range(1..60)).await;
        tokio::time::sleep(Duration::from_millis(random.random_range(0..60))).await;
        assert_eq!(payloads(&broker, &a).await, kept, "round {round}: a detached child gets something");
        within("an attach", attach(&broker, &parent, &a)).await.unwrap();
        let a_again = load.course.now();
        load.goes_on(random.random_range(1..60)).await;

        let course = load.stop().await;
        let end = course.now();
        copied(&broker, &parent).await;
        let context = format!("round {round}, attached again");
        let found = payloads(&broker, &a).await;
        assert!(a_begins < a_again);
        check(found.clone(), &course.accepted_between(a_again, end), &context);
        check(
            payloads(&broker, &b).await,
            &course.accepted_between(b_begins, end),
            &format!("round {round}, born"),
        );

        // Deleted under load, child or parent first.
        let load = Load::start(&broker, &parent);
        load.goes_on(random.random_range(1..60)).await;
        let (first, second) = if random.random() { (&b, &parent) } else { (&parent, &b) };
        for topic in [first, second] {
            let topic = broker.topic(topic).await.unwrap();
            within("a delete", broker.delete_topic(&topic)).await.unwrap();
        }
        load.stop().await;
        let freed = broker.topic(&a).await.unwrap();
        assert_eq!(freed.parent, None);
        let after: HashSet<String> = payloads(&broker, &a).await.into_iter().collect();
        assert!(
            found.iter().all(|payload| after.contains(payload)),
            "round {round}: a freed child keeps what it has"
        );
        broker.delete_topic(&freed).await.unwrap();
    }
    within("the backlog", async {
        while broker.gauges().await.backlog > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let gauges = broker.gauges().await;
    assert!(gauges.links.is_empty());
    let failed: Vec<_> = gauges.errors.iter().filter(|((component, _), _)| *component == "fanout").collect();
    assert!(failed.is_empty(), "{failed:?}");
    within("the end", broker.close(Duration::from_secs(5))).await.unwrap();
}
