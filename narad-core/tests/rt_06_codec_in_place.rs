//! A change of codec reaches open logs in place, concerns later frames alone, and is not lost to an open that overlaps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod store_support;

use std::sync::Arc;

use narad_core::{
    Error,
    format::{Batch, CodecNumber, FrameHeader, HEADER_LEN},
    log::Log,
    plugin::{Codec, CodecSet, FrameContext, PluginError},
    store::TopicSpec,
};
use store_support::{Bench, at, p, topic};

/// Stores each byte changed by its number.
#[derive(Debug)]
struct Masked(u32);

impl Codec for Masked {
    fn number(&self) -> CodecNumber {
        CodecNumber::new(self.0).unwrap()
    }
    fn name(&self) -> &str {
        if self.0 == 5 { "five" } else { "six" }
    }
    fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        out.extend(raw.iter().map(|byte| byte ^ self.0 as u8));
        Ok(())
    }
    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        self.encode(frame, stored, out)
    }
}

fn masked(number: u32) -> Arc<dyn Codec> {
    Arc::new(Masked(number))
}

fn both() -> CodecSet {
    let mut set = CodecSet::new();
    set.insert(masked(5)).unwrap();
    set.insert(masked(6)).unwrap();
    set
}

fn spec(codec: u32) -> TopicSpec {
    let mut spec = topic("orders", 1);
    (spec.codec, spec.readable) = (masked(codec), both());
    spec
}

fn commit(log: &Log, payload: &[u8]) {
    log.commit(Batch::of(b"", payload)).unwrap();
}

/// The codec numbers of the frames of partition 0, in order.
fn written(bench: &Bench) -> Vec<u8> {
    let bytes = bench.disk.contents("/data/topics/orders/p00000/00000000000000000000.log").unwrap();
    let (mut rest, mut numbers) = (&bytes[..], Vec::new());
    while let Some((head, tail)) = rest.split_first_chunk::<HEADER_LEN>() {
        let header = FrameHeader::decode(head).unwrap();
        numbers.push(header.flags & 7);
        rest = &tail[header.stored_len as usize..];
    }
    numbers
}

#[test]
fn later_frames_are_written_with_it_and_earlier_ones_are_read_as_before() {
    let bench = Bench::new(1);
    let store = bench.open();
    let log = store.log(&spec(5), p(0)).unwrap();
    commit(&log, b"first");
    store.set_codec("orders", &masked(6), both()).unwrap();
    commit(&log, b"second");
    assert_eq!(written(&bench), [5, 6]);
    for (offset, payload) in [(0, "first"), (1, "second")] {
        assert_eq!(log.read(at(offset)).unwrap().payload, payload);
    }
    store.close().unwrap();
    let store = bench.open();
    let log = store.log(&spec(6), p(0)).unwrap();
    let read = log.read_batch(at(0), 10, 1000).unwrap();
    assert_eq!(
        read.records.iter().map(|record| &record.payload[..]).collect::<Vec<_>>(),
        [&b"first"[..], b"second"]
    );
}

#[test]
fn a_change_without_the_old_codec_leaves_its_frames_unreadable_and_says_which_it_was() {
    let bench = Bench::new(1);
    let store = bench.open();
    let log = store.log(&spec(5), p(0)).unwrap();
    commit(&log, b"first");
    store.set_codec("orders", &masked(6), CodecSet::new()).unwrap();
    bench.runtime();
    store.close().unwrap();
    let store = bench.open();
    let mut alone = spec(6);
    alone.readable = CodecSet::new();
    let log = store.log(&alone, p(0)).unwrap();
    let refused = log.read(at(0)).unwrap_err();
    assert!(matches!(&refused, Error::UnknownCodec { number, .. } if number.get() == 5), "{refused}");
    store.set_codec("orders", &masked(6), both()).unwrap();
    assert_eq!(log.read(at(0)).unwrap().payload, "first", "readable as soon as the codec is there");
}

#[test]
fn two_codecs_of_one_number_are_refused_and_nothing_is_changed() {
    #[derive(Debug)]
    struct Impostor;
    impl Codec for Impostor {
        fn number(&self) -> CodecNumber {
            Masked(5).number()
        }
        fn name(&self) -> &str {
            "impostor"
        }
        fn encode(&self, _: &FrameContext<'_>, _: &[u8], _: &mut Vec<u8>) -> Result<(), PluginError> {
            Err("never asked".into())
        }
        fn decode(&self, _: &FrameContext<'_>, _: &[u8], _: &mut Vec<u8>) -> Result<(), PluginError> {
            Err("never asked".into())
        }
    }
    let bench = Bench::new(1);
    let store = bench.open();
    let log = store.log(&spec(5), p(0)).unwrap();
    let impostor: Arc<dyn Codec> = Arc::new(Impostor);
    assert!(matches!(store.set_codec("orders", &impostor, both()), Err(Error::InvalidArgument { .. })));
    commit(&log, b"first");
    assert_eq!(written(&bench), [5]);
}

#[test]
fn an_open_with_settings_from_before_the_change_ends_with_the_new_codec() {
    let bench = Bench::new(1);
    let store = bench.open();
    // Known to the store, so that the change is remembered; the other partition opens by what its caller still has.
    store.log(&spec(5), p(1)).unwrap();
    let gate = narad_core::testkit::Gate::new();
    let fault = narad_core::testkit::Fault::hold(narad_core::testkit::CallKind::List, &gate).named("p00000");
    bench.disk.inject(fault);
    let log = std::thread::scope(|scope| {
        let opening = scope.spawn(|| store.log(&spec(5), p(0)).unwrap());
        gate.wait_for(1);
        store.set_codec("orders", &masked(6), both()).unwrap();
        gate.open();
        opening.join().unwrap()
    });
    commit(&log, b"first");
    assert_eq!(written(&bench), [6]);
}
