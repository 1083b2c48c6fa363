//! `narad topic`: create, list, inspect, change, delete.

use std::time::{Duration, UNIX_EPOCH};

use clap::{Args, Subcommand};
use serde_json::{Number, Value, json};

use super::{
    client::{
        Client,
        model::{AdoptedTopic, NewTopic, Topic, TopicChange},
    },
    error::{CliError, Outcome},
    links::{self, LinkCommand},
    output::{Output, human_bytes, table},
    schema::{self, SchemaArgs, SchemaFile},
};
use crate::{
    config::MIN_RETENTION_MS,
    duration::{self, shown},
};

/// What is done with topics.
#[derive(Debug, Subcommand)]
pub(super) enum TopicCommand {
    /// Create a topic
    #[command(visible_alias = "create")]
    Add(AddArgs),
    /// List the topics by name
    Ls,
    /// Show a topic and what its partitions hold
    Info(InfoArgs),
    /// Change a topic's settings
    Edit(EditArgs),
    /// Make a topic of a directory below topics/ that has none: data that came from elsewhere, or was set aside
    Adopt(AdoptArgs),
    /// Delete a topic and every message in it
    Rm {
        /// The topic
        topic: String,
        /// Nothing is asked either way
        #[arg(short, long, hide = true)]
        force: bool,
    },
    /// Show a topic's JSON Schema
    Schema(SchemaArgs),
    #[command(flatten)]
    Link(LinkCommand),
}

/// A topic to be created; what is not given takes the broker's default.
#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// Its name: 1 to 200 of A-Z a-z 0-9 . _ -
    topic: String,
    #[command(flatten)]
    settings: Settings,
    /// How long a consumer has for a message before others get it, as 30s; fixed once created
    #[arg(long, alias = "visibility", value_name = "DURATION", value_parser = visibility)]
    visibility_timeout: Option<Duration>,
    #[command(flatten)]
    schema: SchemaFile,
    /// Make it a child of this topic: every message of the parent is copied to it
    #[arg(long, value_name = "TOPIC")]
    parent: Option<String>,
    /// How old a message of the parent is when it is copied, as 10m; such a child takes no other messages
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, requires = "parent")]
    delay: Option<Duration>,
}

/// A directory to be made a topic; what is not given takes the broker's default, but retention, which is for ever, and
/// partitions, which are those in the directory.
#[derive(Debug, Args)]
pub(super) struct AdoptArgs {
    /// The directory's name below topics/; without one, those that have no topic are listed
    directory: Option<String>,
    #[command(flatten)]
    settings: Settings,
    /// How long a consumer has for a message before others get it, as 30s; fixed once adopted
    #[arg(long, value_name = "DURATION", value_parser = visibility)]
    visibility_timeout: Option<Duration>,
}

/// A topic to be shown.
#[derive(Debug, Args)]
pub(super) struct InfoArgs {
    /// The topic
    topic: String,
    /// Show this partition alone
    #[arg(long, value_name = "P")]
    partition: Option<u32>,
}

/// A topic to be changed; at least one setting must be given.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true)
    .args(["partitions", "retention", "codec", "max_in_flight", "max_acked_ahead", "file"]))]
pub(super) struct EditArgs {
    /// The topic
    topic: String,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    schema: SchemaFile,
}

#[derive(Debug, Args)]
struct Settings {
    /// Partitions, 3 to 108; they can grow, never shrink
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=108))]
    partitions: Option<u32>,
    /// How long messages are kept, as 7d or 12h, at least 1h; `forever` keeps them all. Or a retention policy of the broker:
    /// its name, or a JSON object with its name and keys
    #[arg(long, value_name = "DURATION|POLICY", value_parser = retention)]
    retention: Option<Retention>,
    /// The codec of new messages: its name, or a JSON object with its name and keys. Those before stay readable
    #[arg(long, value_name = "CODEC", value_parser = plugin)]
    codec: Option<Value>,
    /// Messages of a partition that may be with consumers at once
    #[arg(long, value_name = "N")]
    max_in_flight: Option<u32>,
    /// Messages of a partition that may be acked ahead of its oldest unsettled one
    #[arg(long, value_name = "N")]
    max_acked_ahead: Option<u32>,
}

/// What may be deleted.
#[derive(Debug, Clone, PartialEq)]
enum Retention {
    /// What is older.
    Age(Duration),
    /// What a policy of the broker says.
    Policy(Value),
}

impl From<Settings> for TopicChange {
    fn from(settings: Settings) -> Self {
        let (retention_ms, retention) = match settings.retention {
            Some(Retention::Age(age)) => (Some(millis(age)), None),
            Some(Retention::Policy(policy)) => (None, Some(policy)),
            None => (None, None),
        };
        Self {
            partitions: settings.partitions,
            retention_ms,
            retention,
            codec: settings.codec,
            max_in_flight_per_partition: settings.max_in_flight,
            max_acked_ahead_per_partition: settings.max_acked_ahead,
            schema: None,
        }
    }
}

