//! Topics: create, list, look at, change, delete.

use std::{sync::Arc, time::Duration};

use narad_core::{plugin::Incarnation, store::check_topic_name};
use serde_json::Value;
use tokio::time::timeout;

use super::{Broker, BrokerError, blocking, to_the_end, topic_plugins::OwnRetention};
use crate::{
    config::{MAX_CAP, MAX_TOPIC_MS, MIN_PARTITIONS, MIN_RETENTION_MS, TopicDefaults},
    meta::{CodecChange, MetaError, Topic, TopicChange, TopicName},
    security::Caller,
};

/// Topics on a page, at most.
const MAX_PAGE: usize = 1000;
/// How long a delete waits for the topic's files. What is left then goes while it is answered.
const FILES_WAIT: Duration = Duration::from_secs(2);

/// A topic to be created. For partitions, visibility and the caps, absent and 0 mean the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name: 1 to 200 of `A-Z a-z 0-9 . _ -`, neither `.` nor `..`.
    pub name: String,
    /// At least 3.
    pub partitions: Option<u32>,
    /// In milliseconds: 0 keeps for ever, else at least an hour.
    pub retention_ms: Option<u64>,
    /// A retention policy of its own: a plugin's name, or an object with a `name`. Not beside `retention_ms`.
    pub retention: Option<Value>,
    /// A codec of its own, in the same form.
    pub codec: Option<Value>,
    /// How long a lease lasts, in milliseconds.
    pub visibility_timeout_ms: Option<u64>,
    /// Leases out at once in one partition.
    pub max_in_flight_per_partition: Option<u32>,
    /// Messages acked out of order in one partition.
    pub max_acked_ahead_per_partition: Option<u32>,
    /// Whoever asks for it has no say over the machine: its plugins may not look where their settings say.
    pub from_outside: bool,
    /// The user that is to own it.
    pub owner: Option<Arc<str>>,
    /// A JSON Schema that every message must be valid against.
    pub schema: Option<String>,
    /// Makes it a child from its beginning.
    pub parent: Option<ChildOf>,
}

/// What a topic is to be a child of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildOf {
    /// The parent.
    pub parent: Topic,
    /// How long a message waits before it is copied, in milliseconds; at most a year.
    pub delay_ms: u64,
}

/// What of a topic is to change; `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicEdit {
    /// Its settings. The schema and the codec stand below.
    pub settings: TopicChange,
    /// A new codec for later frames: a plugin's name, or an object with a `name`.
    pub codec: Option<Value>,
    /// Whoever asks for it has no say over the machine: new plugins may not look where their settings say.
    pub from_outside: bool,
    /// A new version of the schema, which must take all that the current one takes.
    pub schema: Option<String>,
    /// The version of the schema that the new one was made from.
    pub schema_base_version: Option<u32>,
}

/// Some topics in name order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The topics.
    pub topics: Vec<Topic>,
    /// Whether there are more behind them.
    pub more: bool,
}

impl Broker {
    /// Creates a topic; it takes produce and consume at once.
    ///
    /// The record in the metastore is what makes a topic: its directories appear when a partition is first opened,
    /// so a crash leaves it whole or not there.
    ///
    /// # Errors
    /// `TopicName`, `Invalid`, `TopicExists`, `TopicExistsInOtherCase`; with a parent also what [`attach`](Self::attach) says, and no topic is
    /// made.
    pub async fn create_topic(&self, mut new: NewTopic) -> Result<Topic, BrokerError> {
        let parent = new.parent.take();
        let schema = self.checked_schema(new.schema.as_deref()).await?;
        let topic = self.checked(new, Incarnation::new(rand::random())).await?;
        let text = schema.map(|schema| Arc::clone(schema.text()));
        if let Some(parent) = parent {
            return self.create_child(topic, text, parent).await;
        }
        let broker = self.clone();
        to_the_end(async move {
            let catalog = &broker.0.catalog;
            let topic = catalog.meta().create_topic_with_schema(topic, text).await?;
            catalog.adopt(topic.clone(), topic.version).await?;
            tracing::info!(topic = %topic.name, id = %topic.id, partitions = topic.partitions, "topic created");
            Ok(topic)
        })
        .await
    }

