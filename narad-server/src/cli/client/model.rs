//! Topics and users as `/v1` writes them. What a newer server adds is kept and shown to programs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, value::RawValue};

/// A topic to be created; what is absent takes the server's default.
#[derive(Debug, Default, Serialize)]
pub(crate) struct NewTopic {
    /// Its name.
    pub(crate) name: String,
    /// What else was asked for.
    #[serde(flatten)]
    pub(crate) settings: TopicChange,
    /// How long a lease lasts; fixed for the topic's life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) visibility_timeout_ms: Option<u64>,
    /// Makes it the child of this topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<String>,
    /// How old a message of the parent is when it is copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fanout_delay_ms: Option<u64>,
}

/// What a topic that is made of a directory is to be like.
#[derive(Debug, Default, Serialize)]
pub(crate) struct AdoptedTopic {
    /// What was asked for.
    #[serde(flatten)]
    pub(crate) settings: TopicChange,
    /// How long a lease lasts; fixed for the topic's life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) visibility_timeout_ms: Option<u64>,
}

/// Settings of a topic that can change.
#[derive(Debug, Default, Serialize)]
pub(crate) struct TopicChange {
    /// Partitions; they only grow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) partitions: Option<u32>,
    /// How long messages are kept; 0 for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retention_ms: Option<u64>,
    /// A retention policy of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retention: Option<Value>,
    /// A codec of its own, for the frames to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) codec: Option<Value>,
    /// Messages of a partition that may be leased at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_in_flight_per_partition: Option<u32>,
    /// Messages of a partition that may be acked ahead of its oldest unsettled one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_acked_ahead_per_partition: Option<u32>,
    /// The JSON Schema that every message must be valid against, as it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) schema: Option<Box<RawValue>>,
}

/// The versions of a topic's schema.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Schemas {
    /// The topic.
    pub(crate) topic: String,
    /// The current version; 0 when there is none.
    pub(crate) version: u32,
    /// All of them, the oldest first.
    pub(crate) versions: Vec<SchemaVersion>,
}

/// A version of a topic's schema.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SchemaVersion {
    /// Its number.
    pub(crate) version: u32,
    /// As it was written.
    pub(crate) schema: Box<RawValue>,
}

/// A topic.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Topic {
    /// Its name.
    pub(crate) name: String,
    /// Tells this life of the name from others.
    pub(crate) id: String,
    /// Partitions.
    pub(crate) partitions: u32,
    /// How long messages are kept; 0 for ever.
    pub(crate) retention_ms: u64,
    /// How long a lease lasts.
    pub(crate) visibility_timeout_ms: u64,
    /// Messages of a partition that may be leased at once.
    pub(crate) max_in_flight_per_partition: u32,
    /// Messages of a partition that may be acked ahead of its oldest unsettled one.
    pub(crate) max_acked_ahead_per_partition: u32,
    /// Unix seconds.
    pub(crate) created_at: Number,
    /// Statistics, where they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) partition_stats: Vec<PartitionStats>,
    /// Everything else.
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

/// What a partition holds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PartitionStats {
    /// Its number.
    pub(crate) index: u32,
    /// Segment files.
    #[serde(default)]
    pub(crate) segments: u64,
    /// The oldest offset kept.
    #[serde(default)]
    pub(crate) oldest_offset: Option<u64>,
    /// The offset of the next record.
    #[serde(default)]
    pub(crate) next_offset: Option<u64>,
    /// The exclusive bound of what can be read.
    #[serde(default)]
    pub(crate) high_watermark: Option<u64>,
    /// The oldest offset that is not acked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) consumer_offset: Option<u64>,
    /// Messages from there to the high watermark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lag_messages: Option<u64>,
    /// Bytes of all segment files.
    #[serde(default)]
    pub(crate) size_bytes: u64,
    /// How it is.
    #[serde(default)]
    pub(crate) status: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

/// A page of topics.
#[derive(Debug, Deserialize)]
pub(crate) struct TopicPage {
    /// In name order.
    pub(crate) topics: Vec<Topic>,
    /// Asks for the next page; empty on the last.
    #[serde(default)]
    pub(crate) next_page_token: String,
}

/// What is to become the child of a topic.
#[derive(Debug, Serialize)]
pub(crate) struct Attach {
    /// The topic.
    pub(crate) child: String,
    /// How old a message is when it is copied.
    pub(crate) delay_ms: u64,
}

/// The children of a topic.
#[derive(Debug, Deserialize)]
pub(crate) struct Children {
    /// By name.
    pub(crate) children: Vec<Child>,
}

/// A child of a topic.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Child {
    /// Its name.
    pub(crate) name: String,
    /// How old a message is when it is copied.
    pub(crate) delay_ms: u64,
    /// Messages that it has not got yet.
    pub(crate) lag_messages: u64,
    /// Whether these are all.
    pub(crate) lag_complete: bool,
    /// Everything else.
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

/// Directories that no topic has.
#[derive(Debug, Deserialize)]
pub(crate) struct Directories {
    /// By name.
    pub(crate) directories: Vec<Directory>,
}

/// A directory that no topic has.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Directory {
    /// Its name.
    pub(crate) directory: String,
    /// The name that its topic had.
    pub(crate) topic: String,
    /// Which life of the name it belongs to, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// Partitions in it.
    pub(crate) partitions: u32,
    /// Whether the server has set it aside.
    pub(crate) quarantined: bool,
    /// Everything else.
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

/// A user.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct User {
    /// Its name.
    pub(crate) username: String,
    /// Whether it is the first one, which may do everything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) root: bool,
    /// What it may do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) grants: Vec<Grant>,
    /// Everything else.
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

/// Leave to do something with some topics.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// What.
    pub(crate) action: String,
    /// Topics, or prefixes that end in `*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) patterns: Vec<String>,
}

/// How ready a broker says it is.
#[derive(Debug, Deserialize)]
pub(crate) struct Readiness {
    /// `ready`.
    pub(crate) status: String,
    /// What does not work, each with its reason.
    #[serde(default)]
    pub(crate) degraded: Vec<String>,
}

/// The nodes of a cluster.
#[derive(Debug, Deserialize)]
pub(crate) struct Members {
    /// The one.
    pub(crate) members: Vec<Member>,
}

/// A node.
#[derive(Debug, Deserialize)]
pub(crate) struct Member {
    /// Its name.
    pub(crate) id: String,
    /// The version of narad that it runs, if it says so.
    #[serde(default)]
    pub(crate) version: Option<String>,
}
