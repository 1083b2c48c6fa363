//! `/v1/topics`: create, list, look at, change, delete.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

use super::{
    ApiError, App, PATTERN_OF_NAMES, access,
    params::{Query, TopicPath, json_body},
    schemas,
    up_to::{Cap, Milliseconds, Ordinal, Partitions, UpTo},
};
use crate::{
    broker::{ChildOf, MAX_DELAY_MS, NewTopic, PartitionReport, PartitionStatus, TopicEdit},
    config::MIN_RETENTION_MS,
    meta::{Action, ParentLink, Topic, TopicChange},
    security::Caller,
};

const DEFAULT_PAGE: u64 = 100;

/// A topic, as clients see it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Topic")]
pub(super) struct TopicObject<'a> {
    name: &'a str,
    /// Tells this life of the name from others.
    #[schemars(regex(pattern = "^[0-9a-f]{16}$"))]
    id: String,
    partitions: u32,
    retention_ms: u64,
    /// The policy of its own, if it has one; `retention_ms` is then that of `age`, and else 0.
    #[schemars(with = "Option<PluginSpec>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    retention: Option<&'a Value>,
    /// The codec of its own, if it has one.
    #[schemars(with = "Option<PluginSpec>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    codec: Option<&'a Value>,
    visibility_timeout_ms: u64,
    max_in_flight_per_partition: u32,
    max_acked_ahead_per_partition: u32,
    /// Unix seconds.
    created_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    #[schemars(extend("enum" = ["standalone", "parent", "child"]))]
    role: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<&'a str>,
    #[serde(flatten)]
    parent: Option<ParentFields<'a>>,
}

/// What the object of a child has more.
#[derive(Serialize, JsonSchema)]
struct ParentFields<'a> {
    parent: &'a str,
    attach_epoch: String,
    fanout_delay_ms: u64,
    /// By partition of the parent.
    attach_offsets: Vec<u64>,
}

impl<'a> ParentFields<'a> {
    fn new(link: &'a ParentLink) -> Self {
        Self {
            parent: &link.name,
            attach_epoch: format!("{:016x}", link.epoch),
            fanout_delay_ms: link.delay_ms,
            attach_offsets: link.offsets.iter().map(|offset| offset.get()).collect(),
        }
    }
}

impl<'a> TopicObject<'a> {
    pub(super) fn new(topic: &'a Topic) -> Self {
        Self {
            name: &topic.name,
            id: topic.id.to_string(),
            partitions: topic.partitions,
            retention_ms: topic.retention_ms,
            retention: topic.retention.as_ref(),
            codec: topic.codec.as_ref(),
            visibility_timeout_ms: topic.visibility_timeout_ms,
            max_in_flight_per_partition: topic.max_in_flight_per_partition,
            max_acked_ahead_per_partition: topic.max_acked_ahead_per_partition,
            created_at: topic.created_at_ms.div_euclid(1000),
            owner: topic.owner.as_deref(),
            role: match (&topic.parent, topic.children.as_slice()) {
                (Some(_), _) => "child",
                (None, []) => "standalone",
                (None, _) => "parent",
            },
            children: topic.children.iter().map(|link| &*link.name).collect(),
            parent: topic.parent.as_ref().map(ParentFields::new),
        }
    }
}

