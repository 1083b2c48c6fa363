//! The bytes of one file: what processes see, what survives, and what lies between the two.
//!
//! Between two syncs each 512-byte sector may reach the platter at any moment and with whatever it then holds, one
//! independently of the other; lengths reach it in order. So what a power loss leaves of a sector is its state
//! after some number of the writes to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use rand::{RngExt, rngs::StdRng};

use super::Survival;

/// The unit that a disk writes whole or not at all.
pub(super) const SECTOR: usize = 512;

#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    cached: Vec<u8>,
    platter: Vec<u8>,
    pending: Vec<Pending>,
    /// Sectors that a failed sync dropped: clean for the system, and not on the platter.
    dropped: BTreeSet<usize>,
}

#[derive(Debug, Clone)]
enum Pending {
    Length(usize),
    Bytes { at: usize, bytes: Vec<u8> },
}

impl Content {
    /// A file whose bytes are on the platter.
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Self { platter: bytes.clone(), cached: bytes, ..Self::default() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.cached
    }

    pub(super) fn len(&self) -> usize {
        self.cached.len()
    }

    pub(super) fn read(&self, buf: &mut [u8], at: usize) -> usize {
        let rest = self.cached.get(at..).unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        n
    }

    pub(super) fn write(&mut self, bytes: &[u8], at: usize) {
        if bytes.is_empty() {
            return;
        }
        let end = at + bytes.len();
        if end > self.cached.len() {
            self.set_len(end);
        }
        self.cached[at..end].copy_from_slice(bytes);
        let dirty = self.with_dropped_sectors(at..end);
        self.pending.push(Pending::Bytes { at: dirty.start, bytes: self.cached[dirty].to_vec() });
    }

    /// The system writes sectors whole, so a write into a dropped one takes the rest of that sector along.
    fn with_dropped_sectors(&mut self, mut dirty: Range<usize>) -> Range<usize> {
        if self.dropped.is_empty() {
            return dirty;
        }
        for (sector, _) in sectors(dirty.start, dirty.len()) {
            if self.dropped.remove(&sector) {
                dirty.start = dirty.start.min(sector * SECTOR);
                dirty.end = dirty.end.max((sector + 1) * SECTOR).min(self.cached.len());
            }
        }
        dirty
    }

    pub(super) fn set_len(&mut self, len: usize) {
        if len != self.cached.len() {
            self.cached.resize(len, 0);
            self.pending.push(Pending::Length(len));
        }
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            match change {
                Pending::Length(len) => self.platter.resize(len, 0),
                Pending::Bytes { at, bytes } => overlay(&mut self.platter, at, &bytes),
            }
        }
        self.platter.resize(self.cached.len(), 0);
    }

    /// A sync that fails: each dirty sector is written or forgotten. Those forgotten count as clean from now on, so
    /// a later sync succeeds without them; processes go on seeing them until the power goes.
    pub(super) fn fail_sync(&mut self, rng: &mut StdRng) {
        let mut kept = BTreeMap::new();
        for sector in self.dirty_sectors().into_keys() {
            let lucky = rng.random::<bool>();
            kept.insert(sector, lucky);
            if !lucky {
                self.dropped.insert(sector);
            }
        }
        let pending = std::mem::take(&mut self.pending);
        for change in pending {
            match change {
                Pending::Length(len) => self.pending.push(Pending::Length(len)),
                Pending::Bytes { at, bytes } => {
                    for (sector, part) in sectors(at, bytes.len()) {
                        if kept[&sector] {
                            let bytes = bytes[part.start - at..part.end - at].to_vec();
                            self.pending.push(Pending::Bytes { at: part.start, bytes });
                        }
                    }
                }
            }
        }
    }

    pub(super) fn lose_power(&mut self, survival: Survival, rng: &mut StdRng) {
        let lengths = self.pending.iter().filter(|change| matches!(change, Pending::Length(_))).count();
        let mut lengths_left = survival.of(lengths, rng);
        let mut writes_left = self.dirty_sectors();
        for left in writes_left.values_mut() {
            *left = survival.of(*left, rng);
        }

        let mut platter = std::mem::take(&mut self.platter);
        let mut survived_len = platter.len();
        let mut running_len = platter.len();
        // Above a truncation that did not survive lie the old file's blocks; what was written later went elsewhere.
        let mut ceiling = usize::MAX;
        let mut tearing = survival == Survival::Random && rng.random_ratio(1, 4);
        for change in std::mem::take(&mut self.pending) {
            match change {
                Pending::Length(len) if lengths_left > 0 => {
                    lengths_left -= 1;
                    platter.resize(len, 0);
                    (survived_len, running_len) = (len, len);
                }
                Pending::Length(len) => {
                    if len < running_len {
                        ceiling = ceiling.min(len.next_multiple_of(SECTOR));
                    }
                    if std::mem::take(&mut tearing) && len > survived_len {
                        survived_len = torn_len(survived_len, len, rng);
                    }
                    running_len = len;
                }
                Pending::Bytes { at, bytes } => {
                    for (sector, part) in sectors(at, bytes.len()) {
                        let left = writes_left.entry(sector).or_default();
                        if *left > 0 && part.start < ceiling {
                            *left -= 1;
                            overlay(&mut platter, part.start, &bytes[part.start - at..part.end - at]);
                        }
                    }
                }
            }
        }
        platter.resize(survived_len, 0);
        *self = Self::durable(platter);
    }

    /// The sectors with pending writes, and how many writes each.
    fn dirty_sectors(&self) -> BTreeMap<usize, usize> {
        let mut dirty = BTreeMap::new();
        for change in &self.pending {
            if let Pending::Bytes { at, bytes } = change {
                for (sector, _) in sectors(*at, bytes.len()) {
                    *dirty.entry(sector).or_default() += 1;
                }
            }
        }
        dirty
    }
}

/// A length between two, at the end of a sector: a write call whose blocks were taken into the file only in part.
fn torn_len(from: usize, to: usize, rng: &mut StdRng) -> usize {
    let (first, last) = (from / SECTOR + 1, to / SECTOR);
    if first > last { from } else { rng.random_range(first..=last) * SECTOR }
}

/// The parts of `at..at + len` by sector.
fn sectors(at: usize, len: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    let end = at + len;
    let mut start = at;
    std::iter::from_fn(move || {
        (start < end).then(|| {
            let sector = start / SECTOR;
            let part = start..((sector + 1) * SECTOR).min(end);
            start = part.end;
            (sector, part)
        })
    })
}

fn overlay(bytes: &mut Vec<u8>, at: usize, part: &[u8]) {
    let end = at + part.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at..end].copy_from_slice(part);
}
