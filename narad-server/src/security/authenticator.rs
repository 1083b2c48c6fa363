//! Who shows which password: users by name and password, at the cost of a hash for a client's first request.
//!
//! Keeps a little about each user that is there and nothing about those that are not. What it keeps of a right password
//! is a digest under a key of this process's own.

use std::{collections::HashMap, sync::Arc, time::Duration};

use narad_core::clock::Clock;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::{hasher::Hasher, throttle::Throttle};
use crate::{
    meta::{MetaError, MetaStore, PasswordHash, User, UserName},
    secret::Secret,
};

/// Credentials that were right cost no hash for so long after their last use.
const REMEMBERED: Duration = Duration::from_secs(5 * 60);

/// Why nobody can say whether a password is right.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// Too many wrong passwords for this user.
    #[error("too many wrong passwords for user {name}; try again in {} s", retry_after.as_secs())]
    Throttled {
        /// The user.
        name: String,
        /// When the next try is taken, in whole seconds.
        retry_after: Duration,
    },
    /// Too many passwords are being checked. Retry in a moment.
    #[error("too many passwords are being checked")]
    Busy,
    /// The system has no randomness to give for a salt.
    #[error("a password could not be hashed")]
    Hash,
    /// The metastore failed.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// The process is going down.
    #[error("the check of a password was stopped")]
    Stopped,
}

/// Knows who a user is by its password. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Authenticator(Arc<Inner>);

struct Inner {
    meta: Arc<dyn MetaStore>,
    version: watch::Receiver<u64>,
    clock: Arc<dyn Clock>,
    hasher: Hasher,
    /// Of this process alone.
    key: [u8; 32],
    known: Mutex<HashMap<Arc<str>, Known>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").finish_non_exhaustive()
    }
}

/// A user that is there.
struct Known {
    user: Arc<User>,
    /// The version of all metadata at which the record was last known to be right.
    checked: u64,
    verified: Option<Verified>,
    throttle: Throttle,
    /// One password of a user is tried at a time, so that many clients that start together cost one hash.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Known {
    fn new(user: User, checked: u64) -> Self {
        Self {
            user: Arc::new(user),
            checked,
            verified: None,
            throttle: Throttle::default(),
            turn: Arc::default(),
        }
    }
}

/// Credentials that were right.
struct Verified {
    digest: [u8; 32],
    /// What they were checked against: another password makes another one.
    hash: PasswordHash,
    used: Duration,
}

