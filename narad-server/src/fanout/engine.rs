//! The fan-out of a server, and the calls that the broker makes.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use narad_core::{
    plugin::{Incarnation, PartitionId},
    runtime::Runtime,
    store::{Followers, Store},
};
use parking_lot::RwLock;
use tokio::{sync::Semaphore, time::timeout};

use super::{
    FanoutOptions, Found, Lag, LinkStats, Signals, Topics,
    certainty::Linking,
    followers::Children,
    lag::{lag, stats},
    link::ActiveLink,
    shared::Shared,
    task,
};
use crate::meta::Link;

/// The fan-out. One task serves all links; it ends when this is dropped, as a crash would end it: use
/// [`close`](Self::close).
pub struct Fanout {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Fanout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fanout").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Fanout {
    /// A fan-out over the logs of `store`, which are opened with `signals` as their notifier. It copies nothing until it
    /// is told of links. Must be called within a tokio runtime, which its task then runs on.
    pub fn new(
        runtime: &Runtime,
        store: Store,
        topics: Arc<dyn Topics>,
        signals: Arc<Signals>,
        options: FanoutOptions,
    ) -> Self {
        let shared = Arc::new(Shared {
            runtime: runtime.clone(),
            store,
            topics,
            signals: Arc::clone(&signals),
            slots: Semaphore::new(options.parallel.max(1)),
            options,
            links: RwLock::default(),
            certainty: Arc::default(),
            closed: AtomicBool::new(false),
        });
        tokio::spawn(task::run(Arc::downgrade(&shared), signals));
        Self { shared }
    }

    /// For the store to ask, before retention, how far the children are.
    pub fn followers(&self) -> Arc<dyn Followers> {
        Arc::new(Children(Arc::downgrade(&self.shared)))
    }

    /// `parent` is getting a child. To be called before it is looked up where copying is to begin, and held until
    /// [`set_links`](Self::set_links) has been told of the link: retention by what is settled takes nothing meanwhile.
    pub fn linking(&self, parent: Incarnation) -> Linking {
        Linking::begin(&self.shared.certainty, parent)
    }

    /// There may be links that this has not been told of: retention by what is settled takes nothing until
    /// [`set_links`](Self::set_links) is called.
    pub fn forget_certainty(&self) {
        self.shared.certainty.set_known(false);
    }

    /// Copies along `links` and no others. When this returns, nothing reaches the children of links that are not among
    /// them any more.
    pub async fn set_links(&self, links: Vec<Link>) {
        let shared = &self.shared;
        let epochs: HashSet<u64> = links.iter().map(|link| link.parent.epoch).collect();
        let ended: Vec<u64> =
            shared.links.read().by_epoch.keys().copied().filter(|epoch| !epochs.contains(epoch)).collect();
        // Side by side: each waits for a disk that hangs, for a while.
        join_all(ended.into_iter().map(|epoch| self.remove(epoch))).await;
        let mut to_look_at = Vec::new();
        {
            let mut known = shared.links.write();
            for link in links {
                if let Some(active) = known.by_epoch.get(&link.parent.epoch) {
                    if active.update(link) {
                        to_look_at.push(Arc::clone(active));
                    }
                    continue;
                }
                let active = Arc::new(ActiveLink::new(link, shared.options.parallel_per_child));
                to_look_at.push(Arc::clone(&active));
                known.add(active);
            }
            shared.signals.set_parents(known.by_parent.keys().copied().collect());
        }
        shared.certainty.set_known(true);
        // Only now: what is committed from here on is announced.
        for active in to_look_at {
            for partition in (0..active.link().parent_partitions).map(PartitionId) {
                shared.look_later(&active, partition);
            }
        }
    }

    /// Ends a link. When this returns, nothing of it reaches the child any more, unless the disk hangs. Its cursors go;
    /// what cannot be removed is not believed later either.
    pub async fn remove(&self, epoch: u64) {
        let shared = &self.shared;
        let Some(active) = shared.links.write().remove(epoch) else { return };
        shared.signals.set_parents(shared.links.read().by_parent.keys().copied().collect());
        if !active.end(shared.options.patience).await {
            tracing::warn!(child = %active.link().child, "a link ended while a copy waits for the disk");
        }
        let link = active.link();
        let Found::Here(spec) = shared.topics.topic(&link.parent.name, link.parent.id).await else { return };
        let (store, group) = (shared.store.clone(), Arc::clone(&link.parent.name));
        let forget = move || {
            for partition in (0..spec.partitions).map(PartitionId) {
                if let Err(error) = store.forget_fanout_cursor(&spec, partition, &link.child, epoch) {
                    tracing::debug!(child = %link.child, %partition, %error, "a cursor was left behind");
                }
            }
        };
        let forgotten = timeout(shared.options.patience, shared.runtime.run_blocking(&group, forget)).await;
        if forgotten.is_err() {
            tracing::warn!(parent = %group, "the cursors of a link were not removed: the disk does not answer");
        }
    }

    /// What the children have not got yet, link by link. Opens no log.
    pub async fn lags(&self, epochs: &[u64]) -> Vec<Lag> {
        let active: Vec<_> = {
            let links = self.shared.links.read();
            epochs.iter().map(|epoch| links.by_epoch.get(epoch).cloned()).collect()
        };
        let mut lags = Vec::new();
        for active in active {
            lags.push(match active {
                Some(active) => lag(&self.shared, &active).await,
                None => Lag::default(),
            });
        }
        lags
    }

    /// Numbers of all links, by parent and child. Opens no log.
    pub async fn stats(&self) -> Vec<LinkStats> {
        let active: Vec<_> = self.shared.links.read().by_epoch.values().cloned().collect();
        stats(&self.shared, active).await
    }

    /// Ends copying: passes that run are finished, for as long as `deadline` allows, and no other is begun. The next
    /// start goes on where this one was.
    pub async fn close(&self, deadline: Duration) {
        let shared = &self.shared;
        shared.closed.store(true, Ordering::SeqCst);
        shared.signals.nudge();
        let all = u32::try_from(shared.options.parallel.max(1)).unwrap_or(u32::MAX);
        if timeout(deadline, shared.slots.acquire_many(all)).await.is_err() {
            tracing::warn!("closing under copies that wait for the disk");
        }
    }
}
