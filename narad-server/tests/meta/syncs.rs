//! No sync of the metastore is idle: without any one of them, something that was answered is lost with the power.

use std::path::Path;

use crate::support::{DIR, ID, disk, names, open, topic};
use narad_core::{
    disk::Disk,
    testkit::{CallKind, Failure, Fault, SimDisk, Survival},
};
use narad_server::meta::{MetaError, MetaStore, TopicChange};

/// Creates topic `t` in a new store on `disk`, loses the power, and answers what a new process finds.
async fn found_after_a_power_loss(disk: &SimDisk) -> Result<Vec<String>, MetaError> {
    let store = open(disk)?;
    store.create_topic(topic("t")).await?;
    disk.power_loss_keeping(Survival::Nothing);
    disk.clear_faults();
    drop(store);
    Ok(names(&open(disk)?).await)
}

#[tokio::test]
async fn a_topic_that_was_answered_survives_by_the_syncs_of_its_commit() {
    assert_eq!(found_after_a_power_loss(&disk(1)).await.unwrap(), ["t"]);

    let without = disk(1);
    let skip = without.inject(Fault::skip(CallKind::SyncData).named("meta.redb").onwards());
    let found = found_after_a_power_loss(&without).await;
    assert!(found.as_ref().is_ok_and(Vec::is_empty), "{found:?}");
    assert!(without.fired(skip) >= 2);
}

#[tokio::test]
async fn a_change_and_a_delete_survive_by_the_syncs_of_their_commits() {
    for skipped in [false, true] {
        let disk = disk(1);
        let store = open(&disk).unwrap();
        for name in ["a", "b"] {
            store.create_topic(topic(name)).await.unwrap();
        }
        if skipped {
            disk.inject(Fault::skip(CallKind::SyncData).onwards());
        }
        let change = TopicChange { retention_ms: Some(9), ..TopicChange::default() };
        store.update_topic("a", ID, change).await.unwrap();
        store.delete_topic("b", ID).await.unwrap();
        disk.power_loss_keeping(Survival::Nothing);
        disk.clear_faults();
        let store = open(&disk).unwrap();
        let retention_ms = store.topic("a").await.unwrap().unwrap().retention_ms;
        let expected: (u64, &[&str]) = if skipped { (1, &["a", "b"]) } else { (9, &["a"]) };
        assert_eq!(retention_ms, expected.0);
        assert_eq!(names(&store).await, expected.1);
    }
}

#[tokio::test]
async fn a_new_file_is_whole_before_it_has_its_name() {
    for skipped in [false, true] {
        let disk = disk(1);
        if skipped {
            disk.inject(Fault::skip(CallKind::SyncData).named("meta.redb.new").onwards());
        }
        // The power goes when the name is durable, and before an open of the file syncs it again.
        disk.inject(Fault::fail(CallKind::Lock, Failure::Io).named("meta.redb"));
        open(&disk).unwrap_err();
        disk.power_loss_keeping(Survival::Nothing);
        disk.clear_faults();
        assert_eq!(open(&disk).is_err(), skipped, "the name leads to a file without its bytes");
    }
}

#[tokio::test]
async fn a_new_file_keeps_its_name_by_the_sync_of_its_directory() {
    let without = disk(1);
    let skip = without.inject(Fault::skip(CallKind::SyncDir).named("meta").onwards());
    let found = found_after_a_power_loss(&without).await;
    assert!(found.as_ref().is_ok_and(Vec::is_empty), "{found:?}");
    assert_eq!(without.fired(skip), 1);

    assert_eq!(found_after_a_power_loss(&disk(1)).await.unwrap(), ["t"]);
}

#[tokio::test]
async fn a_name_that_a_process_died_on_is_made_durable_by_the_next_one() {
    let disk = disk(1);
    disk.inject(Fault::fail(CallKind::SyncDir, Failure::Io).named("meta"));
    open(&disk).unwrap_err();
    disk.crash_process();
    assert_eq!(found_after_a_power_loss(&disk).await.unwrap(), ["t"]);
}

#[tokio::test]
async fn so_is_the_name_of_the_directory_that_it_left() {
    for skipped in [false, true] {
        let disk = SimDisk::new(1);
        disk.plant_dir("/data");
        disk.create_dir(Path::new(DIR)).unwrap();
        if skipped {
            disk.inject(Fault::skip(CallKind::SyncDir).named("data").onwards());
        }
        let found = found_after_a_power_loss(&disk).await.unwrap();
        assert_eq!(found.is_empty(), skipped, "{found:?}");
    }
}

#[tokio::test]
async fn a_new_directory_is_durable_too() {
    let disk = SimDisk::new(1);
    assert_eq!(found_after_a_power_loss(&disk).await.unwrap(), ["t"]);
}

#[tokio::test]
async fn each_sync_of_a_commit_that_fails_refuses_it_and_the_next_one_works() {
    for failure in [Failure::Io, Failure::NoSpace] {
        for nth in [1, 2] {
            let disk = disk(nth);
            let store = open(&disk).unwrap();
            store.create_topic(topic("a")).await.unwrap();
            let fail = disk.inject(Fault::fail(CallKind::SyncData, failure).at(nth));
            let error = store.create_topic(topic("b")).await.unwrap_err();
            assert_eq!(disk.fired(fail), 1);
            assert!(error.to_string().contains("meta.redb"), "{error}");
            let full = matches!(error, MetaError::DiskFull { .. });
            assert!(full == (failure == Failure::NoSpace), "{error}");

            let there = store.topic("b").await.unwrap();
            let known = *store.version().borrow();
            assert!(
                there.is_none_or(|topic| topic.version <= known),
                "whoever watches hears of what is there"
            );
            store.create_topic(topic("c")).await.unwrap();
            for survival in [Survival::Nothing, Survival::Random, Survival::Random] {
                let fork = disk.fork();
                fork.power_loss_keeping(survival);
                let names = names(&open(&fork).unwrap()).await;
                assert!(names.contains(&"a".to_owned()) && names.contains(&"c".to_owned()), "{names:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_again_says_so_and_comes_back_with_its_disk() {
    let disk = disk(1);
    let store = open(&disk).unwrap();
    store.create_topic(topic("a")).await.unwrap();
    disk.inject(Fault::fail_all(Failure::Io).onwards());
    let error = store.create_topic(topic("b")).await.unwrap_err();
    assert!(matches!(error, MetaError::Failed { .. } | MetaError::DiskFull { .. }), "{error}");
    for _ in 0..2 {
        let error = store.topics(None, 1).await.unwrap_err();
        assert!(
            matches!(&error, MetaError::CannotOpen { path, .. } if path.ends_with("meta.redb")),
            "{error}"
        );
    }
    disk.clear_faults();
    assert!(names(&store).await.contains(&"a".to_owned()));
    store.create_topic(topic("c")).await.unwrap();
}

#[tokio::test]
async fn a_file_that_vanishes_while_the_store_is_open_is_not_made_anew() {
    let disk = disk(1);
    let store = open(&disk).unwrap();
    store.create_topic(topic("a")).await.unwrap();
    disk.remove_file(Path::new(crate::support::FILE)).unwrap();
    disk.inject(Fault::fail(CallKind::SyncData, Failure::Io));
    store.create_topic(topic("b")).await.unwrap_err();
    let error = store.topic("a").await.unwrap_err();
    assert!(matches!(error, MetaError::CannotOpen { .. }), "{error}");
    assert_eq!(disk.contents(crate::support::FILE), None);
}
