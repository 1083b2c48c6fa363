//! What the store asks before retention takes anything: how far the children of a topic are.
//!
//! Answers from memory. A child counts as soon as its link is being made, and for as long as it is not known where it is,
//! nothing counts as settled.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use narad_core::{
    format::Offset,
    plugin::{Incarnation, PartitionId},
    store::{Followed, Followers},
};
use parking_lot::Mutex;

use super::engine::Shared;

/// The answer as long as there is no fan-out that could give one.
#[derive(Debug, Clone, Copy)]
pub struct NotKnownYet;

impl Followers for NotKnownYet {
    fn followed(&self, _: &str, _: Incarnation, _: PartitionId) -> Followed {
        Followed::Unknown
    }
}

/// The children of a fan-out's links.
pub(super) struct Children(pub(super) Weak<Shared>);

impl fmt::Debug for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Children")
    }
}

impl Followers for Children {
    fn followed(&self, _: &str, incarnation: Incarnation, partition: PartitionId) -> Followed {
        let Some(shared) = self.0.upgrade() else { return Followed::Unknown };
        if !shared.certainty.is_certain(incarnation) {
            return Followed::Unknown;
        }
        let mut lowest: Option<Offset> = None;
        for link in shared.children_of(incarnation) {
            let Some(next) = link.known_cursor(partition).and_then(|cursor| cursor.next()) else {
                return Followed::Unknown;
            };
            lowest = Some(lowest.map_or(next, |lowest| lowest.min(next)));
        }
        lowest.map_or(Followed::ByNobody, Followed::Below)
    }
}

/// Whether the links that the fan-out copies along are all that there are.
#[derive(Debug, Default)]
pub(super) struct Certainty {
    links_are_known: AtomicBool,
    /// Parents that are getting a child, and how many.
    linking: Mutex<HashMap<Incarnation, usize>>,
}

impl Certainty {
    pub(super) fn set_known(&self, known: bool) {
        self.links_are_known.store(known, Ordering::SeqCst);
    }

    fn is_certain(&self, parent: Incarnation) -> bool {
        self.links_are_known.load(Ordering::SeqCst) && !self.linking.lock().contains_key(&parent)
    }
}

/// A parent is getting a child: until this goes, nothing of it counts as settled by all.
#[derive(Debug)]
pub struct Linking {
    certainty: Arc<Certainty>,
    parent: Incarnation,
}

impl Linking {
    pub(super) fn begin(certainty: &Arc<Certainty>, parent: Incarnation) -> Self {
        *certainty.linking.lock().entry(parent).or_default() += 1;
        Self { certainty: Arc::clone(certainty), parent }
    }
}

impl Drop for Linking {
    fn drop(&mut self) {
        let mut linking = self.certainty.linking.lock();
        if let Some(count) = linking.get_mut(&self.parent) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                linking.remove(&self.parent);
            }
        }
    }
}
