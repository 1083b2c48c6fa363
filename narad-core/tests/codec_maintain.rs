//! `Codec::maintain`: off the way of every message, with a bounded sample of recent records, and contained.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod store_support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use narad_core::{
    format::{Batch, CodecNumber},
    plugin::{Codec, FrameContext, PluginError, Sample},
    store::{Store, TopicSpec},
};
use store_support::{Bench, Verbatim, p, topic};

const PERIOD: Duration = Duration::from_secs(61);

/// Stores records as they are, and remembers the payloads of its samples.
#[derive(Debug, Default)]
struct Curious {
    wants: AtomicBool,
    asked: AtomicUsize,
    seen: Mutex<Vec<Vec<Vec<u8>>>>,
    fails: AtomicBool,
    panics: AtomicBool,
}

impl Codec for Curious {
    fn number(&self) -> CodecNumber {
        Verbatim.number()
    }
    fn name(&self) -> &str {
        "curious"
    }
    fn encode(&self, frame: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        Verbatim.encode(frame, raw, out)
    }
    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        Verbatim.decode(frame, stored, out)
    }
    fn wants_sample(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.wants.load(Ordering::Relaxed)
    }
    fn maintain(&self, sample: &Sample<'_>) -> Result<(), PluginError> {
        self.seen.lock().unwrap().push(sample.records.iter().map(|record| record.payload.to_vec()).collect());
        assert!(!self.panics.load(Ordering::Relaxed), "on purpose");
        if self.fails.load(Ordering::Relaxed) { Err("on purpose".into()) } else { Ok(()) }
    }
}

impl Curious {
    fn samples(&self) -> Vec<Vec<Vec<u8>>> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

fn rig(bench: &Bench) -> (Store, TopicSpec, Arc<Curious>) {
    let codec = Arc::new(Curious::default());
    codec.wants.store(true, Ordering::Relaxed);
    let mut spec = topic("orders", 1);
    spec.codec = codec.clone();
    (bench.open(), spec, codec)
}

fn commit(store: &Store, spec: &TopicSpec, partition: u32, payloads: impl IntoIterator<Item = Vec<u8>>) {
    let mut batch = Batch::new();
    for payload in payloads {
        batch.push(b"", &payload);
    }
    store.log(spec, p(partition)).unwrap().commit(batch).unwrap();
}

fn pass(bench: &Bench, store: &Store) {
    bench.clock.advance(PERIOD);
    store.tick();
}

#[test]
fn it_sees_recent_records_of_every_open_partition_once_something_has_come() {
    let bench = Bench::new(1);
    let (store, spec, codec) = rig(&bench);
    commit(&store, &spec, 0, [b"a".to_vec(), b"b".to_vec()]);
    commit(&store, &spec, 2, [b"c".to_vec()]);
    store.tick();
    assert!(codec.samples().is_empty(), "not yet");
    pass(&bench, &store);
    let mut seen = codec.samples();
    seen[0].sort();
    assert_eq!(seen, [[b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]]);
    pass(&bench, &store);
    assert!(codec.samples().is_empty(), "nothing has come since");
    commit(&store, &spec, 2, [b"d".to_vec()]);
    pass(&bench, &store);
    assert_eq!(codec.samples(), [[b"c".to_vec(), b"d".to_vec()]]);
    store.close().unwrap();
}

#[test]
fn a_codec_that_wants_none_costs_no_read() {
    let bench = Bench::new(1);
    let (store, spec, codec) = rig(&bench);
    codec.wants.store(false, Ordering::Relaxed);
    commit(&store, &spec, 0, [b"a".to_vec()]);
    pass(&bench, &store);
    let asked = codec.asked.load(Ordering::Relaxed);
    bench.disk.take_calls();
    bench.clock.advance(PERIOD);
    store.tick();
    assert_eq!((codec.asked.load(Ordering::Relaxed), codec.samples().len()), (asked + 1, 0));
    let read = bench.disk.calls().iter().any(|call| call.kind == narad_core::testkit::CallKind::Read);
    assert!(!read, "{:?}", bench.disk.calls());
    store.close().unwrap();
}

#[test]
fn the_sample_is_bounded_and_of_the_newest() {
    let bench = Bench::new(1);
    let (store, spec, codec) = rig(&bench);
    commit(&store, &spec, 0, (0..2_500u32).map(|n| n.to_be_bytes().to_vec()));
    pass(&bench, &store);
    let seen = codec.samples().remove(0);
    assert_eq!((seen.len(), seen[0].clone()), (1_000, 1_500u32.to_be_bytes().to_vec()));
    commit(&store, &spec, 1, (0..40u8).map(|n| vec![n; 100_000]));
    pass(&bench, &store);
    let bytes: usize = codec.samples().remove(0).iter().map(Vec::len).sum();
    assert!((900_000..=1 << 20).contains(&bytes), "{bytes}");
    commit(&store, &spec, 2, [vec![1; 2 << 20]]);
    pass(&bench, &store);
    assert!(codec.samples().is_empty(), "a record larger than a sample is in none");
    store.close().unwrap();
}

#[test]
fn an_error_and_a_panic_are_contained_and_counted_and_the_next_time_comes() {
    let bench = Bench::new(1);
    let runtime = bench.runtime();
    let store = Store::open(&runtime, std::path::Path::new("/data"), Default::default()).unwrap();
    let (_, spec, codec) = rig(&Bench::new(2));
    let mut other = topic("other", 2);
    let calm = Arc::new(Curious::default());
    calm.wants.store(true, Ordering::Relaxed);
    other.codec = calm.clone();
    commit(&store, &spec, 0, [b"a".to_vec()]);
    commit(&store, &other, 0, [b"b".to_vec()]);
    codec.panics.store(true, Ordering::Relaxed);
    pass(&bench, &store);
    assert_eq!(runtime.metrics().error_count("storage", "codec_maintain_panic"), 1);
    assert_eq!((codec.samples().len(), calm.samples().len()), (1, 1));
    codec.panics.store(false, Ordering::Relaxed);
    codec.fails.store(true, Ordering::Relaxed);
    pass(&bench, &store);
    assert_eq!(runtime.metrics().error_count("storage", "codec_maintain"), 1);
    codec.fails.store(false, Ordering::Relaxed);
    codec.samples();
    pass(&bench, &store);
    assert_eq!(codec.samples(), [[b"a".to_vec()]], "what it could not do is tried again");
    commit(&store, &spec, 0, [b"still taken".to_vec()]);
    store.close().unwrap();
}
