//! The versions of topics' schemas in the embedded metastore: written in the transaction that changes the topic.

use std::sync::Arc;

use narad_core::plugin::Incarnation;
use redb::{ReadTransaction, ReadableTable, WriteTransaction};

use super::{
    SchemaVersion,
    failure::Failure,
    tables::{SCHEMAS, open_if_there},
};

/// Writes one version.
pub(super) fn put(
    transaction: &WriteTransaction,
    id: Incarnation,
    version: u32,
    text: &str,
) -> Result<(), Failure> {
    transaction.open_table(SCHEMAS)?.insert((id.to_string().as_str(), version), text)?;
    Ok(())
}

/// Gives a topic that has none the versions of another, up to `version`.
pub(super) fn copy(
    transaction: &WriteTransaction,
    from: Incarnation,
    version: u32,
    to: Incarnation,
) -> Result<(), Failure> {
    if version == 0 {
        return Ok(());
    }
    let mut table = transaction.open_table(SCHEMAS)?;
    let (from, to) = (from.to_string(), to.to_string());
    for version in 1..=version {
        let text = table.get((from.as_str(), version))?.map(|text| text.value().to_owned());
        if let Some(text) = text {
            table.insert((to.as_str(), version), text.as_str())?;
        }
    }
    Ok(())
}

/// Whether version `version` of both is the same text.
pub(super) fn same(
    transaction: &WriteTransaction,
    one: Incarnation,
    other: Incarnation,
    version: u32,
) -> Result<bool, Failure> {
    if version == 0 {
        return Ok(true);
    }
    let table = transaction.open_table(SCHEMAS)?;
    let one = table.get((one.to_string().as_str(), version))?;
    let other = table.get((other.to_string().as_str(), version))?;
    Ok(one.zip(other).is_some_and(|(one, other)| one.value() == other.value()))
}

/// Removes all of a topic's versions.
pub(super) fn remove(transaction: &WriteTransaction, id: Incarnation) -> Result<(), Failure> {
    let id = id.to_string();
    transaction.open_table(SCHEMAS)?.retain_in((id.as_str(), 0)..=(id.as_str(), u32::MAX), |_, _| false)?;
    Ok(())
}

/// All of a topic's versions, in order.
pub(super) fn all(transaction: &ReadTransaction, id: Incarnation) -> Result<Vec<SchemaVersion>, Failure> {
    let Some(table) = open_if_there(transaction, SCHEMAS)? else { return Ok(Vec::new()) };
    let id = id.to_string();
    let versions = table.range((id.as_str(), 0)..=(id.as_str(), u32::MAX))?.map(|entry| {
        let (key, text) = entry?;
        Ok(SchemaVersion { version: key.value().1, text: text.value().into() })
    });
    versions.collect()
}

/// One of a topic's versions.
pub(super) fn one(
    transaction: &ReadTransaction,
    id: Incarnation,
    version: u32,
) -> Result<Option<Arc<str>>, Failure> {
    let Some(table) = open_if_there(transaction, SCHEMAS)? else { return Ok(None) };
    Ok(table.get((id.to_string().as_str(), version))?.map(|text| text.value().into()))
}
