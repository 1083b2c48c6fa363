//! What the ingress tests share: partitions whose behaviour a test decides, over logs on a simulated disk.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::{
    Error,
    clock::SystemClock,
    format::{Offset, Record},
    log::{Log, LogOptions},
    plugin::{Incarnation, LogIdentity, PartitionId},
    runtime::{Runtime, RuntimeOptions},
    testkit::{Call, CallKind, SimDisk},
};
use narad_server::ingress::{Ingress, IngressError, IngressOptions, Lookup, Partitions, Staged};
use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinHandle};

/// Longer than anything a test waits for takes.
pub(crate) const BOUND: Duration = Duration::from_secs(30);
pub(crate) const WAL: &str = "/data/ingress/produce";
pub(crate) const CHECKPOINT: &str = "/data/ingress/produce/checkpoint";
/// The segments of the first partition, and not those of the produce log.
pub(crate) const SEGMENT: &str = "p00000/*.log";
pub(crate) const ID: Incarnation = Incarnation::new(0xA1);

/// Partitions on the disk of a runtime.
pub(crate) struct Fake {
    runtime: Runtime,
    logs: Mutex<HashMap<PathBuf, Log>>,
    gone: Mutex<HashSet<Incarnation>>,
    unavailable: Mutex<HashSet<PartitionId>>,
    panicking: Mutex<HashSet<PartitionId>>,
    lookups: Mutex<HashMap<PartitionId, u64>>,
    looked_up: Notify,
    count: AtomicU32,
    /// Whether a log that is open can be had at once, so that lone messages go to it directly.
    at_once: AtomicBool,
    too_large: Mutex<HashSet<u64>>,
}

impl Fake {
    pub(crate) fn new(runtime: &Runtime) -> Arc<Self> {
        Arc::new(Self {
            runtime: runtime.clone(),
            logs: Mutex::default(),
            gone: Mutex::default(),
            unavailable: Mutex::default(),
            panicking: Mutex::default(),
            lookups: Mutex::default(),
            looked_up: Notify::new(),
            count: AtomicU32::new(0),
            at_once: AtomicBool::new(false),
            too_large: Mutex::default(),
        })
    }

    /// From here on every topic has so many partitions, which stand in for each other.
    pub(crate) fn set_count(&self, count: u32) {
        self.count.store(count, Ordering::SeqCst);
    }

    pub(crate) fn log(&self, topic: &str, id: Incarnation, partition: u32) -> Log {
        let dir = Path::new("/data/topics").join(format!("{topic}-{id}")).join(format!("p{partition:05}"));
        let mut logs = self.logs.lock();
        logs.entry(dir.clone())
            .or_insert_with(|| {
                let identity = LogIdentity::partition(topic, id, PartitionId(partition));
                let options = LogOptions::for_log(identity, Arc::new(narad_codecs::None));
                Log::open(&self.runtime, &dir, options).unwrap()
            })
            .clone()
    }

    /// From here on lone messages may go to their partitions at once.
    pub(crate) fn answers_at_once(&self) {
        self.at_once.store(true, Ordering::SeqCst);
    }

    pub(crate) fn set_gone(&self, id: Incarnation) {
        self.gone.lock().insert(id);
    }

    /// The commits that follow these lookups of a partition, counted from 1, are refused for good.
    pub(crate) fn set_too_large(&self, lookups: impl IntoIterator<Item = u64>) {
        self.too_large.lock().extend(lookups);
    }

    pub(crate) fn set_unavailable(&self, partition: u32, unavailable: bool) {
        let mut set = self.unavailable.lock();
        if unavailable {
            set.insert(PartitionId(partition))
        } else {
            set.remove(&PartitionId(partition))
        };
    }

    pub(crate) fn set_panicking(&self, partition: u32, panicking: bool) {
        let mut set = self.panicking.lock();
        if panicking {
            set.insert(PartitionId(partition))
        } else {
            set.remove(&PartitionId(partition))
        };
    }

    pub(crate) fn lookups(&self, partition: u32) -> u64 {
        self.lookups.lock().get(&PartitionId(partition)).copied().unwrap_or(0)
    }

    /// Waits until the partition was looked up `count` times.
    pub(crate) async fn wait_for_lookups(&self, partition: u32, count: u64) {
        let wait = async {
            loop {
                let looked_up = self.looked_up.notified();
                if self.lookups(partition) >= count {
                    return;
                }
                looked_up.await;
            }
        };
        tokio::time::timeout(BOUND, wait).await.expect("lookups");
    }

