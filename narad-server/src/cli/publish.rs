//! `narad pub`: one message from the arguments, a file or standard input; or every line of a file, see
//! [`lines`].

use std::{
    ffi::OsString,
    fs,
    io::{self, Read},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use clap::{ArgGroup, Args};
use serde_json::json;

use super::{
    client::{Client, Target},
    error::{CliError, Outcome},
    lines,
    output::Output,
    retry::Retry,
    stdin_is_terminal,
};
use crate::size::counted;

/// What is published. A message has at most [`lines::MAX_MESSAGE`] bytes.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("source").args(["message", "file", "lines"]),
    after_help = "Without MESSAGE, --file or --lines the message is all of standard input, byte for byte. A message has \
        at most 1 MiB (1048576 bytes).\n\
        \n\
        With --lines each line is a message, without its newline; empty lines are left out and counted. Requests \
        are in flight together, so the order of the lines is not kept, not even for one key. What a busy broker \
        refuses (429, 503) is tried again after the time it asks for. Each line that was not accepted is listed on \
        standard error with its number and the reason (with --json: on standard output, before the summary). A line \
        whose answer got lost is listed as unknown: it may have been accepted. --failed FILE keeps every \
        refused and unknown line, byte for byte, and `narad pub TOPIC --lines FILE` sends exactly these again; a line \
        above the limit is only listed, since no broker takes it.\n\
        \n\
        When the broker goes away or refuses everything, publishing stops and names two lines: the one from which \
        nothing was sent, and the first that was not accepted, which may lie up to --in-flight lines before it. \
        `tail -n +LINE FILE | narad pub TOPIC --lines -` with the latter sends everything that is missing and may \
        repeat lines that were accepted; with the former it sends the rest, and the file of --failed what is missing \
        before."
)]
pub(super) struct PubArgs {
    /// The topic
    topic: String,
    /// The message
    message: Option<OsString>,
    /// Publish this file as one message; - is standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Publish each line of this file as a message; - is standard input
    #[arg(long, value_name = "FILE")]
    lines: Option<PathBuf>,
    /// The key of the message, or of every line; it picks the partition
    #[arg(short, long, value_name = "K")]
    key: Option<String>,
    /// Publish to this partition, whatever the key
    #[arg(long, value_name = "P")]
    partition: Option<u32>,
    /// With --lines: requests in flight at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024),
        conflicts_with_all = ["message", "file"])]
    in_flight: u16,
    /// With --lines: how often a line is tried again
    #[arg(long, value_name = "N", default_value_t = Retry::DEFAULT_LIMIT,
        conflicts_with_all = ["message", "file"])]
    retries: u32,
    /// With --lines: write every line that was refused or is unknown to this file, replacing it
    #[arg(long, value_name = "FILE", requires = "lines", conflicts_with_all = ["message", "file"])]
    failed: Option<PathBuf>,
}

/// Carries the command out.
pub(super) async fn run(args: PubArgs, client: &Client, out: &mut Output) -> Result<Outcome, CliError> {
    let target = Target { topic: args.topic, key: args.key, partition: args.partition };
    if let Some(path) = args.lines {
        let options = lines::Options { in_flight: usize::from(args.in_flight), retries: args.retries };
        let source = lines::Source::open(&path)?;
        let failed = lines::FailedFile::create(args.failed.as_deref(), &path)?;
        return lines::publish(client, &target, source, options, failed, out).await;
    }
    let message = match (args.message, args.file) {
        (Some(message), _) => message.into_vec(),
        (None, Some(path)) => read_whole(&path)?,
        (None, None) if stdin_is_terminal() => {
            return Err(CliError::Usage(format!(
                "nothing to publish: give `narad pub {} MESSAGE`, --file FILE or --lines FILE, or pipe it in",
                target.topic
            )));
        }
        (None, None) => read_whole(Path::new("-"))?,
    };
    let (bytes, message) = (message.len(), Bytes::from(message));
    Retry::BUSY.run(|| client.produce(&target, message.clone())).await.0?;
    if out.is_json() {
        out.object(&json!({ "topic": target.topic, "accepted": 1, "bytes": bytes }))?;
    } else {
        out.line(format_args!("accepted, {}", counted(bytes as u64, "byte")))?;
    }
    Ok(Outcome::Complete)
}

fn read_whole(path: &Path) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin().lock().read_to_end(&mut bytes).map(drop)
    } else {
        fs::read(path).map(|content| bytes = content)
    }
    .map_err(|source| lines::input_error(path, source))?;
    Ok(bytes)
}
