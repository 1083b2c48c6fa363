//! `narad replay`: read a partition's records by offset, without leases.

use clap::Args;
use futures_util::{StreamExt, stream};

use super::{
    client::{Client, Replayed},
    error::{CliError, Outcome},
    gaps::Gaps,
    output::Output,
    retry::Retry,
    style::Style,
};

/// Requests that read ahead of what is being written.
const READ_AHEAD: usize = 16;

/// What is read.
#[derive(Debug, Args)]
#[command(
    after_help = "Ends at --to or at the end of the partition. Records that aged out or cannot be read are reported \
        on standard error, each run of them on a line, and passed over, and make the exit status 1. Output is as with `narad sub`."
)]
pub(super) struct ReplayArgs {
    /// The topic
    topic: String,
    /// The partition
    #[arg(long, value_name = "P")]
    partition: u32,
    /// Begin with this offset; the oldest one kept when not given
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// End with this offset, inclusive
    #[arg(long, value_name = "M")]
    to: Option<u64>,
    /// Write each payload byte for byte, then a newline
    #[arg(long)]
    raw: bool,
}

/// Carries the command out.
pub(super) async fn run(args: ReplayArgs, client: &Client, out: &mut Output) -> Result<Outcome, CliError> {
    let style = Style::choose(args.raw, out)?;
    let (topic, partition) = (args.topic.as_str(), args.partition);
    let to = args.to.unwrap_or(i64::MAX as u64);
    let (oldest, end) = bounds(client, topic, partition).await?;
    let from = args.from.unwrap_or(oldest);
    if from > to {
        return Err(CliError::Usage(format!("nothing lies from offset {from} to offset {to}")));
    }
    if let Some(end) = end.filter(|&end| args.from.is_some_and(|from| from >= end)) {
        out.remark(format_args!(
            "nothing is at offset {from} yet: the end of partition {partition} is {end}"
        ));
    }
    let mut gaps = Gaps::default();
    // Each of these would be answered 410; there may be millions of them.
    if from < oldest {
        let last = to.min(oldest - 1);
        gaps.pass_over_all(from, last, format!("aged out; the oldest kept is {oldest}"), out);
    }

    let mut records = stream::iter(from.max(oldest)..=to)
        .map(|offset| async move {
            let (found, _) = Retry::BUSY.run(|| client.replay(topic, partition, offset)).await;
            (offset, found)
        })
        .buffered(READ_AHEAD);
    while let Some((offset, found)) = records.next().await {
        match found? {
            Replayed::Record(message) => {
                gaps.tell(out);
                style.write(&message, out)?;
            }
            Replayed::Gone(why) => gaps.pass_over(offset, why, out),
            Replayed::End => break,
        }
    }
    gaps.tell(out);
    Ok(Outcome::of(gaps.is_empty()))
}

/// The oldest offset kept, and the exclusive bound of what can be read, if the broker tells.
async fn bounds(client: &Client, topic: &str, partition: u32) -> Result<(u64, Option<u64>), CliError> {
    let stats = client.topic(topic, Some(partition)).await?.partition_stats;
    let stats = stats.iter().find(|stats| stats.index == partition);
    let oldest = stats.and_then(|stats| stats.oldest_offset).unwrap_or(0);
    Ok((oldest, stats.and_then(|stats| stats.high_watermark)))
}
