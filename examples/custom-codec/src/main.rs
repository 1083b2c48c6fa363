//! The codec at work: built from a configuration, a log written with it, and read back by another opening.
//!
//! `cargo run -p custom-codec [DIRECTORY]`

use std::{env, path::PathBuf};

use narad_core::{
    format::Batch,
    log::{Log, LogOptions},
    plugin::{LogIdentity, PluginContext, Registry},
    runtime::Runtime,
};
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = env::args_os().nth(1).map_or_else(|| env::temp_dir().join("custom-codec"), PathBuf::from);
    let mut registry = Registry::new();
    custom_codec::register(&mut registry)?;
    let context = PluginContext::new(LogIdentity::named("readings"));
    let codec = registry.build_codec(&json!("run-length"), &context)?;

    let runtime = Runtime::default();
    let open = || Log::open(&runtime, &dir, LogOptions::new("readings", codec.clone()));
    let log = open()?;
    let payload = "0".repeat(10_000);
    let offsets = log.commit(Batch::of(b"sensor-1", payload.as_bytes()))?;
    println!("{} bytes are {} on disk", payload.len(), log.stats().bytes);
    log.close()?;

    let log = open()?;
    let batch = log.read_batch(offsets.start, 1, 1 << 20)?;
    let record = batch.records.first().ok_or("the record is gone")?;
    assert_eq!(record.payload, payload.as_bytes());
    println!("and {} again after another opening", record.payload.len());
    Ok(log.close()?)
}
