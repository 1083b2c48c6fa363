//! Links in the metastore: both ends change together or neither does, wherever the power goes; and the rules.

use crate::support::{ID, disk, open, topic};
use narad_core::testkit::{Failure, Fault, SimDisk, Survival, seed};
use narad_server::meta::{
    LinkRefusal, MAX_CHILDREN, MetaError, MetaStore, NewLink, RedbMetaStore, Topic, TopicChange,
};

const HOUR: u64 = 3_600_000;

fn to(parent: &str, delay_ms: u64) -> NewLink {
    let offsets = [7u32, 8, 9].map(Into::into).into();
    NewLink { parent: parent.into(), parent_id: ID, delay_ms, offsets }
}

async fn create(store: &RedbMetaStore, name: &str, retention_ms: u64) -> Topic {
    let mut topic = topic(name);
    topic.retention_ms = retention_ms;
    store.create_topic(topic).await.unwrap()
}

async fn get(store: &RedbMetaStore, name: &str) -> Topic {
    store.topic(name).await.unwrap().unwrap()
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, MetaError>) -> LinkRefusal {
    match answer {
        Err(MetaError::Link(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// What one end says the other says too, and the index says the same.
async fn check_ends(store: &RedbMetaStore, context: &str) -> Vec<String> {
    let topics = store.topics(None, 1000).await.unwrap();
    let find = |name: &str| topics.iter().find(|topic| &*topic.name == name);
    let mut pairs = Vec::new();
    for topic in &topics {
        for link in &topic.children {
            let child = find(&link.name).unwrap_or_else(|| panic!("{context}: {} is gone", link.name));
            let back = child.parent.as_ref().unwrap_or_else(|| panic!("{context}: {} is free", link.name));
            let one = (&topic.name, topic.id, link.epoch, link.delay_ms);
            assert_eq!(one, (&back.name, back.id, back.epoch, back.delay_ms), "{context}");
            pairs.push(format!("{}>{}", topic.name, link.name));
        }
        if let Some(link) = &topic.parent {
            let parent = find(&link.name).unwrap_or_else(|| panic!("{context}: {} is gone", link.name));
            assert!(parent.children.iter().any(|child| child.epoch == link.epoch), "{context}");
        }
    }
    let mut listed: Vec<_> = store
        .links()
        .await
        .unwrap()
        .iter()
        .map(|link| format!("{}>{}", link.parent.name, link.child))
        .collect();
    listed.sort();
    pairs.sort();
    assert_eq!(listed, pairs, "{context}");
    pairs
}

#[tokio::test]
async fn links_are_made_and_ended_and_no_epoch_comes_twice() {
    let disk = disk(seed());
    let store = open(&disk).unwrap();
    for name in ["p", "a", "b"] {
        create(&store, name, 0).await;
    }
    assert_eq!(store.links().await.unwrap(), []);
    let first = store.attach("b", ID, to("p", 5)).await.unwrap();
    let link = first.child.parent.clone().unwrap();
    assert_eq!((&*link.name, link.delay_ms, &link.offsets[..]), ("p", 5, &to("p", 5).offsets[..]));
    assert_eq!(get(&store, "p").await, first.parent);
    assert_eq!(get(&store, "b").await, first.child);
    store.attach("a", ID, to("p", 0)).await.unwrap();
    let names: Vec<_> = get(&store, "p").await.children.iter().map(|link| link.name.to_string()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(matches!(store.detach("b", link.epoch + 1).await, Err(MetaError::NotLinked { .. })));
    store.detach("b", link.epoch).await.unwrap();
    assert!(matches!(store.detach("b", link.epoch).await, Err(MetaError::NotLinked { .. })));
    assert_eq!(check_ends(&store, "detached").await, ["p>a"]);
    let again = store.attach("b", ID, to("p", 5)).await.unwrap();
    assert!(again.child.parent.unwrap().epoch > link.epoch);
    let born = store.create_child(topic("c"), None, to("p", 1)).await.unwrap();
    assert_eq!(born.child.parent.as_ref().unwrap().delay_ms, 1);
    assert!(matches!(store.create_child(topic("c"), None, to("p", 1)).await, Err(MetaError::Exists { .. })));
    store.close().await;
    let store = open(&disk).unwrap();
    assert_eq!(check_ends(&store, "opened again").await, ["p>a", "p>b", "p>c"]);
    store.delete_topic("a", ID).await.unwrap();
    assert_eq!(check_ends(&store, "a child is deleted").await, ["p>b", "p>c"]);
    store.delete_topic("p", ID).await.unwrap();
    assert_eq!(check_ends(&store, "the parent is deleted").await, [""; 0]);
    assert_eq!(get(&store, "b").await.parent, None);
}

#[tokio::test]
async fn the_rules_of_links() {
    let store = open(&disk(seed())).unwrap();
    for name in ["p", "q", "c", "free"] {
        create(&store, name, 0).await;
    }
    create(&store, "short", HOUR).await;
    store.attach("c", ID, to("p", 0)).await.unwrap();
    let refused = async |child: &str, parent: &str| refusal(store.attach(child, ID, to(parent, 0)).await);
    assert_eq!(refused("p", "p").await, LinkRefusal::Itself("p".into()));
    assert_eq!(refused("c", "q").await, LinkRefusal::HasParent { child: "c".into(), parent: "p".into() });
    assert_eq!(refused("c", "p").await, LinkRefusal::HasParent { child: "c".into(), parent: "p".into() });
    assert_eq!(refused("p", "q").await, LinkRefusal::HasChildren("p".into()));
    assert_eq!(refused("free", "c").await, LinkRefusal::IsChild("c".into()));
    assert!(matches!(store.attach("nobody", ID, to("p", 0)).await, Err(MetaError::NotFound { .. })));
    assert!(matches!(store.attach("free", ID, to("nobody", 0)).await, Err(MetaError::NotFound { .. })));
    // Retention at the attach, at the create, and at a change.
    assert!(matches!(refusal(store.attach("free", ID, to("short", 1)).await), LinkRefusal::Retention { .. }));
    assert!(matches!(
        refusal(store.create_child(topic("new"), None, to("short", 1)).await),
        LinkRefusal::Retention { .. }
    ));
    assert_eq!(store.topic("new").await.unwrap(), None, "no half-made topic");
    store.attach("free", ID, to("short", 0)).await.unwrap();
    let retention = |ms| TopicChange { retention_ms: Some(ms), ..TopicChange::default() };
    store.update_topic("short", ID, retention(2 * HOUR)).await.unwrap();
    store.create_child(topic("late"), None, to("short", HOUR)).await.unwrap();
    let shorter = store.update_topic("short", ID, retention(2 * HOUR - 1)).await;
    assert!(matches!(refusal(shorter), LinkRefusal::Retention { .. }));
    assert_eq!(get(&store, "short").await.retention_ms, 2 * HOUR);
    store.update_topic("short", ID, retention(0)).await.unwrap();
    for n in 1..MAX_CHILDREN {
        store.create_child(topic(&format!("child-{n}")), None, to("p", 0)).await.unwrap();
    }
    let too_many = refusal(store.create_child(topic("one-more"), None, to("p", 0)).await);
    assert_eq!(too_many, LinkRefusal::TooMany("p".into()));
    store.delete_topic("p", ID).await.unwrap();
    check_ends(&store, "all are free").await;
}

#[tokio::test]
async fn a_child_without_a_schema_takes_its_parents() {
    let store = open(&disk(seed())).unwrap();
    let (theirs, own): (std::sync::Arc<str>, std::sync::Arc<str>) = ("{\"minimum\":1}".into(), "{}".into());
    store.create_topic_with_schema(topic("p"), Some(theirs.clone())).await.unwrap();
    let with = async |name: &str, id: u64, schema| {
        let mut topic = topic(name);
        topic.id = narad_core::plugin::Incarnation::new(id);
        store.create_topic_with_schema(topic, schema).await.unwrap()
    };
    let link = || NewLink { delay_ms: 0, ..to("p", 0) };
    let short = TopicChange { retention_ms: Some(0), ..TopicChange::default() };
    store.update_topic("p", ID, short).await.unwrap();
    for (name, id, schema, expected) in [("bare", 21, None, &theirs), ("own", 22, Some(own.clone()), &own)] {
        let child = with(name, id, schema).await;
        let child = store.attach(name, child.id, link()).await.unwrap().child;
        assert_eq!(child.schema_version, 1);
        assert_eq!(store.schema(child.id, 1).await.unwrap().as_ref(), Some(expected), "{name}");
    }
    let mut born = topic("born");
    born.id = narad_core::plugin::Incarnation::new(23);
    let born = store.create_child(born, None, link()).await.unwrap().child;
    assert_eq!(store.schema(born.id, 1).await.unwrap(), Some(theirs.clone()));
    // What it took is its own from then on.
    store.delete_topic("p", ID).await.unwrap();
    assert_eq!(store.schema(born.id, born.schema_version).await.unwrap(), Some(theirs));
}

/// Attach, create as a child, detach, delete a child, delete a parent; what fails is left out.
async fn story(disk: &SimDisk) {
    let Ok(store) = open(disk) else { return };
    let _ = store.attach("a", ID, to("p", 5)).await;
    let _ = store.attach("b", ID, to("p", 5)).await;
    let _ = store.create_child(topic("c"), None, to("p", 5)).await;
    if let Ok(Some(Topic { parent: Some(link), .. })) = store.topic("a").await {
        let _ = store.detach("a", link.epoch).await;
    }
    let _ = store.delete_topic("b", ID).await;
    let _ = store.delete_topic("p", ID).await;
}

#[tokio::test]
async fn wherever_the_power_goes_both_ends_agree() {
    let start = disk(seed());
    {
        let store = open(&start).unwrap();
        for name in ["p", "a", "b"] {
            create(&store, name, 0).await;
        }
        store.close().await;
    }
    let whole = start.fork();
    story(&whole).await;
    let calls = whole.calls().len() as u64;
    let mut seen = std::collections::BTreeSet::new();
    for nth in (1..=calls).step_by(2) {
        for survival in [Survival::Nothing, Survival::Random] {
            let context = format!("power lost at call {nth} of {calls}, {survival:?} survives");
            let fork = start.fork();
            fork.inject(Fault::fail_all(Failure::Io).at(nth).onwards());
            story(&fork).await;
            fork.power_loss_keeping(survival);
            fork.clear_faults();
            let store = open(&fork).unwrap_or_else(|error| panic!("{context}: {error}"));
            seen.insert(check_ends(&store, &context).await);
        }
    }
    assert!(seen.len() > 3, "{seen:?}");
}
