//! A topic's record, and the names that a new one may have.

use std::{fmt, sync::Arc};

use narad_core::plugin::Incarnation;
use serde_json::Value;

use super::{ChildLink, ParentLink};

/// A topic, as the metastore knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Topic {
    /// Its name.
    pub name: Arc<str>,
    /// Tells this life of the name from others.
    pub id: Incarnation,
    /// Partitions; grows, never shrinks.
    pub partitions: u32,
    /// How long messages are kept, in milliseconds; 0 is for ever, or as `retention` says.
    pub retention_ms: u64,
    /// The retention policy that it has of its own: a plugin's name, or an object with a `name`.
    pub retention: Option<Value>,
    /// The codec for new frames that it has of its own, in the same form.
    pub codec: Option<Value>,
    /// The codecs that its frames were written with before, each once: what was written is read with them.
    pub former_codecs: Vec<Value>,
    /// How long a lease lasts, in milliseconds; fixed at creation.
    pub visibility_timeout_ms: u64,
    /// Leases out at once in one partition.
    pub max_in_flight_per_partition: u32,
    /// Messages acked out of order in one partition before it waits for the one that holds the frontier back.
    pub max_acked_ahead_per_partition: u32,
    /// The current version of its schema, counted from 1; 0 when it has none.
    pub schema_version: u32,
    /// Unix milliseconds.
    pub created_at_ms: i64,
    /// The user that created it, and may change, delete and link it. None when security was off, or the user is gone.
    pub owner: Option<Arc<str>>,
    /// The topics that its messages are copied to, by name.
    pub children: Vec<ChildLink>,
    /// The topic whose messages are copied to it.
    pub parent: Option<ParentLink>,
    /// The metastore's version at the topic's last change; the store fills it in.
    pub version: u64,
}

impl Topic {
    /// A topic that no store has seen yet, kept for ever and without room for leases until its fields are set.
    pub fn new(name: TopicName, id: Incarnation, partitions: u32, created_at_ms: i64) -> Self {
        Self {
            name: name.0,
            id,
            partitions,
            retention_ms: 0,
            retention: None,
            codec: None,
            former_codecs: Vec::new(),
            visibility_timeout_ms: 0,
            max_in_flight_per_partition: 0,
            max_acked_ahead_per_partition: 0,
            schema_version: 0,
            created_at_ms,
            owner: None,
            children: Vec::new(),
            parent: None,
            version: 0,
        }
    }
}

/// What of a topic is to change; `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicChange {
    /// The new retention in milliseconds; 0 is for ever. It takes the place of a policy of the topic's own.
    pub retention_ms: Option<u64>,
    /// The new policy of its own, which takes the place of the retention in milliseconds unless that is given too.
    pub retention: Option<Value>,
    /// The new codec.
    pub codec: Option<CodecChange>,
    /// The new bound of leases out at once.
    pub max_in_flight_per_partition: Option<u32>,
    /// The new bound of messages acked out of order.
    pub max_acked_ahead_per_partition: Option<u32>,
    /// The new number of partitions. A smaller one than there is changes nothing, so that two growths in flight
    /// cannot shrink a topic.
    pub partitions: Option<u32>,
    /// A new version of the schema.
    pub schema: Option<SchemaChange>,
}

/// A new codec of a topic's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodecChange {
    /// For the frames that are begun from now on.
    pub to: Value,
    /// What a topic without a codec of its own has been written with.
    pub default: Value,
}

/// A new version of a topic's schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaChange {
    /// The version that it follows; 0 when it is the first. Another current version by then, and nothing is changed.
    pub after: u32,
    /// The schema.
    pub text: Arc<str>,
}

/// One version of a topic's schema.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaVersion {
    /// Counted from 1.
    pub version: u32,
    /// The schema, as it was given.
    pub text: Arc<str>,
}