    /// Waits until the partition holds `count` records, and returns all of them.
    pub(crate) async fn wait_for(
        &self,
        topic: &str,
        id: Incarnation,
        partition: u32,
        count: u64,
    ) -> Vec<Record> {
        let log = self.log(topic, id, partition);
        let wait = async {
            loop {
                let announced = log.subscribe();
                if log.high_watermark().get() >= count {
                    return log.read_batch(Offset::ZERO, usize::MAX, usize::MAX).unwrap().records;
                }
                announced.changed().await;
            }
        };
        tokio::time::timeout(BOUND, wait).await.expect("records in the partition")
    }

    /// The payloads that the partition holds, as text.
    pub(crate) fn payloads(&self, topic: &str, id: Incarnation, partition: u32) -> Vec<String> {
        texts(
            &self.log(topic, id, partition).read_batch(Offset::ZERO, usize::MAX, usize::MAX).unwrap().records,
        )
    }
}

#[async_trait]
impl Partitions for Fake {
    async fn partition(&self, topic: &str, id: Incarnation, partition: PartitionId) -> Lookup {
        *self.lookups.lock().entry(partition).or_default() += 1;
        self.looked_up.notify_waiters();
        if self.too_large.lock().contains(&self.lookups(partition.0)) {
            return Lookup::Unavailable(Error::RecordTooLarge { bytes: 2, limit: 1 });
        }
        if self.gone.lock().contains(&id) {
            return Lookup::Gone;
        }
        let panics = self.panicking.lock().contains(&partition);
        assert!(!panics, "as the test wants it");
        if self.unavailable.lock().contains(&partition) {
            return Lookup::Unavailable(Error::Closed);
        }
        Lookup::Open(self.log(topic, id, partition.0))
    }

    fn open_log(&self, topic: &str, id: Incarnation, partition: PartitionId) -> Option<Log> {
        let is_there = self.at_once.load(Ordering::SeqCst)
            && !self.gone.lock().contains(&id)
            && !self.unavailable.lock().contains(&partition);
        is_there.then(|| self.log(topic, id, partition.0))
    }

    fn count(&self, _: &str, _: Incarnation) -> u32 {
        self.count.load(Ordering::SeqCst)
    }
}

pub(crate) fn texts(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| String::from_utf8(record.payload.to_vec()).unwrap()).collect()
}

/// A process on `disk`: a runtime with threads of its own.
pub(crate) fn runtime(disk: &SimDisk) -> Runtime {
    let mut options = RuntimeOptions::default();
    options.disk = Arc::new(disk.clone());
    options.clock = Arc::new(SystemClock::new());
    Runtime::new(options)
}

/// Bounds as a server has them, with retries that do not keep a test waiting.
pub(crate) fn quick() -> IngressOptions {
    let mut options = IngressOptions::default();
    options.retry = Duration::from_millis(20);
    options.reroute_after = Duration::from_millis(60);
    options.heal_first = Duration::from_millis(20);
    options.checkpoint_sync = Duration::from_millis(20);
    options.direct_rest = Duration::ZERO;
    options
}

pub(crate) async fn open(disk: &SimDisk, options: IngressOptions) -> (Ingress, Arc<Fake>) {
    let runtime = runtime(disk);
    let fake = Fake::new(&runtime);
    let ingress = open_with(&runtime, &fake, options).await;
    (ingress, fake)
}

pub(crate) async fn open_with(runtime: &Runtime, fake: &Arc<Fake>, options: IngressOptions) -> Ingress {
    let partitions: Arc<dyn Partitions> = Arc::<Fake>::clone(fake);
    Ingress::open(runtime, WAL.into(), partitions, options).await.unwrap()
}

pub(crate) fn message(partition: u32, payload: impl Into<String>) -> Staged {
    Staged {
        topic: "orders".into(),
        id: ID,
        partition: PartitionId(partition),
        pinned: false,
        key: Bytes::from_static(b"k"),
        payload: Bytes::from(payload.into()),
    }
}

/// Writes to the segments of the produce log.
pub(crate) fn wal_writes(disk: &SimDisk) -> usize {
    let is_wal =
        |call: &Call| call.kind == CallKind::Write && call.path.starts_with(WAL) && call.is_on("*.log");
    disk.calls().iter().filter(|call| is_wal(call)).count()
}

/// A produce that runs by itself.
pub(crate) fn spawn(ingress: &Ingress, messages: Vec<Staged>) -> JoinHandle<Result<(), IngressError>> {
    let ingress = ingress.clone();
    tokio::spawn(async move { ingress.produce(messages).await })
}

/// Waits until `condition` holds, looking whenever the executor comes round.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(BOUND, wait).await.unwrap_or_else(|_| panic!("{what} did not happen"));
}
