//! What a dictionary gains on records of your own: `cargo run -p narad-codec-zstd-dict --example ratio -- FILE...`.
//!
//! Each line of a file is a record, and each record a frame. The first thousand are what the codec is trained on; the
//! others are measured, as plain zstd and with the dictionary, at level 3.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "an example")]

use std::{env, error::Error, fs, sync::Arc};

use narad_core::{
    disk::OsDisk,
    format::{Batch, Offset, Record},
    plugin::{Codec, FrameContext, LogIdentity, PluginContext, PluginError, Registry, Sample},
};

const SAMPLE: usize = 1000;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut registry = Registry::new();
    narad_codec_zstd_dict::register(&mut registry)?;
    for file in env::args().skip(1) {
        let scratch = env::temp_dir().join(format!("zstd-dict-ratio-{}", std::process::id()));
        let context = PluginContext::new(LogIdentity::named("ratio")).in_dir(Arc::new(OsDisk), &scratch);
        let measured = measure(&registry, &context, &fs::read_to_string(&file)?);
        // It is not there when nothing was gained.
        _ = fs::remove_dir_all(scratch);
        let (records, raw, plain, with) = measured?;
        let ratio = plain as f64 / with as f64;
        println!(
            "{file}: {records} records of {} bytes; plain zstd {}, with a dictionary {}: {ratio:.2} times as small",
            raw / records,
            plain / records,
            with / records,
        );
    }
    Ok(())
}

/// How many records were measured, and their bytes: raw, plain, and with a dictionary.
fn measure(
    registry: &Registry,
    context: &PluginContext<'_>,
    lines: &str,
) -> Result<(usize, usize, usize, usize), PluginError> {
    let codec = registry.build_codec(&"zstd-dict".into(), context)?;
    let records: Vec<Record> = lines
        .lines()
        .zip(0_u32..)
        .map(|(line, n)| {
            let committed_at_ms = 1_767_222_000_000 + i64::from(n) * 37;
            Record::new(Offset::from(n), committed_at_ms, Vec::new(), line.as_bytes().to_vec())
        })
        .collect();
    let (sample, later) = records.split_at_checked(SAMPLE).ok_or("a thousand lines are the sample")?;
    let frames: Vec<Vec<u8>> = later
        .iter()
        .map(|record| {
            let mut batch = Batch::of(&record.key, &record.payload);
            batch.stamp(record.committed_at_ms);
            batch.as_bytes().to_vec()
        })
        .collect();
    let raw = frames.iter().map(Vec::len).sum();
    let plain = total(&*codec, &frames)?;
    codec.maintain(&Sample::new(sample))?;
    Ok((frames.len().max(1), raw, plain, total(&*codec, &frames)?))
}

fn total(codec: &dyn Codec, frames: &[Vec<u8>]) -> Result<usize, PluginError> {
    let (log, mut out, mut total) = (LogIdentity::named("ratio"), Vec::new(), 0);
    for raw in frames {
        out.clear();
        codec.encode(&FrameContext::new(&log, Offset::ZERO, 1, u32::try_from(raw.len())?), raw, &mut out)?;
        total += out.len();
    }
    Ok(total)
}
