//! Versions of schemas in the metastore: whole or absent with the topic's record, wherever the power goes.

use crate::support::{ID, disk, open, topic};
use narad_core::testkit::{Failure, Fault};
use narad_server::meta::{MetaError, MetaStore, RedbMetaStore, SchemaChange, Topic, TopicChange};

async fn add(store: &RedbMetaStore, after: u32) -> Result<Topic, MetaError> {
    let schema = SchemaChange { after, text: format!("{{\"maximum\":{}}}", after + 1).into() };
    store.update_topic("t", ID, TopicChange { schema: Some(schema), ..TopicChange::default() }).await
}

/// Checks that the topic has the versions that its record says, and answers how many.
async fn versions(store: &RedbMetaStore) -> u32 {
    let topic = store.topic("t").await.unwrap();
    let stored: Vec<_> = store.schemas(ID).await.unwrap().into_iter().map(|one| one.version).collect();
    let current = topic.map_or(0, |topic| topic.schema_version);
    assert_eq!(stored, (1..=current).collect::<Vec<_>>());
    current
}

#[tokio::test]
async fn a_version_follows_the_one_it_was_made_from_and_goes_with_its_topic() {
    let disk = disk(1);
    let store = open(&disk).unwrap();
    let created = store.create_topic_with_schema(topic("t"), Some("true".into())).await.unwrap();
    assert_eq!(created.schema_version, 1);
    assert_eq!(add(&store, 1).await.unwrap().schema_version, 2);
    for after in [0, 1, 3] {
        let refused = add(&store, after).await.unwrap_err();
        assert!(matches!(refused, MetaError::SchemaMoved { current: 2, .. }), "{refused}");
    }
    assert_eq!(store.schema(ID, 1).await.unwrap().as_deref(), Some("true"));
    assert_eq!(store.schema(ID, 2).await.unwrap().as_deref(), Some("{\"maximum\":2}"));
    assert_eq!(store.schema(ID, 3).await.unwrap(), None);
    store.close().await;
    disk.power_loss();
    let store = open(&disk).unwrap();
    assert_eq!(versions(&store).await, 2);
    store.delete_topic("t", ID).await.unwrap();
    assert_eq!(store.schemas(ID).await.unwrap(), []);
    store.create_topic(topic("t")).await.unwrap();
    assert_eq!(versions(&store).await, 0);
}

#[tokio::test]
async fn a_file_without_schemas_is_read() {
    let disk = disk(1);
    let store = open(&disk).unwrap();
    store.create_topic(topic("t")).await.unwrap();
    assert_eq!(store.schemas(ID).await.unwrap(), []);
    assert_eq!(store.schema(ID, 1).await.unwrap(), None);
    add(&store, 0).await.unwrap();
    assert_eq!(versions(&store).await, 1);
}

#[tokio::test]
async fn wherever_the_power_goes_a_version_is_whole_or_absent() {
    let mut answered = false;
    for call in 1..200 {
        let disk = disk(call);
        let store = open(&disk).unwrap();
        store.create_topic_with_schema(topic("t"), Some("true".into())).await.unwrap();
        disk.inject(Fault::fail_all(Failure::Io).at(call).onwards());
        let outcome = add(&store, 1).await;
        store.close().await;
        disk.power_loss();
        disk.clear_faults();
        let store = open(&disk).unwrap();
        let found = versions(&store).await;
        match outcome {
            Ok(_) => assert_eq!(found, 2, "answered, and gone with call {call}"),
            Err(_) => assert!((1..=2).contains(&found), "call {call}"),
        }
        if outcome.is_ok() {
            answered = true;
            break;
        }
        store.delete_topic("t", ID).await.unwrap();
        assert_eq!(versions(&store).await, 0);
    }
    assert!(answered, "the change makes fewer calls than that");
}
