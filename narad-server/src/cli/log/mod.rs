//! `narad log`: look at the files of a log without a broker.
//!
//! Reads through narad-core alone and never changes a byte, so it is safe on a directory that a broker has open.

mod dump;
mod target;
mod verify;

use std::{io, path::Path, sync::Arc};

use bytes::Bytes;
use clap::Subcommand;
use narad_core::plugin::{Codec, CodecSet};

use super::{
    error::{CliError, Outcome},
    output::Output,
};

/// What is done with a log's files.
#[derive(Debug, Subcommand)]
pub(super) enum LogCommand {
    /// Print every record of a partition, one JSON object a line
    Dump(dump::DumpArgs),
    /// Check every frame of a partition, a topic or a data directory
    Verify(verify::VerifyArgs),
}

/// Carries the command out.
pub(super) fn run(command: LogCommand, out: &mut Output) -> Result<Outcome, CliError> {
    match command {
        LogCommand::Dump(args) => dump::run(&args, out),
        LogCommand::Verify(args) => verify::run(&args, out),
    }
}

/// What lies at one place of a partition, in offset order.
#[derive(Debug)]
enum Entry<'a> {
    /// A readable record, whether or not the watermark has passed it.
    Record {
        offset: u64,
        key: &'a Bytes,
        committed_at_ms: i64,
        payload: &'a Bytes,
        codec: &'a str,
        segment: &'a str,
    },
    /// A record whose frame is there and cannot be read.
    Unreadable { offset: u64, why: Unreadable },
    /// Offsets that no frame holds, both included.
    Gap { from: u64, to: u64 },
}

/// Why a record cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Unreadable {
    /// Its frame is damaged.
    Corrupt,
    /// Its frame is intact and needs a codec that this build does not have.
    UnknownCodec,
}

/// A partition as an open would recover it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
struct Summary {
    /// The offset of the next record.
    next_offset: u64,
    /// The exclusive bound of what consumers see.
    high_watermark: u64,
    /// Segment files.
    segments: u64,
    /// Bytes behind the last whole frame, which an open cuts.
    torn_tail_bytes: u64,
}

/// Why a walk did not reach its end.
#[derive(Debug)]
enum WalkError {
    /// The files could not be read.
    Look(narad_core::Error),
    /// The visitor gave up.
    Visit(io::Error),
}

impl WalkError {
    fn in_dir(self, dir: &Path) -> CliError {
        match self {
            Self::Look(error) => CliError::CannotLook { dir: dir.to_owned(), reason: error.to_string() },
            Self::Visit(error) => CliError::Output(error),
        }
    }
}

/// Visits everything in the partition at `dir`, in offset order.
fn walk(
    dir: &Path,
    codecs: &CodecSet,
    visit: &mut dyn FnMut(Entry<'_>) -> io::Result<()>,
) -> Result<Summary, WalkError> {
    let _ = (dir, codecs, visit);
    todo!("connect narad_core::log::inspect")
}

/// The codecs of this build.
fn registered(dir: &Path) -> Result<CodecSet, CliError> {
    let mut codecs = CodecSet::new();
    let all: [Arc<dyn Codec>; 2] = [Arc::new(narad_codecs::None), Arc::new(narad_codecs::Zstd::default())];
    for codec in all {
        codecs.insert(codec).map_err(|error| WalkError::Look(error).in_dir(dir))?;
    }
    Ok(codecs)
}
