//! A directory on a simulated disk, opened and read with everything measured.

use std::{ops::Range, path::Path, sync::Arc};

use narad_core::{
    Error, Result,
    format::Offset,
    log::Log,
    runtime::Runtime,
    testkit::{ManualClock, SimDisk},
};

use crate::{directory::Directory, slow::Records, watch::Watch};

/// Where the partition lies.
pub const DIR: &str = "/p";

/// A disk, a clock that stands still, and a runtime without threads.
#[derive(Debug)]
pub struct Rig {
    pub disk: SimDisk,
    pub clock: ManualClock,
    pub runtime: Runtime,
    pub watch: Watch,
}

/// What an open may cost.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Calls to the disk.
    pub calls: u64,
    /// Bytes of memory at one time.
    pub memory: u64,
}

impl Cost {
    /// For a directory of so many bytes, of which the largest frame claims to have so many uncompressed. The walk of a
    /// damaged segment may be repeated, and takes a chunk of a quarter of a megabyte at a time.
    pub fn for_files(entries: usize, bytes: u64, largest_claim: u64) -> Self {
        Self {
            calls: 100 + 4 * entries as u64 + 64 * (bytes >> 16),
            memory: (8 << 20) + 32 * bytes + 2 * largest_claim,
        }
    }
}

impl Rig {
    pub fn new() -> Self {
        let clock = ManualClock::new();
        let disk = SimDisk::with_clock(1, Arc::new(clock.clone()));
        let runtime = Runtime::driven_by_hand(Arc::new(disk.clone()), Arc::new(clock.clone()));
        Self { disk, clock, runtime, watch: Watch::default() }
    }

    /// With `directory` at [`DIR`].
    pub fn with(directory: &Directory) -> Self {
        let rig = Self::new();
        directory.plant(&rig.disk, Path::new(DIR));
        rig
    }

    pub fn open(&self) -> Result<Log> {
        Log::open(&self.runtime, Path::new(DIR), self.watch.options())
    }

    /// Does what may cost so much.
    ///
    /// # Panics
    /// When it costs more.
    pub fn within<T>(&self, cost: Cost, what: impl FnOnce() -> T) -> T {
        self.disk.take_calls();
        let mut result = None;
        let used = allocation_counter::measure(|| result = Some(what()));
        let calls = self.disk.take_calls().len() as u64;
        assert!(calls <= cost.calls, "{calls} calls to the disk, more than {}", cost.calls);
        assert!(
            used.bytes_max <= cost.memory,
            "{} bytes of memory, more than {}",
            used.bytes_max,
            cost.memory
        );
        self.watch.assert_modest();
        result.expect("it was done")
    }
}

impl Default for Rig {
    fn default() -> Self {
        Self::new()
    }
}

/// What can be read, and which offsets cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    pub records: Records,
    pub lost: Vec<Range<u64>>,
}

impl Read {
    /// Ranges that touch become one: how a batch cuts them says nothing.
    fn lose(&mut self, range: &Range<u64>) {
        match self.lost.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.lost.push(range.clone()),
        }
    }
}

/// Reads everything below the high watermark in batches, and sees that single reads answer the same.
///
/// # Panics
/// When an offset is not accounted for, is answered twice, or differently.
pub fn read_all(log: &Log) -> Read {
    let (oldest, end) = (log.oldest_offset(), log.high_watermark());
    let mut read = Read { records: Records::new(), lost: Vec::new() };
    let mut from = oldest;
    while from < end {
        let batch = log.read_batch(from, 500, 1 << 20).expect("a batch");
        assert!(batch.next > from && batch.next <= end, "from {from} to {} of {end}", batch.next);
        let mut pieces: Vec<Range<u64>> =
            batch.unreadable.iter().map(|lost| lost.start.get()..lost.end.get()).collect();
        pieces.iter().for_each(|lost| read.lose(lost));
        for record in batch.records {
            let at = record.offset.get();
            pieces.push(at..at + 1);
            assert!(read.records.insert(at, record).is_none(), "{at} was answered twice");
        }
        pieces.sort_by_key(|piece| piece.start);
        let reached = pieces.iter().fold(from.get(), |reached, piece| {
            assert_eq!(piece.start, reached, "offsets are not accounted for, or twice");
            piece.end
        });
        assert_eq!(reached, batch.next.get(), "offsets are not accounted for");
        from = batch.next;
    }
    for at in samples(&read, oldest.get(), end.get()) {
        let said = log.read(Offset::new(at).expect("an offset"));
        match (&said, read.records.get(&at)) {
            (Ok(said), Some(record)) if said == record => {}
            (Err(error), None) if error.is_unreadable_record() => {}
            (_, record) => panic!("{at}: a read says {said:?}, and a batch {record:?}"),
        }
    }
    assert!(matches!(log.read(end), Err(Error::NotYet { .. })));
    if let Some(expired) = oldest.get().checked_sub(1).and_then(Offset::new).filter(|_| oldest < end) {
        assert!(matches!(log.read(expired), Err(Error::Expired { .. })));
    }
    read
}

/// Offsets worth a read of their own: the bounds of everything that cannot be read, and some in between.
fn samples(read: &Read, oldest: u64, end: u64) -> Vec<u64> {
    let bounds = read.lost.iter().take(64).flat_map(|lost| {
        [
            lost.start.checked_sub(1),
            Some(lost.start),
            Some(lost.start.midpoint(lost.end)),
            lost.end.checked_sub(1),
            Some(lost.end),
        ]
    });
    let step = read.records.len() / 48 + 1;
    let mut samples: Vec<u64> = bounds.flatten().chain(read.records.keys().copied().step_by(step)).collect();
    samples.retain(|at| (oldest..end).contains(at));
    samples.sort_unstable();
    samples.dedup();
    samples
}
