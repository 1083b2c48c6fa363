//! What the metastore's tests share: a store on a simulated disk, and a scripted history with what may be there after
//! each of its steps.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use narad_core::{
    disk::Disk,
    plugin::Incarnation,
    testkit::{CallKind, SimDisk},
};
use narad_server::meta::{MetaError, MetaStore, RedbMetaStore, Topic, TopicChange, TopicName};

pub(crate) const DIR: &str = "/data/meta";
pub(crate) const FILE: &str = "/data/meta/meta.redb";

/// A disk with the data directory on it, which the store of a broker has made.
pub(crate) fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.plant_dir(DIR);
    disk
}

/// The store on `disk`, as a process that a crash of the disk ends.
pub(crate) fn open(disk: &SimDisk) -> Result<RedbMetaStore, MetaError> {
    open_on(Arc::new(disk.process()))
}

pub(crate) fn open_on(disk: Arc<dyn Disk>) -> Result<RedbMetaStore, MetaError> {
    RedbMetaStore::open(disk, Path::new(DIR))
}

pub(crate) fn topic(name: &str) -> Topic {
    let mut topic = Topic::new(TopicName::new(name).unwrap(), ID, 3, 1_700_000_000_000);
    topic.retention_ms = 1;
    topic
}

pub(crate) const ID: Incarnation = Incarnation::new(7);

pub(crate) async fn names(store: &RedbMetaStore) -> Vec<String> {
    store.topics(None, 1000).await.unwrap().iter().map(|topic| topic.name.to_string()).collect()
}

/// One change.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Create(String),
    /// To this retention.
    Patch(String, u64),
    Delete(String),
}

impl Step {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Create(name) | Self::Patch(name, _) | Self::Delete(name) => name,
        }
    }

    /// The topic's retention after it; `None` when there is no topic.
    fn outcome(&self) -> Option<u64> {
        match self {
            Self::Create(_) => Some(1),
            Self::Patch(_, retention_ms) => Some(*retention_ms),
            Self::Delete(_) => None,
        }
    }

    async fn run(&self, store: &RedbMetaStore) -> Result<(), MetaError> {
        match self {
            Self::Create(name) => store.create_topic(topic(name)).await.map(drop),
            Self::Patch(name, retention_ms) => {
                let change = TopicChange { retention_ms: Some(*retention_ms), ..TopicChange::default() };
                store.update_topic(name, ID, change).await.map(drop)
            }
            Self::Delete(name) => store.delete_topic(name, ID).await,
        }
    }
}

/// Creates, patches and deletes of a few topics, some with long names.
pub(crate) fn script() -> Vec<Step> {
    let mut steps = vec![Step::Create("orders".into()), Step::Patch("orders".into(), 5)];
    for letter in ["p", "q", "r", "s"] {
        steps.push(Step::Create(letter.repeat(200)));
    }
    steps.extend([
        Step::Create("gone".into()),
        Step::Delete("gone".into()),
        Step::Delete("p".repeat(200)),
        Step::Create("gone".into()),
        Step::Patch("orders".into(), 9),
        Step::Patch("gone".into(), 3),
        Step::Delete("orders".into()),
    ]);
    steps
}

/// A disk whose store was killed when it held so much that the script makes its file grow, and what it held.
pub(crate) async fn nearly_full_file(seed: u64) -> (SimDisk, Model) {
    let grows = |disk: &SimDisk| disk.count_on(CallKind::SetLen, "meta.redb") > 0;
    let (disk, mut model, mut before) = (disk(seed), Model::default(), Vec::new());
    let store = open(&disk).unwrap();
    for number in 0..1000 {
        before.push((disk.fork(), model.clone()));
        assert!(model.step(&store, &Step::Create(format!("{number:0>200}"))).await);
        if grows(&disk) {
            return before.swap_remove(before.len() - 3);
        }
    }
    panic!("a file that never grows");
}

/// What may be there: for each name the retentions that it may have, `None` for no topic.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model(BTreeMap<String, BTreeSet<Option<u64>>>);

impl Model {
    /// Runs one step and learns from the answer. Answers whether it was acknowledged.
    pub(crate) async fn step(&mut self, store: &RedbMetaStore, step: &Step) -> bool {
        let answer = step.run(store).await;
        self.learn(step, &answer);
        answer.is_ok()
    }

    fn learn(&mut self, step: &Step, answer: &Result<(), MetaError>) {
        let allowed = self.0.entry(step.name().to_owned()).or_insert_with(|| BTreeSet::from([None]));
        match answer {
            Ok(()) => *allowed = BTreeSet::from([step.outcome()]),
            Err(MetaError::Exists { .. }) => {
                assert!(allowed.iter().any(Option::is_some), "{step:?}: it cannot exist");
                allowed.remove(&None);
            }
            Err(MetaError::NotFound { .. }) => {
                assert!(allowed.remove(&None), "{step:?}: it must be there");
                *allowed = BTreeSet::from([None]);
            }
            Err(MetaError::Unavailable { .. } | MetaError::CannotOpen { .. }) => {}
            Err(MetaError::DiskFull { .. } | MetaError::Failed { .. }) => {
                // A patch or a delete of a topic that is not there changes nothing.
                let applies = matches!(step, Step::Create(_)) || allowed.iter().any(Option::is_some);
                if applies {
                    allowed.insert(step.outcome());
                }
            }
            Err(other) => panic!("{step:?}: {other}"),
        }
    }

    /// Checks that `store` holds what it may and nothing else, names that are free included.
    pub(crate) async fn check(&self, store: &RedbMetaStore, context: &str) {
        let there: BTreeMap<String, u64> = store
            .topics(None, 1000)
            .await
            .unwrap_or_else(|error| panic!("{context}: {error}"))
            .into_iter()
            .map(|topic| (topic.name.to_string(), topic.retention_ms))
            .collect();
        for name in there.keys() {
            assert!(self.0.contains_key(name), "{context}: nobody created {name}");
        }
        for (name, allowed) in &self.0 {
            let found = there.get(name).copied();
            assert!(allowed.contains(&found), "{context}: {name} is {found:?}, not one of {allowed:?}");
            let again = store.create_topic(topic(name)).await;
            match found {
                None => assert!(again.is_ok(), "{context}: {name} is not free: {again:?}"),
                Some(_) => {
                    let exists = matches!(again, Err(MetaError::Exists { .. }));
                    assert!(exists, "{context}: {name} is there twice: {again:?}");
                }
            }
        }
    }
}
