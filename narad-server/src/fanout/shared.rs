//! What the fan-out's calls, its task and the passes of the task share.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use narad_core::{
    plugin::{Incarnation, PartitionId},
    runtime::Runtime,
    store::Store,
};
use parking_lot::RwLock;
use tokio::{sync::Semaphore, time::Instant};

use super::{FanoutOptions, Signals, Topics, certainty::Certainty, link::ActiveLink};

/// What they share; it ends with the last of them.
pub(super) struct Shared {
    pub(super) runtime: Runtime,
    pub(super) store: Store,
    pub(super) topics: Arc<dyn Topics>,
    pub(super) signals: Arc<Signals>,
    pub(super) options: FanoutOptions,
    /// One for each pass that may run.
    pub(super) slots: Semaphore,
    pub(super) links: RwLock<Links>,
    pub(super) certainty: Arc<Certainty>,
    pub(super) closed: AtomicBool,
}

/// The links, by what they are looked for.
#[derive(Default)]
pub(super) struct Links {
    pub(super) by_epoch: HashMap<u64, Arc<ActiveLink>>,
    pub(super) by_parent: HashMap<Incarnation, Vec<Arc<ActiveLink>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.signals.nudge();
    }
}

impl Links {
    pub(super) fn add(&mut self, active: Arc<ActiveLink>) {
        self.by_parent.entry(active.link().parent.id).or_default().push(Arc::clone(&active));
        self.by_epoch.insert(active.epoch, active);
    }

    pub(super) fn remove(&mut self, epoch: u64) -> Option<Arc<ActiveLink>> {
        let active = self.by_epoch.remove(&epoch)?;
        let parent = active.link().parent.id;
        if let Some(children) = self.by_parent.get_mut(&parent) {
            children.retain(|other| other.epoch != epoch);
            if children.is_empty() {
                self.by_parent.remove(&parent);
            }
        }
        Some(active)
    }
}

impl Shared {
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(super) fn link(&self, epoch: u64) -> Option<Arc<ActiveLink>> {
        self.links.read().by_epoch.get(&epoch).cloned()
    }

    pub(super) fn children_of(&self, parent: Incarnation) -> Vec<Arc<ActiveLink>> {
        self.links.read().by_parent.get(&parent).cloned().unwrap_or_default()
    }

    /// Has a cursor looked at, once more may have come.
    pub(super) fn look_later(&self, link: &ActiveLink, partition: PartitionId) {
        if link.cursor(partition).announce() {
            self.set_alarm(self.options.linger, link.epoch, partition);
        }
    }

    pub(super) fn set_alarm(&self, wait: Duration, epoch: u64, partition: PartitionId) {
        let now = Instant::now();
        self.signals.set_alarm(now.checked_add(wait).unwrap_or(now), (epoch, partition));
    }
}