impl Authenticator {
    /// Of the users in `meta`, by the time of `clock`.
    pub fn new(meta: Arc<dyn MetaStore>, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Inner {
            version: meta.version(),
            meta,
            clock,
            hasher: Hasher::new(),
            key: rand::random(),
            known: Mutex::default(),
        }))
    }

    /// The user `name`, if `password` is its password. Whether there is no such user or the password is wrong, it takes
    /// as long and answers the same.
    ///
    /// # Errors
    /// `Throttled` whatever the password, unless it was right within the last minutes; `Busy`; a failure of the
    /// metastore.
    pub async fn verify(&self, name: &str, password: &Secret) -> Result<Option<Arc<User>>, AuthError> {
        let Some(user) = self.find(name).await? else {
            self.0.hasher.verify_nobody(password.clone()).await?;
            return Ok(None);
        };
        let digest = self.digest(name, password);
        if self.0.is_verified(&user, &digest) {
            return Ok(Some(user));
        }
        // Before the turn: who is refused does not wait for others.
        self.0.check_throttle(&user.name)?;
        let (this, password) = (self.clone(), password.clone());
        // To its end even when the client goes: a guess counts.
        let trying = tokio::spawn(async move { this.try_password(&user.name, password, digest).await });
        trying.await.map_err(|_| AuthError::Stopped)?
    }

    /// `user` is the record with which `password` became its own a moment ago. That counts as shown: those who try the one
    /// before, or guess, keep nobody out who has the new one.
    pub fn changed(&self, user: &User, password: &Secret) {
        let (digest, now) = (self.digest(&user.name, password), self.0.clock.monotonic());
        let mut all = self.0.known.lock();
        let known =
            all.entry(Arc::clone(&user.name)).or_insert_with(|| Known::new(user.clone(), user.version));
        if known.user.version > user.version {
            return;
        }
        known.user = Arc::new(user.clone());
        known.checked = known.checked.max(user.version);
        known.verified = Some(Verified { digest, hash: user.password.clone(), used: now });
    }

    /// A hash of `password`, to be kept in a user's record.
    ///
    /// # Errors
    /// `Busy`, `Hash`.
    pub async fn hash(&self, password: Secret) -> Result<PasswordHash, AuthError> {
        self.0.hasher.hash(password).await
    }

    /// How many hashes were computed since the start.
    pub fn hashes(&self) -> u64 {
        self.0.hasher.hashes()
    }

    async fn try_password(
        &self,
        name: &str,
        password: Secret,
        digest: [u8; 32],
    ) -> Result<Option<Arc<User>>, AuthError> {
        let Some(turn) = self.0.known.lock().get(name).map(|known| Arc::clone(&known.turn)) else {
            return Ok(None);
        };
        let _turn = turn.lock().await;
        let Some(user) = self.find(name).await? else { return Ok(None) };
        if self.0.is_verified(&user, &digest) {
            return Ok(Some(user));
        }
        self.0.check_throttle(name)?;
        let is_right = self.0.hasher.verify(password, user.password.clone()).await?;
        // It may have changed meanwhile.
        let current = self.find(name).await?.filter(|current| current.password == user.password);
        let now = self.0.clock.monotonic();
        let mut all = self.0.known.lock();
        let Some(known) = all.get_mut(name) else { return Ok(None) };
        if !is_right {
            if known.throttle.wrong(now) {
                tracing::warn!(user = %name, "so many wrong passwords that further ones have to wait");
            }
            return Ok(None);
        }
        known.throttle.right();
        known.verified = Some(Verified { digest, hash: user.password.clone(), used: now });
        Ok(current)
    }

    /// The record of `name` as it is now: read from the metastore only when something has changed there.
    async fn find(&self, name: &str) -> Result<Option<Arc<User>>, AuthError> {
        // Before the read: a change that lands in between makes the next one read again.
        let version = *self.0.version.borrow();
        if let Some(known) = self.0.known.lock().get(name)
            && known.checked == version
        {
            return Ok(Some(Arc::clone(&known.user)));
        }
        if UserName::new(name).is_err() {
            return Ok(None);
        }
        let found = self.0.meta.user(name).await?;
        let mut all = self.0.known.lock();
        let Some(user) = found else {
            all.remove(name);
            return Ok(None);
        };
        let known = all.entry(Arc::clone(&user.name)).or_insert_with(|| Known::new(user.clone(), version));
        if known.user.version < user.version {
            known.user = Arc::new(user);
        }
        known.checked = known.checked.max(version);
        Ok(Some(Arc::clone(&known.user)))
    }

    fn digest(&self, name: &str, password: &Secret) -> [u8; 32] {
        // A name has no zero byte, so no two credentials are the same bytes.
        let digest = Sha256::new().chain_update(self.0.key).chain_update(name).chain_update([0]);
        digest.chain_update(password.expose()).finalize().into()
    }
}

impl Inner {
    fn is_verified(&self, user: &User, digest: &[u8; 32]) -> bool {
        let now = self.clock.monotonic();
        let mut all = self.known.lock();
        let Some(verified) = all.get_mut(&user.name).and_then(|known| known.verified.as_mut()) else {
            return false;
        };
        let is_it = verified.digest == *digest
            && verified.hash == user.password
            && now.saturating_sub(verified.used) < REMEMBERED;
        if is_it {
            verified.used = now;
        }
        is_it
    }

    fn check_throttle(&self, name: &str) -> Result<(), AuthError> {
        let now = self.clock.monotonic();
        let Some(Err(wait)) = self.known.lock().get(name).map(|known| known.throttle.check(now)) else {
            return Ok(());
        };
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Err(AuthError::Throttled { name: name.to_owned(), retry_after: Duration::from_secs(seconds) })
    }
}
