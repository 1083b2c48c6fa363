//! Changes of links inside a transaction of the embedded metastore: both ends change together, or neither does.

use std::{collections::HashMap, sync::Arc};

use narad_core::plugin::Incarnation;
use redb::{ReadTransaction, ReadableTable, Table, WriteTransaction};

use super::{
    Link, Linked, MetaError, NewLink, SchemaChange, Topic,
    failure::Failure,
    link::{ChildLink, ParentLink, check_link},
    record, schemas,
    tables::{LINKS, TOPICS, open_if_there},
};

type Topics<'txn> = Table<'txn, &'static str, &'static [u8]>;

/// The topic `name` in `topics`, when its incarnation is `id`.
pub(super) fn expect_topic(
    topics: &impl ReadableTable<&'static str, &'static [u8]>,
    name: &str,
    id: Incarnation,
) -> Result<Topic, Failure> {
    let stored = topics.get(name)?.map(|bytes| record::decode(name, bytes.value())).transpose()?;
    stored
        .filter(|topic| topic.id == id)
        .ok_or_else(|| Failure::Refused(MetaError::NotFound { name: name.to_owned() }))
}

/// Writes a record that was changed at `version`.
pub(super) fn put(topics: &mut Topics<'_>, topic: &mut Topic, version: u64) -> Result<(), Failure> {
    topic.version = version;
    topics.insert(&*topic.name, record::encode(topic)?.as_slice())?;
    Ok(())
}

/// Links `child`, which is written with it, to the parent that `link` names. The version is the link's epoch: it is
/// never given twice.
pub(super) fn attach(
    transaction: &WriteTransaction,
    mut child: Topic,
    link: &NewLink,
    version: u64,
) -> Result<Linked, Failure> {
    let mut topics = transaction.open_table(TOPICS)?;
    let mut parent = expect_topic(&topics, &link.parent, link.parent_id)?;
    check_link(&parent, &child, link.delay_ms).map_err(MetaError::Link)?;
    if child.schema_version == 0 {
        schemas::copy(transaction, parent.id, parent.schema_version, child.id)?;
        child.schema_version = parent.schema_version;
    }
    let (epoch, delay_ms) = (version, link.delay_ms);
    child.parent = Some(ParentLink {
        name: Arc::clone(&parent.name),
        id: parent.id,
        epoch,
        delay_ms,
        offsets: Arc::clone(&link.offsets),
    });
    parent.children.push(ChildLink { name: Arc::clone(&child.name), id: child.id, epoch, delay_ms });
    parent.children.sort_by(|one, other| one.name.cmp(&other.name));
    put(&mut topics, &mut parent, version)?;
    put(&mut topics, &mut child, version)?;
    transaction.open_table(LINKS)?.insert(&*child.name, &*parent.name)?;
    Ok(Linked { parent, child })
}

/// Ends the link of `child` that began with `epoch`.
pub(super) fn detach(
    transaction: &WriteTransaction,
    child: &str,
    epoch: u64,
    version: u64,
) -> Result<(), Failure> {
    let mut topics = transaction.open_table(TOPICS)?;
    let stored = topics.get(child)?.map(|bytes| record::decode(child, bytes.value())).transpose()?;
    let linked = stored.filter(|topic| topic.parent.as_ref().is_some_and(|link| link.epoch == epoch));
    let Some(mut child) = linked else {
        return Err(Failure::Refused(MetaError::NotLinked { child: child.to_owned() }));
    };
    leave_parent(&mut topics, &mut child, version)?;
    put(&mut topics, &mut child, version)?;
    transaction.open_table(LINKS)?.remove(&*child.name)?;
    Ok(())
}

/// Ends every link of a topic that is about to be removed.
pub(super) fn unlink(
    transaction: &WriteTransaction,
    topics: &mut Topics<'_>,
    topic: &mut Topic,
    version: u64,
) -> Result<(), Failure> {
    if topic.parent.is_none() && topic.children.is_empty() {
        return Ok(());
    }
    leave_parent(topics, topic, version)?;
    let mut links = transaction.open_table(LINKS)?;
    links.remove(&*topic.name)?;
    for link in std::mem::take(&mut topic.children) {
        let mut child = expect_topic(topics, &link.name, link.id)?;
        child.parent = None;
        put(topics, &mut child, version)?;
        links.remove(&*link.name)?;
    }
    Ok(())
}

/// Gives a new version of a topic's schema to those of its children whose current one is the topic's: they have it from
/// there. A child that has gone its own way goes on on it.
pub(super) fn pass_schema_on(
    transaction: &WriteTransaction,
    topics: &mut Topics<'_>,
    topic: &Topic,
    schema: &SchemaChange,
    version: u64,
) -> Result<(), Failure> {
    for link in &topic.children {
        let mut child = expect_topic(topics, &link.name, link.id)?;
        if child.schema_version == schema.after
            && schemas::same(transaction, topic.id, child.id, schema.after)?
        {
            child.schema_version = schema.after.saturating_add(1);
            schemas::put(transaction, child.id, child.schema_version, &schema.text)?;
            put(topics, &mut child, version)?;
        }
    }
    Ok(())
}

fn leave_parent(topics: &mut Topics<'_>, child: &mut Topic, version: u64) -> Result<(), Failure> {
    let Some(link) = child.parent.take() else { return Ok(()) };
    let mut parent = expect_topic(topics, &link.name, link.id)?;
    parent.children.retain(|other| other.epoch != link.epoch);
    put(topics, &mut parent, version)
}

/// Every link, by the child's name.
pub(super) fn links(transaction: &ReadTransaction) -> Result<Vec<Link>, Failure> {
    let Some(table) = open_if_there(transaction, LINKS)? else { return Ok(Vec::new()) };
    let topics = transaction.open_table(TOPICS)?;
    let topic = |name: &str| -> Result<Option<Topic>, Failure> {
        Ok(topics.get(name)?.map(|bytes| record::decode(name, bytes.value())).transpose()?)
    };
    // A parent's record names all its children: read for each of them, it would cost the square of their number.
    let mut parents: HashMap<String, Option<(Incarnation, u32)>> = HashMap::new();
    let mut links = Vec::new();
    for entry in table.iter()? {
        let (child, parent) = entry?;
        let parent = match parents.get(parent.value()) {
            Some(&known) => known,
            None => {
                let read = topic(parent.value())?.map(|topic| (topic.id, topic.partitions));
                *parents.entry(parent.value().to_owned()).or_insert(read)
            }
        };
        let (Some(child), Some((id, parent_partitions))) = (topic(child.value())?, parent) else { continue };
        let Some(link) = child.parent.filter(|link| link.id == id) else { continue };
        links.push(Link { child: child.name, child_id: child.id, parent: link, parent_partitions });
    }
    Ok(links)
}
