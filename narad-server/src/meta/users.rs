//! What the embedded metastore does with users, inside a transaction.

use redb::{ReadTransaction, ReadableTable, WriteTransaction};

use super::{
    MetaError, PasswordHash, User, UserChange,
    failure::Failure,
    linking::put,
    record,
    tables::{TOPICS, USERS, open_if_there},
    user_record,
};

pub(super) fn create(transaction: &WriteTransaction, user: &User, version: u64) -> Result<User, Failure> {
    let mut users = transaction.open_table(USERS)?;
    if users.get(&*user.name)?.is_some() {
        return Err(Failure::Refused(MetaError::UserExists { name: user.name.as_ref().to_owned() }));
    }
    let user = User { version, ..user.clone() };
    users.insert(&*user.name, user_record::encode(&user)?.as_slice())?;
    Ok(user)
}

pub(super) fn find(transaction: &ReadTransaction, name: &str) -> Result<Option<User>, Failure> {
    let Some(users) = open_if_there(transaction, USERS)? else { return Ok(None) };
    let stored = users.get(name)?;
    Ok(stored.map(|bytes| user_record::decode(name, bytes.value())).transpose()?)
}

pub(super) fn all(transaction: &ReadTransaction) -> Result<Vec<User>, Failure> {
    let Some(users) = open_if_there(transaction, USERS)? else { return Ok(Vec::new()) };
    users
        .iter()?
        .map(|entry| {
            let (name, bytes) = entry?;
            Ok(user_record::decode(name.value(), bytes.value())?)
        })
        .collect()
}

pub(super) fn update(
    transaction: &WriteTransaction,
    name: &str,
    change: &UserChange,
    version: u64,
) -> Result<User, Failure> {
    let mut users = transaction.open_table(USERS)?;
    let mut user = expect(&users, name)?;
    // The change itself may be there: an attempt that a full disk has failed at its last sync was made after all.
    let is_as_expected = |expected: &PasswordHash| {
        user.password == *expected || change.password.as_ref() == Some(&user.password)
    };
    if !change.if_password.as_ref().is_none_or(is_as_expected) {
        return Err(Failure::Refused(MetaError::UserChanged { name: name.to_owned() }));
    }
    change.apply(&mut user);
    user.version = version;
    users.insert(name, user_record::encode(&user)?.as_slice())?;
    Ok(user)
}

/// Removes the user, and its name from the topics that it owned.
pub(super) fn delete(transaction: &WriteTransaction, name: &str, version: u64) -> Result<(), Failure> {
    let mut users = transaction.open_table(USERS)?;
    expect(&users, name)?;
    users.remove(name)?;
    let mut topics = transaction.open_table(TOPICS)?;
    let mut owned = Vec::new();
    for entry in topics.iter()? {
        let (topic, bytes) = entry?;
        let topic = record::decode(topic.value(), bytes.value())?;
        if topic.owner.as_deref() == Some(name) {
            owned.push(topic);
        }
    }
    for mut topic in owned {
        topic.owner = None;
        put(&mut topics, &mut topic, version)?;
    }
    Ok(())
}

/// The user `name` in `users`.
pub(super) fn expect(
    users: &impl ReadableTable<&'static str, &'static [u8]>,
    name: &str,
) -> Result<User, Failure> {
    let stored = users.get(name)?.map(|bytes| user_record::decode(name, bytes.value())).transpose()?;
    stored.ok_or_else(|| Failure::Refused(MetaError::NoUser { name: name.to_owned() }))
}
