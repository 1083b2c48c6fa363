//! Guesses at passwords: what they cost, and that none is free because whoever made it does not wait for the answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

use std::{path::Path, sync::Arc, time::Duration};

use narad_core::testkit::{ManualClock, SimDisk};
use narad_server::{
    meta::{MetaStore, RedbMetaStore, User, UserChange, UserName},
    secret::Secret,
    security::{AuthError, Authenticator},
};

const NAME: &str = "ann";

struct Bed {
    meta: Arc<RedbMetaStore>,
    clock: ManualClock,
    authenticator: Authenticator,
}

/// A user `ann` whose password is `right`.
async fn bed() -> Bed {
    let disk = SimDisk::new(1);
    disk.plant_dir("/data/meta");
    let meta = Arc::new(RedbMetaStore::open(Arc::new(disk), Path::new("/data/meta")).unwrap());
    let clock = ManualClock::new();
    let authenticator = Authenticator::new(Arc::<RedbMetaStore>::clone(&meta), Arc::new(clock.clone()));
    let hash = authenticator.hash("right".into()).await.unwrap();
    meta.create_user(User::new(UserName::new(NAME).unwrap(), hash, 0)).await.unwrap();
    Bed { meta, clock, authenticator }
}

impl Bed {
    async fn knows(&self, password: &str) -> Result<bool, AuthError> {
        Ok(self.authenticator.verify(NAME, &Secret::from(password)).await?.is_some())
    }
}

#[tokio::test]
async fn a_guess_counts_although_nobody_waits_for_its_answer() {
    let bed = bed().await;
    assert!(bed.knows("right").await.unwrap());
    let before = bed.authenticator.hashes();
    for guess in ["a", "b", "c", "d", "e"] {
        tokio::select! {
            biased;
            known = bed.knows(guess) => panic!("{guess} was answered at once: {known:?}"),
            () = std::future::ready(()) => {}
        }
    }
    // It waits its turn behind them.
    let sixth = bed.knows("f").await;
    assert!(matches!(&sixth, Err(AuthError::Throttled { name, .. }) if name == NAME), "{sixth:?}");
    assert_eq!(bed.authenticator.hashes() - before, 5);
    assert!(bed.knows("right").await.unwrap(), "it was verified a moment ago");
}

#[tokio::test]
async fn the_right_password_begins_anew() {
    let bed = bed().await;
    for round in 0..3 {
        for _ in 0..4 {
            assert!(!bed.knows("wrong").await.unwrap(), "{round}");
        }
        // Not the one that is remembered: a hash is what counts as a try.
        bed.clock.advance(Duration::from_secs(5 * 60));
        assert!(bed.knows("right").await.unwrap(), "{round}");
    }
}

#[tokio::test]
async fn a_new_password_gets_in_whatever_was_guessed_before() {
    let bed = bed().await;
    let give = async |password: &str| {
        let hash = Some(bed.authenticator.hash(password.into()).await.unwrap());
        let change = UserChange { password: hash, ..UserChange::default() };
        bed.meta.update_user(NAME, change).await.unwrap()
    };
    let (second, third) = (give("second").await, give("third").await);
    for _ in 0..5 {
        assert!(!bed.knows("wrong").await.unwrap());
    }
    let before = bed.authenticator.hashes();
    bed.authenticator.changed(&third, &"third".into());
    // Told late: there is another one by now.
    bed.authenticator.changed(&second, &"second".into());
    for password in ["right", "second", "wrong"] {
        assert!(matches!(bed.knows(password).await, Err(AuthError::Throttled { .. })), "{password}");
    }
    assert!(bed.knows("third").await.unwrap());
    assert_eq!(bed.authenticator.hashes(), before);
}

#[tokio::test]
async fn what_is_remembered_ends_with_the_record_it_was_about() {
    let bed = bed().await;
    assert!(bed.knows("right").await.unwrap());
    // The same password with another salt: what was verified is no longer what is stored.
    let password = Some(bed.authenticator.hash("right".into()).await.unwrap());
    bed.meta.update_user(NAME, UserChange { password, ..UserChange::default() }).await.unwrap();
    let before = bed.authenticator.hashes();
    assert!(bed.knows("right").await.unwrap());
    assert_eq!(bed.authenticator.hashes() - before, 1);

    bed.meta.delete_user(NAME).await.unwrap();
    assert!(!bed.knows("right").await.unwrap());
    for _ in 0..9 {
        assert!(!bed.knows("wrong").await.unwrap(), "nobody is throttled who is not there");
    }
    assert_eq!(bed.authenticator.hashes() - before, 11, "and each costs a hash all the same");
}

#[tokio::test]
async fn without_the_metadata_nobody_is_let_in_and_nobody_is_refused() {
    let bed = bed().await;
    bed.meta.close().await;
    assert!(matches!(bed.knows("right").await, Err(AuthError::Meta(_))));
}
