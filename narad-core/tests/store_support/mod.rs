//! What the tests of the store share: a simulated disk with a clock, and topics on it.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{path::Path, sync::Arc, time::Duration};

use narad_core::{
    clock::Clock,
    disk::Disk,
    format::Offset,
    plugin::{Incarnation, PartitionId, RetentionDecision, RetentionPolicy, RetentionView},
    runtime::Runtime,
    store::{ConsumerPosition, Store, StoreOptions, TopicSpec},
    testkit::{ManualClock, SimDisk},
};

pub(crate) use narad_core::testkit::Verbatim;

pub(crate) const DATA: &str = "/data";
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// A disk and a clock, on which stores are opened one after the other.
pub(crate) struct Bench {
    pub(crate) disk: SimDisk,
    pub(crate) clock: ManualClock,
}

impl Bench {
    pub(crate) fn new(seed: u64) -> Self {
        let clock = ManualClock::new();
        Self { disk: SimDisk::with_clock(seed, Arc::new(clock.clone())), clock }
    }

    pub(crate) fn runtime(&self) -> Runtime {
        let (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>) =
            (Arc::new(self.disk.clone()), Arc::new(self.clock.clone()));
        Runtime::driven_by_hand(disk, clock)
    }

    pub(crate) fn try_open(&self) -> narad_core::Result<Store> {
        Store::open(&self.runtime(), Path::new(DATA), StoreOptions::default())
    }

    pub(crate) fn open(&self) -> Store {
        self.try_open().expect("the store opens")
    }

    pub(crate) fn open_with(&self, options: StoreOptions) -> Store {
        Store::open(&self.runtime(), Path::new(DATA), options).expect("the store opens")
    }

    /// Time passes, and the store does what is due.
    pub(crate) fn ticks(&self, store: &Store, count: usize) {
        for _ in 0..count {
            self.clock.advance(TICK);
            store.tick();
        }
    }

    /// The names in a directory, sorted.
    pub(crate) fn names(&self, dir: &str) -> Vec<String> {
        let mut names: Vec<_> = self.disk.list(Path::new(dir)).map_or_else(
            |_| Vec::new(),
            |entries| entries.into_iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect(),
        );
        names.sort();
        names
    }
}

pub(crate) fn topic(name: &str, id: u64) -> TopicSpec {
    let mut spec = TopicSpec::new(name, Incarnation::new(id), 3, Arc::new(Verbatim));
    spec.segment_bytes = 1 << 20;
    spec
}

pub(crate) fn p(number: u32) -> PartitionId {
    PartitionId(number)
}

pub(crate) fn at(value: u64) -> Offset {
    Offset::new(value).expect("an offset")
}

/// Everything settled up to and with `frontier`, and `acked` above it.
pub(crate) fn position(frontier: impl Into<Option<u64>>, acked: &[u64]) -> ConsumerPosition {
    ConsumerPosition {
        frontier: frontier.into().map(at),
        acked: acked.iter().map(|&offset| at(offset)).collect(),
    }
}

/// Takes every segment, at once.
#[derive(Debug)]
pub(crate) struct TakeAll;

impl RetentionPolicy for TakeAll {
    fn name(&self) -> &str {
        "take-all"
    }
    fn roll_age(&self) -> Option<Duration> {
        None
    }
    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        RetentionDecision::expire(view.segments.len(), "test")
    }
}

/// Takes what every consumer has settled.
#[derive(Debug)]
pub(crate) struct TakeSettled;

impl RetentionPolicy for TakeSettled {
    fn name(&self) -> &str {
        "take-settled"
    }
    fn roll_age(&self) -> Option<Duration> {
        None
    }
    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        let settled = |end| view.frontier.is_some_and(|frontier| end <= frontier.saturating_add(1));
        let expire = view.segments.iter().take_while(|segment| settled(segment.end)).count();
        RetentionDecision::expire(expire, "test")
    }
}
