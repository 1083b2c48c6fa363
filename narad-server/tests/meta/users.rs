//! Users in the embedded metastore: what it promises, on a real file and through power losses.

use std::sync::Arc;

use crate::support::{disk, open, topic};
use narad_core::{
    disk::OsDisk,
    testkit::{CallKind, Failure, Fault, Survival},
};
use narad_server::meta::{
    Action, Grant, MetaError, MetaStore, PasswordHash, RedbMetaStore, User, UserChange, UserName,
};

fn user(name: &str) -> User {
    let mut user =
        User::new(UserName::new(name).unwrap(), PasswordHash::new("$argon2id$one"), 1_700_000_000_000);
    user.grants = vec![Grant { action: Action::Consume, patterns: vec!["orders-*".into()] }];
    user
}

fn to(password: &str) -> UserChange {
    UserChange { password: Some(PasswordHash::new(password)), updated_at_ms: 9, ..UserChange::default() }
}

#[tokio::test]
async fn users_are_created_listed_changed_and_deleted_and_are_there_after_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    {
        let store = RedbMetaStore::open(Arc::new(OsDisk), dir.path()).unwrap();
        assert!(store.users().await.unwrap().is_empty());
        assert_eq!(store.user("bob").await.unwrap(), None);
        for name in ["bob", "ann", "eve"] {
            store.create_user(user(name)).await.unwrap();
        }
        let twice = store.create_user(user("bob")).await.unwrap_err();
        assert!(matches!(&twice, MetaError::UserExists { name } if name == "bob"), "{twice}");
        store.create_user(user("Bob")).await.unwrap();
        let version = store.update_user("ann", to("two")).await.unwrap().version;
        assert_eq!(*store.version().borrow(), version);
        store.delete_user("eve").await.unwrap();
        for refused in [store.update_user("eve", to("x")).await.map(drop), store.delete_user("eve").await] {
            assert!(matches!(&refused, Err(MetaError::NoUser { name }) if name == "eve"), "{refused:?}");
        }
        store.close().await;
    }
    let store = RedbMetaStore::open(Arc::new(OsDisk), dir.path()).unwrap();
    let names: Vec<String> = store.users().await.unwrap().iter().map(|user| user.name.to_string()).collect();
    assert_eq!(names, ["Bob", "ann", "bob"]);
    let ann = store.user("ann").await.unwrap().unwrap();
    assert_eq!((ann.password.as_str(), ann.updated_at_ms, &ann.grants), ("two", 9, &user("ann").grants));
}

#[tokio::test]
async fn a_change_that_expects_another_password_is_refused() {
    let store = open(&disk(1)).unwrap();
    store.create_user(user("ann")).await.unwrap();
    let change = UserChange { if_password: Some(PasswordHash::new("$argon2id$one")), ..to("two") };
    store.update_user("ann", change.clone()).await.unwrap();
    let late = UserChange { password: Some(PasswordHash::new("three")), ..change };
    assert!(matches!(store.update_user("ann", late).await, Err(MetaError::UserChanged { .. })));
    assert_eq!(store.user("ann").await.unwrap().unwrap().password.as_str(), "two");
}

#[tokio::test]
async fn a_file_of_before_there_were_users_opens_and_takes_them() {
    let disk = disk(1);
    {
        let store = open(&disk).unwrap();
        // Nothing about users is in the file until the first one is created.
        store.create_topic(topic("t")).await.unwrap();
        store.close().await;
    }
    let store = open(&disk).unwrap();
    assert!(store.users().await.unwrap().is_empty());
    assert_eq!(store.user("ann").await.unwrap(), None);
    assert!(matches!(store.delete_user("ann").await, Err(MetaError::NoUser { .. })));
    store.create_user(user("ann")).await.unwrap();
    assert_eq!(store.topic("t").await.unwrap().unwrap().owner, None);
}

