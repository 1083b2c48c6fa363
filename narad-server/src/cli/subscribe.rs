//! `narad sub`: lease messages, write them out, then ack them.
//!
//! Nothing is acked before it was handed to the operating system; what could not be written goes back at once.

use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    time::{Duration, Instant},
};

use clap::Args;

use super::{
    client::{Client, ClientError, Message, Poll, Settle},
    error::{CliError, Outcome},
    interrupted,
    output::{Output, nobody_reads},
    peek,
    retry::Retry,
    style::Style,
};
use crate::{duration, size::counted};

/// The longest single poll: what a broker allows by default.
const LONGEST_POLL: Duration = Duration::from_secs(10);
/// Between two polls that came back empty before their time, as when a broker is shutting down.
const PAUSE: Duration = Duration::from_millis(100);
/// What a consume and a batch ack take at most.
const LARGEST_BATCH: u64 = 100;
const NO_CONTENT: u16 = 204;

/// What is consumed, and until when.
#[derive(Debug, Args)]
#[command(
    after_help = "Goes on until --max messages were written, nothing has arrived for --wait, or Ctrl-C; without \
        --max and --wait until Ctrl-C alone. `narad sub TOPIC --raw --wait 2s` drains a topic and ends with status \
        0.\n\
        \n\
        A message is acked once it was written out; a receipt that is gone by then (the lease ran out, so others may \
        get the message too) is reported and makes the exit status 1. What could not be written goes back to the \
        topic at once. Messages come in batches: to take a few and leave the rest, use --max and not a pipe to \
        `head`.\n\
        \n\
        Once the broker has answered, a lost connection is tried again for some six seconds, as when the broker \
        restarts. What was leased and not acked by then is delivered again.\n\
        \n\
        With --peek nothing is leased and nothing moves: it shows the next --max messages (10 unless given), beginning in \
        each partition with the oldest that is not acked. Those that a consumer holds just now are among them.\n\
        \n\
        On a terminal each message is shown with where it came from, control characters escaped. Everywhere else \
        the default is --raw."
)]
pub(super) struct SubArgs {
    /// The topic
    topic: String,
    /// End after this many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Do not ack: every message is delivered again when its lease runs out
    #[arg(long)]
    no_ack: bool,
    /// Look at what waits, and leave it where it is
    #[arg(long, conflicts_with_all = ["no_ack", "wait"])]
    peek: bool,
    /// Write each payload byte for byte, then a newline
    #[arg(long)]
    raw: bool,
    /// End when nothing has arrived for this long, as 2s or 500ms; 0 takes what is there
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    wait: Option<Duration>,
    /// Consume this partition alone
    #[arg(long, value_name = "P")]
    partition: Option<u32>,
}

/// Carries the command out.
pub(super) async fn run(args: SubArgs, client: &Client, out: &mut Output) -> Result<Outcome, CliError> {
    let style = Style::choose(args.raw, out)?;
    if args.peek {
        return peek::run(client, &args.topic, args.partition, args.max, style, out).await;
    }
    let (mut written, mut receipts_gone) = (0, 0);
    let mut quiet_since = Instant::now();
    // Before the server has answered once, an address where nobody listens is a mistake.
    let mut retry = Retry::BUSY;
    let (mut interrupted, mut hung_up) = (pin!(interrupted()), pin!(nobody_reads()));
    while args.max.is_none_or(|max| written < max) {
        let room = args.max.map_or(LARGEST_BATCH, |max| (max - written).min(LARGEST_BATCH));
        let left = args.wait.map(|wait| wait.saturating_sub(quiet_since.elapsed()));
        let wait = left.map_or(LONGEST_POLL, |left| left.min(LONGEST_POLL));
        let max = usize::try_from(room).unwrap_or(1);
        let asked_at = Instant::now();
        let poll = Poll { wait, partition: args.partition, max };
        let taken = tokio::select! {
            taken = take(client, &args.topic, poll, retry, interrupted.as_mut()) => taken?,
            // Before anything was written, the first write finds it out.
            () = hung_up.as_mut(), if written > 0 => None,
        };
        let Some((batch, repeated)) = taken else { break };
        retry = Retry::RESTART;
        if batch.is_empty() {
            if repeated > 0 {
                // While the broker was away nothing could arrive; that says nothing about the topic.
                quiet_since = Instant::now();
            }
            if args.wait.is_some_and(|wait| quiet_since.elapsed() >= wait) {
                break;
            }
            if asked_at.elapsed() < wait / 2 {
                tokio::time::sleep(PAUSE.min(wait)).await;
            }
            continue;
        }
        if let Err(error) = write_out(&batch, style, out) {
            // The output is what failed, and what gets reported; unreturned leases run out by themselves.
            let _ = client.settle(&args.topic, Settle::Release, &receipts(&batch)).await;
            return Err(error.into());
        }
        written += batch.len() as u64;
        if !args.no_ack {
            receipts_gone += ack(client, &args.topic, &batch, out).await?;
        }
        quiet_since = Instant::now();
    }
    if out.is_terminal() {
        out.remark(counted(written, "message"));
    }
    Ok(Outcome::of(receipts_gone == 0))
}

/// The next messages, and how often they were asked for again; `None` when interrupted. Dropping the request makes the broker take back what it leased.
async fn take(
    client: &Client,
    topic: &str,
    poll: Poll,
    retry: Retry,
    interrupted: Pin<&mut impl Future<Output = ()>>,
) -> Result<Option<(Vec<Message>, u32)>, ClientError> {
    tokio::select! {
        () = interrupted => Ok(None),
        (batch, repeated) = retry.run(|| client.consume(topic, poll)) => Ok(Some((batch?, repeated))),
    }
}

fn write_out(batch: &[Message], style: Style, out: &mut Output) -> io::Result<()> {
    batch.iter().try_for_each(|message| style.write(message, out))?;
    out.flush()
}

/// Acks `batch`. Returns how many receipts were gone, each of which it reports.
async fn ack(client: &Client, topic: &str, batch: &[Message], out: &Output) -> Result<u64, ClientError> {
    let receipts = receipts(batch);
    let (results, _) = Retry::RESTART.run(|| client.settle(topic, Settle::Ack, &receipts)).await;
    let mut gone = 0;
    for (message, settled) in batch.iter().zip(results?) {
        if settled.status != NO_CONTENT {
            gone += 1;
            let why = settled.error.unwrap_or_else(|| format!("status {}", settled.status));
            out.complain(format_args!(
                "partition {} offset {}: not acked, it may be delivered again: {why}",
                message.partition, message.offset
            ));
        }
    }
    Ok(gone)
}

fn receipts(batch: &[Message]) -> Vec<&str> {
    batch.iter().map(|message| message.receipt.as_deref().unwrap_or_default()).collect()
}
