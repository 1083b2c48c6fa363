//! The tables of the embedded metastore. A table's name and types are part of the file's format.

use redb::{Key, ReadOnlyTable, ReadTransaction, TableDefinition, TableError, Value};

use super::failure::Failure;

/// A table that is not in a file of before there was one.
pub(super) fn open_if_there<K: Key + 'static, V: Value + 'static>(
    transaction: &ReadTransaction,
    table: TableDefinition<'_, K, V>,
) -> Result<Option<ReadOnlyTable<K, V>>, Failure> {
    match transaction.open_table(table) {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Topic records by name.
pub(super) const TOPICS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("topics");
/// Names by their lower-case form, so that no two differ in case alone.
pub(super) const FOLDED: TableDefinition<'_, &str, &str> = TableDefinition::new("topics_folded");
/// The names of topics that were deleted, by the hexadecimal incarnation. Not in a file of before there was one.
pub(super) const DELETED: TableDefinition<'_, &str, &str> = TableDefinition::new("topics_deleted");
/// User records by name. Not in a file of before there was one.
pub(super) const USERS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("users");
/// Numbers of the store itself: `version`.
pub(super) const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
/// The versions of topics' schemas, by the hexadecimal incarnation and the version, counted from 1. Not in a file of
/// before there was one.
pub(super) const SCHEMAS: TableDefinition<'_, (&str, u32), &str> = TableDefinition::new("topic_schemas");
/// The parents' names by those of their children. Not in a file of before there were links.
pub(super) const LINKS: TableDefinition<'_, &str, &str> = TableDefinition::new("links");
