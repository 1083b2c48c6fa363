//! What the fan-out's tests share: a parent and two children in a store on a simulated disk, by a clock that the test
//! moves. Nothing runs beside the test's own thread, and waiting takes no time.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use narad_core::{
    clock::Clock,
    disk::Disk,
    format::{Batch, CodecNumber, Offset, Record},
    log::Log,
    plugin::{
        Codec, FrameContext, Incarnation, PartitionId, PluginError, RetentionDecision, RetentionPolicy,
        RetentionView,
    },
    runtime::Runtime,
    store::{Store, StoreOptions, TopicSpec},
    testkit::{ManualClock, SimDisk},
};
use narad_server::{
    fanout::{Fanout, FanoutOptions, Found, Signals, Topics},
    meta::{Link, ParentLink},
};
use parking_lot::Mutex;

pub(crate) const PARENT: &str = "orders";
pub(crate) const CHILDREN: [&str; 2] = ["copies-1", "copies-2"];
pub(crate) const PARTITIONS: u32 = 3;
const PARENT_ID: Incarnation = Incarnation::new(0xA1);

/// Stores as it is, or refuses for as long as it is told to.
#[derive(Debug, Default)]
pub(crate) struct Flaky {
    pub(crate) refuses: AtomicBool,
    /// The same for single partitions, a bit for each.
    pub(crate) refuses_in: AtomicUsize,
    pub(crate) asked: AtomicUsize,
}

impl Codec for Flaky {
    fn number(&self) -> CodecNumber {
        CodecNumber::new(0).unwrap()
    }
    fn name(&self) -> &str {
        "none"
    }
    fn encode(
        &self,
        frame: &FrameContext<'_>,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(), PluginError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let in_partition = self.refuses_in.load(Ordering::SeqCst) >> frame.log.partition.0 & 1 == 1;
        if in_partition || self.refuses.load(Ordering::SeqCst) {
            return Err(PluginError::from("refused on purpose"));
        }
        output.extend_from_slice(input);
        Ok(())
    }
    fn decode(&self, _: &FrameContext<'_>, input: &[u8], output: &mut Vec<u8>) -> Result<(), PluginError> {
        output.extend_from_slice(input);
        Ok(())
    }
}

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

/// The topics that there are, and whether who asks for a child gets no answer.
#[derive(Default)]
pub(crate) struct Directory(pub Mutex<HashMap<String, Arc<TopicSpec>>>, pub AtomicBool);

#[async_trait]
impl Topics for Directory {
    async fn topic(&self, name: &str, id: Incarnation) -> Found {
        if self.1.load(Ordering::SeqCst) && name != PARENT {
            std::future::pending::<()>().await;
        }
        match self.0.lock().get(name) {
            Some(spec) if spec.incarnation == id => Found::Here(Arc::clone(spec)),
            _ => Found::Gone,
        }
    }
}

/// One life of a server.
pub(crate) struct Bed {
    pub(crate) disk: SimDisk,
    pub(crate) runtime: Runtime,
    pub(crate) store: Store,
    pub(crate) topics: Arc<Directory>,
    pub(crate) fanout: Fanout,
    /// The codec of each child.
    pub(crate) codecs: [Arc<Flaky>; 2],
}

/// A disk and a clock that lives of a server follow each other on.
pub(crate) fn disk(seed: u64) -> (SimDisk, ManualClock) {
    let clock = ManualClock::new();
    (SimDisk::with_clock(seed, Arc::new(clock.clone())), clock)
}

impl Bed {
    pub(crate) fn open(disk: &SimDisk, clock: &ManualClock) -> Self {
        Self::try_open(disk, clock).unwrap()
    }

    pub(crate) fn try_open(disk: &SimDisk, clock: &ManualClock) -> narad_core::Result<Self> {
        Self::open_with(disk, clock, |_| ())
    }

