//! Schemas of topics: new versions, and payloads that are checked.
//!
//! What takes long runs on the runtime's workers, of which all of it together gets half at most. Schemas made ready are
//! kept, in bounded memory.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use narad_core::plugin::Incarnation;
use parking_lot::Mutex;

use super::{Broker, BrokerError, catalog::TopicEntry};
use crate::{
    ingress::Staged,
    meta::{SchemaChange, SchemaVersion, Topic, TopicChange},
    schema::{Checker, Schema},
};

/// Versions of a topic's schema, at most.
pub const MAX_SCHEMA_VERSIONS: u32 = 100;
/// Bytes that schemas made ready may take, about.
const MAX_READY_BYTES: usize = 256 << 20;
/// The group of this work among the runtime's workers.
const GROUP: &str = "schemas";

impl Broker {
    /// The schema that `text` is.
    ///
    /// # Errors
    /// `Invalid`.
    pub(super) async fn checked_schema(&self, text: Option<&str>) -> Result<Option<Schema>, BrokerError> {
        let Some(text) = text.map(str::to_owned) else { return Ok(None) };
        let schema = self.0.runtime.run_blocking(GROUP, move || Schema::new(&text)).await;
        schema.map(Some).map_err(|error| BrokerError::invalid("schema", error.to_string()))
    }

    /// `change` with `text` as the new version of the schema of `topic`, if it is new.
    ///
    /// # Errors
    /// `Invalid`, also when it is not compatible with the current version; `SchemaConflict` when `base` is not the
    /// current one, or there are too many.
    pub(super) async fn with_schema(
        &self,
        topic: &Topic,
        change: TopicChange,
        text: &str,
        base: Option<u32>,
    ) -> Result<TopicChange, BrokerError> {
        let after = topic.schema_version;
        if base.is_some_and(|base| base != after) {
            let reason = format!("schema_base_version is not the current version, which is {after}");
            return Err(BrokerError::SchemaConflict(reason));
        }
        let Some(new) = self.checked_schema(Some(text)).await? else { return Ok(change) };
        if after > 0 {
            let current = self.schema(topic, after).await?;
            if current.is_same(&new) {
                return Ok(change);
            }
            if after >= MAX_SCHEMA_VERSIONS {
                let reason = format!("the topic has {after} versions, and may have no more");
                return Err(BrokerError::SchemaConflict(reason));
            }
            let compared = new.clone();
            let compared = self.0.runtime.run_blocking(GROUP, move || compared.check_successor_of(&current));
            compared.await.map_err(|error| {
                BrokerError::invalid("schema", format!("incompatible with version {after} at {error}"))
            })?;
        }
        let schema = Some(SchemaChange { after, text: Arc::clone(new.text()) });
        Ok(TopicChange { schema, ..change })
    }

    /// Every version of the schema of the topic `name`, in order, with the topic.
    ///
    /// # Errors
    /// `TopicName`, `NoTopic`.
    pub async fn schema_versions(&self, name: &str) -> Result<(Topic, Vec<SchemaVersion>), BrokerError> {
        let mut topic = self.topic(name).await?;
        let versions = self.0.catalog.meta().schemas(topic.id).await?;
        // One may have come since.
        topic.schema_version = versions.last().map_or(0, |last| last.version);
        Ok((topic, versions))
    }

    /// The current schema of `topic`, as it was given.
    pub async fn current_schema(&self, topic: &Topic) -> Result<Option<Arc<str>>, BrokerError> {
        if topic.schema_version == 0 {
            return Ok(None);
        }
        Ok(self.0.catalog.meta().schema(topic.id, topic.schema_version).await?)
    }

    async fn schema(&self, topic: &Topic, version: u32) -> Result<Schema, BrokerError> {
        let text = self.0.catalog.meta().schema(topic.id, version).await?;
        // Versions go with their topic alone.
        let text = text.ok_or_else(|| BrokerError::NoTopic(topic.name.as_ref().to_owned()))?;
        let schema = self.0.runtime.run_blocking(GROUP, move || Schema::new(&text)).await;
        schema.map_err(|error| BrokerError::invalid("schema", error.to_string()))
    }

