//! How a user is stored: JSON with the number of its layout, like a topic.

use serde::{Deserialize, Serialize};

use super::{Grant, MetaError, PasswordHash, User, record};

/// The layout that this program writes, and the newest that it reads.
const LAYOUT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Stored {
    layout: u32,
    root: bool,
    password: String,
    grants: Vec<Grant>,
    created_at_ms: i64,
    updated_at_ms: i64,
    version: u64,
}

/// The stored form of `user`; its name is the key.
pub(super) fn encode(user: &User) -> Result<Vec<u8>, MetaError> {
    let stored = Stored {
        layout: LAYOUT,
        root: user.root,
        password: user.password.as_str().to_owned(),
        grants: user.grants.clone(),
        created_at_ms: user.created_at_ms,
        updated_at_ms: user.updated_at_ms,
        version: user.version,
    };
    serde_json::to_vec(&stored).map_err(|error| unreadable(&user.name, error.to_string()))
}

/// The user called `name` that `bytes` describe.
pub(super) fn decode(name: &str, bytes: &[u8]) -> Result<User, MetaError> {
    let stored: Stored = record::read(bytes, LAYOUT).map_err(|reason| unreadable(name, reason))?;
    Ok(User {
        name: name.into(),
        root: stored.root,
        password: PasswordHash::new(stored.password),
        grants: stored.grants,
        created_at_ms: stored.created_at_ms,
        updated_at_ms: stored.updated_at_ms,
        version: stored.version,
    })
}

fn unreadable(name: &str, reason: String) -> MetaError {
    MetaError::UnreadableUser { name: name.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Action, UserName},
        *,
    };

    #[test]
    fn a_record_reads_back_and_a_later_layout_is_refused() {
        let mut user = User::new(UserName::new("u").unwrap(), PasswordHash::new("$argon2id$"), 5);
        user.grants = vec![Grant { action: Action::Produce, patterns: vec!["a*".into()] }];
        let bytes = encode(&user).unwrap();
        assert_eq!(decode("u", &bytes).unwrap(), user);
        let later = String::from_utf8(bytes).unwrap().replace("\"layout\":1", "\"layout\":2");
        assert!(matches!(decode("u", later.as_bytes()), Err(MetaError::UnreadableUser { .. })));
        assert!(!format!("{user:?}").contains("argon2id"), "a hash is not for the log");
    }
}