/// Carries the command out.
pub(super) async fn run(
    command: TopicCommand,
    client: &Client,
    out: &mut Output,
) -> Result<Outcome, CliError> {
    match command {
        TopicCommand::Add(args) => {
            let visibility_timeout_ms = args.visibility_timeout.map(millis);
            let topic = NewTopic {
                name: args.topic,
                settings: TopicChange { schema: args.schema.read()?, ..args.settings.into() },
                visibility_timeout_ms,
                parent: args.parent,
                fanout_delay_ms: args.delay.map(millis),
            };
            show(&client.create_topic(&topic).await?, "created", out)?;
        }
        TopicCommand::Ls => list(client, out).await?,
        TopicCommand::Info(args) => info(&client.topic(&args.topic, args.partition).await?, out)?,
        TopicCommand::Edit(args) => {
            let change = TopicChange { schema: args.schema.read()?, ..args.settings.into() };
            let topic = client.edit_topic(&args.topic, &change).await?;
            show(&topic, "changed", out)?;
        }
        TopicCommand::Adopt(AdoptArgs { directory: Some(directory), settings, visibility_timeout }) => {
            let visibility_timeout_ms = visibility_timeout.map(millis);
            let settings = AdoptedTopic { settings: settings.into(), visibility_timeout_ms };
            show(&client.adopt(&directory, &settings).await?, "adopted", out)?;
        }
        TopicCommand::Adopt(_) => list_directories(client, out).await?,
        TopicCommand::Rm { topic, force: _ } => {
            client.delete_topic(&topic).await?;
            if out.is_json() {
                out.object(&json!({ "topic": topic, "deleted": true }))?;
            } else {
                out.line(format_args!("deleted {topic}"))?;
            }
        }
        TopicCommand::Schema(args) => schema::show(&args, client, out).await?,
        TopicCommand::Link(command) => links::run(command, client, out).await?,
    }
    Ok(Outcome::Complete)
}

async fn list(client: &Client, out: &mut Output) -> Result<(), CliError> {
    let topics = client.all_topics().await?;
    if out.is_json() {
        return Ok(topics.iter().try_for_each(|topic| out.object(topic))?);
    }
    if topics.is_empty() {
        out.remark("no topics yet; `narad topic add NAME` creates one");
        return Ok(());
    }
    let rows: Vec<[String; 7]> = topics
        .iter()
        .map(|topic| {
            [
                topic.name.clone(),
                topic.partitions.to_string(),
                retention_of(topic),
                shown(topic.visibility_timeout_ms),
                told(topic, "role").unwrap_or_else(|| "-".to_owned()),
                told(topic, "owner").unwrap_or_else(|| "-".to_owned()),
                time_text(&topic.created_at),
            ]
        })
        .collect();
    let names = ["TOPIC", "PARTITIONS", "RETENTION", "VISIBILITY", "ROLE", "OWNER", "CREATED"];
    Ok(out.line(table(names, [false, true, false, false, false, false, false], &rows))?)
}

async fn list_directories(client: &Client, out: &mut Output) -> Result<(), CliError> {
    let found = client.directories().await?.directories;
    if out.is_json() {
        return Ok(found.iter().try_for_each(|directory| out.object(directory))?);
    }
    if found.is_empty() {
        out.remark("every directory has a topic");
        return Ok(());
    }
    let rows: Vec<[String; 5]> = found
        .into_iter()
        .map(|found| {
            let set_aside = if found.quarantined { "yes" } else { "no" };
            let id = found.id.unwrap_or_else(|| "-".to_owned());
            [found.directory, found.topic, id, found.partitions.to_string(), set_aside.to_owned()]
        })
        .collect();
    let names = ["DIRECTORY", "TOPIC", "ID", "PARTITIONS", "SET ASIDE"];
    Ok(out.line(table(names, [false, false, false, true, false], &rows))?)
}

/// One line on a topic, after something was done to it.
fn show(topic: &Topic, done: &str, out: &mut Output) -> Result<(), CliError> {
    if out.is_json() {
        return Ok(out.object(topic)?);
    }
    Ok(out.line(format_args!(
        "{done} {}: {} partitions, retention {}, visibility timeout {}",
        topic.name,
        topic.partitions,
        retention_of(topic),
        shown(topic.visibility_timeout_ms),
    ))?)
}