    /// The first of `staged` that the topic's schema refuses, and why. What fan-out copies is not checked: a child has
    /// a schema of its own, if only the one that it took from its parent.
    ///
    /// # Errors
    /// A failure of the metastore.
    pub(super) async fn refused_by_schema(
        &self,
        entry: &TopicEntry,
        staged: &[Staged],
    ) -> Result<Option<(usize, BrokerError)>, BrokerError> {
        let Some(checker) = self.checker(&entry.topic).await? else { return Ok(None) };
        let payloads = staged.iter().map(|message| &message.payload);
        let refused = if checker.is_quick(payloads.clone().map(Bytes::len).sum()) {
            first_refused(&checker, payloads)
        } else {
            let payloads: Vec<Bytes> = payloads.cloned().collect();
            self.0.runtime.run_blocking(GROUP, move || first_refused(&checker, &payloads)).await
        };
        Ok(refused.map(|(index, reason)| {
            entry.life.reject("schema", staged.len() as u64);
            let version = entry.topic.schema_version;
            let reason = format!("not what version {version} of the schema asks for: {reason}");
            (index, BrokerError::invalid("payload", reason))
        }))
    }

    async fn checker(&self, topic: &Topic) -> Result<Option<Arc<Checker>>, BrokerError> {
        let (id, version) = (topic.id, topic.schema_version);
        if version == 0 {
            return Ok(None);
        }
        if let Some(checker) = self.0.checkers.get(id, version) {
            return Ok(Some(checker));
        }
        let schema = self.schema(topic, version).await?;
        let checker = self.0.runtime.run_blocking(GROUP, move || schema.checker()).await;
        let checker = Arc::new(checker.map_err(|error| BrokerError::invalid("schema", error.to_string()))?);
        self.0.checkers.put(id, version, &checker);
        Ok(Some(checker))
    }
}

fn first_refused<'a>(
    checker: &Checker,
    payloads: impl IntoIterator<Item = &'a Bytes>,
) -> Option<(usize, String)> {
    payloads
        .into_iter()
        .enumerate()
        .find_map(|(index, payload)| checker.check(payload).err().map(|refusal| (index, refusal.to_string())))
}

/// Schemas made ready, those used last.
#[derive(Debug, Default)]
pub(super) struct Checkers(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_topic: HashMap<Incarnation, Ready>,
    bytes: usize,
    uses: u64,
}

#[derive(Debug)]
struct Ready {
    version: u32,
    checker: Arc<Checker>,
    used: u64,
}

impl Kept {
    fn remove(&mut self, id: Incarnation) {
        if let Some(ready) = self.by_topic.remove(&id) {
            self.bytes -= ready.checker.bytes();
        }
    }
}

impl Checkers {
    fn get(&self, id: Incarnation, version: u32) -> Option<Arc<Checker>> {
        let mut kept = self.0.lock();
        kept.uses += 1;
        let used = kept.uses;
        let ready = kept.by_topic.get_mut(&id).filter(|ready| ready.version == version)?;
        ready.used = used;
        Some(Arc::clone(&ready.checker))
    }

    fn put(&self, id: Incarnation, version: u32, checker: &Arc<Checker>) {
        let mut kept = self.0.lock();
        if kept.by_topic.get(&id).is_some_and(|ready| ready.version > version) {
            return;
        }
        kept.remove(id);
        while kept.bytes + checker.bytes() > MAX_READY_BYTES {
            let oldest = kept.by_topic.iter().min_by_key(|(_, ready)| ready.used).map(|(&id, _)| id);
            let Some(oldest) = oldest else { break };
            kept.remove(oldest);
        }
        kept.uses += 1;
        kept.bytes += checker.bytes();
        let ready = Ready { version, checker: Arc::clone(checker), used: kept.uses };
        kept.by_topic.insert(id, ready);
    }

    pub(super) fn forget(&self, id: Incarnation) {
        self.0.lock().remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_what_was_used_last_stays() {
        let patterns: Vec<_> = (0..64).map(|number| format!(r#"{{"pattern":"{number}"}}"#)).collect();
        let schema = Schema::new(&format!(r#"{{"anyOf":[{}]}}"#, patterns.join(","))).unwrap();
        let checker = Arc::new(schema.checker().unwrap());
        let fits = u64::try_from(MAX_READY_BYTES / checker.bytes()).unwrap();
        let checkers = Checkers::default();
        for id in 0..fits {
            checkers.put(Incarnation::new(id), 1, &checker);
        }
        assert!(checkers.get(Incarnation::new(0), 1).is_some());
        checkers.put(Incarnation::new(fits), 1, &checker);
        let is_kept = |id: u64| checkers.get(Incarnation::new(id), 1).is_some();
        assert!(is_kept(0) && !is_kept(1) && is_kept(fits));
        checkers.put(Incarnation::new(0), 2, &checker);
        assert!(!is_kept(0), "another version by now");
        assert!(checkers.get(Incarnation::new(0), 2).is_some());
    }
}
