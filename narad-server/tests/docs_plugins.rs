//! docs/plugins.md: what it says that goes wrong is what is said. Its Rust is compiled and run as documentation tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

use std::{
    fmt::Debug,
    path::Path,
    sync::{Arc, Mutex},
};

use narad_core::{
    format::{Batch, CodecNumber, Offset},
    log::{Log, LogOptions},
    origin,
    plugin::{
        Codec, FrameContext, Lacking, LogIdentity, Origin, PluginContext, PluginError, Registry,
        RetentionDecision, RetentionPolicy, RetentionView,
    },
    runtime::Runtime,
    testkit::{ManualClock, SimDisk, conformance},
};
use narad_server::broker::BrokerError;
use serde_json::{Value, json};
use tracing::{Event, Subscriber, field::Field};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
};

const GUIDE: &str = include_str!("../../docs/plugins.md");

/// The guide has this as what is said, in a block of its own.
#[track_caller]
fn is_told(said: &str) {
    let block = format!("```text\n{said}\n```\n");
    assert!(GUIDE.contains(&block), "docs/plugins.md does not have\n{block}");
}

/// The policy of the guide.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Records {
    #[expect(dead_code, reason = "it is only built")]
    max: u64,
}

impl RetentionPolicy for Records {
    fn name(&self) -> &str {
        "records"
    }
    fn roll_age(&self) -> Option<std::time::Duration> {
        None
    }
    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        // Breaks point 3: what is two segments now is none a moment later.
        RetentionDecision::expire(if view.now_ms % 2 == 0 { 2 } else { 0 }, "records")
    }
}

/// Misbehaves as it is told to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mine {
    Well,
    RefusesToEncode,
    PanicsToEncode,
    RefusesToDecode,
    DecodesLess,
    DecodesOther,
    PanicsToDecode,
    LacksAKey,
}

impl Codec for Mine {
    fn number(&self) -> CodecNumber {
        number(5001)
    }
    fn name(&self) -> &str {
        if matches!(self, Self::RefusesToEncode | Self::PanicsToEncode) { "refuses" } else { "mine" }
    }
    fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        if *self == Self::RefusesToEncode {
            return Err("not today".into());
        }
        assert!(*self != Self::PanicsToEncode, "on purpose");
        out.extend_from_slice(raw);
        Ok(())
    }
    fn decode(&self, _: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        match self {
            Self::RefusesToDecode => return Err("another key".into()),
            Self::DecodesLess => {}
            Self::DecodesOther => out.resize(out.len() + stored.len(), 0xFF),
            Self::PanicsToDecode => panic!("on purpose"),
            Self::LacksAKey => return Err(Lacking::new("the frame needs key 2").into()),
            _ => out.extend_from_slice(stored),
        }
        Ok(())
    }
}

/// A codec without configuration.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn number(number: u32) -> CodecNumber {
    CodecNumber::new(number).unwrap()
}

fn register_records(registry: &mut Registry, from: Origin) -> Result<(), narad_core::plugin::RegistryError> {
    registry.retention(from, "records", |records: Records, _| Ok(Arc::new(records)))
}

fn refused(registry: &Registry, spec: Value) -> String {
    let context = PluginContext::new(LogIdentity::named("orders"));
    registry.build_retention(&spec, &context).expect_err("it is refused").to_string()
}

#[test]
fn what_is_said_of_configurations() {
    let mut registry = Registry::new();
    narad_retention::register(&mut registry).unwrap();
    register_records(&mut registry, Origin::new("narad-retention-records", "0.1.0")).unwrap();
    is_told(&refused(&registry, json!("recrods")));
    is_told(&refused(&registry, json!({ "name": "records", "limit": 5 })));
    is_told(&refused(&registry, json!("records")));
    is_told(&refused(&registry, json!({ "name": "records", "max": "many" })));
    is_told(&refused(&registry, json!(5)));
    is_told(&refused(&registry, json!({ "name": "any", "of": [] })));

    narad_sync_policies::register(&mut registry).unwrap();
    let context = PluginContext::new(LogIdentity::named("orders"));
    let share = json!({ "name": "adaptive", "share": 2 });
    is_told(&registry.build_sync(&share, &context).expect_err("it is refused").to_string());
}

#[test]
fn what_is_said_of_two_that_claim_one_name_or_number() {
    let mut registry = Registry::new();
    register_records(&mut registry, Origin::new("narad-retention-records", "0.1.0")).unwrap();
    let second = register_records(&mut registry, Origin::new("somebody-elses", "2.0.0"));
    is_told(&second.expect_err("the name is taken").to_string());

    let first = Origin::new("custom-codec", "0.1.0");
    registry.codec(first, "run-length", number(5001), |Nothing {}, _| Ok(Arc::new(Mine::Well))).unwrap();
    let second = Origin::new("my-codec", "0.1.0");
    let second = registry.codec(second, "mine", number(5001), |Nothing {}, _| Ok(Arc::new(Mine::Well)));
    is_told(&second.expect_err("the number is taken").to_string());
}

