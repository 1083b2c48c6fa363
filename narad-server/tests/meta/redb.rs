//! The embedded metastore: what it promises, on a real file.

use std::{path::Path, sync::Arc};

use narad_core::{disk::OsDisk, plugin::Incarnation};
use narad_server::meta::{MetaError, MetaStore, RedbMetaStore, Topic, TopicChange, TopicName};

fn open(dir: &Path) -> Result<RedbMetaStore, MetaError> {
    RedbMetaStore::open(Arc::new(OsDisk), dir)
}

fn topic(name: &str, id: u64) -> Topic {
    let mut topic = Topic::new(TopicName::new(name).unwrap(), Incarnation::new(id), 3, 1_700_000_000_000);
    topic.retention_ms = 3_600_000;
    topic.visibility_timeout_ms = 30_000;
    topic
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let meta = dir.path().join("meta");
    {
        let store = open(&meta).unwrap();
        store.create_topic(topic("a", 1)).await.unwrap();
        store.create_topic(topic("b", 2)).await.unwrap();
        store.delete_topic("b", Incarnation::new(2)).await.unwrap();
        let change = TopicChange { retention_ms: Some(0), partitions: Some(5), ..TopicChange::default() };
        store.update_topic("a", Incarnation::new(1), change).await.unwrap();
    }
    let store = open(&meta).unwrap();
    let a = store.topic("a").await.unwrap().unwrap();
    assert_eq!((a.retention_ms, a.partitions, a.version), (0, 5, 4));
    assert_eq!(store.topic("b").await.unwrap(), None);
    assert_eq!(*store.version().borrow(), 4);
}

#[tokio::test]
async fn a_damaged_file_is_named_and_never_read_as_one_with_fewer_topics() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("meta.redb");
    {
        let store = open(dir.path()).unwrap();
        for id in 0..20 {
            store.create_topic(topic(&format!("t{id}"), id)).await.unwrap();
        }
        store.close().await;
    }
    let good = std::fs::read(&file).unwrap();
    for page in (4096..good.len()).step_by(4096) {
        let mut bad = good.clone();
        bad[page..page + 4096].iter_mut().for_each(|byte| *byte ^= 0xff);
        std::fs::write(&file, &bad).unwrap();
        match open(dir.path()) {
            // The page held nothing that counts, or nothing that could not be made anew.
            Ok(store) => {
                assert_eq!(store.topics(None, 100).await.unwrap().len(), 20, "page at {page}");
                store.close().await;
            }
            Err(error) => assert!(error.to_string().contains("meta.redb"), "page at {page}: {error}"),
        }
    }
    std::fs::write(&file, "not a database, and longer than a few bytes").unwrap();
    let error = open(dir.path()).unwrap_err();
    assert!(matches!(&error, MetaError::CannotOpen { path, .. } if *path == file), "{error}");
    assert_eq!(std::fs::read(&file).unwrap().len(), 43, "left as it was");
}

#[tokio::test]
async fn names_that_differ_in_case_alone_collide_until_the_first_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    store.create_topic(topic("Orders", 1)).await.unwrap();
    let version = *store.version().borrow();
    let refused = store.create_topic(topic("oRDERS", 2)).await.unwrap_err();
    assert!(matches!(&refused, MetaError::Exists { existing, .. } if &**existing == "Orders"), "{refused}");
    assert_eq!(*store.version().borrow(), version, "a refusal changes nothing");
    assert_eq!(store.topic("orders").await.unwrap(), None);
    store.delete_topic("Orders", Incarnation::new(1)).await.unwrap();
    store.create_topic(topic("oRDERS", 2)).await.unwrap();
}

#[tokio::test]
async fn another_incarnation_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    store.create_topic(topic("t", 1)).await.unwrap();
    let stranger = Incarnation::new(9);
    let change = TopicChange { retention_ms: Some(0), ..TopicChange::default() };
    assert!(matches!(store.update_topic("t", stranger, change).await, Err(MetaError::NotFound { .. })));
    assert!(matches!(store.delete_topic("t", stranger).await, Err(MetaError::NotFound { .. })));
    assert_eq!(store.topic("t").await.unwrap().unwrap().retention_ms, 3_600_000);
}

#[tokio::test]
async fn pages_follow_in_name_order_over_a_deleted_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    for (id, name) in ["c", "a", "d", "b"].into_iter().enumerate() {
        store.create_topic(topic(name, id as u64)).await.unwrap();
    }
    let names = |page: Vec<Topic>| page.iter().map(|topic| topic.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(store.topics(None, 2).await.unwrap()), ["a", "b"]);
    store.delete_topic("b", Incarnation::new(3)).await.unwrap();
    assert_eq!(names(store.topics(Some("b"), 9).await.unwrap()), ["c", "d"]);
}

#[tokio::test]
async fn a_change_is_readable_before_the_version_moves() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let mut version = store.version();
    let writer = {
        let store = store.clone();
        tokio::spawn(async move { store.create_topic(topic("t", 1)).await })
    };
    version.changed().await.unwrap();
    assert!(store.topic("t").await.unwrap().is_some());
    writer.await.unwrap().unwrap();
}
