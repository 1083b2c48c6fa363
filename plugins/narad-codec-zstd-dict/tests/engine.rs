//! In a store: the engine brings a sample, the topic's later frames get smaller, and all of it is read after a restart.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod support;

use std::{path::Path, sync::Arc, time::Duration};

use narad_core::{
    Error,
    disk::Disk,
    format::{Batch, Offset},
    plugin::{Codec, Incarnation, Lacking, LogIdentity, PartitionId, PluginContext, Registry},
    runtime::Runtime,
    store::{Store, StoreOptions, TopicSpec},
    testkit::{ManualClock, SimDisk},
};
use support::records;

const TOPIC: Incarnation = Incarnation::new(7);
const PARTITION: PartitionId = PartitionId(0);
const SEGMENT: &str = "/data/topics/orders/p00000/00000000000000000000.log";

struct Rig {
    disk: SimDisk,
    clock: ManualClock,
}

impl Rig {
    fn new() -> Self {
        let clock = ManualClock::new();
        Self { disk: SimDisk::with_clock(1, Arc::new(clock.clone())), clock }
    }

    /// The store, and the topic with a codec built for it.
    fn open(&self) -> (Store, TopicSpec) {
        let runtime = Runtime::driven_by_hand(Arc::new(self.disk.clone()), Arc::new(self.clock.clone()));
        let store = Store::open(&runtime, Path::new("/data"), StoreOptions::default()).unwrap();
        let mut registry = Registry::new();
        narad_codec_zstd_dict::register(&mut registry).unwrap();
        let context = PluginContext::new(LogIdentity::partition("orders", TOPIC, PARTITION))
            .in_place(store.plugin_place("orders", TOPIC));
        let codec: Arc<dyn Codec> = registry.build_codec(&"zstd-dict".into(), &context).unwrap();
        let mut spec = TopicSpec::new("orders", TOPIC, 1, codec);
        // So that a segment is as long as its frames.
        spec.prepare_segments = false;
        (store, spec)
    }

    fn pass(&self, store: &Store) {
        self.clock.advance(Duration::from_secs(61));
        store.tick();
    }

    fn segment(&self) -> usize {
        self.disk.contents(SEGMENT).unwrap().len()
    }
}

/// A frame each.
fn commit(store: &Store, spec: &TopicSpec, numbers: std::ops::Range<u32>) {
    let log = store.log(spec, PARTITION).unwrap();
    for record in records("order", numbers) {
        log.commit(Batch::of(&record.key, &record.payload)).unwrap();
    }
}

fn assert_holds(store: &Store, spec: &TopicSpec, count: u32) {
    let log = store.log(spec, PARTITION).unwrap();
    let expected = records("order", 0..count);
    let mut from = Offset::ZERO;
    while from.get() < u64::from(count) {
        let batch = log.read_batch(from, 1000, 1 << 20).unwrap();
        assert_eq!(batch.unreadable, []);
        for record in &batch.records {
            assert_eq!(record.payload, expected[record.offset.get() as usize].payload);
        }
        from = batch.next;
    }
}

#[test]
fn the_engine_trains_it_and_a_restart_reads_what_was_written_before_and_after() {
    let rig = Rig::new();
    let (store, spec) = rig.open();
    commit(&store, &spec, 0..300);
    let before = rig.segment();
    rig.pass(&store);
    commit(&store, &spec, 300..600);
    let after = rig.segment() - before;
    // Of each frame 28 bytes are the engine's own.
    assert!((after - 300 * 28) * 2 < before - 300 * 28, "{before} bytes, then {after}");
    assert_holds(&store, &spec, 600);
    drop(store);
    rig.disk.power_loss();

    let (store, spec) = rig.open();
    assert_holds(&store, &spec, 600);
    let before = rig.segment();
    commit(&store, &spec, 600..900);
    assert!(rig.segment() - before < after * 11 / 10, "the dictionary is in use at once");
    assert_holds(&store, &spec, 900);
    store.close().unwrap();
}

#[test]
fn a_record_whose_dictionary_is_gone_is_told_apart_from_damage() {
    let rig = Rig::new();
    let (store, spec) = rig.open();
    commit(&store, &spec, 0..300);
    rig.pass(&store);
    commit(&store, &spec, 300..301);
    store.close().unwrap();
    let dictionary =
        rig.disk.paths().into_iter().find(|path| path.extension().is_some_and(|it| it == "dict"));
    let dictionary = dictionary.unwrap();
    assert!(dictionary.starts_with("/data/topics/orders/plugins/zstd-dict"), "{dictionary:?}");
    rig.disk.remove_file(&dictionary).unwrap();
    let (store, spec) = rig.open();
    let log = store.log(&spec, PARTITION).unwrap();
    match log.read(Offset::from(300_u32)) {
        Err(Error::Lacking { source, .. }) => {
            let name = dictionary.file_stem().unwrap().to_str().unwrap();
            assert!(source.is::<Lacking>() && source.to_string().contains(name), "{source}");
        }
        other => panic!("{other:?}"),
    }
    assert!(log.read(Offset::ZERO).is_ok(), "what needs none is read");
    store.close().unwrap();
}
