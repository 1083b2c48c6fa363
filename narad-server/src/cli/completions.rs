//! `narad completions`: what a shell needs to complete the command.

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use super::{
    error::{CliError, Outcome},
    output::{Output, program},
};

/// For which shell.
#[derive(Debug, Args)]
#[command(after_help = "bash:  source <(narad completions bash)\n\
    zsh:   narad completions zsh > \"${fpath[1]}/_narad\"\n\
    fish:  narad completions fish > ~/.config/fish/completions/narad.fish")]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Carries the command out.
pub(super) fn run(args: CompletionsArgs, out: &mut Output) -> Result<Outcome, CliError> {
    let mut script = Vec::new();
    generate(args.shell, &mut super::Args::command(), program(), &mut script);
    out.line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Outcome::Complete)
}
