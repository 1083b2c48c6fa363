//! On a full disk nothing is added to the metadata, everything is read, and what makes room is written.

use std::time::Duration;

use crate::support::{ID, disk, names, open, topic};
use narad_core::testkit::{SimDisk, Survival};
use narad_server::meta::{MetaError, MetaStore, RedbMetaStore, TopicChange};

const RESERVE: &str = "/data/meta/reserve";

/// Creates topics of long names until the disk, which has no byte left, takes no more. Answers how many it took.
async fn fill(store: &RedbMetaStore) -> usize {
    for number in 0..1000 {
        match store.create_topic(topic(&format!("{number:0>200}"))).await {
            Ok(_) => {}
            Err(MetaError::DiskFull { .. }) => return number,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("a disk that is never full");
}

fn fill_up(disk: &SimDisk) {
    disk.set_capacity(Some(disk.used_bytes()));
}

async fn patch(store: &RedbMetaStore, name: &str) {
    let change = TopicChange { retention_ms: Some(9), ..TopicChange::default() };
    store.update_topic(name, ID, change).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_refuses_creates_and_takes_reads_patches_and_deletes() {
    let disk = disk(1);
    let store = open(&disk).unwrap();
    for name in ["a", "b", "c"] {
        store.create_topic(topic(name)).await.unwrap();
    }
    fill_up(&disk);
    let taken = fill(&store).await;
    assert_eq!(names(&store).await.len(), taken + 3, "what was refused is not there");
    for _ in 0..2 {
        let error = store.create_topic(topic("d")).await.unwrap_err();
        assert!(matches!(error, MetaError::DiskFull { .. }), "{error}");
        assert!(store.topic("a").await.unwrap().is_some());
    }
    patch(&store, "b").await;
    store.delete_topic("a", ID).await.unwrap();
    assert_eq!(store.topic("d").await.unwrap(), None);

    disk.set_capacity(None);
    store.create_topic(topic("d")).await.unwrap();
    disk.power_loss_keeping(Survival::Nothing);
    drop(store);
    let store = open(&disk).unwrap();
    assert_eq!(names(&store).await.len(), taken + 3);
    assert_eq!(store.topic("a").await.unwrap(), None);
    assert_eq!(store.topic("b").await.unwrap().unwrap().retention_ms, 9);
    assert!(store.topic("d").await.unwrap().is_some());
}

#[tokio::test]
async fn a_disk_that_others_fill_up_again_at_once_takes_one_delete_after_the_other() {
    let disk = disk(1);
    let store = open(&disk).unwrap();
    for name in ["a", "b", "c", "d", "e"] {
        store.create_topic(topic(name)).await.unwrap();
    }
    fill_up(&disk);
    fill(&store).await;
    for name in ["a", "b", "c", "d"] {
        patch(&store, "e").await;
        fill_up(&disk);
        store.delete_topic(name, ID).await.unwrap();
        fill_up(&disk);
    }
    assert_eq!(store.topic("d").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn what_a_full_disk_used_up_is_set_aside_again_without_a_create_or_a_restart() {
    let disk = disk(1);
    let store = open(&disk).unwrap();
    for name in ["a", "b"] {
        store.create_topic(topic(name)).await.unwrap();
    }
    let whole = disk.contents(RESERVE).map(|bytes| bytes.len());
    fill_up(&disk);
    fill(&store).await;
    store.delete_topic("a", ID).await.unwrap();
    assert_ne!(disk.contents(RESERVE).map(|bytes| bytes.len()), whole, "some of it was used");
    disk.set_capacity(None);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(disk.contents(RESERVE).map(|bytes| bytes.len()), whole);
}

#[tokio::test]
async fn a_start_on_a_full_disk_reads_patches_and_deletes() {
    for closed in [true, false] {
        let disk = disk(1);
        let store = open(&disk).unwrap();
        for name in ["a", "b"] {
            store.create_topic(topic(name)).await.unwrap();
        }
        if closed {
            store.close().await;
        } else {
            disk.crash_process();
        }
        drop(store);
        fill_up(&disk);
        let store = open(&disk).unwrap();
        fill(&store).await;
        patch(&store, "b").await;
        store.delete_topic("a", ID).await.unwrap();
        assert!(store.topic("b").await.unwrap().is_some(), "closed {closed}");
    }
}

#[tokio::test]
async fn a_first_start_on_a_full_disk_says_so_and_succeeds_later() {
    let disk = disk(1);
    disk.set_capacity(Some(1000));
    let error = open(&disk).unwrap_err();
    assert!(
        matches!(error, MetaError::DiskFull { .. }) && error.to_string().contains("meta.redb"),
        "{error}"
    );
    disk.set_capacity(None);
    open(&disk).unwrap().create_topic(topic("t")).await.unwrap();
}
