//! Hashing passwords and checking them: argon2id, off the async threads, a few at a time.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use argon2::{
    Argon2,
    password_hash::{PasswordHasher, PasswordVerifier, phc},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use tokio::sync::Semaphore;

use super::AuthError;
use crate::{meta::PasswordHash, secret::Secret};

/// Hashes under way at once: each takes 19 MiB of memory and a core.
const AT_ONCE: usize = 4;
/// Hashes that wait for those, at most: a second's work or two. Beyond it a flood of guesses would make everybody wait.
const WAITING: usize = 128;
/// What the password of a user that is not there is checked against: nobody's, and as costly as anybody's.
const DECOY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Hashes and checks, within its bounds.
#[derive(Debug)]
pub(super) struct Hasher {
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
    hashes: AtomicU64,
}

impl Hasher {
    pub(super) fn new() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: AtomicUsize::new(0),
            hashes: AtomicU64::new(0),
        }
    }

    /// How many hashes were computed.
    pub(super) fn hashes(&self) -> u64 {
        self.hashes.load(Ordering::Relaxed)
    }

    /// A hash of `password` with a salt of its own.
    ///
    /// # Errors
    /// `Busy`; `Hash` when the system has no randomness to give.
    pub(super) async fn hash(&self, password: Secret) -> Result<PasswordHash, AuthError> {
        self.run(move || {
            let hash: phc::PasswordHash =
                Argon2::default().hash_password(password.expose()).map_err(|_| AuthError::Hash)?;
            Ok(PasswordHash::new(hash.to_string()))
        })
        .await?
    }

    /// Whether `password` is the one of `hash`.
    ///
    /// # Errors
    /// `Busy`.
    pub(super) async fn verify(&self, password: Secret, hash: PasswordHash) -> Result<bool, AuthError> {
        self.run(move || matches(&password, hash.as_str())).await
    }

    /// Takes as long as [`verify`](Self::verify) does.
    ///
    /// # Errors
    /// `Busy`.
    pub(super) async fn verify_nobody(&self, password: Secret) -> Result<(), AuthError> {
        self.run(move || matches(&password, DECOY)).await.map(drop)
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, AuthError> {
        let slot = match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(slot) => slot,
            Err(_) => {
                let _place = Place::take(&self.waiting)?;
                Arc::clone(&self.slots).acquire_owned().await.map_err(|_| AuthError::Stopped)?
            }
        };
        self.hashes.fetch_add(1, Ordering::Relaxed);
        // The slot goes along: the work does not end when whoever waits for it goes.
        let working = move || {
            let answer = work();
            drop(slot);
            answer
        };
        tokio::task::spawn_blocking(working).await.map_err(|_| AuthError::Stopped)
    }
}

/// A place among those who wait.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize) -> Result<Self, AuthError> {
        let place = Self(waiting);
        if waiting.fetch_add(1, Ordering::AcqRel) >= WAITING { Err(AuthError::Busy) } else { Ok(place) }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn matches(password: &Secret, phc: &str) -> bool {
    phc::PasswordHash::new(phc)
        .is_ok_and(|hash| Argon2::default().verify_password(password.expose(), &hash).is_ok())
}

/// A password that nobody guesses: 24 random bytes as text.
pub fn generate_password() -> Secret {
    Secret::from(URL_SAFE_NO_PAD.encode(rand::random::<[u8; 24]>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_decoy_costs_what_a_hash_of_ours_costs() {
        let ours: phc::PasswordHash = Argon2::default().hash_password(b"x").unwrap();
        let decoy = phc::PasswordHash::new(DECOY).unwrap();
        assert_eq!(
            (decoy.algorithm, decoy.version, &decoy.params),
            (ours.algorithm, ours.version, &ours.params)
        );
        let lengths = |hash: &phc::PasswordHash| {
            (hash.salt.as_ref().map(|salt| salt.len()), hash.hash.as_ref().map(|hash| hash.len()))
        };
        assert_eq!(lengths(&decoy), lengths(&ours));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn at_most_four_hash_at_once_and_those_who_wait_are_bounded() {
        let hasher = Arc::new(Hasher::new());
        let (go, gate) = (Arc::new(std::sync::Barrier::new(AT_ONCE + 1)), Arc::new(AtomicUsize::new(0)));
        let mut running = tokio::task::JoinSet::new();
        for _ in 0..AT_ONCE {
            let (hasher, go) = (Arc::clone(&hasher), Arc::clone(&go));
            running.spawn(async move { hasher.run(move || _ = go.wait()).await });
        }
        while hasher.slots.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..WAITING {
            let (hasher, gate) = (Arc::clone(&hasher), Arc::clone(&gate));
            running.spawn(async move {
                let work = move || _ = gate.fetch_add(1, Ordering::AcqRel);
                hasher.run(work).await
            });
        }
        while hasher.waiting.load(Ordering::Acquire) < WAITING {
            tokio::task::yield_now().await;
        }
        assert!(matches!(hasher.run(|| ()).await, Err(AuthError::Busy)));
        assert_eq!(gate.load(Ordering::Acquire), 0, "none of them runs while four do");
        tokio::task::spawn_blocking(move || go.wait()).await.unwrap();
        while let Some(done) = running.join_next().await {
            assert!(done.unwrap().is_ok());
        }
        assert_eq!(gate.load(Ordering::Acquire), WAITING);
        assert_eq!(hasher.waiting.load(Ordering::Acquire), 0);
    }

    #[tokio::test]
    async fn a_hash_knows_its_password_and_no_other() {
        let hasher = Hasher::new();
        let hash = hasher.hash("secret".into()).await.unwrap();
        assert!(hash.as_str().starts_with("$argon2id$v=19$") && !hash.as_str().contains("secret"));
        assert!(hasher.verify("secret".into(), hash.clone()).await.unwrap());
        assert!(!hasher.verify("Secret".into(), hash.clone()).await.unwrap());
        assert!(!hasher.verify("secret".into(), PasswordHash::new("nonsense")).await.unwrap());
        assert_ne!(hasher.hash("secret".into()).await.unwrap(), hash, "each has a salt of its own");
    }
}
