//! A user's record, and the names that a new one may have.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// A user, as the metastore knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct User {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it is the one that the first start made: it may do everything and cannot be deleted.
    pub root: bool,
    /// What its password is checked against.
    pub password: PasswordHash,
    /// What it may do.
    pub grants: Vec<Grant>,
    /// Unix milliseconds.
    pub created_at_ms: i64,
    /// Unix milliseconds of the last change.
    pub updated_at_ms: i64,
    /// The metastore's version at the user's last change; the store fills it in.
    pub version: u64,
}

impl User {
    /// A user that no store has seen yet and that may do nothing.
    pub fn new(name: UserName, password: PasswordHash, created_at_ms: i64) -> Self {
        Self {
            name: name.0,
            root: false,
            password,
            grants: Vec::new(),
            created_at_ms,
            updated_at_ms: created_at_ms,
            version: 0,
        }
    }
}

/// A salted hash of a password, as a PHC string. Whoever reads it can try passwords against it, so `Debug` shows
/// nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(Arc<str>);

impl PasswordHash {
    /// The hash that `phc` states; whether it is one is found out by whoever checks a password against it.
    pub fn new(phc: impl Into<Arc<str>>) -> Self {
        Self(phc.into())
    }

    /// The PHC string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What a grant lets its user do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Produce to the topics that match.
    Produce,
    /// Consume from them, replay, ack.
    Consume,
    /// Create topics of such names.
    Create,
    /// Everything.
    Admin,
}

/// Leave to do one thing with the topics that match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// What.
    pub action: Action,
    /// With which topics: names, or prefixes that end in `*`. None for `admin`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
}

/// What of a user is to change; `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserChange {
    /// The new grants, in place of all there were.
    pub grants: Option<Vec<Grant>>,
    /// The new password.
    pub password: Option<PasswordHash>,
    /// The change is refused when the password is another one by now.
    pub if_password: Option<PasswordHash>,
    /// Unix milliseconds.
    pub updated_at_ms: i64,
}

impl UserChange {
    pub(super) fn apply(&self, user: &mut User) {
        if let Some(grants) = &self.grants {
            user.grants.clone_from(grants);
        }
        if let Some(password) = &self.password {
            user.password = password.clone();
        }
        user.updated_at_ms = self.updated_at_ms;
    }
}

/// A name that a user may have: 1 to 64 of `A-Z a-z 0-9 . _ -`, neither `.` nor `..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserName(Arc<str>);

/// The text cannot be a user's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a user's name is 1 to 64 of A-Z a-z 0-9 . _ -, and neither . nor ..")]
pub struct UserNameError;

impl UserName {
    /// The name `text`.
    ///
    /// # Errors
    /// When no user may have it.
    pub fn new(text: &str) -> Result<Self, UserNameError> {
        let usable = (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
            && text != "."
            && text != "..";
        if usable { Ok(Self(text.into())) } else { Err(UserNameError) }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
