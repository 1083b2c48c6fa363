//! Random courses of a parent and its children: produces, clocks that step, partitions that refuse, disks that fail,
//! logs that close, restarts, power losses, growth, attachments that end. No message is lost, early, or out of order.
//!
//! `NARAD_ROUNDS` (150) says how many courses, `NARAD_SEED` which one is the first.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use crate::support::{Bed, CHILDREN, PARENT, disk, link, pass};
use narad_core::{
    clock::Clock as _,
    format::Batch,
    plugin::PartitionId,
    store::TopicSpec,
    testkit::{Failure, Fault, ManualClock, SeedGuard, SimDisk, Survival, seed},
};
use narad_server::meta::Link;
use rand::{RngExt, SeedableRng, rngs::StdRng};

const SECOND: Duration = Duration::from_secs(1);
const DELAYS: [Duration; 2] = [Duration::ZERO, Duration::from_secs(20)];

/// A course, and what is known of it.
struct Course {
    random: StdRng,
    disk: SimDisk,
    clock: ManualClock,
    bed: Option<Bed>,
    /// By topic, how many partitions it has.
    shape: HashMap<&'static str, u32>,
    links: [Link; 2],
    sent: u32,
    /// When each message was committed to the parent, by its number.
    committed: BTreeMap<u32, i64>,
    /// By child, what it has to get.
    needed: [BTreeSet<u32>; 2],
    /// By child, how much of each partition was looked at.
    seen: [HashMap<u32, usize>; 2],
    /// The latest that the wall clock has shown.
    latest_ms: i64,
    /// Whether something happened after which messages may come twice.
    repeats: bool,
}

impl Course {
    async fn begin(seed: u64) -> Self {
        let (disk, clock) = disk(seed);
        let links = [link(CHILDREN[0], 1, DELAYS[0]), link(CHILDREN[1], 2, DELAYS[1])];
        let shape = [PARENT, CHILDREN[0], CHILDREN[1]].map(|topic| (topic, 3)).into();
        let mut course = Self {
            random: StdRng::seed_from_u64(seed),
            latest_ms: clock.unix_ms(),
            bed: None,
            shape,
            links,
            sent: 0,
            committed: BTreeMap::new(),
            needed: Default::default(),
            seen: Default::default(),
            repeats: false,
            disk,
            clock,
        };
        course.start().await;
        course
    }

    fn bed(&self) -> &Bed {
        self.bed.as_ref().unwrap()
    }

    async fn start(&mut self) {
        let bed = Bed::open(&self.disk, &self.clock);
        for (topic, partitions) in &self.shape {
            bed.grow(topic, *partitions);
        }
        // The parent keeps everything here, as the children do.
        let mut parent = TopicSpec::clone(&bed.spec(PARENT));
        parent.retention = Arc::clone(&bed.spec(CHILDREN[0]).retention);
        bed.topics.0.lock().insert(PARENT.to_owned(), Arc::new(parent));
        bed.link(&self.links).await;
        self.bed = Some(bed);
    }

    fn partition(&mut self, topic: &str) -> PartitionId {
        PartitionId(self.random.random_range(0..self.shape[topic]))
    }

    fn produce(&mut self) {
        let partition = self.partition(PARENT);
        for _ in 0..self.random.random_range(1..6) {
            let Ok(log) = self.bed().store.log(&self.bed().spec(PARENT), partition) else { return };
            let (number, key) = (self.sent, self.random.random_range(0..9u32));
            self.sent += 1;
            let key = if key == 0 { String::new() } else { format!("key-{key}") };
            let batch = Batch::of(key.as_bytes(), number.to_string().as_bytes());
            let Ok(_) = log.commit(batch) else { continue };
            for needed in &mut self.needed {
                needed.insert(number);
            }
        }
    }

    /// A child leaves and comes back at the parent's tail.
    async fn attach_again(&mut self, child: usize) {
        let others = vec![self.links[1 - child].clone()];
        self.bed().link(&others).await;
        self.look();
        pass(SECOND).await;
        assert!(self.news(child).is_empty(), "after the end of its link");
        let mut offsets = Vec::new();
        for partition in (0..self.shape[PARENT]).map(PartitionId) {
            match self.bed().store.log(&self.bed().spec(PARENT), partition) {
                Ok(log) => offsets.push(log.high_watermark()),
                // Where to begin is not known: as it was.
                Err(_) => return self.bed().link(&self.links).await,
            }
        }
        let parent = &mut self.links[child].parent;
        (parent.epoch, parent.offsets) = (parent.epoch + 2, offsets.into());
        self.needed[child].clear();
        self.bed().link(&self.links).await;
    }

