//! `narad topic attach`, `detach` and `children`: topics whose messages are copied to others.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    client::{
        Client,
        model::{Attach, Topic},
    },
    error::CliError,
    output::{Output, table},
};
use crate::duration::{self, shown};

/// What is done with the children of topics.
#[derive(Debug, Subcommand)]
pub(super) enum LinkCommand {
    /// Copy every message of a topic to another one, from now on
    Attach(AttachArgs),
    /// End that; the child keeps what it has
    Detach {
        /// The topic whose messages are copied
        parent: String,
        /// The topic that they are copied to
        child: String,
    },
    /// List the topics that a topic's messages are copied to, and how far behind they are
    Children {
        /// The topic whose messages are copied
        parent: String,
    },
}

/// A topic to become the child of another.
#[derive(Debug, Args)]
pub(super) struct AttachArgs {
    /// The topic whose messages are copied
    parent: String,
    /// The topic that they are copied to
    child: String,
    /// How old a message is when it is copied, as 10m, at most a year; such a child takes no other messages
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "0s")]
    delay: Duration,
}

/// Carries the command out.
pub(super) async fn run(command: LinkCommand, client: &Client, out: &mut Output) -> Result<(), CliError> {
    match command {
        LinkCommand::Attach(AttachArgs { parent, child, delay }) => {
            let link = Attach { child: child.clone(), delay_ms: millis(delay) };
            let topic = client.attach(&parent, &link).await?;
            if out.is_json() {
                return Ok(out.object(&topic)?);
            }
            let after = after(link.delay_ms);
            Ok(out.line(format_args!("attached {child} to {parent}: messages are copied {after}"))?)
        }
        LinkCommand::Detach { parent, child } => {
            client.detach(&parent, &child).await?;
            if out.is_json() {
                return Ok(out.object(&json!({ "parent": parent, "child": child, "detached": true }))?);
            }
            Ok(out.line(format_args!("detached {child} from {parent}"))?)
        }
        LinkCommand::Children { parent } => children(&parent, client, out).await,
    }
}

async fn children(parent: &str, client: &Client, out: &mut Output) -> Result<(), CliError> {
    let children = client.children(parent).await?.children;
    if out.is_json() {
        return Ok(children.iter().try_for_each(|child| out.object(child))?);
    }
    if children.is_empty() {
        out.remark(format_args!("{parent} has no children; `narad topic attach` gives it one"));
        return Ok(());
    }
    let rows: Vec<[String; 3]> = children
        .into_iter()
        .map(|child| {
            let at_least = if child.lag_complete { "" } else { "at least " };
            let lag = format!("{at_least}{}", child.lag_messages);
            [child.name, shown(child.delay_ms), lag]
        })
        .collect();
    Ok(out.line(table(["CHILD", "DELAY", "BEHIND"], [false, false, true], &rows))?)
}

/// Which topics a topic is copied from or to; `None` when there are none.
pub(super) fn linked(topic: &Topic) -> Option<String> {
    let told = |name: &str| topic.rest.get(name);
    if let Some(parent) = told("parent").and_then(Value::as_str) {
        let delay_ms = told("fanout_delay_ms").and_then(Value::as_u64).unwrap_or_default();
        return Some(format!("child of {parent}, copied {}", after(delay_ms)));
    }
    let children = told("children").and_then(Value::as_array)?;
    let names: Vec<&str> = children.iter().filter_map(Value::as_str).collect();
    (!names.is_empty()).then(|| format!("parent of {}", names.join(", ")))
}

fn after(delay_ms: u64) -> String {
    match delay_ms {
        0 => "at once".to_owned(),
        ms => format!("after {}", shown(ms)),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