/// A plugin: its name, or an object with its `name` and its own keys.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "it is what the document says of a value that the registry reads")]
pub(super) enum PluginSpec {
    Name(String),
    Configured(Configured),
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "as above")]
pub(super) struct Configured {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateBody {
    #[schemars(regex(pattern = PATTERN_OF_NAMES), extend("not" = {"enum": [".", ".."]}))]
    name: String,
    /// 0 means the default.
    #[schemars(extend("not" = {"enum": [1, 2]}))]
    partitions: Option<Partitions>,
    /// 0 keeps for ever.
    #[schemars(extend("not" = {"exclusiveMinimum": 0, "exclusiveMaximum": MIN_RETENTION_MS}))]
    retention_ms: Option<Milliseconds>,
    /// A retention policy instead of `retention_ms`.
    #[schemars(with = "Option<PluginSpec>")]
    retention: Option<Value>,
    /// The codec for new frames instead of the server's.
    #[schemars(with = "Option<PluginSpec>")]
    codec: Option<Value>,
    /// 0 means the default.
    visibility_timeout_ms: Option<Milliseconds>,
    /// 0 means the default.
    max_in_flight_per_partition: Option<Cap>,
    /// 0 means the default.
    max_acked_ahead_per_partition: Option<Cap>,
    /// A JSON Schema that every message must be valid against.
    #[schemars(with = "Value", extend("type" = ["object", "boolean", "null"]))]
    #[serde(default)]
    schema: Option<Box<RawValue>>,
    /// Not looked at: whoever creates a topic owns it. Existing clients send it.
    #[schemars(with = "Option<Value>")]
    #[serde(default, rename = "owner")]
    _owner: Option<IgnoredAny>,
    /// The topic that it is to be a child of.
    parent: Option<String>,
    /// How long after its commit to the parent a message reaches the child.
    fanout_delay_ms: Option<UpTo<MAX_DELAY_MS>>,
}

pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    body: Bytes,
) -> Result<Response, ApiError> {
    let body: CreateBody = json_body(&body)?;
    access::granted(&caller, Action::Create, &body.name)?;
    let parent = match parent_of(body.parent, body.fanout_delay_ms.map(UpTo::get))? {
        Some((parent, delay_ms)) => {
            Some(ChildOf { parent: access::owned(&app, &caller, &parent).await?, delay_ms })
        }
        None => None,
    };
    let new = NewTopic {
        name: body.name,
        partitions: body.partitions.map(UpTo::get_u32),
        retention_ms: body.retention_ms.map(UpTo::get),
        retention: body.retention,
        codec: body.codec,
        visibility_timeout_ms: body.visibility_timeout_ms.map(UpTo::get),
        max_in_flight_per_partition: body.max_in_flight_per_partition.map(UpTo::get_u32),
        max_acked_ahead_per_partition: body.max_acked_ahead_per_partition.map(UpTo::get_u32),
        schema: body.schema.map(text_of),
        from_outside: !caller.is_admin(),
        owner: caller.name().cloned(),
        parent,
    };
    let topic = app.broker().create_topic(new).await?;
    Ok((StatusCode::CREATED, Json(TopicObject::new(&topic))).into_response())
}

/// The parent's name and the delay. An empty name is none, as existing clients send it.
fn parent_of(parent: Option<String>, delay_ms: Option<u64>) -> Result<Option<(String, u64)>, ApiError> {
    match (parent.filter(|parent| !parent.is_empty()), delay_ms.unwrap_or(0)) {
        (Some(parent), delay_ms) => Ok(Some((parent, delay_ms))),
        (None, 0) => Ok(None),
        (None, _) => Err(ApiError::bad_request("fanout_delay_ms: only a topic with a parent has a delay")),
    }
}

/// A schema, as it was written.
fn text_of(schema: Box<RawValue>) -> String {
    String::from(Box::<str>::from(schema))
}

pub(super) async fn list(State(app): State<App>, caller: Caller, query: Query) -> Result<Response, ApiError> {
    // Beyond the broker's largest page the page is that one: the token leads on.
    let limit = query.number_from("limit", 1, u64::from(u32::MAX))?.unwrap_or(DEFAULT_PAGE);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // A token is the last name of the page before; that need not exist any more.
    let after = query.text("page_token")?.filter(|token| !token.is_empty());
    let page = app.broker().topics(&caller, after, limit).await?;
    let next = page.topics.last().filter(|_| page.more).map(|topic| topic.name.as_ref().to_owned());
    let topics = page.topics.iter().map(TopicObject::new).collect();
    Ok(Json(TopicPage { topics, next_page_token: next.unwrap_or_default() }).into_response())
}

#[derive(Serialize, JsonSchema)]
pub(super) struct TopicPage<'a> {
    topics: Vec<TopicObject<'a>>,
    next_page_token: String,
}

/// A partition, as clients see it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Partition")]
pub(super) struct PartitionObject<'a> {
    index: u32,
    segments: usize,
    oldest_offset: u64,
    next_offset: u64,
    high_watermark: u64,
    /// The oldest offset that is not acked.
    consumer_offset: u64,
    /// Messages from there to the high watermark.
    lag_messages: u64,
    size_bytes: u64,
    /// Unix seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_segment_at: Option<i64>,
    owner_node: &'a str,
    #[schemars(extend("enum" = ["ok", "poisoned", "unavailable"]))]
    status: &'static str,
}

