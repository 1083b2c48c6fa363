//! How a topic is stored: JSON with the number of its layout, so that a later layout can read an earlier one.

use narad_core::{format::Offset, plugin::Incarnation};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{ChildLink, MetaError, ParentLink, Topic};

/// The newest layout that this program reads: a topic with plugins of its own, which a program that knows of none must not
/// write to or delete from.
const LAYOUT: u32 = 3;
/// The layout of a topic with a schema and without plugins.
const WITHOUT_PLUGINS: u32 = 2;
/// The layout of a topic without a schema: one that programs read which know of none.
const WITHOUT_SCHEMA: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Stored {
    layout: u32,
    id: String,
    partitions: u32,
    retention_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retention: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    codec: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    former_codecs: Vec<Value>,
    visibility_timeout_ms: u64,
    max_in_flight_per_partition: u32,
    max_acked_ahead_per_partition: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    schema_version: u32,
    created_at_ms: i64,
    /// Not in a record of before there were users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    children: Vec<StoredLink>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<StoredLink>,
    version: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// One end of a link, as the record of the other has it.
#[derive(Serialize, Deserialize)]
struct StoredLink {
    name: String,
    id: String,
    epoch: u64,
    delay_ms: u64,
    /// In the record of a child alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    offsets: Vec<u64>,
}

#[derive(Deserialize)]
struct Layout {
    layout: u32,
}

/// What `bytes` hold, if their layout is one of those up to `newest`; else what does not fit.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8], newest: u32) -> Result<T, String> {
    let Layout { layout } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if layout > newest {
        return Err(format!("its layout is {layout}, and this program knows those up to {newest}"));
    }
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

/// The stored form of `topic`; its name is the key.
pub(super) fn encode(topic: &Topic) -> Result<Vec<u8>, MetaError> {
    let stored = Stored {
        layout: layout_of(topic),
        id: topic.id.to_string(),
        partitions: topic.partitions,
        retention_ms: topic.retention_ms,
        retention: topic.retention.clone(),
        codec: topic.codec.clone(),
        former_codecs: topic.former_codecs.clone(),
        visibility_timeout_ms: topic.visibility_timeout_ms,
        max_in_flight_per_partition: topic.max_in_flight_per_partition,
        max_acked_ahead_per_partition: topic.max_acked_ahead_per_partition,
        schema_version: topic.schema_version,
        created_at_ms: topic.created_at_ms,
        owner: topic.owner.as_deref().map(str::to_owned),
        children: topic.children.iter().map(StoredLink::of_child).collect(),
        parent: topic.parent.as_ref().map(StoredLink::of_parent),
        version: topic.version,
    };
    serde_json::to_vec(&stored).map_err(|error| unreadable(&topic.name, error.to_string()))
}

fn layout_of(topic: &Topic) -> u32 {
    if topic.retention.is_some() || topic.codec.is_some() {
        LAYOUT
    } else if topic.schema_version > 0 {
        WITHOUT_PLUGINS
    } else {
        WITHOUT_SCHEMA
    }
}

/// The topic called `name` that `bytes` describe.
pub(super) fn decode(name: &str, bytes: &[u8]) -> Result<Topic, MetaError> {
    let stored: Stored = read(bytes, LAYOUT).map_err(|reason| unreadable(name, reason))?;
    let id = incarnation(name, &stored.id)?;
    let child = |link: StoredLink| link.into_child(name);
    Ok(Topic {
        name: name.into(),
        id,
        partitions: stored.partitions,
        retention_ms: stored.retention_ms,
        retention: stored.retention,
        codec: stored.codec,
        former_codecs: stored.former_codecs,
        visibility_timeout_ms: stored.visibility_timeout_ms,
        max_in_flight_per_partition: stored.max_in_flight_per_partition,
        max_acked_ahead_per_partition: stored.max_acked_ahead_per_partition,
        schema_version: stored.schema_version,
        created_at_ms: stored.created_at_ms,
        owner: stored.owner.map(Into::into),
        children: stored.children.into_iter().map(child).collect::<Result<_, _>>()?,
        parent: stored.parent.map(|link| link.into_parent(name)).transpose()?,
        version: stored.version,
    })
}

impl StoredLink {
    fn of_child(link: &ChildLink) -> Self {
        let ChildLink { name, id, epoch, delay_ms } = link;
        let (name, id) = (name.to_string(), id.to_string());
        Self { name, id, epoch: *epoch, delay_ms: *delay_ms, offsets: Vec::new() }
    }

    fn of_parent(link: &ParentLink) -> Self {
        let ParentLink { name, id, epoch, delay_ms, offsets } = link;
        let (name, id) = (name.to_string(), id.to_string());
        let offsets = offsets.iter().map(|offset| offset.get()).collect();
        Self { name, id, epoch: *epoch, delay_ms: *delay_ms, offsets }
    }

    fn into_child(self, of: &str) -> Result<ChildLink, MetaError> {
        let Self { name, id, epoch, delay_ms, .. } = self;
        Ok(ChildLink { name: name.into(), id: incarnation(of, &id)?, epoch, delay_ms })
    }

    fn into_parent(self, of: &str) -> Result<ParentLink, MetaError> {
        let Self { name, id, epoch, delay_ms, offsets } = self;
        let offset =
            |value: u64| Offset::new(value).ok_or_else(|| unreadable(of, format!("{value} is no offset")));
        let offsets = offsets.into_iter().map(offset).collect::<Result<_, _>>()?;
        Ok(ParentLink { name: name.into(), id: incarnation(of, &id)?, epoch, delay_ms, offsets })
    }
}

fn incarnation(of: &str, text: &str) -> Result<Incarnation, MetaError> {
    text.parse().map_err(|_| unreadable(of, format!("the id {text:?} is not 16 hex digits")))
}

fn unreadable(name: &str, reason: String) -> MetaError {
    MetaError::Unreadable { name: name.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::{super::TopicName, *};

    #[test]
    fn a_record_reads_back_and_a_later_layout_is_refused() {
        let mut topic = Topic::new(TopicName::new("t").unwrap(), Incarnation::new(7), 3, 5);
        topic.retention_ms = 3_600_000;
        topic.owner = Some("somebody".into());
        let before_links = encode(&topic).unwrap();
        assert!(!String::from_utf8(before_links.clone()).unwrap().contains("parent"));
        assert_eq!(decode("t", &before_links).unwrap(), topic);
        let (name, id, epoch, delay_ms) = ("other".into(), Incarnation::new(8), 9, 10);
        let offsets = [Offset::ZERO, 5u32.into()].into();
        topic.children.push(ChildLink { name: "c".into(), id, epoch, delay_ms });
        topic.parent = Some(ParentLink { name, id, epoch, delay_ms, offsets });
        let bytes = encode(&topic).unwrap();
        assert_eq!(decode("t", &bytes).unwrap(), topic);
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(
            text.contains("\"layout\":1") && !text.contains("schema"),
            "what older programs read: {text}"
        );
        let mut with_schema = topic.clone();
        with_schema.schema_version = 3;
        let stored = encode(&with_schema).unwrap();
        assert!(String::from_utf8_lossy(&stored).contains("\"layout\":2"));
        assert_eq!(decode("t", &stored).unwrap(), with_schema);
        let mut with_plugins = topic.clone();
        with_plugins.retention = Some("size".into());
        with_plugins.codec = Some(serde_json::json!({ "name": "zstd", "level": 3 }));
        with_plugins.former_codecs = vec!["none".into()];
        let stored = encode(&with_plugins).unwrap();
        assert!(String::from_utf8_lossy(&stored).contains("\"layout\":3"));
        assert_eq!(decode("t", &stored).unwrap(), with_plugins);
        let later = String::from_utf8(bytes).unwrap().replace("\"layout\":1", "\"layout\":4");
        assert!(matches!(decode("t", later.as_bytes()), Err(MetaError::Unreadable { .. })));
    }
}