impl TopicChange {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn apply(&self, topic: &mut Topic) {
        if self.retention_ms.is_some() || self.retention.is_some() {
            topic.retention_ms = self.retention_ms.unwrap_or(0);
            topic.retention.clone_from(&self.retention);
        }
        if let Some(change) = &self.codec {
            change.apply(topic);
        }
        topic.max_in_flight_per_partition =
            self.max_in_flight_per_partition.unwrap_or(topic.max_in_flight_per_partition);
        topic.max_acked_ahead_per_partition =
            self.max_acked_ahead_per_partition.unwrap_or(topic.max_acked_ahead_per_partition);
        topic.partitions = self.partitions.unwrap_or(topic.partitions).max(topic.partitions);
        if let Some(schema) = &self.schema {
            topic.schema_version = schema.after.saturating_add(1);
        }
    }
}

impl CodecChange {
    fn apply(&self, topic: &mut Topic) {
        let before = topic.codec.replace(self.to.clone()).unwrap_or_else(|| self.default.clone());
        // A codec reads what it has written with another configuration.
        let (to, from) = (plugin_name(&self.to), plugin_name(&before));
        topic.former_codecs.retain(|former| ![to, from].contains(&plugin_name(former)));
        if to != from {
            topic.former_codecs.push(before);
        }
    }
}

/// The name of the plugin that `spec` asks for.
pub fn plugin_name(spec: &Value) -> Option<&str> {
    spec.as_str().or_else(|| spec.get("name")?.as_str())
}

/// A name that a new topic may have: 1 to 200 of `A-Z a-z 0-9 . _ -`, neither `.` nor `..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicName(Arc<str>);

/// The text cannot be a topic's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a topic's name is 1 to 200 of A-Z a-z 0-9 . _ -, and neither . nor ..")]
pub struct NameError;

impl TopicName {
    /// The name `text`.
    ///
    /// # Errors
    /// When no new topic may have it.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let usable = (1..=200).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
            && text != "."
            && text != "..";
        if usable { Ok(Self(text.into())) } else { Err(NameError) }
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_paths_are_none() {
        for name in ["orders", "A.b_c-9", "...", &"x".repeat(200)] {
            assert!(TopicName::new(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "a/b", "a\\b", "a b", "ä", "a\0", "%2e", &"x".repeat(201)] {
            assert!(TopicName::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_new_codec_is_remembered_beside_those_before_it_each_once() {
        let mut topic = Topic::new(TopicName::new("t").unwrap(), Incarnation::new(1), 3, 0);
        let mut formers = |to: Value| {
            let codec = Some(CodecChange { to, default: "none".into() });
            TopicChange { codec, ..TopicChange::default() }.apply(&mut topic);
            topic.former_codecs.iter().map(|spec| plugin_name(spec).unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(formers("none".into()), [""; 0]);
        assert_eq!(formers("zstd".into()), ["none"]);
        assert_eq!(formers(serde_json::json!({ "name": "zstd", "level": 9 })), ["none"]);
        assert_eq!(formers("lz4".into()), ["none", "zstd"]);
        assert_eq!(formers("none".into()), ["zstd", "lz4"]);
    }

    #[test]
    fn a_policy_and_milliseconds_take_each_others_place() {
        let mut topic = Topic::new(TopicName::new("t").unwrap(), Incarnation::new(1), 3, 0);
        let mut after = |retention_ms, retention: Option<&str>| {
            let retention = retention.map(Value::from);
            TopicChange { retention_ms, retention, ..TopicChange::default() }.apply(&mut topic);
            (topic.retention_ms, topic.retention.clone())
        };
        assert_eq!(after(Some(7), None), (7, None));
        assert_eq!(after(None, Some("size")), (0, Some("size".into())));
        assert_eq!(after(None, None), (0, Some("size".into())));
        assert_eq!(after(Some(9), None), (9, None));
    }

    #[test]
    fn a_growth_never_shrinks() {
        let mut topic = Topic::new(TopicName::new("t").unwrap(), Incarnation::new(1), 6, 0);
        TopicChange { partitions: Some(4), ..TopicChange::default() }.apply(&mut topic);
        assert_eq!(topic.partitions, 6);
        TopicChange { partitions: Some(9), ..TopicChange::default() }.apply(&mut topic);
        assert_eq!(topic.partitions, 9);
    }
}
