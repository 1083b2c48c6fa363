//! `narad log`: look at the files of a log without a broker.
//!
//! Reads through narad-core alone and never changes a byte, so it is safe on a directory that a broker has open.

mod dump;
mod target;
mod verify;

use std::{
    borrow::Cow,
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Subcommand;
use narad_core::{
    disk::{DiskExt, OsDisk},
    format::CodecNumber,
    log::inspect::{Inspected, Summary, inspect},
    plugin::{CodecSet, LogIdentity, PartitionId, PluginContext, PluginPlace, Registry, Visit},
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
pub(super) fn run(command: LogCommand, registry: &Registry, out: &mut Output) -> Result<Outcome, CliError> {
    let reader = Reader { registry };
    match command {
        LogCommand::Dump(args) => dump::run(&args, &reader, out),
        LogCommand::Verify(args) => verify::run(&args, &reader, out),
    }
}

/// The files of a log, seen with the codecs of this build that need no configuration.
struct Reader<'a> {
    registry: &'a Registry,
}

/// What plugins keep beside a log: to be read alone.
#[derive(Debug)]
struct Kept(PathBuf);

impl PluginPlace for Kept {
    fn look(&self, visit: Visit<'_>) -> narad_core::Result<()> {
        visit(&OsDisk, &self.0)
    }

    fn change(&self, _: Visit<'_>) -> narad_core::Result<()> {
        let reason = format!("{} is only looked at", self.0.display());
        Err(narad_core::Error::InvalidArgument { name: "plugin file", reason })
    }
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

/// Whose log is at `dir`: the partition that its topic's marker makes it, or one that stands alone. Frames may be bound to
/// that.
fn identity_of(dir: &Path) -> LogIdentity {
    let partition = || {
        let number = dir.file_name()?.to_str()?.strip_prefix('p')?.parse().ok()?;
        let topic = dir.parent()?;
        let marker = OsDisk.read_small(&topic.join("incarnation"), 64).ok()?;
        let incarnation = str::from_utf8(&marker).ok()?.trim_end().parse().ok()?;
        Some(LogIdentity::partition(topic.file_name()?.to_str()?, incarnation, PartitionId(number)))
    };
    partition().unwrap_or_else(|| LogIdentity::named(dir.display().to_string()))
}

impl Reader<'_> {
    /// The codecs for the partition at `dir`, with what they keep in its topic's directory.
    fn codecs(&self, dir: &Path, identity: &LogIdentity) -> narad_core::Result<CodecSet> {
        let mut context = PluginContext::new(identity.clone());
        if let Some(topic) = dir.parent() {
            context = context.in_place(Arc::new(Kept(topic.join("plugins"))));
        }
        self.registry
            .readable_codecs(&context)
            .map_err(|error| narad_core::Error::InvalidArgument { name: "codec", reason: error.to_string() })
    }

    /// Visits everything in the partition at `dir`, in offset order, until `visit` fails.
    fn walk(
        &self,
        dir: &Path,
        visit: &mut dyn FnMut(Inspected<'_>) -> io::Result<()>,
    ) -> Result<Summary, WalkError> {
        let identity = identity_of(dir);
        let codecs = self.codecs(dir, &identity).map_err(WalkError::Look)?;
        let mut gave_up = None;
        let summary = inspect(&OsDisk, dir, &identity, &codecs, &mut |found| match visit(found) {
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
        match self.registry.plugins().find(|plugin| plugin.number == Some(number)) {
            Some(codec) => codec.name.into(),
            None => number.to_string().into(),
        }
    }
}
