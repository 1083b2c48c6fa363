//! What the queue tests share: one topic of a store on a simulated disk.

use std::{path::Path, sync::Arc, time::Duration};

use narad_core::{
    clock::{Clock, SystemClock},
    format::{Batch, Offset},
    log::Log,
    plugin::{Incarnation, PartitionId, RetentionDecision, RetentionPolicy, RetentionView},
    runtime::{Runtime, RuntimeOptions},
    store::{Store, StoreOptions, TopicSpec},
    testkit::SimDisk,
};
use narad_server::queue::{Consume, Delivery, QueueError, QueueTopic, Queues, Settle};

/// Longer than anything a test waits for takes.
pub(crate) const BOUND: Duration = Duration::from_secs(30);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const ID: Incarnation = Incarnation::new(0xA1);

/// Keeps the newest segment.
#[derive(Debug)]
struct NewestSegment;

impl RetentionPolicy for NewestSegment {
    fn name(&self) -> &str {
        "newest-segment"
    }
    fn roll_age(&self) -> Option<Duration> {
        None
    }
    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        RetentionDecision::expire(view.segments.len().saturating_sub(1), "test")
    }
}

/// One life of a server on a disk.
#[derive(Clone)]
pub(crate) struct Bed {
    pub(crate) disk: SimDisk,
    pub(crate) runtime: Runtime,
    pub(crate) store: Store,
    pub(crate) queues: Arc<Queues>,
    pub(crate) topic: QueueTopic,
}

impl Bed {
    /// A topic of three partitions whose leases last an hour.
    pub(crate) fn open(disk: &SimDisk) -> Self {
        Self::open_as(disk, ID, 64 << 20)
    }

    pub(crate) fn open_as(disk: &SimDisk, id: Incarnation, segment_bytes: u64) -> Self {
        Self::open_with(disk, id, segment_bytes, Arc::new(SystemClock::new()))
    }

    pub(crate) fn open_with(
        disk: &SimDisk,
        id: Incarnation,
        segment_bytes: u64,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let mut options = RuntimeOptions::default();
        options.disk = Arc::new(disk.clone());
        options.clock = clock;
        let runtime = Runtime::new(options);
        let store = Store::open(&runtime, Path::new("/data"), StoreOptions::default()).unwrap();
        let queues = Arc::new(Queues::new(&runtime, store.clone()));
        let mut spec = TopicSpec::new("orders", id, 3, Arc::new(narad_codecs::None));
        spec.retention = Arc::new(NewestSegment);
        spec.wake = queues.notifier();
        spec.segment_bytes = segment_bytes;
        let topic = QueueTopic {
            version: 1,
            spec: Arc::new(spec),
            visibility: HOUR,
            max_in_flight: 1024,
            max_acked_ahead: 1024,
        };
        Self { disk: disk.clone(), runtime, store, queues, topic }
    }

    /// Ends this life in good order and begins the next.
    pub(crate) fn restart(self) -> Self {
        self.queues.close();
        self.store.close().unwrap();
        Self::open(&self.disk)
    }

    pub(crate) fn log(&self, partition: u32) -> Log {
        self.store.log(&self.topic.spec, PartitionId(partition)).unwrap()
    }

    /// Commits messages, each in a frame of its own.
    pub(crate) fn put(&self, partition: u32, texts: &[&str]) {
        for text in texts {
            self.log(partition).commit(Batch::of(b"", text.as_bytes())).unwrap();
        }
    }

    pub(crate) async fn consume(&self, request: Consume) -> Result<Vec<Delivery>, QueueError> {
        self.queues.consume(&self.topic, request).await
    }

    /// The next message, if one is there or comes within the bound.
    pub(crate) async fn next(&self) -> Delivery {
        self.consume(wait(BOUND)).await.unwrap().pop().expect("a message")
    }

    /// The next message, if one is there now.
    pub(crate) async fn now(&self) -> Option<String> {
        self.consume(wait(Duration::ZERO)).await.unwrap().pop().map(|delivery| text(&delivery))
    }

    /// Parks a consumer; it is in line when this returns.
    pub(crate) async fn park(
        &self,
        request: Consume,
    ) -> tokio::task::JoinHandle<Result<Vec<Delivery>, QueueError>> {
        // This opens the partitions, so that the next consume stands in line when it is first polled.
        assert!(self.consume(wait(Duration::ZERO)).await.unwrap().is_empty(), "nothing is there yet");
        let bed = self.clone();
        let mut consume = Box::pin(async move { bed.consume(request).await });
        assert!(poll(&mut consume).is_none(), "nothing is there yet");
        tokio::spawn(consume)
    }

    pub(crate) async fn settle(&self, delivery: &Delivery, how: Settle) -> Result<(), QueueError> {
        self.queues.settle(&self.topic, delivery.nonce, how).await
    }

    pub(crate) async fn ack(&self, delivery: &Delivery) {
        self.settle(delivery, Settle::Ack).await.unwrap();
    }

    pub(crate) fn frontier(&self, partition: u32) -> Option<u64> {
        let stats = self.queues.stats(self.topic.spec.incarnation);
        let stats = stats.into_iter().find(|stats| stats.partition == PartitionId(partition));
        stats.and_then(|stats| stats.frontier).map(Offset::get)
    }
}

fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match std::pin::Pin::new(future).poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

/// A request for one message of any partition.
pub(crate) fn wait(wait: Duration) -> Consume {
    Consume { wait, partition: None, max: 1, max_bytes: 1 << 20 }
}

pub(crate) fn pinned(partition: u32, wait: Duration) -> Consume {
    Consume { partition: Some(PartitionId(partition)), ..self::wait(wait) }
}

pub(crate) fn text(delivery: &Delivery) -> String {
    String::from_utf8(delivery.record.payload.to_vec()).unwrap()
}

pub(crate) fn texts(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(text).collect()
}