fn info(topic: &Topic, out: &mut Output) -> Result<(), CliError> {
    if out.is_json() {
        return Ok(out.object(topic)?);
    }
    let facts = [
        ("topic", topic.name.clone()),
        ("id", topic.id.clone()),
        ("partitions", topic.partitions.to_string()),
        ("retention", retention_of(topic)),
        ("visibility timeout", shown(topic.visibility_timeout_ms)),
        ("max in flight", topic.max_in_flight_per_partition.to_string()),
        ("max acked ahead", topic.max_acked_ahead_per_partition.to_string()),
        ("created", time_text(&topic.created_at)),
    ];
    let schema_version =
        topic.rest.get("schema_version").and_then(Value::as_u64).filter(|&version| version > 0);
    let more = [
        ("codec", topic.rest.get("codec").map(plugin_text)),
        ("owner", told(topic, "owner")),
        ("linked", links::linked(topic)),
        ("schema version", schema_version.map(|version| version.to_string())),
    ];
    let more = more.into_iter().filter_map(|(name, value)| Some((name, value?)));
    for (name, value) in facts.into_iter().chain(more) {
        out.line(format_args!("{name:<20}{value}"))?;
    }
    if topic.partition_stats.is_empty() {
        return Ok(());
    }
    let known = |offset: Option<u64>| offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string());
    let rows: Vec<[String; 8]> = topic
        .partition_stats
        .iter()
        .map(|stats| {
            [
                stats.index.to_string(),
                stats.segments.to_string(),
                known(stats.oldest_offset),
                known(stats.next_offset),
                known(stats.high_watermark),
                known(stats.lag_messages),
                human_bytes(stats.size_bytes),
                stats.status.clone().unwrap_or_default(),
            ]
        })
        .collect();
    let names = ["PARTITION", "SEGMENTS", "OLDEST", "NEXT", "WATERMARK", "LAG", "SIZE", "STATUS"];
    out.line("")?;
    Ok(out.line(table(names, [true, true, true, true, true, true, true, false], &rows))?)
}

/// What the broker says of a topic beyond what every topic has.
fn told(topic: &Topic, name: &str) -> Option<String> {
    topic.rest.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// Said here, in the unit that was typed, and not by the broker in milliseconds.
fn retention(text: &str) -> Result<Retention, String> {
    if text == "forever" {
        return Ok(Retention::Age(Duration::ZERO));
    }
    if text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '{') {
        return plugin(text).map(Retention::Policy);
    }
    let shortest = Duration::from_millis(MIN_RETENTION_MS);
    match parsed(text)? {
        short if short < shortest => {
            Err(format!("the shortest retention is {}; `forever` keeps everything", shown(MIN_RETENTION_MS)))
        }
        kept => Ok(Retention::Age(kept)),
    }
}

/// A name, or an object with one.
fn plugin(text: &str) -> Result<Value, String> {
    if !text.starts_with('{') {
        return Ok(Value::from(text));
    }
    let spec: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match spec.get("name") {
        Some(Value::String(_)) => Ok(spec),
        _ => Err("a plugin is a name, or a JSON object with a \"name\"".to_owned()),
    }
}

fn parsed(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

fn visibility(text: &str) -> Result<Duration, String> {
    match parsed(text)? {
        short if short < Duration::from_millis(1) => Err("the shortest is 1ms".to_owned()),
        timeout => Ok(timeout),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn retention_of(topic: &Topic) -> String {
    topic.rest.get("retention").map_or_else(|| retention_text(topic.retention_ms), plugin_text)
}

fn plugin_text(spec: &Value) -> String {
    spec.as_str().map_or_else(|| spec.to_string(), str::to_owned)
}

fn retention_text(ms: u64) -> String {
    if ms == 0 { "forever".to_owned() } else { shown(ms) }
}

fn time_text(unix_seconds: &Number) -> String {
    let since_epoch = unix_seconds.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match since_epoch.and_then(|since| UNIX_EPOCH.checked_add(since)) {
        Some(time) => humantime::format_rfc3339_seconds(time).to_string(),
        None => unix_seconds.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_durations_are_for_people() {
        assert_eq!(time_text(&Number::from(1_700_000_000)), "2023-11-14T22:13:20Z");
        assert_eq!(retention_text(0), "forever");
        assert_eq!(retention_text(604_800_000), "7d");
        assert_eq!(retention("forever"), Ok(Retention::Age(Duration::ZERO)));
        assert_eq!(retention("1h"), Ok(Retention::Age(Duration::from_secs(3600))));
        assert_eq!(retention("size"), Ok(Retention::Policy("size".into())));
        let object = json!({ "name": "size", "max_bytes": 5 });
        assert_eq!(retention(&object.to_string()), Ok(Retention::Policy(object)));
        assert!(retention("{\"max_bytes\":5}").is_err_and(|why| why.contains("name")));
        assert!(retention("1s").is_err_and(|why| why.contains("1h") && why.contains("forever")));
        assert!(retention("0s").is_err() && visibility("1us").is_err());
    }
}
