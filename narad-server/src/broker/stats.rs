//! What the broker tells of its partitions and of itself. Opens no log and keeps none open.

use std::{sync::Arc, time::Duration};

use narad_core::{
    format::Offset,
    plugin::PartitionId,
    store::{PartitionStats, StoreCounts, TopicSpec},
};

use super::{Broker, BrokerError, produce::check_partition};
use crate::{fanout::LinkStats, meta::Topic};

/// How long a scrape waits for the disk.
const PATIENCE: Duration = Duration::from_secs(1);

/// How a partition is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartitionStatus {
    /// It serves.
    Ok,
    /// It serves reads; it takes writes again once it was reopened.
    Poisoned,
    /// It could not be looked at.
    Unavailable,
}

/// What a partition holds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PartitionReport {
    /// Which one.
    pub partition: PartitionId,
    /// What it holds; absent when it could not be looked at.
    pub stats: Option<PartitionStats>,
    /// The highest offset at and below which everything is acked; `None` when nothing is, or it is not known.
    pub frontier: Option<Offset>,
    /// How it is.
    pub status: PartitionStatus,
}

/// Numbers of the whole broker.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Gauges {
    /// Messages acknowledged and not yet in their partitions.
    pub backlog: u64,
    /// Whether the produce log takes nothing.
    pub wal_failed: bool,
    /// Bytes that the file system of the data directory has left; `None` when it gives no answer.
    pub available_bytes: Option<u64>,
    /// Of every link between topics; none when the disk gives no answer.
    pub links: Vec<LinkStats>,
    /// What the store has done since the start.
    pub store: StoreCounts,
    /// Failures by component and kind.
    pub errors: Vec<((&'static str, &'static str), u64)>,
}

impl Broker {
    /// The topic and what its partitions hold: all of them, or one.
    ///
    /// # Errors
    /// `Invalid` for a partition that the topic has not got.
    pub async fn describe(
        &self,
        name: &str,
        only: Option<PartitionId>,
    ) -> Result<(Topic, Vec<PartitionReport>), BrokerError> {
        let entry = self.0.catalog.topic(name).await?;
        let count = entry.topic.partitions;
        let wanted = match only {
            Some(partition) => vec![check_partition(partition, count)?],
            None => (0..count).map(PartitionId).collect(),
        };
        let Ok(spec) = entry.spec() else {
            return Ok((entry.topic.clone(), wanted.into_iter().map(unavailable).collect()));
        };
        let (store, spec) = (self.0.store.clone(), Arc::clone(spec));
        let look = move || wanted.into_iter().map(|partition| report(&store, &spec, partition)).collect();
        Ok((entry.topic.clone(), self.0.runtime.run_blocking(name, look).await))
    }

    /// Numbers for the metrics. Answers within a second, even when the disk does not.
    pub async fn gauges(&self) -> Gauges {
        Gauges {
            backlog: self.0.ingress.backlog(),
            wal_failed: self.0.ingress.failure().is_some(),
            available_bytes: self.available_bytes().await,
            links: tokio::time::timeout(PATIENCE, self.0.fanout.stats()).await.unwrap_or_default(),
            store: self.0.store.counts(),
            errors: self.0.runtime.metrics().errors(),
        }
    }

    async fn available_bytes(&self) -> Option<u64> {
        let (disk, dir) = (Arc::clone(self.0.runtime.disk()), self.0.store.meta_dir());
        let look = self.0.runtime.run_blocking("metrics", move || disk.available_bytes(&dir));
        tokio::time::timeout(PATIENCE, look).await.ok()?.ok()
    }
}

fn report(store: &narad_core::store::Store, spec: &TopicSpec, partition: PartitionId) -> PartitionReport {
    let looked = store.stats(spec, partition).and_then(|stats| {
        let frontier = store.stated_frontier(spec, partition)?;
        Ok((stats, frontier))
    });
    match looked {
        Ok((stats, frontier)) => {
            let status =
                if stats.poisoned.is_some() { PartitionStatus::Poisoned } else { PartitionStatus::Ok };
            PartitionReport { partition, stats: Some(stats), frontier, status }
        }
        Err(error) => {
            tracing::warn!(topic = %spec.name, %partition, %error, "the partition could not be looked at");
            unavailable(partition)
        }
    }
}

fn unavailable(partition: PartitionId) -> PartitionReport {
    PartitionReport { partition, stats: None, frontier: None, status: PartitionStatus::Unavailable }
}