#[test]
fn what_is_said_of_a_codec_that_was_registered_with_another_number() {
    #[derive(Debug)]
    struct Other;
    impl Codec for Other {
        fn number(&self) -> CodecNumber {
            number(5002)
        }
        fn name(&self) -> &str {
            "mine"
        }
        fn encode(&self, _: &FrameContext<'_>, _: &[u8], _: &mut Vec<u8>) -> Result<(), PluginError> {
            Ok(())
        }
        fn decode(&self, _: &FrameContext<'_>, _: &[u8], _: &mut Vec<u8>) -> Result<(), PluginError> {
            Ok(())
        }
    }
    let mut registry = Registry::new();
    registry.codec(origin!(), "mine", number(5001), |Nothing {}, _| Ok(Arc::new(Other))).unwrap();
    let context = PluginContext::new(LogIdentity::named("orders"));
    let refused = registry.build_codec(&json!("mine"), &context);
    is_told(&refused.expect_err("the numbers differ").to_string());
}

#[test]
fn what_is_said_when_a_contract_is_broken() {
    let broken = std::panic::catch_unwind(|| conformance::retention_policy(|| Arc::new(Records { max: 1 })));
    let said = *broken.expect_err("the contract is broken").downcast::<String>().unwrap();
    let (begins, _) = said.split_once("Case").unwrap();
    let (_, ends) = said.rsplit_once('}').unwrap();
    is_told(&format!("{begins}Case {{ ... }}{ends}"));
}

#[test]
fn what_is_said_of_frames() {
    let (disk, clock) = (SimDisk::new(1), ManualClock::new());
    let runtime = Runtime::driven_by_hand(Arc::new(disk), Arc::new(clock));
    let open = |codec: Arc<dyn Codec>| {
        Log::open(&runtime, Path::new("orders-log"), LogOptions::new("orders", codec)).unwrap()
    };
    let commit = |log: &Log| log.commit(Batch::of(b"key", b"payload")).map(|offsets| offsets.start);
    let log = open(Arc::new(narad_codecs::None));
    for _ in 0..7 {
        commit(&log).unwrap();
    }
    log.close().unwrap();
    let log = open(Arc::new(Mine::Well));
    assert_eq!(commit(&log).unwrap(), Offset::from(7_u32));
    log.close().unwrap();
    let readers: [Arc<dyn Codec>; 4] = [
        Arc::new(narad_codecs::None),
        Arc::new(Mine::RefusesToDecode),
        Arc::new(Mine::DecodesLess),
        Arc::new(Mine::LacksAKey),
    ];
    for reader in readers {
        let log = open(reader);
        is_told(&log.read(Offset::from(7_u32)).expect_err("it cannot be read").to_string());
        log.close().unwrap();
    }
    for writer in [Mine::RefusesToEncode, Mine::PanicsToEncode] {
        let log = open(Arc::new(writer));
        is_told(&commit(&log).expect_err("it cannot be encoded").to_string());
        log.close().unwrap();
    }
}

/// What is logged, a line each.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Logged {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = String::new();
        event.record(&mut |field: &Field, value: &dyn Debug| line += &format!("{field}={value:?} "));
        self.0.lock().unwrap().push(line);
    }
}

#[test]
fn whatever_is_wrong_with_what_a_codec_gives_back_the_log_names_the_codec() {
    let (disk, clock) = (SimDisk::new(1), ManualClock::new());
    let runtime = Runtime::driven_by_hand(Arc::new(disk), Arc::new(clock));
    let open = |codec: Mine| {
        Log::open(&runtime, Path::new("orders-log"), LogOptions::new("orders", Arc::new(codec))).unwrap()
    };
    let log = open(Mine::Well);
    let offsets = log.commit(Batch::of(b"key", b"payload")).unwrap();
    log.close().unwrap();
    for codec in
        [Mine::RefusesToDecode, Mine::DecodesLess, Mine::DecodesOther, Mine::PanicsToDecode, Mine::LacksAKey]
    {
        let logged = Logged::default();
        let lines = logged.0.clone();
        let log = open(codec);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(logged), || {
            log.read(offsets.start).expect_err("it cannot be read");
        });
        let lines = lines.lock().unwrap();
        let named = lines.iter().any(|line| line.contains("codec=\"mine\"") && line.contains("log=orders"));
        assert!(named, "{codec:?}: {lines:?}");
        log.close().unwrap();
    }
}

#[test]
fn what_is_said_of_a_topic_whose_plugin_is_not_there() {
    let mut registry = Registry::new();
    narad_codecs::register(&mut registry).unwrap();
    let context = PluginContext::new(LogIdentity::named("orders"));
    let missing = registry.build_codec(&json!("mine"), &context).expect_err("it is not there");
    let unserved = BrokerError::Unserved { topic: "orders".into(), source: Arc::new(missing) };
    is_told(&unserved.to_string());
}