    async fn step(&mut self) {
        let child = self.random.random_range(0..2);
        match self.random.random_range(0..30) {
            0..8 => self.produce(),
            8..11 => self.clock.advance(self.random.random_range(0..30) * SECOND),
            11..15 => {
                let step = self.random.random_range(-20_000..20_000);
                self.clock.set_unix_ms(self.clock.unix_ms() + step);
                self.repeats = true;
            }
            15..21 => {
                let bit = 1 << self.partition(CHILDREN[child]).0;
                self.bed().codecs[child].refuses_in.fetch_xor(bit, Ordering::SeqCst);
            }
            21..23 => {
                let nth = self.random.random_range(1..20);
                self.disk.inject(Fault::fail_all(Failure::Io).at(nth));
                self.repeats = true;
            }
            23..25 => {
                let topic = [PARENT, CHILDREN[child]][self.random.random_range(0..2)];
                let partition = self.partition(topic);
                let log = self.bed().store.log(&self.bed().spec(topic), partition);
                let _ = log.map(|log| log.close());
            }
            25 => {
                self.look();
                let bed = self.bed.take().unwrap();
                // Which partitions have their part of a batch is known in memory alone.
                self.repeats |= bed.codecs.iter().any(|codec| codec.refuses_in.load(Ordering::SeqCst) != 0);
                bed.fanout.close(5 * SECOND).await;
                self.repeats |= bed.store.close().is_err();
                drop(bed);
                self.disk.clear_faults();
                self.start().await;
            }
            26 => {
                self.look();
                let bed = self.bed.take().unwrap();
                bed.fanout.close(Duration::ZERO).await;
                self.disk.power_loss_keeping(Survival::Random);
                drop(bed);
                self.disk.clear_faults();
                self.repeats = true;
                self.start().await;
            }
            27 => {
                let topic = [PARENT, CHILDREN[child]][self.random.random_range(0..2)];
                let partitions = self.shape.get_mut(topic).unwrap();
                *partitions = (*partitions + 1).min(6);
                let partitions = *partitions;
                self.bed().grow(topic, partitions);
                let grown = self.shape[PARENT];
                self.links.iter_mut().for_each(|link| link.parent_partitions = grown);
                self.bed().link(&self.links).await;
            }
            _ => self.attach_again(child).await,
        }
        self.latest_ms = self.latest_ms.max(self.clock.unix_ms());
        pass(self.random.random_range(0..2000) * Duration::from_millis(1)).await;
        self.clock.advance_monotonic(2 * SECOND);
        self.bed().store.tick();
        self.look();
    }

    /// What of a child was not looked at yet.
    fn news(&mut self, child: usize) -> Vec<u32> {
        let (bed, mut news) = (self.bed.as_ref().unwrap(), Vec::new());
        for partition in 0..self.shape[CHILDREN[child]] {
            let Some(found) = numbers(bed, CHILDREN[child], partition) else { continue };
            let seen = self.seen[child].entry(partition).or_default();
            news.extend(found.iter().skip(*seen).map(|(number, _)| *number));
            *seen = found.len().max(*seen);
        }
        news
    }

    /// Nothing that is new came early.
    fn look(&mut self) {
        for partition in 0..self.shape[PARENT] {
            self.committed.extend(numbers(self.bed(), PARENT, partition).unwrap_or_default());
        }
        for (child, delay) in DELAYS.iter().enumerate() {
            for number in self.news(child) {
                let due = self.committed.get(&number).map(|at| at + delay.as_millis() as i64);
                assert!(due.is_none_or(|due| due <= self.latest_ms || delay.is_zero()), "{number} is early");
            }
        }
    }

    async fn end(mut self, context: &str) {
        self.disk.clear_faults();
        self.bed().codecs.iter().for_each(|codec| codec.refuses_in.store(0, Ordering::SeqCst));
        let last = self.committed.values().max().copied().unwrap_or(0);
        self.clock.set_unix_ms(self.clock.unix_ms().max(last));
        self.clock.advance(60 * SECOND);
        for _ in 0..6 {
            pass(SECOND).await;
            self.clock.advance_monotonic(2 * SECOND);
            self.bed().store.tick();
        }
        let bed = self.bed.take().unwrap();
        let sources: HashMap<u32, u32> = (0..self.shape[PARENT])
            .flat_map(|partition| {
                let found = numbers(&bed, PARENT, partition).unwrap();
                found.into_iter().map(move |(number, _)| (number, partition))
            })
            .collect();
        for (child, needed) in CHILDREN.iter().zip(&self.needed) {
            let (mut all, mut count) = (BTreeSet::new(), 0);
            for partition in 0..self.shape[child] {
                let mut newest = HashMap::new();
                for (number, _) in numbers(&bed, child, partition).unwrap() {
                    count += 1;
                    if all.insert(number) {
                        let before = newest.insert(sources.get(&number), number);
                        // A batch that is repeated after the child has grown goes to other partitions.
                        let in_order = before.is_none_or(|before| before < number) || self.shape[child] > 3;
                        assert!(in_order, "{context}: {child} gets {number} late");
                    }
                }
            }
            let lost: Vec<_> = needed.difference(&all).collect();
            assert!(lost.is_empty(), "{context}: {child} lacks {lost:?} of {}", needed.len());
            assert!(self.repeats || count == all.len(), "{context}: {child} has some twice");
        }
        let epochs: Vec<u64> = self.links.iter().map(|link| link.parent.epoch).collect();
        let lags = bed.fanout.lags(&epochs).await;
        assert!(lags.iter().all(|lag| lag.messages == 0 && lag.complete), "{context}: {lags:?}");
        bed.close().await;
    }
}

/// The numbers in a partition and when they were committed; `None` when it cannot be read now.
fn numbers(bed: &Bed, topic: &str, partition: u32) -> Option<Vec<(u32, i64)>> {
    let spec: Arc<_> = bed.spec(topic);
    let log = bed.store.log(&spec, PartitionId(partition)).ok()?;
    let batch = log.read_batch(log.oldest_offset(), usize::MAX, usize::MAX).ok()?;
    let number = |payload: &[u8]| std::str::from_utf8(payload).unwrap().parse().unwrap();
    Some(batch.records.iter().map(|record| (number(&record.payload), record.committed_at_ms)).collect())
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_no_message_is_lost_early_or_out_of_order() {
    let rounds = std::env::var("NARAD_ROUNDS").map_or(150, |text| text.parse().expect("NARAD_ROUNDS"));
    let first = seed();
    for round in 0..rounds {
        let seed = SeedGuard::new(first.wrapping_add(round));
        let mut course = Course::begin(seed.get()).await;
        for _ in 0..40 {
            course.step().await;
        }
        course.end(&format!("round {round}")).await;
    }
}