    pub(super) async fn checked(&self, new: NewTopic, id: Incarnation) -> Result<Topic, BrokerError> {
        let by_admin = !new.from_outside;
        let retention = self.own_retention(new.retention_ms, new.retention, by_admin).await?;
        self.check_codec(new.codec.as_ref(), by_admin).await?;
        let defaults = &self.0.defaults;
        let name = TopicName::new(&new.name).map_err(|_| BrokerError::TopicName(new.name.clone()))?;
        check_topic_name(&new.name).map_err(|error| BrokerError::invalid("name", error.to_string()))?;
        let partitions = non_zero(new.partitions).unwrap_or(defaults.default_partitions);
        check_partitions(partitions, defaults)?;
        let mut topic = Topic::new(name, id, partitions, self.0.runtime.clock().unix_ms());
        topic.owner = new.owner;
        topic.codec = new.codec;
        topic.retention_ms = match (&retention.policy, retention.ms) {
            (_, Some(ms)) => ms,
            (Some(_), None) => 0,
            (None, None) => check_retention(defaults.default_retention_age_ms)?,
        };
        topic.retention = retention.policy;
        topic.visibility_timeout_ms =
            new.visibility_timeout_ms.filter(|&ms| ms > 0).unwrap_or(defaults.default_visibility_timeout_ms);
        if topic.visibility_timeout_ms > MAX_TOPIC_MS {
            return Err(BrokerError::invalid("visibility_timeout_ms", format!("at most {MAX_TOPIC_MS}")));
        }
        topic.max_in_flight_per_partition =
            self.in_flight_cap(new.max_in_flight_per_partition.unwrap_or(0))?;
        topic.max_acked_ahead_per_partition =
            self.ahead_cap(new.max_acked_ahead_per_partition.unwrap_or(0))?;
        Ok(topic)
    }

    /// What a topic is to keep of the retention that it was given. Plugins may read files to see whether it fits.
    async fn own_retention(
        &self,
        ms: Option<u64>,
        policy: Option<Value>,
        by_admin: bool,
    ) -> Result<OwnRetention, BrokerError> {
        let ms = ms.map(check_retention).transpose()?;
        let plugins = Arc::clone(self.0.catalog.plugins());
        let own = blocking(move || plugins.own_retention(ms, policy, by_admin)).await??;
        own.ms.map(check_retention).transpose()?;
        Ok(own)
    }

    async fn check_codec(&self, codec: Option<&Value>, by_admin: bool) -> Result<(), BrokerError> {
        let Some(codec) = codec.cloned() else { return Ok(()) };
        let plugins = Arc::clone(self.0.catalog.plugins());
        blocking(move || plugins.check_codec(&codec, by_admin)).await?
    }

    fn in_flight_cap(&self, cap: u32) -> Result<u32, BrokerError> {
        check_cap("max_in_flight_per_partition", cap, self.0.defaults.default_max_in_flight_per_partition)
    }

    fn ahead_cap(&self, cap: u32) -> Result<u32, BrokerError> {
        check_cap("max_acked_ahead_per_partition", cap, self.0.defaults.default_max_acked_ahead_per_partition)
    }

    /// The topic called `name`.
    ///
    /// # Errors
    /// `TopicName`, `NoTopic`.
    pub async fn topic(&self, name: &str) -> Result<Topic, BrokerError> {
        Ok(self.0.catalog.topic(name).await?.topic.clone())
    }