    pub(crate) fn open_with(
        disk: &SimDisk,
        clock: &ManualClock,
        adjust: impl FnOnce(&mut FanoutOptions),
    ) -> narad_core::Result<Self> {
        let (process, ticking): (Arc<dyn Disk>, Arc<dyn Clock>) =
            (Arc::new(disk.process()), Arc::new(clock.clone()));
        let runtime = Runtime::driven_by_hand(process, ticking);
        let store = Store::open(&runtime, Path::new("/data"), StoreOptions::default())?;
        let (signals, topics) = (Arc::<Signals>::default(), Arc::<Directory>::default());
        let codecs = [Arc::<Flaky>::default(), Arc::<Flaky>::default()];
        let mut parent = TopicSpec::new(PARENT, PARENT_ID, PARTITIONS, Arc::new(Flaky::default()));
        parent.wake = Arc::<Signals>::clone(&signals);
        parent.retention = Arc::new(NewestSegment);
        parent.segment_bytes = 512;
        topics.0.lock().insert(PARENT.to_owned(), Arc::new(parent));
        for (child, codec) in CHILDREN.into_iter().zip(&codecs) {
            let spec = TopicSpec::new(child, child_id(child), PARTITIONS, Arc::<Flaky>::clone(codec));
            topics.0.lock().insert(child.to_owned(), Arc::new(spec));
        }
        let mut options = FanoutOptions::default();
        adjust(&mut options);
        let as_topics: Arc<dyn Topics> = Arc::<Directory>::clone(&topics);
        let fanout = Fanout::new(&runtime, store.clone(), as_topics, signals, options);
        Ok(Self { disk: disk.clone(), runtime, store, topics, fanout, codecs })
    }

    pub(crate) fn spec(&self, topic: &str) -> Arc<TopicSpec> {
        Arc::clone(&self.topics.0.lock()[topic])
    }

    /// Gives a topic another number of partitions.
    pub(crate) fn grow(&self, topic: &str, partitions: u32) {
        let mut spec = TopicSpec::clone(&self.spec(topic));
        spec.partitions = partitions;
        self.topics.0.lock().insert(topic.to_owned(), Arc::new(spec));
    }

    pub(crate) fn log(&self, topic: &str, partition: u32) -> Log {
        self.store.log(&self.spec(topic), PartitionId(partition)).unwrap()
    }

    /// Commits messages to the parent, each in a frame of its own.
    pub(crate) fn produce(&self, partition: u32, messages: &[&str]) {
        for message in messages {
            self.log(PARENT, partition).commit(Batch::of(b"", message.as_bytes())).unwrap();
        }
    }

    /// All that a topic's partition holds.
    pub(crate) fn records(&self, topic: &str, partition: u32) -> Vec<Record> {
        let log = self.log(topic, partition);
        log.read_batch(log.oldest_offset(), usize::MAX, usize::MAX).unwrap().records
    }

    pub(crate) fn payloads(&self, topic: &str, partition: u32) -> Vec<String> {
        let records = self.records(topic, partition);
        records.iter().map(|record| String::from_utf8(record.payload.to_vec()).unwrap()).collect()
    }

    pub(crate) async fn link(&self, links: &[Link]) {
        self.fanout.set_links(links.to_vec()).await;
    }

    /// The end of this life in good order.
    pub(crate) async fn close(self) {
        self.fanout.close(Duration::from_secs(5)).await;
        self.store.close().unwrap();
    }

    /// What the file of a cursor holds.
    pub(crate) fn cursor(&self, partition: u32, child: &str) -> Option<String> {
        let bytes = self.disk.contents(cursor_path(partition, child))?;
        Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }
}

pub(crate) fn cursor_path(partition: u32, child: &str) -> String {
    format!("/data/topics/{PARENT}/p{partition:05}/fanout-{child}.offset")
}

pub(crate) fn child_id(child: &str) -> Incarnation {
    Incarnation::new(u64::from_be_bytes(*child.as_bytes().first_chunk().unwrap_or(b"children")))
}

/// A link from the parent's start.
pub(crate) fn link(child: &str, epoch: u64, delay: Duration) -> Link {
    let (delay_ms, offsets) = (delay.as_millis() as u64, Arc::from([Offset::ZERO; 3]));
    let parent = ParentLink { name: PARENT.into(), id: PARENT_ID, epoch, delay_ms, offsets };
    Link { child: child.into(), child_id: child_id(child), parent, parent_partitions: PARTITIONS }
}

/// Lets everybody do what they can do within `time`, which takes none.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Longer than a copy lingers.
pub(crate) async fn settle() {
    pass(Duration::from_millis(200)).await;
}
