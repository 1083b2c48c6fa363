//! What is to be posted: partitions, each once, and no more of them than are remembered.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use narad_core::plugin::{Incarnation, LogIdentity, PartitionId};

/// Partitions that were announced and not posted yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    topics: BTreeMap<Topic, BTreeSet<PartitionId>>,
    partitions: usize,
    /// There were more than could be remembered.
    more: bool,
}

/// A topic in one of its lives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Topic {
    pub(crate) name: Arc<str>,
    pub(crate) incarnation: Option<Incarnation>,
}

impl Pending {
    /// Remembers the log, unless it is one more than `most`.
    pub(crate) fn add(&mut self, log: &LogIdentity, most: usize) {
        let topic = Topic { name: Arc::clone(&log.name), incarnation: log.incarnation };
        self.insert(topic, log.partition, most);
    }

    fn insert(&mut self, topic: Topic, partition: PartitionId, most: usize) {
        if self.partitions < most {
            let added = self.topics.entry(topic).or_default().insert(partition);
            self.partitions += usize::from(added);
        } else if !self.topics.get(&topic).is_some_and(|partitions| partitions.contains(&partition)) {
            self.more = true;
        }
    }

    /// Takes over what `newer` holds, within the same bound.
    pub(crate) fn merge(&mut self, newer: Self, most: usize) {
        if self.is_empty() {
            *self = newer;
            return;
        }
        self.more |= newer.more;
        for (topic, partitions) in newer.topics {
            for partition in partitions {
                self.insert(topic.clone(), partition, most);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.topics.is_empty() && !self.more
    }

    pub(crate) fn has_more(&self) -> bool {
        self.more
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = (&Topic, &BTreeSet<PartitionId>)> {
        self.topics.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn log(topic: u8, partition: u32) -> LogIdentity {
        LogIdentity::partition(format!("topic-{topic}"), Incarnation::new(1), PartitionId(partition))
    }

    proptest! {
        #[test]
        fn nothing_is_forgotten_without_saying_so_and_no_more_is_remembered_than_may_be(
            older in prop::collection::vec((0_u8..4, 0_u32..6), 0..40),
            newer in prop::collection::vec((0_u8..4, 0_u32..6), 0..40),
            most in 1_usize..20,
        ) {
            let of = |announced: &[(u8, u32)]| {
                let mut pending = Pending::default();
                announced.iter().for_each(|&(topic, partition)| pending.add(&log(topic, partition), most));
                pending
            };
            let (mut merged, after) = (of(&older), of(&newer));
            merged.merge(after, most);
            let announced: BTreeSet<_> = older.iter().chain(&newer).copied().collect();
            let remembered: usize = merged.topics().map(|(_, partitions)| partitions.len()).sum();
            prop_assert!(remembered <= most);
            prop_assert_eq!(remembered, merged.partitions);
            prop_assert_eq!(merged.has_more(), announced.len() > most);
            prop_assert_eq!(merged.is_empty(), announced.is_empty());
            if !merged.has_more() {
                prop_assert_eq!(remembered, announced.len());
            }
        }
    }
}
