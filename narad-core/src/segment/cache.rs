//! Decoded frames, kept in bounded memory and shared by the logs of a process.

use std::{collections::BTreeMap, sync::Arc};

use super::DecodedFrame;
use crate::{
    format::Offset,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// Tells the frames of one open log from those of every other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CacheId(u64);

/// The cache. The least recently used frame goes first.
#[derive(Debug)]
pub(crate) struct FrameCache {
    state: Mutex<State>,
    limit: usize,
    next_id: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    frames: BTreeMap<(CacheId, Offset), Entry>,
    /// By last use, oldest first.
    order: BTreeMap<u64, (CacheId, Offset)>,
    clock: u64,
    bytes: usize,
    hits: u64,
    misses: u64,
}

/// How the cache of decoded frames does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Reads of a frame that was in memory.
    pub hits: u64,
    /// Reads of a frame that had to be read from its file and decoded.
    pub misses: u64,
    /// Bytes in it.
    pub bytes: u64,
}

#[derive(Debug)]
struct Entry {
    frame: Arc<DecodedFrame>,
    used: u64,
}

impl FrameCache {
    /// A cache of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { state: Mutex::default(), limit, next_id: AtomicU64::new(0) }
    }

    /// An identity for a log that is being opened.
    pub(crate) fn new_id(&self) -> CacheId {
        CacheId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// The frame that holds `offset`.
    pub(crate) fn get(&self, id: CacheId, offset: Offset) -> Option<Arc<DecodedFrame>> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let (key, entry) = state.frames.range_mut((id, Offset::ZERO)..=(id, offset)).next_back()?;
        if offset >= entry.frame.end() {
            return None;
        }
        state.order.remove(&entry.used);
        state.clock += 1;
        entry.used = state.clock;
        state.order.insert(state.clock, *key);
        state.hits += 1;
        Some(Arc::clone(&entry.frame))
    }

    /// Counts a read that has to go to the file.
    pub(crate) fn count_miss(&self) {
        self.state.lock().misses += 1;
    }

    /// How it does.
    pub(crate) fn stats(&self) -> CacheStats {
        let state = self.state.lock();
        CacheStats { hits: state.hits, misses: state.misses, bytes: state.bytes as u64 }
    }

    /// Keeps a frame, unless it alone would take more than half of the cache.
    pub(crate) fn insert(&self, id: CacheId, frame: Arc<DecodedFrame>) {
        let memory = frame.memory();
        if memory > self.limit / 2 {
            return;
        }
        let mut state = self.state.lock();
        let key = (id, frame.base());
        state.remove(key);
        state.clock += 1;
        let used = state.clock;
        state.order.insert(used, key);
        state.frames.insert(key, Entry { frame, used });
        state.bytes += memory;
        while state.bytes > self.limit {
            let Some((_, oldest)) = state.order.pop_first() else { break };
            state.remove(oldest);
        }
    }

    /// Forgets what a truncate cut: the frames that reach past `from`.
    pub(crate) fn cut_from(&self, id: CacheId, from: Offset) {
        self.retain(id, |frame| frame.end() <= from);
    }

    /// Forgets what retention deleted: the frames that begin before `to`.
    pub(crate) fn cut_below(&self, id: CacheId, to: Offset) {
        self.retain(id, |frame| frame.base() >= to);
    }

    /// Forgets a log.
    pub(crate) fn forget(&self, id: CacheId) {
        self.retain(id, |_| false);
    }

    fn retain(&self, id: CacheId, keep: impl Fn(&DecodedFrame) -> bool) {
        let mut state = self.state.lock();
        let log = state.frames.range((id, Offset::ZERO)..=(id, Offset::MAX));
        let gone: Vec<_> = log.filter(|(_, entry)| !keep(&entry.frame)).map(|(key, _)| *key).collect();
        for key in gone {
            state.remove(key);
        }
    }
}

impl State {
    fn remove(&mut self, key: (CacheId, Offset)) {
        if let Some(entry) = self.frames.remove(&key) {
            self.order.remove(&entry.used);
            self.bytes -= entry.frame.memory();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Batch;

    fn frame(base: u32, records: usize) -> Arc<DecodedFrame> {
        let batch: Batch = (0..records).map(|_| (b"", vec![0u8; 100])).collect();
        let raw = bytes::Bytes::copy_from_slice(batch.as_bytes());
        Arc::new(DecodedFrame::new(Offset::from(base), records as u32, raw).unwrap())
    }

    #[test]
    fn rd_04_memory_is_bounded_and_the_least_recently_used_goes_first() {
        let cache = FrameCache::new(4096);
        let id = cache.new_id();
        for base in 0..10 {
            cache.insert(id, frame(base * 10, 10));
            assert!(cache.get(id, Offset::from(5)).is_some(), "the frame in use stays");
        }
        assert!(cache.get(id, Offset::from(15)).is_none());
        assert!(cache.get(id, Offset::from(99)).is_some());
        assert!(cache.state.lock().bytes <= 4096);
    }

    #[test]
    fn rd_04_cuts_drop_what_they_cut_and_nothing_else() {
        let cache = FrameCache::new(1 << 20);
        let (id, other) = (cache.new_id(), cache.new_id());
        for base in [0, 10, 20] {
            cache.insert(id, frame(base, 10));
            cache.insert(other, frame(base, 10));
        }
        cache.cut_from(id, Offset::from(20));
        cache.cut_below(id, Offset::from(10));
        let held = |id| [5u32, 15, 25].map(|offset| cache.get(id, Offset::from(offset)).is_some());
        assert_eq!(held(id), [false, true, false]);
        assert_eq!(held(other), [true, true, true]);
        cache.forget(other);
        assert_eq!(held(other), [false, false, false]);
    }
}
