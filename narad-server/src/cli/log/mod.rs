//! `narad log`: look at the files of a log without a broker.
//!
//! Reads through narad-core alone and never changes a byte, so it is safe on a directory that a broker has open.

mod dump;
mod target;
mod verify;

use std::{borrow::Cow, io, ops::ControlFlow, path::Path, sync::Arc};

use clap::Subcommand;
use narad_core::{
    disk::OsDisk,
    format::CodecNumber,
    log::inspect::{Inspected, Summary, inspect},
    plugin::{CodecSet, LogIdentity},
};

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
        LogCommand::Dump(args) => dump::run(&args, &reader(&args.dir)?, out),
        LogCommand::Verify(args) => verify::run(&args, &reader(&args.dir)?, out),
    }
}

fn reader(dir: &Path) -> Result<Reader, CliError> {
    Reader::new().map_err(|error| WalkError::Look(error).in_dir(dir))
}

/// The files of a log, seen with the codecs of this build.
struct Reader {
    codecs: CodecSet,
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

impl Reader {
    fn new() -> narad_core::Result<Self> {
        let mut codecs = CodecSet::new();
        codecs.insert(Arc::new(narad_codecs::None))?;
        codecs.insert(Arc::new(narad_codecs::Zstd::default()))?;
        Ok(Self { codecs })
    }

    /// Visits everything in the partition at `dir`, in offset order, until `visit` fails.
    fn walk(
        &self,
        dir: &Path,
        visit: &mut dyn FnMut(Inspected<'_>) -> io::Result<()>,
    ) -> Result<Summary, WalkError> {
        let identity = LogIdentity::named(dir.display().to_string());
        let mut gave_up = None;
        let summary = inspect(&OsDisk, dir, &identity, &self.codecs, &mut |found| match visit(found) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                gave_up = Some(error);
                ControlFlow::Break(())
            }
        });
        match gave_up {
            Some(error) => Err(WalkError::Visit(error)),
            None => summary.map_err(WalkError::Look),
        }
    }

    /// A codec's name, or its number when it is not one of this build.
    fn codec_name(&self, number: CodecNumber) -> Cow<'_, str> {
        match self.codecs.get(number) {
            Some(codec) => codec.name().into(),
            None => number.to_string().into(),
        }
    }
}
