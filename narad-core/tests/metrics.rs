//! What the engine counts, and that it is forgotten with its topic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

use std::sync::Arc;

use narad_core::{
    format::{Batch, CodecNumber},
    log::{Log, LogOptions},
    metrics::PluginCalls,
    plugin::{Codec, FrameContext, Incarnation, PartitionId, PluginError},
    runtime::Runtime,
    store::{Store, StoreOptions, TopicSpec},
    testkit::{ManualClock, SimDisk},
};

/// Fails or panics on what ends with `f` or `p`, and gives back a byte less of what ends with `l`.
#[derive(Debug)]
struct Moody;

impl Codec for Moody {
    fn number(&self) -> CodecNumber {
        CodecNumber::new(6001).unwrap()
    }
    fn name(&self) -> &str {
        "moody"
    }
    fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        match raw.last() {
            Some(b'f') => Err("no".into()),
            Some(b'p') => panic!("a codec panics, as this test wants it to"),
            _ => {
                out.extend_from_slice(raw);
                Ok(())
            }
        }
    }
    fn decode(&self, _: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let lost = usize::from(stored.last() == Some(&b'l'));
        out.extend_from_slice(&stored[lost..]);
        Ok(())
    }
}

fn runtime() -> Runtime {
    Runtime::driven_by_hand(Arc::new(SimDisk::new(7)), Arc::new(ManualClock::default()))
}

fn calls(runtime: &Runtime, operation: &str) -> (u64, u64) {
    let all = runtime.metrics().plugin_calls();
    let wanted = |calls: &&Arc<PluginCalls>| &*calls.plugin == "moody" && calls.operation == operation;
    let found = all.iter().find(wanted).unwrap();
    (found.durations().map_or(0, |durations| durations.count()), found.errors())
}

#[test]
fn a_log_counts_its_fsyncs_and_its_writes_and_every_call_into_its_codec() {
    let runtime = runtime();
    let dir = std::path::Path::new("/log");
    let log = Log::open(&runtime, dir, LogOptions::new("orders", Arc::new(Moody))).unwrap();
    let counted = runtime.metrics().logs();
    assert_eq!(counted.len(), 1);
    assert!(counted[0].fsyncs().is_none(), "nothing was written yet");

    log.commit(Batch::of(b"", b"good")).unwrap();
    log.commit(Batch::of(b"", b"good too")).unwrap();
    log.commit(Batch::of(b"", b"f")).unwrap_err();
    log.commit(Batch::of(b"", b"p")).unwrap_err();
    assert_eq!(calls(&runtime, "encode"), (4, 2), "calls, and those that failed, a panic included");
    assert_eq!(counted[0].fsyncs().unwrap().count(), 2);
    assert_eq!(counted[0].flushes().unwrap().count(), 2);
    assert_eq!(counted[0].flushed_bytes(), log.stats().bytes);

    log.read(0u32.into()).unwrap();
    assert_eq!(calls(&runtime, "decode"), (1, 0));
    let lost = log.commit(Batch::of(b"", b"some is lost: l")).unwrap();
    log.close().unwrap();
    let log = Log::open(&runtime, dir, LogOptions::new("orders", Arc::new(Moody))).unwrap();
    log.read(lost.start).unwrap_err();
    let (made, failed) = calls(&runtime, "decode");
    assert!(failed > 0 && made - failed == 1, "a wrong answer is a failure as well: {failed} of {made}");

    // Closed for being idle and opened again, it goes on where it was.
    log.close().unwrap();
    let log = Log::open(&runtime, dir, LogOptions::new("orders", Arc::new(Moody))).unwrap();
    log.commit(Batch::of(b"", b"good again")).unwrap();
    assert_eq!(counted[0].fsyncs().unwrap().count(), 4);
    let recovered = counted[0].recovered();
    assert_eq!((recovered.opens, recovered.cut_bytes, recovered.gaps), (3, 0, 0));
    assert!(recovered.scanned_bytes > 0);
}

#[test]
fn what_is_counted_of_a_topic_goes_with_it_and_another_of_its_name_begins_anew() {
    let runtime = runtime();
    let store = Store::open(&runtime, std::path::Path::new("/data"), StoreOptions::default()).unwrap();
    let spec = |id| TopicSpec::new("orders", Incarnation::new(id), 3, Arc::new(Moody));
    for partition in 0..3 {
        store.log(&spec(1), PartitionId(partition)).unwrap().commit(Batch::of(b"", b"x")).unwrap();
    }
    assert_eq!(runtime.metrics().logs().len(), 3);
    assert_eq!(store.counts().open_logs, 3);
    store.delete_topic("orders", Incarnation::new(1)).unwrap();
    assert_eq!(runtime.metrics().logs().len(), 0);
    assert_eq!(store.counts().open_logs, 0);

    store.log(&spec(2), PartitionId(0)).unwrap();
    let again = runtime.metrics().logs();
    assert_eq!(again.len(), 1);
    assert!(again[0].fsyncs().is_none());
    store.close().unwrap();
}