impl<'a> PartitionObject<'a> {
    fn new(report: &PartitionReport, owner_node: &'a str) -> Self {
        let stats = report.stats.clone().unwrap_or_default();
        let oldest = stats.oldest.get();
        // What a closed partition's files do not state is not guessed at beyond what they do.
        let high_watermark = stats.high_watermark.or(stats.next).map_or(oldest, |offset| offset.get());
        // Positions are brought into the log's bounds when they are used, and not when they are looked at.
        let unacked = report.frontier.map_or(0, |frontier| frontier.get().saturating_add(1));
        let consumer_offset = unacked.clamp(oldest, high_watermark.max(oldest));
        Self {
            index: report.partition.0,
            segments: stats.segments,
            oldest_offset: oldest,
            next_offset: stats.next.map_or(high_watermark, |offset| offset.get()),
            high_watermark,
            consumer_offset,
            lag_messages: high_watermark.saturating_sub(consumer_offset),
            size_bytes: stats.bytes,
            oldest_segment_at: stats.oldest_segment_ms.map(|ms| ms.div_euclid(1000)),
            owner_node,
            status: match report.status {
                PartitionStatus::Ok => "ok",
                PartitionStatus::Poisoned => "poisoned",
                PartitionStatus::Unavailable => "unavailable",
            },
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(super) struct DescribedTopic<'a> {
    #[serde(flatten)]
    topic: TopicObject<'a>,
    schema_version: u32,
    /// Absent when there is none.
    #[schemars(with = "Option<Value>", extend("type" = ["object", "boolean"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Box<RawValue>>,
    partition_stats: Vec<PartitionObject<'a>>,
}

pub(super) async fn describe(
    State(app): State<App>,
    caller: Caller,
    TopicPath(topic): TopicPath,
    query: Query,
) -> Result<Response, ApiError> {
    access::visible(&app, &caller, &topic).await?;
    let (topic, reports) = app.broker().describe(&topic, query.partition()?).await?;
    let schema = app.broker().current_schema(&topic).await?;
    let node = app.broker().node_id();
    let described = DescribedTopic {
        topic: TopicObject::new(&topic),
        schema_version: topic.schema_version,
        schema: schema.as_deref().map(schemas::raw).transpose()?,
        partition_stats: reports.iter().map(|report| PartitionObject::new(report, node)).collect(),
    };
    Ok(Json(described).into_response())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateBody {
    /// 0 keeps for ever.
    #[schemars(extend("not" = {"exclusiveMinimum": 0, "exclusiveMaximum": MIN_RETENTION_MS}))]
    retention_ms: Option<Milliseconds>,
    /// A retention policy instead of `retention_ms`.
    #[schemars(with = "Option<PluginSpec>")]
    retention: Option<Value>,
    /// The codec for later frames; those that were written before stay readable.
    #[schemars(with = "Option<PluginSpec>")]
    codec: Option<Value>,
    /// 0 means the default.
    max_in_flight_per_partition: Option<Cap>,
    /// 0 means the default.
    max_acked_ahead_per_partition: Option<Cap>,
    /// They only grow.
    #[schemars(range(min = 3))]
    partitions: Option<Partitions>,
    /// A JSON Schema that takes all that the current one takes.
    #[schemars(with = "Value", extend("type" = ["object", "boolean", "null"]))]
    #[serde(default)]
    schema: Option<Box<RawValue>>,
    /// The version that `schema` was made from.
    schema_base_version: Option<Ordinal>,
    /// Fixed when the topic is created.
    #[schemars(with = "()")]
    #[serde(default)]
    visibility_timeout_ms: Option<Value>,
}

pub(super) async fn update(
    State(app): State<App>,
    caller: Caller,
    TopicPath(topic): TopicPath,
    body: Bytes,
) -> Result<Response, ApiError> {
    let topic = access::owned(&app, &caller, &topic).await?;
    let body: UpdateBody = json_body(&body)?;
    if body.visibility_timeout_ms.is_some() {
        return Err(ApiError::bad_request("visibility_timeout_ms: fixed when the topic is created"));
    }
    let settings = TopicChange {
        retention_ms: body.retention_ms.map(UpTo::get),
        retention: body.retention,
        codec: None,
        max_in_flight_per_partition: body.max_in_flight_per_partition.map(UpTo::get_u32),
        max_acked_ahead_per_partition: body.max_acked_ahead_per_partition.map(UpTo::get_u32),
        partitions: body.partitions.map(UpTo::get_u32),
        schema: None,
    };
    let schema = body.schema.map(text_of);
    let edit = TopicEdit {
        settings,
        codec: body.codec,
        from_outside: !caller.is_admin(),
        schema,
        schema_base_version: body.schema_base_version.map(UpTo::get_u32),
    };
    let topic = app.broker().update_topic(&topic, edit).await?;
    Ok(Json(TopicObject::new(&topic)).into_response())
}

pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    TopicPath(topic): TopicPath,
) -> Result<StatusCode, ApiError> {
    let topic = access::owned(&app, &caller, &topic).await?;
    app.broker().delete_topic(&topic).await?;
    Ok(StatusCode::NO_CONTENT)
}
