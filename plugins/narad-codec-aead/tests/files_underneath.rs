//! What a codec under the encryption keeps beside the data is made of records: it must not lie there for all to read.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test"
)]

mod support;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{Arc, Mutex},
};

use narad_core::{
    disk::Disk,
    format::{CodecNumber, Offset, Record},
    origin,
    plugin::{
        Codec, FrameContext, LogIdentity, NoConfig, PluginContext, PluginDir, PluginError, Registry, Sample,
    },
    testkit::{SimDisk, seed},
};
use serde_json::json;
use support::{ONE, TWO, log};
use tempfile::TempDir;

const SECRET: &[u8] = b"what the records have in common";
const KEPT: &str = "/plugins/aead/keeper.learnt";

/// Keeps the payload of the first record that it is shown.
#[derive(Debug)]
struct Keeper(PluginDir);

impl Codec for Keeper {
    fn number(&self) -> CodecNumber {
        CodecNumber::new(5002).unwrap()
    }
    fn name(&self) -> &str {
        "keeper"
    }
    fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        out.extend_from_slice(raw);
        Ok(())
    }
    fn decode(&self, _: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        out.extend_from_slice(stored);
        Ok(())
    }
    fn wants_sample(&self) -> bool {
        self.0.list().unwrap().is_empty()
    }
    fn maintain(&self, sample: &Sample<'_>) -> Result<(), PluginError> {
        Ok(self.0.write("learnt", &sample.records[0].payload)?)
    }
}

struct Rig {
    disk: SimDisk,
    keys: TempDir,
}

/// What a keeper finds when it is built.
type Found = Result<Option<Vec<u8>>, String>;

impl Rig {
    fn new() -> Self {
        let disk = SimDisk::new(seed());
        disk.plant_dir("/");
        Self { disk, keys: tempfile::tempdir().unwrap() }
    }

    /// The codec of a topic with these keys.
    fn build(&self, keys: &[&str], log: LogIdentity) -> (Arc<dyn Codec>, Found) {
        let path = self.keys.path().join("keys");
        fs::write(&path, keys.join("\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let found = Arc::new(Mutex::new(Err("it was not built".to_owned())));
        let seen = Arc::clone(&found);
        let mut registry = Registry::new();
        narad_codec_aead::register(&mut registry).unwrap();
        let build = move |NoConfig {}, context: &PluginContext<'_>| {
            let dir = context.dir().unwrap().clone();
            *seen.lock().unwrap() = dir.read("learnt").map_err(|error| error.to_string());
            Ok(Arc::new(Keeper(dir)) as Arc<dyn Codec>)
        };
        registry.codec(origin!(), "keeper", CodecNumber::new(5002).unwrap(), build).unwrap();
        let spec = json!({ "name": "aead", "codec": "keeper", "keys": { "file": path } });
        let context = PluginContext::new(log).in_dir(Arc::new(self.disk.clone()), "/plugins");
        let codec = registry.build_codec(&spec, &context).unwrap();
        let found = found.lock().unwrap().clone();
        (codec, found)
    }

    /// With a file that was written under key 1.
    fn taught() -> Self {
        let rig = Self::new();
        let (codec, found) = rig.build(&[ONE], orders());
        assert!(codec.wants_sample() && found == Ok(None));
        show(&*codec);
        assert!(!codec.wants_sample());
        rig
    }
}

fn orders() -> LogIdentity {
    log("orders", 7, 0)
}

fn show(codec: &dyn Codec) {
    let records = [Record::new(Offset::ZERO, 0, "key", SECRET)];
    codec.maintain(&Sample::new(&records)).unwrap();
}

fn found() -> Found {
    Ok(Some(SECRET.to_vec()))
}

#[test]
fn it_is_encrypted_and_found_again_by_all_partitions_of_the_topic() {
    let rig = Rig::taught();
    assert_eq!(
        rig.disk.list(Path::new("/plugins")).unwrap().len(),
        1,
        "no file but in the directory of the encryption"
    );
    let stored = rig.disk.contents(KEPT).unwrap();
    assert!(!stored.windows(4).any(|window| window == b"what" || window == b"comm"));
    assert_eq!(rig.build(&[ONE], orders()).1, found());
    assert_eq!(rig.build(&[ONE], log("renamed", 7, 2)).1, found());
}

#[test]
fn what_was_damaged_or_is_another_topics_is_not_handed_out() {
    let rig = Rig::taught();
    let stored = rig.disk.contents(KEPT).unwrap();
    for at in 0..stored.len() {
        let mut changed = stored.clone();
        changed[at] ^= 0x10;
        rig.disk.plant(KEPT, changed);
        assert!(rig.build(&[ONE], orders()).1.is_err(), "byte {at}");
    }
    for len in 0..stored.len() {
        rig.disk.plant(KEPT, stored[..len].to_vec());
        assert!(rig.build(&[ONE], orders()).1.is_err(), "{len} bytes");
    }
    rig.disk.plant(KEPT, SECRET.to_vec());
    assert!(rig.build(&[ONE], orders()).1.is_err(), "what nobody encrypted");
    rig.disk.plant(KEPT, stored);
    assert!(rig.build(&[ONE], log("orders", 8, 0)).1.is_err(), "another life of the topic");
    assert_eq!(rig.build(&[ONE], orders()).1, found());
}

#[test]
fn a_missing_key_is_named_and_nothing_is_lost_when_it_is_back() {
    let rig = Rig::taught();
    let before = rig.disk.contents(KEPT).unwrap();
    let said = rig.build(&[TWO], orders()).1.unwrap_err();
    assert!(said.contains("keeper.learnt") && said.contains("key 1, which is not there"), "{said}");
    assert_eq!(rig.disk.contents(KEPT).unwrap(), before);
    assert_eq!(rig.build(&[ONE, TWO], orders()).1, found());
}

#[test]
fn after_a_rotation_it_is_encrypted_anew_so_that_the_old_key_may_go() {
    let rig = Rig::taught();
    let (codec, seen) = rig.build(&[ONE, TWO], orders());
    assert!(seen == found() && codec.wants_sample(), "there is something to renew");
    codec.maintain(&Sample::new(&[])).unwrap();
    assert!(!codec.wants_sample());
    assert_eq!(rig.build(&[TWO], orders()).1, found());
}
