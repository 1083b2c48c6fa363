//! `narad bench`: how fast a broker takes messages, alone or in batches, and with `--consume` how fast it gives them back.
//!
//! Nothing is tried again here: what fails is counted by its kind, and the run goes on.

mod body;
mod drain;
mod figures;
mod live;
mod produce;

use std::{
    num::NonZeroU64,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use clap::Args;
use futures_util::{StreamExt, stream::FuturesUnordered};
use parking_lot::Mutex;

use self::{
    body::{Batch, MOST_MESSAGES},
    figures::{Figures, Phase},
    produce::Load,
};
use super::{
    client::{Client, Target},
    error::{CliError, Outcome},
    interrupted,
    output::Output,
};
use crate::{duration, size};

/// The load.
#[derive(Debug, Args)]
#[command(
    after_help = "The messages stay in the topic unless --consume drains it: use a topic of its own.\n\
    \n\
    A latency runs from sending a request to its 202, which is when its messages are synced to disk. With --rate it runs \
    from when the request was due, so that a slow broker is not measured by fewer messages. With --consume the latency is \
    that of a batch ack, and everything in the topic is consumed, what was there before included.\n\
    \n\
    A message is random letters; in a batch a JSON string of them, whose quotes are stored and count, so that each is \
    stored with --size bytes either way. A batch has at most 16 MiB as JSON. Without a key its messages go to one \
    partition, and those of the next batch to the next one.\n\
    \n\
    Ctrl-C ends the phase and the figures so far are shown. While it runs a line on standard error says how it goes. Exit \
    status: 0 when no request failed, else 1. With --json one object for each phase; latencies are in microseconds."
)]
pub(super) struct BenchArgs {
    /// The topic
    topic: String,
    /// Connections, each with one request at a time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// How large a message is, as 256 or 64KiB; at most 1MiB
    #[arg(long, value_name = "SIZE", default_value = "256", value_parser = message_size)]
    size: u64,
    /// Messages in a request: with more than one they are produced as a batch, all or none
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=MOST_MESSAGES))]
    batch: u16,
    /// Messages a second over all connections; as many as go when not given
    #[arg(long, value_name = "N")]
    rate: Option<NonZeroU64>,
    /// How long to produce
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    duration: Duration,
    /// End after this many messages, if that comes first
    #[arg(long, value_name = "N")]
    messages: Option<u64>,
    /// The key of every message; without one they go round the partitions
    #[arg(long, value_name = "K")]
    key: Option<String>,
    /// Then consume and acknowledge everything that the topic holds
    #[arg(long)]
    consume: bool,
}

fn message_size(text: &str) -> Result<u64, String> {
    match size::parse(text) {
        Ok(bytes @ 1..=0x10_0000) => Ok(bytes),
        Ok(_) => Err("a message has 1 byte to 1MiB".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

impl BenchArgs {
    /// The batch that each request is, or why it can be none; nothing where each request is a message.
    fn batch(&self) -> Option<Result<Batch, String>> {
        (self.batch > 1).then(|| Batch::new(self.batch.into(), self.size, self.key.as_deref()))
    }
}

/// Carries the command out.
pub(super) async fn run(args: BenchArgs, client: &Client, out: &mut Output) -> Result<Outcome, CliError> {
    let batch = args.batch().transpose().map_err(CliError::Usage)?;
    // A topic that is not there, or a server, is a mistake and no measurement.
    client.topic(&args.topic, None).await?;
    let (clean, interrupted) = produce_all(&args, batch, client, out).await?;
    if !args.consume || interrupted {
        return Ok(Outcome::of(clean));
    }
    let drained = drain_all(&args, client, out).await?;
    Ok(Outcome::of(clean && drained))
}

/// Returns whether all of it worked, and whether somebody interrupted it.
async fn produce_all(
    args: &BenchArgs,
    batch: Option<Batch>,
    client: &Client,
    out: &mut Output,
) -> Result<(bool, bool), CliError> {
    let (figures, stop, started) = (Mutex::new(Figures::new()?), AtomicBool::new(false), Instant::now());
    // Longer than anybody waits.
    let end = started + args.duration.min(Duration::from_secs(365 * 24 * 3600));
    let load = Load {
        client,
        target: Target { topic: args.topic.clone(), key: args.key.clone(), partition: None },
        batch,
        figures: &figures,
        stop: &stop,
        left: AtomicU64::new(args.messages.unwrap_or(u64::MAX)),
        end,
    };
    let connections: FuturesUnordered<_> =
        (0..args.connections).map(|index| produce::connection(&load, args, index)).collect();
    let interrupted = tokio::select! {
        never = live::tell("produce", &figures, started, out) => match never {},
        (_, interrupted) = all(connections, &stop) => interrupted,
    };
    let took = started.elapsed();
    let phase = Phase {
        name: "produce",
        request: if args.batch > 1 { "batch produce" } else { "produce" },
        batch: Some(args.batch),
        topic: &args.topic,
        connections: args.connections,
        took,
        interrupted,
    };
    let figures = figures.into_inner();
    figures.report(phase, out)?;
    Ok((figures.errors() == 0, interrupted))
}

/// Returns whether all of it worked.
async fn drain_all(args: &BenchArgs, client: &Client, out: &mut Output) -> Result<bool, CliError> {
    let (figures, stop, started) = (Mutex::new(Figures::new()?), AtomicBool::new(false), Instant::now());
    let connections: FuturesUnordered<_> =
        (0..args.connections).map(|_| drain::connection(client, &args.topic, &figures, &stop)).collect();
    let (last, interrupted) = tokio::select! {
        never = live::tell("consume", &figures, started, out) => match never {},
        ended = all(connections, &stop) => ended,
    };
    // The wait that found nothing more is no part of it.
    let last = last.into_iter().flatten().max().unwrap_or(started);
    let phase = Phase {
        name: "consume",
        request: "batch ack",
        batch: None,
        topic: &args.topic,
        connections: args.connections,
        took: last.duration_since(started),
        interrupted,
    };
    let figures = figures.into_inner();
    figures.report(phase, out)?;
    Ok(figures.errors() == 0)
}

/// Runs the connections to their end, which an interrupt brings about. Returns what they did, and whether it did.
async fn all<T>(
    mut connections: FuturesUnordered<impl Future<Output = T>>,
    stop: &AtomicBool,
) -> (Vec<T>, bool) {
    let mut interrupted = std::pin::pin!(interrupted());
    let (mut ended, mut was_interrupted) = (Vec::new(), false);
    loop {
        tokio::select! {
            () = &mut interrupted, if !was_interrupted => {
                was_interrupted = true;
                stop.store(true, Ordering::Relaxed);
            }
            next = connections.next() => match next {
                Some(end) => ended.push(end),
                None => return (ended, was_interrupted),
            },
        }
    }
}
