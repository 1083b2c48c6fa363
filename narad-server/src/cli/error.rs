//! Why a command did not do what it was asked, and the exit status that follows.
//!
//! Every message names the thing it is about; nothing here prints.

use std::{io, path::PathBuf};

use super::client::ClientError;
use crate::serve::ServeError;

/// How a command ended that ran to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All of it worked: exit status 0.
    Complete,
    /// Part of it did not, and was reported where it happened: exit status 1.
    Incomplete,
}

impl Outcome {
    /// `Complete` when `all_worked`.
    pub(crate) fn of(all_worked: bool) -> Self {
        if all_worked { Self::Complete } else { Self::Incomplete }
    }
}

/// What stopped a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The server could not be asked, or said no.
    #[error(transparent)]
    Client(#[from] ClientError),

    /// Standard output did not take what was written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),

    /// A file or standard input could not be read.
    #[error("cannot read {name}: {source}")]
    Input {
        /// The file's path or `standard input`.
        name: String,
        /// What the operating system said.
        source: io::Error,
    },

    /// The file that keeps lines for another try did not take one.
    #[error("cannot write {}: {source}", path.display())]
    Keep {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },

    /// The file of contexts cannot be used.
    #[error("{}: {reason}", path.display())]
    Contexts {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },

    /// Arguments that parse one by one and make no sense together.
    #[error("{0}")]
    Usage(String),

    /// The process lacks what every command needs: threads, a poller.
    #[error("cannot start: {0}")]
    Start(io::Error),

    /// The broker did not start, or did not end well.
    #[error(transparent)]
    Serve(#[from] ServeError),

    /// A directory could not be examined, so nothing is said about its content.
    #[error("cannot look into {}: {reason}", dir.display())]
    CannotLook {
        /// The directory.
        dir: PathBuf,
        /// Why not.
        reason: String,
    },
}

impl CliError {
    /// The exit status: 2 for arguments that make no sense and for what could not be looked at, else 1.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::CannotLook { .. } => 2,
            _ => 1,
        }
    }

    /// Whether the reader of standard output went away, as `| head` does: nothing to complain about.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
