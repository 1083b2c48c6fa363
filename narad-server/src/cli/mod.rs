//! The command `narad`: its arguments, and which module carries each of them out.
//!
//! Nothing here knows how the broker works: but for `serve` and `log`, a command is a client of `/v1` like any
//! other.

mod bench;
mod client;
mod completions;
mod config;
mod contexts;
mod ctx;
mod error;
mod gaps;
mod lines;
mod links;
mod log;
mod output;
mod password;
mod peek;
mod plugin;
mod publish;
mod replay;
mod retry;
mod schema;
mod server;
mod style;
mod subscribe;
mod target;
mod topic;
mod user;

use std::{future::Future, io::IsTerminal, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use narad_core::plugin::RegistryError;

use self::{
    error::{CliError, Outcome},
    output::{Format, Output},
    server::ServerCommand,
    target::Target,
};
use crate::{
    config::Overrides,
    serve::{Builder, ServeError},
};

/// The heading in every command's help over the options that all of them take.
const EVERYWHERE: &str = "For every command";

/// What was asked for on the command line.
#[derive(Debug, Parser)]
#[command(
    name = "narad",
    version,
    about = "A message broker, its client, and a reader of its files",
    after_help = "Exit status: 0 when all of it worked; 2 for arguments that make no sense, and for a log command \
        that could not look at what it was given; 1 for everything else that failed.",
    propagate_version = true
)]
pub struct Args {
    #[command(flatten)]
    target: Target,

    /// Write one JSON object a line, for programs
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a broker
    Serve(ServeArgs),
    /// Create, list, inspect, change and delete topics
    #[command(subcommand, alias = "topics")]
    Topic(topic::TopicCommand),
    /// Publish a message, or every line of a file
    Pub(publish::PubArgs),
    /// Consume messages
    Sub(subscribe::SubArgs),
    /// Read a partition again, without leases and without moving anything
    Replay(replay::ReplayArgs),
    /// Create, list and delete users; their grants and passwords
    #[command(subcommand)]
    User(user::UserCommand),
    /// Keep the brokers that you talk to under names, with who you are there
    #[command(subcommand)]
    Ctx(ctx::CtxCommand),
    /// Measure how fast a broker takes messages and gives them back
    Bench(bench::BenchArgs),
    /// About a running broker
    #[command(subcommand)]
    Server(server::ServerCommand),
    /// Check, describe and show the settings of `serve`
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// The plugins that this program is built with
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    /// Read the files of a log, without a broker and without changing them
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Write what a shell needs to complete this command
    Completions(completions::CompletionsArgs),
}

/// How `serve` departs from the configuration.
#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// For development: no users, loopback only, data in ~/.narad/data
    #[arg(long)]
    dev: bool,
    /// Read settings from this file (TOML or JSON, by its extension)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Listen here; port 0 picks a free one and prints it
    #[arg(long, value_name = "HOST:PORT")]
    addr: Option<String>,
    /// Listen on this port: as --addr :PORT, and with --dev on loopback alone
    #[arg(long, value_name = "PORT", conflicts_with = "addr")]
    port: Option<u16>,
    /// Keep data here
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl From<ServeArgs> for Overrides {
    fn from(args: ServeArgs) -> Self {
        let host = if args.dev { "127.0.0.1" } else { "" };
        let addr = args.addr.or_else(|| args.port.map(|port| format!("{host}:{port}")));
        Self { dev: args.dev, config: args.config, addr, data_dir: args.data_dir }
    }
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    main_with(Builder::new)
}

/// The same with a broker of one's own: `serve` runs what `build` gives, and every command knows its plugins.
pub fn main_with(build: impl FnOnce() -> Result<Builder, RegistryError>) -> ExitCode {
    let args = Args::parse();
    let format = if args.json { Format::Json } else { Format::Human };
    let built = build().map_err(|error| CliError::from(ServeError::from(error)));
    match built.and_then(|builder| dispatch(args, format, builder)) {
        Ok(Outcome::Complete) => ExitCode::SUCCESS,
        Ok(Outcome::Incomplete) => ExitCode::FAILURE,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(format, &error);
            ExitCode::from(error.exit_status())
        }
    }
}

