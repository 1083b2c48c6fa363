//! A codec with a directory on a simulated disk, records like those of a topic, and frames of one record.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::sync::{Arc, Mutex};

use narad_codec_zstd_dict::{ZstdDict, ZstdDictConfig, ZstdDictError};
use narad_core::{
    format::{Batch, Offset, Record},
    origin,
    plugin::{
        Codec, FrameContext, Lacking, LogIdentity, PluginContext, PluginDir, PluginError, Registry, Sample,
    },
    testkit::SimDisk,
};

pub const DIR: &str = "/plugins";
pub const OWN: &str = "/plugins/zstd-dict";

/// The directory that the registry hands to the codec.
pub fn dir(disk: &SimDisk) -> PluginDir {
    let (found, mut registry) = (Arc::new(Mutex::new(None)), Registry::new());
    let keep = Arc::clone(&found);
    registry
        .codec(origin!(), "zstd-dict", ZstdDict::NUMBER, move |config: ZstdDictConfig, context| {
            *keep.lock().unwrap() = context.dir().cloned();
            Ok(Arc::new(ZstdDict::new(config, None)?))
        })
        .unwrap();
    let context = PluginContext::new(LogIdentity::named("orders")).in_dir(Arc::new(disk.clone()), DIR);
    registry.build_codec(&"zstd-dict".into(), &context).unwrap();
    let dir = found.lock().unwrap().take();
    dir.unwrap()
}

pub fn try_codec(disk: &SimDisk, config: ZstdDictConfig) -> Result<ZstdDict, PluginError> {
    ZstdDict::new(config, Some(dir(disk)))
}

pub fn codec(disk: &SimDisk) -> ZstdDict {
    try_codec(disk, ZstdDictConfig::default()).unwrap()
}

/// Records of one kind, each unlike the other in what is its own.
pub fn records(kind: &str, numbers: std::ops::Range<u32>) -> Vec<Record> {
    numbers
        .map(|n| {
            let own = n.wrapping_mul(2_654_435_761);
            let payload = format!(
                "{{\"{kind}\":{n},\"state\":\"{}\",\"customer\":\"customer-{}\",\"total\":{}.{:02},\"lines\":[{}]}}",
                ["ordered", "paid", "shipped"][n as usize % 3],
                own % 9973,
                own % 500,
                own % 100,
                own >> 16,
            );
            record(n, payload.into_bytes())
        })
        .collect()
}

pub fn record(number: u32, payload: Vec<u8>) -> Record {
    let committed_at_ms = 1_767_222_000_000 + i64::from(number) * 37;
    Record::new(Offset::from(number), committed_at_ms, format!("customer-{}", number % 97), payload)
}

/// The record as it is inside a frame.
pub fn raw(record: &Record) -> Vec<u8> {
    let mut batch = Batch::of(&record.key, &record.payload);
    batch.stamp(record.committed_at_ms);
    batch.as_bytes().to_vec()
}

pub fn encode(codec: &impl Codec, raw: &[u8]) -> Vec<u8> {
    let (log, mut out) = (LogIdentity::named("orders"), b"before".to_vec());
    codec.encode(&FrameContext::new(&log, Offset::ZERO, 1, raw.len() as u32), raw, &mut out).unwrap();
    out.split_off(b"before".len())
}

#[derive(Debug)]
pub enum Said {
    Lacking(ZstdDictError),
    Corrupt(ZstdDictError),
}

pub fn decode(codec: &impl Codec, stored: &[u8], stated: usize) -> Result<Vec<u8>, Said> {
    let (log, mut out) = (LogIdentity::named("orders"), b"before".to_vec());
    let frame = FrameContext::new(&log, Offset::ZERO, 1, stated as u32);
    let decoded = codec.decode(&frame, stored, &mut out);
    assert!(out.capacity() <= 64.max(2 * (stated + 6)), "{} bytes allocated", out.capacity());
    let appended = out.strip_prefix(b"before").expect("what was in front").to_vec();
    match decoded {
        Ok(()) => Ok(appended),
        Err(error) => {
            assert!(appended.is_empty(), "an error appends nothing");
            Err(match error.downcast::<Lacking>() {
                Ok(lacking) => match lacking.what().downcast_ref() {
                    Some(&ZstdDictError::NoDictionary { id, damaged }) => {
                        Said::Lacking(ZstdDictError::NoDictionary { id, damaged })
                    }
                    other => panic!("{other:?}"),
                },
                Err(error) => Said::Corrupt(*error.downcast().unwrap()),
            })
        }
    }
}

/// Bytes of frames of one record each.
pub fn total(codec: &impl Codec, records: &[Record]) -> usize {
    records.iter().map(|record| encode(codec, &raw(record)).len()).sum()
}

pub fn maintain(codec: &impl Codec, records: &[Record]) {
    codec.maintain(&Sample::new(records)).unwrap();
}
