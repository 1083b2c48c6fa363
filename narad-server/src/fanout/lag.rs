//! What children have not got yet. Opens no log and keeps none open.

use std::sync::{Arc, atomic::Ordering};

use narad_core::{
    format::Offset,
    plugin::PartitionId,
    store::{PartitionStats, Store, TopicSpec},
};

use super::{
    Found, Lag, LinkStats, PartitionLag, copy::cursor_of, cursor::Progress, link::ActiveLink, shared::Shared,
};
use crate::meta::Link;

/// The lag of one link, in all partitions.
pub(super) async fn lag(shared: &Shared, active: &ActiveLink) -> Lag {
    let partitions = partitions(shared, active).await;
    let known = partitions.iter().filter_map(|lag| lag.messages);
    let complete = !partitions.is_empty() && partitions.iter().all(|lag| lag.messages.is_some());
    Lag { messages: known.fold(0, u64::saturating_add), complete }
}

/// Numbers of links, by parent and child.
pub(super) async fn stats(shared: &Shared, links: Vec<Arc<ActiveLink>>) -> Vec<LinkStats> {
    let mut stats = Vec::new();
    for active in links {
        let (link, partitions) = (active.link(), partitions(shared, &active).await);
        stats.push(LinkStats {
            parent: link.parent.name,
            child: link.child,
            committed: active.committed.load(Ordering::Relaxed),
            dropped: active.dropped.load(Ordering::Relaxed),
            partitions,
        });
    }
    stats.sort_by(|one, other| (&one.parent, &one.child).cmp(&(&other.parent, &other.child)));
    stats
}

/// What the child has not got yet, by the parent's partition; nothing when the parent cannot be looked at.
async fn partitions(shared: &Shared, active: &ActiveLink) -> Vec<PartitionLag> {
    let link = active.link();
    let Found::Here(spec) = shared.topics.topic(&link.parent.name, link.parent.id).await else {
        return Vec::new();
    };
    let progress: Vec<_> = (0..spec.partitions)
        .map(PartitionId)
        .map(|partition| (partition, active.known_cursor(partition).map(|cursor| cursor.progress())))
        .collect();
    let (store, now_ms) = (shared.store.clone(), shared.runtime.clock().unix_ms());
    let group = Arc::clone(&spec.name);
    let look = move || {
        let look = |(partition, progress): (PartitionId, Option<Progress>)| {
            let progress = progress.unwrap_or_default();
            let messages = behind(&store, &spec, &link, partition, progress.next);
            let since_due = progress.head_due_ms.map_or(0, |due| now_ms.saturating_sub(due).max(0));
            let due_seconds = u64::try_from(since_due / 1000).unwrap_or_default();
            PartitionLag { partition, messages, due_seconds }
        };
        progress.into_iter().map(look).collect()
    };
    shared.runtime.run_blocking(&group, look).await
}

/// Messages of a partition behind the cursor; `None` when the files of a closed log do not state where it ends.
fn behind(
    store: &Store,
    spec: &TopicSpec,
    link: &Link,
    partition: PartitionId,
    next: Option<Offset>,
) -> Option<u64> {
    let PartitionStats { high_watermark: Some(end), oldest, .. } = store.stats(spec, partition).ok()? else {
        return None;
    };
    let next = match next {
        Some(next) => next,
        None => {
            let cursor = store.fanout_cursor(spec, partition, &link.child).ok()?;
            cursor_of(cursor, link, ActiveLink::start(link, partition))
        }
    };
    Some(end.get().saturating_sub(next.max(oldest).get()))
}