#[tokio::test]
async fn a_deleted_user_owns_nothing_and_creates_nothing() {
    let store = open(&disk(1)).unwrap();
    store.create_user(user("ann")).await.unwrap();
    store.create_user(user("bob")).await.unwrap();
    for (name, owner) in [("a", "ann"), ("b", "bob")] {
        let mut topic = topic(name);
        topic.owner = Some(owner.into());
        store.create_topic(topic).await.unwrap();
    }
    store.delete_user("ann").await.unwrap();
    let version = *store.version().borrow();
    let a = store.topic("a").await.unwrap().unwrap();
    assert_eq!((a.owner, a.version), (None, version));
    assert_eq!(store.topic("b").await.unwrap().unwrap().owner.as_deref(), Some("bob"));
    let mut late = topic("late");
    late.owner = Some("ann".into());
    assert!(matches!(store.create_topic(late).await, Err(MetaError::NoUser { .. })));
    assert_eq!(store.topic("late").await.unwrap(), None);
}

/// Each change survives by the syncs of its commit: without them it is lost, with them it is not.
#[tokio::test]
async fn what_was_answered_survives_a_power_loss_by_its_syncs() {
    for skipped in [false, true] {
        let disk = disk(1);
        let store = open(&disk).unwrap();
        for name in ["ann", "bob"] {
            store.create_user(user(name)).await.unwrap();
        }
        let skip = skipped.then(|| disk.inject(Fault::skip(CallKind::SyncData).named("meta.redb").onwards()));
        store.create_user(user("eve")).await.unwrap();
        store.update_user("ann", to("two")).await.unwrap();
        store.delete_user("bob").await.unwrap();
        assert!(skip.is_none_or(|skip| disk.fired(skip) >= 6));
        disk.power_loss_keeping(Survival::Nothing);
        disk.clear_faults();
        let found: Vec<(String, String)> = open(&disk)
            .unwrap()
            .users()
            .await
            .unwrap()
            .iter()
            .map(|user| (user.name.to_string(), user.password.as_str().to_owned()))
            .collect();
        let is = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(name, password)| ((*name).to_owned(), (*password).to_owned()))
                .collect::<Vec<_>>()
        };
        let old = "$argon2id$one";
        let expected =
            if skipped { is(&[("ann", old), ("bob", old)]) } else { is(&[("ann", "two"), ("eve", old)]) };
        assert_eq!(found, expected, "skipped: {skipped}");
    }
}

/// A crash at any call leaves each change whole or not there: a deleted user never leaves a topic that names it.
#[tokio::test]
async fn a_delete_that_fails_anywhere_is_whole_or_absent() {
    let mut reached = 0;
    for nth in 1.. {
        let disk = disk(nth);
        let store = open(&disk).unwrap();
        store.create_user(user("ann")).await.unwrap();
        let mut owned = topic("t");
        owned.owner = Some("ann".into());
        store.create_topic(owned).await.unwrap();
        let fault = disk.inject(Fault::fail_all(Failure::Io).at(nth).onwards());
        let outcome = store.delete_user("ann").await;
        let fired = disk.fired(fault) > 0;
        disk.power_loss_keeping(Survival::Random);
        disk.clear_faults();
        let store = open(&disk).unwrap();
        let (user, topic) = (store.user("ann").await.unwrap(), store.topic("t").await.unwrap().unwrap());
        assert_eq!(user.is_some(), topic.owner.is_some(), "call {nth}");
        assert!(outcome.is_err() || user.is_none(), "call {nth}: answered, and there again");
        if !fired {
            break;
        }
        reached = nth;
    }
    assert!(reached >= 4, "{reached} calls were made to fail");
}

#[tokio::test]
async fn on_a_full_disk_a_password_can_be_changed_and_a_user_deleted() {
    let disk = disk(1);
    let store = open(&disk).unwrap();
    for name in ["ann", "bob"] {
        store.create_user(user(name)).await.unwrap();
    }
    disk.set_capacity(Some(disk.used_bytes()));
    let mut number = 0;
    let refused = loop {
        match store.create_user(user(&format!("{number:0>60}"))).await {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, MetaError::DiskFull { .. }), "{refused}");
    store.update_user("ann", to("two")).await.unwrap();
    store.delete_user("bob").await.unwrap();
    disk.power_loss_keeping(Survival::Nothing);
    let store = open(&disk).unwrap();
    assert_eq!(store.user("ann").await.unwrap().unwrap().password.as_str(), "two");
    assert_eq!(store.user("bob").await.unwrap(), None);
}