    /// At most `limit` topics behind `after` (at most 1000) in name order, of those that `caller` may see.
    pub async fn topics(
        &self,
        caller: &Caller,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page, BrokerError> {
        let limit = limit.clamp(1, MAX_PAGE);
        // Who sees all of them needs one more than the page, to know whether there is one.
        let step = if caller.is_admin() { limit + 1 } else { MAX_PAGE };
        let (mut after, mut topics) = (after.map(str::to_owned), Vec::new());
        loop {
            let read = self.0.catalog.meta().topics(after.as_deref(), step).await?;
            let is_last = read.len() < step;
            after = read.last().map(|topic| topic.name.as_ref().to_owned());
            topics.extend(read.into_iter().filter(|topic| caller.may_see(topic)));
            if is_last || topics.len() > limit {
                break;
            }
        }
        let more = topics.len() > limit;
        topics.truncate(limit);
        Ok(Page { topics, more })
    }

    /// Changes a topic, and no other that has its name by now. Open logs, waiting consumers and produces go by the new
    /// settings before this answers.
    ///
    /// # Errors
    /// `NoTopic`; `Invalid` also when nothing is to change or partitions would not become more; `SchemaConflict`; `Link` for a
    /// retention that is too short for a child's delay.
    pub async fn update_topic(&self, topic: &Topic, edit: TopicEdit) -> Result<Topic, BrokerError> {
        loop {
            let entry = self.0.catalog.same(topic).await?;
            let change = self.change_of(&entry.topic, &edit).await?;
            if change.is_empty() {
                // The schema is the current one.
                return Ok(entry.topic.clone());
            }
            match self.change_topic(entry.topic.clone(), change).await {
                // Another version came in between; this one was not made from a certain one.
                Err(BrokerError::Meta(MetaError::SchemaMoved { .. }))
                    if edit.schema_base_version.is_none() => {}
                outcome => return outcome,
            }
        }
    }

    async fn change_of(&self, topic: &Topic, edit: &TopicEdit) -> Result<TopicChange, BrokerError> {
        let mut change = self.checked_change(topic, edit.settings.clone())?;
        // What the topic has already may be sent along.
        let by_admin = |new: &Option<Value>, has: &Option<Value>| !edit.from_outside || new == has;
        let for_retention = by_admin(&change.retention, &topic.retention);
        let own = self.own_retention(change.retention_ms, change.retention, for_retention).await?;
        (change.retention_ms, change.retention) = (own.ms, own.policy);
        self.check_codec(edit.codec.as_ref(), by_admin(&edit.codec, &topic.codec)).await?;
        let default = self.0.catalog.plugins().default_codec();
        change.codec = edit.codec.clone().map(|to| CodecChange { to, default: default.clone() });
        match &edit.schema {
            Some(text) => self.with_schema(topic, change, text, edit.schema_base_version).await,
            None if edit.schema_base_version.is_some() => {
                Err(BrokerError::invalid("schema_base_version", "there is no schema to go with it"))
            }
            None if change.is_empty() => Err(BrokerError::invalid("body", "nothing to change")),
            None => Ok(change),
        }
    }

    async fn change_topic(&self, topic: Topic, change: TopicChange) -> Result<Topic, BrokerError> {
        let broker = self.clone();
        to_the_end(async move {
            let catalog = &broker.0.catalog;
            let passes_on = change.schema.is_some();
            let topic = catalog.meta().update_topic(&topic.name, topic.id, change).await?;
            let entry = catalog.adopt(topic.clone(), topic.version).await?;
            if let Ok(queue) = entry.queue() {
                broker.0.queues.configure(queue);
            }
            for link in topic.children.iter().filter(|_| passes_on) {
                match catalog.meta().topic(&link.name).await? {
                    Some(child) if child.id == link.id => {
                        let version = child.version;
                        catalog.adopt(child, version).await?;
                    }
                    _ => {}
                }
            }
            Ok(topic)
        })
        .await
    }

    fn checked_change(&self, before: &Topic, mut change: TopicChange) -> Result<TopicChange, BrokerError> {
        change.max_in_flight_per_partition =
            change.max_in_flight_per_partition.map(|cap| self.in_flight_cap(cap)).transpose()?;
        change.max_acked_ahead_per_partition =
            change.max_acked_ahead_per_partition.map(|cap| self.ahead_cap(cap)).transpose()?;
        if let Some(partitions) = change.partitions {
            check_partitions(partitions, &self.0.defaults)?;
            if partitions <= before.partitions {
                let reason = format!("they only grow, and {} has {}", before.name, before.partitions);
                return Err(BrokerError::invalid("partitions", reason));
            }
        }
        Ok(change)
    }

    /// Deletes a topic, and no other that has its name by now: from here on nobody finds it, its children are topics of
    /// their own with what they have, and its parent has a child less. Its leases and files go next; what a crash leaves
    /// of them is never served again.
    ///
    /// # Errors
    /// `NoTopic`; a failure of the metastore, after which the topic is whole.
    pub async fn delete_topic(&self, topic: &Topic) -> Result<(), BrokerError> {
        let (broker, name, id) = (self.clone(), Arc::clone(&topic.name), topic.id);
        to_the_end(async move {
            broker.0.catalog.meta().delete_topic(&name, id).await?;
            broker.0.catalog.forget(&name);
            broker.settle_links().await;
            broker.0.queues.forget(&name, id);
            broker.0.checkers.forget(id);
            tracing::info!(topic = %name, %id, "topic deleted");
            // Who deletes to make room finds it made, unless there are very many files, or the disk hangs.
            let _ = timeout(FILES_WAIT, tokio::spawn(broker.delete_files(name, id))).await;
            Ok(())
        })
        .await
    }

    /// Removes the files of a topic that the metastore has no more.
    async fn delete_files(self, name: Arc<str>, id: Incarnation) {
        let (store, deleted) = (self.0.store.clone(), Arc::clone(&name));
        match self.0.runtime.run_blocking(&name, move || store.delete_topic(&deleted, id)).await {
            // Of this incarnation there may be more, set aside by an earlier one.
            Ok(()) => self.reclaim(|directory| directory.topic == name).await,
            Err(error) => {
                self.0.runtime.metrics().error("broker", "delete_files");
                tracing::error!(topic = %name, %id, %error, "the files of a deleted topic could not be removed");
            }
        }
    }
}

fn non_zero(value: Option<u32>) -> Option<u32> {
    value.filter(|&value| value > 0)
}

fn check_partitions(partitions: u32, defaults: &TopicDefaults) -> Result<(), BrokerError> {
    if (MIN_PARTITIONS..=defaults.max_partitions).contains(&partitions) {
        return Ok(());
    }
    let reason = format!("{MIN_PARTITIONS} to {}, not {partitions}", defaults.max_partitions);
    Err(BrokerError::invalid("partitions", reason))
}

fn check_retention(ms: u64) -> Result<u64, BrokerError> {
    if ms == 0 || (MIN_RETENTION_MS..=MAX_TOPIC_MS).contains(&ms) {
        return Ok(ms);
    }
    Err(BrokerError::invalid(
        "retention_ms",
        format!("0 (for ever), or {MIN_RETENTION_MS} to {MAX_TOPIC_MS}"),
    ))
}

/// A cap of 0 means the default.
fn check_cap(name: &'static str, cap: u32, default: u32) -> Result<u32, BrokerError> {
    match cap {
        0 => Ok(default),
        cap if cap <= MAX_CAP => Ok(cap),
        _ => Err(BrokerError::invalid(name, format!("at most {MAX_CAP}"))),
    }
}
