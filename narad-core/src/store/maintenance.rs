//! What codecs do off the way of every message: looking at a sample of recent records, to prepare what later frames
//! gain from.
//!
//! A topic in which nothing was committed since costs a look at memory; no log is opened, and no guard is waited for but
//! by a codec that writes a file. A codec that fails or panics is passed over until the next time.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use parking_lot::Mutex;

use super::{Inner, background::Beat, open_log::OpenLog, reaper::Turn, topic::Topic};
use crate::{
    format::{Offset, Record},
    plugin::{Codec, Sample},
};

/// Records of a sample, at most.
const SAMPLE_RECORDS: usize = 1000;
/// Bytes of keys and payloads of a sample, at most.
const SAMPLE_BYTES: usize = 1 << 20;

/// When codecs are asked next.
#[derive(Debug)]
pub(super) struct Maintenance {
    next: Mutex<Duration>,
    beat: Beat,
}

impl Maintenance {
    pub(super) fn new(first: Duration) -> Self {
        Self { next: Mutex::new(first), beat: Beat::default() }
    }

    pub(super) fn beat(&self) -> &Beat {
        &self.beat
    }

    /// Asks every codec in use if it is time. Returns when the next time is.
    pub(super) fn step(&self, store: &Inner, now: Duration) -> Duration {
        {
            let mut next = self.next.lock();
            if *next > now {
                return *next;
            }
            *next = now.saturating_add(store.options.codec_maintenance);
        }
        let topics: Vec<_> = store.topics.read().values().cloned().collect();
        for topic in topics {
            if store.check_open().is_err() {
                break;
            }
            self.beat.at_work(store.now());
            each_codec(store, &topic);
        }
        self.beat.rests();
        *self.next.lock()
    }
}

/// The logs of a topic share a codec, but for a moment after a change.
fn each_codec(store: &Inner, topic: &Topic) {
    // A codec that takes long is not called by another thread meanwhile.
    let Some(_turn) = Turn::take(&topic.maintaining) else { return };
    let mut logs = topic.open_logs();
    while let Some(codec) = logs.first().map(|open| open.log.codec()) {
        let (its, others) =
            logs.into_iter().partition::<Vec<_>, _>(|open| Arc::ptr_eq(&open.log.codec(), &codec));
        logs = others;
        maintain(store, topic, &*codec, &its);
    }
}

fn maintain(store: &Inner, topic: &Topic, codec: &dyn Codec, logs: &[Arc<OpenLog>]) {
    let called = catch_unwind(AssertUnwindSafe(|| {
        if !codec.wants_sample() {
            return Ok(None);
        }
        let ends: Vec<Offset> = logs.iter().map(|open| open.log.high_watermark()).collect();
        let grown =
            logs.iter().zip(&ends).filter(|(open, end)| open.sampled.load(Ordering::Relaxed) < end.get());
        let records = sample(store, grown.map(|(open, _)| &**open).collect());
        if records.is_empty() {
            return Ok(None);
        }
        let calls = store.runtime.metrics().calls("codec", codec.name(), "maintain");
        calls.time_fallible(|| codec.maintain(&Sample::new(&records))).map(|()| Some(ends))
    }));
    match called {
        Ok(Ok(None)) => {}
        Ok(Ok(Some(ends))) => {
            for (open, end) in logs.iter().zip(ends) {
                open.sampled.store(end.get(), Ordering::Relaxed);
            }
        }
        Ok(Err(error)) => {
            tracing::error!(topic = %topic.name(), codec = codec.name(), %error, "a codec could not be maintained");
            store.count_error("codec_maintain");
        }
        Err(_) => {
            tracing::error!(topic = %topic.name(), codec = codec.name(), "a codec panicked in maintain");
            store.count_error("codec_maintain_panic");
        }
    }
}

/// The newest records of each log, an equal share of each. What cannot be read is left out.
fn sample(store: &Inner, logs: Vec<&OpenLog>) -> Vec<Record> {
    let (share, bytes) = (SAMPLE_RECORDS / logs.len().max(1), SAMPLE_BYTES / logs.len().max(1));
    let (mut records, mut room) = (Vec::new(), SAMPLE_BYTES);
    for open in logs {
        store.maintenance.beat.at_work(store.now());
        let (end, oldest) = (open.log.high_watermark(), open.log.oldest_offset());
        let behind = end.get().saturating_sub(u64::try_from(share.max(1)).unwrap_or(u64::MAX));
        let from = Offset::new(behind).unwrap_or(oldest).max(oldest);
        // A log that was closed meanwhile, or cannot be read, has nothing to say.
        let Ok(batch) = open.log.read_batch(from, share.max(1), bytes) else { continue };
        for record in batch.records {
            let size = record.key.len() + record.payload.len();
            if records.len() < SAMPLE_RECORDS && size <= room {
                room -= size;
                records.push(record);
            }
        }
    }
    records
}