fn dispatch(args: Args, format: Format, builder: Builder) -> Result<Outcome, CliError> {
    let client = || args.target.client();
    let mut out = Output::stdout(format);
    let outcome = match args.command {
        Command::Serve(serve) | Command::Server(ServerCommand::Start(serve)) => {
            // Standard output is the broker's own from here on.
            drop(out);
            block_on(async { builder.run(serve.into()).await.map_err(CliError::from) })?;
            return Ok(Outcome::Complete);
        }
        Command::Topic(command) => block_on(topic::run(command, &client()?, &mut out)),
        Command::Pub(command) => block_on(publish::run(command, &client()?, &mut out)),
        Command::Sub(command) => block_on(subscribe::run(command, &client()?, &mut out)),
        Command::Replay(command) => block_on(replay::run(command, &client()?, &mut out)),
        Command::User(command) => block_on(user::run(command, &client()?, &mut out)),
        Command::Ctx(command) => ctx::run(command, &args.target, &mut out),
        Command::Bench(command) => block_on(bench::run(command, &client()?, &mut out)),
        Command::Server(ServerCommand::Report { names }) => {
            block_on(server::run(names, &client()?, &mut out))
        }
        Command::Completions(command) => completions::run(command, &mut out),
        Command::Config(command) => config::run(command, builder.registry(), &mut out),
        Command::Plugin(command) => plugin::run(command, builder.registry(), &mut out),
        Command::Log(command) => log::run(command, builder.registry(), &mut out),
    }?;
    out.flush()?;
    Ok(outcome)
}

/// Runs a command that waits for a network.
fn block_on<T>(command: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::Start)?;
    let outcome = runtime.block_on(command);
    // A hung disk call must not outlast the grace that a shutdown was given.
    runtime.shutdown_background();
    outcome
}

/// Resolves when somebody presses Ctrl-C. From the first poll on, that no longer ends the process by itself.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler Ctrl-C keeps ending the process, so there is nothing to wait for.
        std::future::pending().await
    }
}

/// Whether somebody types into standard input.
fn stdin_is_terminal() -> bool {
    std::io::stdin().is_terminal()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_form_in_the_manual_parses() {
        for line in [
            "narad serve --dev --config f.toml --addr 127.0.0.1:0 --data-dir d",
            "narad topic add t --partitions 6 --retention 7d --visibility-timeout 30s",
            "narad topic add t --retention forever",
            "narad topic ls --json",
            "narad topic info t --partition 1",
            "narad topic edit t --retention 2h --max-in-flight 10",
            "narad topic edit t --codec zstd",
            "narad topic add t --retention size --codec {\"name\":\"zstd\",\"level\":3}",
            "narad topic rm t",
            "narad topic edit t --schema f",
            "narad topic schema t --at 1",
            "narad pub t hello --key k --partition 2",
            "narad pub t --file f",
            "narad pub t --lines - --in-flight 8 --failed f",
            "narad --server broker:1 sub t --max 3 --no-ack --raw --wait 1.5s --partition 0",
            "narad replay t --partition 0 --from 3 --to 9",
            "narad user add ann --grant produce:orders,eu-* --grant admin --password-file -",
            "narad user ls --user admin",
            "narad user grant ann --none",
            "narad user passwd ann",
            "narad user rm ann",
            "narad --server broker:1 --user ann ctx add prod --no-password",
            "narad ctx ls",
            "narad ctx select prod",
            "narad ctx rm prod",
            "narad --context prod topic ls",
            "narad log dump d --from 1 --to 2 --payload",
            "narad log verify d",
            "narad sub t --peek --max 3 --partition 1",
            "narad bench t --connections 4 --size 64KiB --rate 100 --duration 5s --consume",
            "narad bench t --batch 1000 --messages 100000 --key k",
            "narad server report --names",
            // As scripts for other clients of this API have it.
            "narad server start --dev --port 7942 --data-dir d",
            "narad topics ls -s broker:1 -u ann",
            "narad topic add t --visibility 30s",
            "narad topic rm t -f",
            "narad pub t hello -k key",
            "narad pub t -f file",
            "narad user add ann --user-password-stdin",
            "narad completions zsh",
            "narad config check --config f.toml --dev",
            "narad config schema",
            "narad plugin ls --json",
            "narad --json config show --addr :1",
        ] {
            parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "narad",
            "narad pub t hello --file f",
            "narad pub t --file f --lines g",
            "narad pub t hello --in-flight 3",
            "narad pub t --lines f --in-flight 0",
            "narad pub t hello --failed f",
            "narad replay t",
            "narad topic edit t",
            "narad topic add t --retention 5",
            "narad topic add t --partitions 0",
            "narad topic add t --partitions 2",
            "narad topic edit t --partitions 109",
            "narad sub t --wait 5",
            "narad sub t --max 0",
            "narad sub t --peek --no-ack",
            "narad bench",
            "narad user add ann --grant produce",
            "narad user grant ann",
            "narad user add ann --password secret",
            "narad bench t --size 2MiB",
            "narad bench t --rate 0",
            "narad bench t --batch 0",
            "narad bench t --batch 1001",
            "narad completions tcsh",
            "narad serve --port 1 --addr :2",
        ] {
            assert!(parse(line).is_err(), "{line} was taken");
        }
    }
}
