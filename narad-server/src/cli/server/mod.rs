//! `narad server`: about a running broker.

mod facts;
mod redact;

use clap::Subcommand;

use self::{
    facts::{Facts, Known},
    redact::Redaction,
};
use super::{
    client::Client,
    error::{CliError, Outcome},
    output::{Output, human_bytes, table},
};

/// What is asked about a broker.
#[derive(Debug, Subcommand)]
pub(super) enum ServerCommand {
    /// The same as `narad serve`
    #[command(hide = true)]
    Start(super::ServeArgs),
    /// One page about a running broker, to be pasted into an issue: health, topics, lag, sizes, disk, versions
    #[command(
        after_help = "Names of topics, the address, the node's name and paths are replaced, and no key, payload or \
        receipt is read; --names leaves the names in. What the broker does not tell (such as metrics on another port) is \
        reported as unknown. Exit status: 0 when the broker is ready and nothing is degraded, else 1."
    )]
    Report {
        /// Show the topics by their names
        #[arg(long)]
        names: bool,
    },
}

/// Writes the report, with the topics' names or without.
pub(super) async fn run(names: bool, client: &Client, out: &mut Output) -> Result<Outcome, CliError> {
    let mut facts = Facts::gather(client).await?;
    if !names {
        Redaction::of(&facts).apply(&mut facts);
    }
    if out.is_json() {
        out.object(&facts)?;
    } else {
        show(&facts, out)?;
    }
    Ok(Outcome::of(facts.is_well()))
}

fn show(facts: &Facts, out: &mut Output) -> Result<(), CliError> {
    let known =
        |fact: &Option<u64>, shown: fn(u64) -> String| fact.map_or_else(|| "unknown".to_owned(), shown);
    let lines = [
        ("command", facts.command_version.to_owned()),
        ("server", facts.server_version.clone().unwrap_or_else(|| "unknown".to_owned())),
        ("node", facts.node.clone().unwrap_or_else(|| "unknown".to_owned())),
        ("alive", if facts.alive { "yes" } else { "shutting down" }.to_owned()),
        ("ready", facts.ready.clone()),
        ("topics", facts.topics.len().to_string()),
        ("partitions", facts.partitions.to_string()),
        ("data in topics", human_bytes(facts.topic_bytes)),
        ("disk left", known(&facts.available_bytes, human_bytes)),
        ("lag", known(&facts.lag_messages, |number| number.to_string())),
        ("not yet dispatched", known(&facts.backlog_records, |number| number.to_string())),
        (
            "produce log",
            match facts.wal_failed {
                Some(true) => "FAILED: nothing can be produced",
                Some(false) => "ok",
                None => "unknown",
            }
            .to_owned(),
        ),
        ("requests in flight", known(&facts.requests_in_flight, |number| number.to_string())),
    ];
    for (name, value) in lines {
        out.line(format_args!("{name:<20}{value}"))?;
    }
    if let Known::Not(why) = &facts.metrics {
        out.line(format_args!("{:<20}{why}", "metrics"))?;
    }
    section("degraded", facts.degraded.iter().cloned(), out)?;
    section(
        "failures since the start",
        facts.errors.iter().map(|(what, count)| format!("{what}: {count}")),
        out,
    )?;
    if facts.topics.is_empty() {
        return Ok(());
    }
    let rows: Vec<[String; 7]> = facts
        .topics
        .iter()
        .map(|topic| {
            [
                topic.name.clone(),
                topic.partitions.to_string(),
                topic.segments.to_string(),
                topic.messages.to_string(),
                topic.lag_messages.map_or_else(|| "-".to_owned(), |lag| lag.to_string()),
                human_bytes(topic.size_bytes),
                topic.not_ok.join(", "),
            ]
        })
        .collect();
    out.line("")?;
    let names = ["TOPIC", "PARTITIONS", "SEGMENTS", "MESSAGES", "LAG", "SIZE", "NOT OK"];
    Ok(out.line(table(names, [false, true, true, true, true, true, false], &rows))?)
}

fn section(name: &str, lines: impl Iterator<Item = String>, out: &mut Output) -> Result<(), CliError> {
    for (index, line) in lines.enumerate() {
        if index == 0 {
            out.line(format_args!("\n{name}:"))?;
        }
        out.line(format_args!("  {line}"))?;
    }
    Ok(())
}
